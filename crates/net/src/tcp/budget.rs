//! Bytes that all connections of the transport have together.
//!
//! Two sums: `inward` (begun frames, requests in progress) is changed by the threads that read the
//! connections and by those that end their requests; `unsent` (responses that wait) by the holder
//! of an outbox's lock. Any thread may look. What is counted are capacities, not lengths: what the
//! process really has.
//!
//! No connection may take more than a part of what is free (dynamic thresholds, Choudhury and Hahne,
//! ToN 1998, as in the shared buffers of switches), so that one alone never has it all. Those that
//! come one after the other may all the same, each with its part of the rest; then those are evicted
//! that have long been slow to give it back (see `share`).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub(super) struct Budget {
    memory: usize,
    inward: AtomicUsize,
    unsent: AtomicUsize,
}

impl Budget {
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, inward: AtomicUsize::new(0), unsent: AtomicUsize::new(0) }
    }

    pub(super) fn used(&self) -> usize {
        self.inward.load(Relaxed).saturating_add(self.unsent.load(Relaxed))
    }

    pub(super) fn free(&self) -> usize {
        self.memory.saturating_sub(self.used())
    }

    /// So little is left that it is time to get some back.
    pub(super) fn is_scarce(&self) -> bool {
        self.free() < self.memory / 8
    }

    /// Reads have `more` in place of `less`, which they had.
    pub(super) fn swap_inward(&self, less: usize, more: usize) {
        swap(&self.inward, less, more);
    }

    /// Outboxes have `more` in place of `less`.
    pub(super) fn swap_unsent(&self, less: usize, more: usize) {
        swap(&self.unsent, less, more);
    }

    /// What a connection's responses may come to.
    pub(super) fn unsent_share(&self, limit: usize) -> usize {
        limit.min(self.free() / 2)
    }
}

fn swap(sum: &AtomicUsize, less: usize, more: usize) {
    if more > less {
        sum.fetch_add(more - less, Relaxed);
    } else if more < less {
        sum.fetch_sub(less - more, Relaxed);
    }
}
