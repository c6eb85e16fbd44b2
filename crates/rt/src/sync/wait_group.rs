//! [`WaitGroup`]: waits until a number of things are done.

use crate::block::{self, Queue, Wait};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of things to be done, as Go's `sync.WaitGroup` and Shenango's. For threads, handlers and
/// plain threads.
#[derive(Debug, Default)]
pub struct WaitGroup {
    count: AtomicUsize,
    queue: Queue,
}

impl WaitGroup {
    /// Nothing to be done.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: AtomicUsize::new(0), queue: Queue::new() }
    }

    /// So many more are to be done. Call it where they are started, not in what is to be done: else
    /// a waiter might find the count at zero too early.
    #[inline]
    pub fn add(&self, count: usize) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// One is done.
    ///
    /// # Panics
    /// If all were done already.
    #[inline]
    pub fn done(&self) {
        match self.count.fetch_sub(1, Ordering::AcqRel) {
            0 => {
                self.count.fetch_add(1, Ordering::Relaxed);
                panic!("more were done than were to be done");
            }
            1 => _ = block::wake_all(&self.queue),
            _ => {}
        }
    }

    /// Waits until all are done.
    pub fn wait(&self) {
        let still = || self.count.load(Ordering::Acquire) != 0;
        if still() && block::wait_in(&self.queue, 0, None, still, || {}) == Wait::Expired {
            block::end_by_limit();
        }
    }
}
