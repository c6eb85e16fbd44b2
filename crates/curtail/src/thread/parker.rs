//! How a kthread sleeps, and how it is woken.

use curtail_ring::Doze;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Wakes a kthread that sleeps in its poller.
pub(crate) trait Bell: Send + Sync {
    /// The sleep ends, now or at once when it begins.
    fn ring(&self);
}

/// Lets a kernel thread sleep until somebody has work for it, without losing a wake-up (see
/// [`Doze`]).
#[derive(Default)]
pub(crate) struct Parker {
    doze: Doze,
    thread: OnceLock<Thread>,
    /// From when on it sleeps in a poller.
    bell: OnceLock<Arc<dyn Bell>>,
}

impl Parker {
    /// Says who sleeps here. Once, by the sleeper.
    pub(crate) fn set_thread(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// From now on it sleeps where this bell wakes it. By the sleeper, awake.
    pub(crate) fn set_bell(&self, bell: Arc<dyn Bell>) {
        let _ = self.bell.set(bell);
    }

    /// Sleeps by `sleep` unless `work` finds some after the announcement.
    pub(crate) fn sleep(&self, work: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.doze.unless(work, sleep);
    }

    /// Wakes the sleeper if it sleeps. What it is to find must have been made visible before.
    #[inline]
    pub(crate) fn unpark(&self) {
        if self.doze.rouse() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        match (self.bell.get(), self.thread.get()) {
            (Some(bell), _) => bell.ring(),
            (None, Some(thread)) => thread.unpark(),
            (None, None) => {}
        }
    }
}
