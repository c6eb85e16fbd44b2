//! How a kthread sleeps, and how it is woken.

use super::elastic::Doorbell;
use curtail_ring::EventCount;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Wakes a kthread that sleeps in its poller.
pub trait Bell: Send + Sync {
    /// The sleep ends, now or at once when it begins.
    fn ring(&self);
}

/// A dispatcher sleeps in its transports' epoll.
impl Bell for curtail_net::Waker {
    fn ring(&self) {
        self.wake();
    }
}

thread_local! {
    static RESTS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling kthread is in its own sleep: asked by a signal's handler.
pub(super) fn rests_here() -> bool {
    RESTS.get()
}

/// Lets a kernel thread sleep until there is work for it, without losing a wake-up (see [`EventCount`]).
#[derive(Default)]
pub struct Parker {
    doze: EventCount,
    /// It is in that sleep, though it may have been woken and have no core yet. For the watchdog.
    rests: AtomicBool,
    /// 1: a nap ends. A word of its own: the token of `std::thread::park` belongs to the program's
    /// threads.
    rung: AtomicU32,
    /// From when on it sleeps in a poller.
    bell: OnceLock<Arc<dyn Bell>>,
    /// Under a core allocator.
    doorbell: Option<Arc<Doorbell>>,
}

impl Parker {
    /// Of a kthread under a core allocator.
    pub(super) fn under(doorbell: Option<Arc<Doorbell>>) -> Self {
        Self { doorbell, ..Self::default() }
    }

    /// Tells the core allocator, where there is one and no kthread has a core, of what can be seen now.
    #[inline]
    pub(super) fn announce(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring_if_idle();
        }
    }

    /// From now on it sleeps where this bell wakes it. By the sleeper, awake.
    pub fn set_bell(&self, bell: Arc<dyn Bell>) {
        let _ = self.bell.set(bell);
    }

    /// Sleeps by `sleep` unless `work` finds some after the announcement.
    pub fn sleep(&self, work: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.doze.unless(work, || {
            let rests = |rests| {
                self.rests.store(rests, Ordering::Relaxed);
                RESTS.set(rests);
            };
            rests(true);
            sleep();
            rests(false);
        });
    }

    /// Whether it is in its own sleep, until it runs again. Where work waits for it meanwhile, the
    /// kernel runs others: its waker has no core, or it has none itself.
    pub(super) fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// A sleep in the kernel, for `most` at most; it may end for nothing. Where no bell was set.
    pub(crate) fn nap(&self, most: Option<Duration>) {
        crate::kernel::wait_in_kernel(&self.rung, 0, most);
        self.rung.store(0, Ordering::Relaxed);
    }

    /// Wakes the sleeper if it sleeps. What it is to find must have been made visible before.
    #[inline]
    pub fn unpark(&self) {
        if self.doze.rouse() {
            self.wake();
        }
        self.announce();
    }

    #[cold]
    fn wake(&self) {
        match self.bell.get() {
            Some(bell) => bell.ring(),
            None => {
                self.rung.store(1, Ordering::Release);
                crate::kernel::wake_in_kernel(&raw const self.rung);
            }
        }
    }
}
