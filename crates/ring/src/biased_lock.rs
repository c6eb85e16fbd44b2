//! A thing that belongs to one thread, and that another may use while its owner is away.
//!
//! The owner says when it goes away and when it comes back; the other asks, and uses the thing if the
//! owner is away. Nothing is locked: each side writes one word and then reads the other's. The fence
//! between the two, on both sides, makes at least one see the other (as in [`crate::EventCount`]). So
//! either the other finds the owner back, or the owner finds the thing in use and waits.
//!
//! Owners go away and come back all the time, and are rarely asked. So the fences are the caller's: its
//! owners may leave theirs out where the other's reaches them, as `membarrier`(2) does.

use crate::sync::{AtomicBool, Ordering, spin_loop, yield_now};

/// A lock that its owner holds unless it is away.
#[derive(Debug)]
pub struct BiasedLock {
    away: AtomicBool,
    in_use: AtomicBool,
}

impl Default for BiasedLock {
    /// The owner is there.
    fn default() -> Self {
        Self { away: AtomicBool::new(false), in_use: AtomicBool::new(false) }
    }
}

impl BiasedLock {
    /// The owner touches the thing no more, until it is back.
    #[inline]
    pub fn begin(&self) {
        self.away.store(true, Ordering::Release);
    }

    /// The owner is back: waits if the thing is in use. `fence` orders what the calling thread stored
    /// before and loads after, as far as the other's fence does not.
    #[inline]
    pub fn end(&self, fence: impl FnOnce()) {
        self.away.store(false, Ordering::Relaxed);
        fence();
        if self.in_use.load(Ordering::Acquire) {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0_u32;
        while self.in_use.load(Ordering::Acquire) {
            spins += 1;
            match spins.is_multiple_of(64) || cfg!(loom) {
                true => yield_now(),
                false => spin_loop(),
            }
        }
    }

    /// Uses the thing if its owner is away: calls `f`, which takes microseconds. By one other thread at
    /// a time. `fence` orders stores and loads of this thread, and of the owner where its own does not.
    pub fn meanwhile<R>(&self, fence: impl FnOnce(), f: impl FnOnce() -> R) -> Option<R> {
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        self.in_use.store(true, Ordering::Relaxed);
        let _done = Done(&self.in_use);
        fence();
        self.away.load(Ordering::Acquire).then(f)
    }
}
