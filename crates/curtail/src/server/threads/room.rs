//! How many requests may be in the system, with how many bytes. A request's arrival takes room, its
//! end gives the room back. One word, so that each is one atomic operation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number lies above the bytes.
const ONE: u64 = 1 << BYTES_BITS;
const BYTES_BITS: u32 = 40;
const MOST_REQUESTS: usize = (1 << (64 - BYTES_BITS - 1)) - 1;
const MOST_BYTES: usize = (1 << (BYTES_BITS - 1)) - 1;

/// See the module's head.
pub(super) struct Room {
    used: AtomicU64,
    capacity: u64,
    memory: u64,
}

impl Room {
    /// For `capacity` requests with `memory` bytes in all.
    pub(super) fn new(capacity: usize, memory: usize) -> Self {
        Self {
            used: AtomicU64::new(0),
            capacity: capacity.min(MOST_REQUESTS) as u64,
            memory: memory.min(MOST_BYTES) as u64,
        }
    }

    /// A place for a request of `bytes`, unless there is none.
    #[must_use]
    pub(super) fn take(&self, bytes: usize) -> bool {
        if bytes > MOST_BYTES {
            return false;
        }
        let more = ONE + bytes as u64;
        let used = self.used.fetch_add(more, Relaxed) + more;
        let fits = used / ONE <= self.capacity && used % ONE <= self.memory;
        if !fits {
            self.used.fetch_sub(more, Relaxed);
        }
        fits
    }

    /// A request of `bytes` has left.
    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(ONE + bytes as u64, Relaxed);
    }

    /// A request has left with its `bytes`, and not its place.
    pub(super) fn give_bytes(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Relaxed);
    }

    /// Requests in the system.
    pub(super) fn in_system(&self) -> usize {
        (self.used.load(Relaxed) / ONE) as usize
    }

    /// Bytes of the requests in the system.
    pub(super) fn bytes(&self) -> usize {
        (self.used.load(Relaxed) % ONE) as usize
    }

    /// Whether one more would be too many.
    pub(super) fn is_full(&self) -> bool {
        self.in_system() as u64 >= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_fit_and_what_is_given_back_fits_again() {
        let room = Room::new(2, 10);
        assert!(room.take(4) && room.take(6) && !room.take(0) && room.is_full());
        room.give(4);
        assert!(!room.take(5) && room.take(4));
        room.give(6);
        room.give(4);
        assert_eq!((room.in_system(), room.bytes()), (0, 0));
        assert!(!room.take(11) && !room.take(usize::MAX) && room.take(10));
    }

    #[test]
    fn limits_beyond_all_measure_are_none() {
        let room = Room::new(usize::MAX, usize::MAX);
        assert!(room.take(MOST_BYTES) && !room.take(1));
        room.give(MOST_BYTES);
        assert_eq!(room.in_system(), 0);
    }
}
