//! Shenango's Algorithm 1: an item that was in a queue at two looks has waited for an interval. It is
//! there still if the head of now has not reached the tail of then.

use super::{KthreadLook, Queue};

pub(super) fn waiting(last: &KthreadLook, look: &KthreadLook) -> u32 {
    still_there(last.run, look.run).saturating_add(still_there(last.inbox, look.inbox))
}

/// How many of those that were in the queue still are. No more than are in it now: a queue whose
/// owner writes nonsense has no more weight than one that is full.
fn still_there(last: Queue, now: Queue) -> u32 {
    Queue { head: now.head, tail: last.tail }.len().min(last.len()).min(now.len())
}

#[cfg(test)]
mod tests {
    use super::{Queue, still_there};

    fn queue(head: u32, tail: u32) -> Queue {
        Queue { head, tail }
    }

    #[test]
    fn what_was_seen_twice_waits() {
        // Three are in the queue; one, all, and all of them and others are taken out.
        assert_eq!(still_there(queue(10, 13), queue(10, 13)), 3);
        assert_eq!(still_there(queue(10, 13), queue(11, 20)), 2);
        assert_eq!(still_there(queue(10, 13), queue(13, 20)), 0);
        assert_eq!(still_there(queue(10, 13), queue(17, 20)), 0);
        assert_eq!(still_there(queue(10, 10), queue(10, 11)), 0, "it has only just come");
    }

    #[test]
    fn counters_wrap() {
        let (head, tail) = (u32::MAX - 1, 1);
        assert_eq!(still_there(queue(head, tail), queue(u32::MAX, 5)), 2);
        assert_eq!(still_there(queue(head, tail), queue(1, 5)), 0);
    }

    #[test]
    fn under_processor_sharing_it_sees_nothing() {
        // One thread runs for a quantum and goes to the tail, again and again: nothing is seen twice,
        // though two wait all the time.
        assert_eq!(still_there(queue(100, 102), queue(105, 107)), 0);
    }

    #[test]
    fn nonsense_is_no_reason() {
        assert_eq!(still_there(queue(0, u32::MAX), queue(0, u32::MAX)), 0);
        assert_eq!(still_there(queue(0, 5), queue(u32::MAX, 0)), 1, "what is in it now");
        assert_eq!(still_there(queue(7, 5), queue(3, 2)), 0);
    }
}
