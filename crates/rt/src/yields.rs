//! How a thread that waits lets others have its core.

use crate::clock::{self, Clock};
use std::cell::Cell;

/// A yield that took longer than that: others compute on this core.
const LONG_NS: u64 = 300_000;
/// How long they are taken to go on with it.
const CROWDED_NS: u64 = 20_000_000;

/// Yields, as long as yields are short.
///
/// A yield costs a fraction of a sleep. Where another program computes it lasts for that one's time
/// slice. On Linux 6.18 a thread that yields every 5 µs beside one that computes gets 0.7% of the core;
/// one that sleeps for the shortest time instead gets 19%.
pub struct Yields {
    long_cycles: u64,
    crowded_cycles: u64,
    /// Until then it is better to sleep (TSC).
    crowded_until: Cell<u64>,
}

impl Yields {
    #[allow(clippy::new_without_default, reason = "it asks the clock")]
    pub fn new() -> Self {
        let clock = Clock::get();
        Self {
            long_cycles: clock.cycles(LONG_NS),
            crowded_cycles: clock.cycles(CROWDED_NS),
            crowded_until: Cell::new(0),
        }
    }

    /// Yields at the time `now`, and returns the time after that; `None`: the caller is to sleep
    /// instead.
    pub fn pass(&self, now: u64) -> Option<u64> {
        if now < self.crowded_until.get() {
            return None;
        }
        rustix::thread::sched_yield();
        let after = clock::now();
        self.note(now, after);
        Some(after)
    }

    /// A yield began and ended then.
    fn note(&self, begun: u64, ended: u64) {
        if ended.saturating_sub(begun) > self.long_cycles {
            self.crowded_until.set(ended + self.crowded_cycles);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_long_yield_it_is_better_to_sleep_for_a_while() {
        let yields = Yields::new();
        let now = clock::now();
        yields.note(now, now + yields.long_cycles);
        assert!(yields.pass(now).is_some());
        let ended = clock::now() + yields.long_cycles + 1;
        yields.note(ended - yields.long_cycles - 1, ended);
        assert_eq!(yields.pass(ended + yields.crowded_cycles - 1), None);
        assert!(yields.pass(ended + yields.crowded_cycles).is_some());
    }
}
