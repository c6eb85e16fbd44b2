//! A lock for state that is touched for some instructions, or for one short system call.

use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Its holder is never suspended, so a thread that waits for it waits for a running core, or for
/// the kernel to give one back.
#[derive(Debug)]
pub struct Spin<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one at a time reaches the value.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    pub const fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Sets it to `value`, unlocked, whoever held it; what it had is forgotten.
    ///
    /// # Safety
    /// Nobody else reaches it: this is the one thread of a fork's child.
    pub(crate) unsafe fn renew(&self, value: T) {
        // SAFETY: by contract.
        unsafe { self.value.get().write(value) };
        self.locked.store(false, Ordering::Release);
    }

    /// [`Spin::with`], unless another one has it.
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        enter_critical();
        if self.locked.swap(true, Ordering::Acquire) {
            leave_critical();
            return None;
        }
        let _unlock = Unlock(&self.locked);
        // SAFETY: under the lock.
        Some(f(unsafe { &mut *self.value.get() }))
    }

    /// Calls `f` with the value. `f` neither waits nor takes this lock.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        enter_critical();
        let mut spins = 0_u32;
        while self.locked.swap(true, Ordering::Acquire) {
            spins += 1;
            match spins.is_multiple_of(64) {
                true => rustix::thread::sched_yield(), // Its holder has lost its core.
                false => std::hint::spin_loop(),
            }
        }
        let _unlock = Unlock(&self.locked);
        // SAFETY: under the lock.
        f(unsafe { &mut *self.value.get() })
    }
}

struct Unlock<'a>(&'a AtomicBool);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
        leave_critical();
    }
}
