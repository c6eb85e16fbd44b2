//! Going to sleep without losing a wake-up: the announcement beside a queue.
//!
//! One sleeper, any number of wakers. The sleeper announces itself, looks once more for work, and
//! only then sleeps; a waker makes its work visible first and looks for the announcement then. Each
//! side writes one word and reads the other's: the sequentially consistent fence between the two,
//! on both sides, makes at least one see the other (store–load order, which acquire and release
//! alone do not give). How to sleep and how to wake is the caller's business.

use crate::sync::{AtomicBool, Ordering, fence};

/// Whether the owner of a queue sleeps, or is about to.
#[derive(Debug)]
pub struct EventCount {
    asleep: AtomicBool,
}

impl Default for EventCount {
    fn default() -> Self {
        Self { asleep: AtomicBool::new(false) }
    }
}

impl EventCount {
    /// Sleeps by `sleep` unless `work`, asked after the announcement, finds some. Only by the one
    /// sleeper. `sleep` must return, now or at once when called, after a [`EventCount::rouse`] that
    /// answered true; it may return for nothing.
    pub fn unless(&self, work: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !work() {
            sleep();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// After work was made visible: true, exactly one waker is to wake the sleeper and it is you.
    #[inline]
    #[must_use]
    pub fn rouse(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }
}
