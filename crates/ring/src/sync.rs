//! What the rest of the crate synchronises with: the standard library's, or loom's when built with
//! `--cfg loom`, so that the model checker sees every atomic and every access to a slot.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};
/// The kernel's own: `std`'s is interposed by Curtail, whose threads it would let run.
#[cfg(not(any(loom, miri)))]
pub(crate) use rustix::thread::sched_yield as yield_now;
#[cfg(all(miri, not(loom)))]
pub(crate) use std::thread::yield_now;
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// [`std::cell::UnsafeCell`] with loom's interface.
#[cfg(not(loom))]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
