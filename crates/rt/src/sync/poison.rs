//! Whether a holder panicked: as in the standard library, for [`Mutex`](super::Mutex) and
//! [`RwLock`](super::RwLock).
//!
//! Written by the holder of the lock; the lock's own order makes it visible to the next holder.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, PoisonError};
use std::thread::panicking;

/// Of a lock.
#[derive(Debug)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// `value`, in an error if a holder panicked.
    #[inline]
    pub(super) fn of<T>(&self, value: T) -> LockResult<T> {
        if self.get() { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// The holder lets go of the lock.
    #[inline]
    pub(super) fn leave(&self, entry: Entry) {
        if panicking() && !entry.panicking {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// What a holder notes when it gets the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    panicking: bool,
}

impl Entry {
    #[inline]
    pub(super) fn new() -> Self {
        Self { panicking: panicking() }
    }
}
