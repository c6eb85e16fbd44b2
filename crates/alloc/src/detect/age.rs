//! Age since ready: works whatever the order in which a kthread runs its threads.

use super::KthreadLook;
use crate::Nanos;

/// All that is in the run queue, where the oldest thread has been ready for longer than `limit`. A
/// kthread tells the oldest's time only.
pub(super) fn waiting(now: Nanos, limit: Nanos, look: &KthreadLook) -> u32 {
    let old = look.oldest_ready.is_some_and(|since| now.since(since) > limit);
    if old { look.run.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::waiting;
    use crate::{KthreadLook, Nanos, Queue};

    #[test]
    fn who_waits_for_too_long_counts_with_all_behind_it() {
        let look = KthreadLook {
            run: Queue { head: 5, tail: 8 },
            oldest_ready: Some(Nanos(1_000)),
            ..KthreadLook::default()
        };
        let at = |now| waiting(Nanos(now), Nanos(10_000), &look);
        assert_eq!([at(0), at(11_000), at(11_001)], [0, 0, 3]);
        let empty = KthreadLook { run: Queue::default(), ..look };
        assert_eq!(waiting(Nanos(1 << 40), Nanos(1), &empty), 0, "a claim without a thread");
        let silent = KthreadLook { oldest_ready: None, ..look };
        assert_eq!(waiting(Nanos(1 << 40), Nanos(1), &silent), 0);
    }
}
