//! [`Mutex`]: as `std::sync::Mutex`.

use super::poison::{Entry, Flag};
use super::raw_mutex::RawMutex;
use crate::held::took;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

/// A mutual exclusion lock, as [`std::sync::Mutex`], for threads, handlers and plain threads. Its
/// holder is not pre-empted; a waiter gives its kthread to others. Not re-entrant.
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    poison: Flag,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to one holder at a time; a value that may move between threads may
// be reached from several, one after another.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// Holds a [`Mutex`] until it is dropped. It stays with the thread that took it.
#[must_use = "the lock is released at once where its guard is not kept"]
pub struct MutexGuard<'a, T: ?Sized + 'a> {
    mutex: &'a Mutex<T>,
    entry: Entry,
    /// Not `Send`: the critical-section depth is the holder's.
    holder: PhantomData<*const ()>,
}

// SAFETY: by reference a guard gives `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// An unlocked one.
    #[inline]
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { raw: RawMutex::new(), poison: Flag::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// A holder panicked; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        let value = self.value.into_inner();
        self.poison.of(value)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread holds it. A waiter that was woken and found it taken once gets
    /// it next.
    ///
    /// # Errors
    /// A holder panicked; the guard is in the error.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw.lock();
        took(self, Some(Location::caller()));
        self.guard()
    }

    /// The lock, if it is free.
    ///
    /// # Errors
    /// It is held; or a holder panicked, with the guard in the error.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if !self.raw.try_lock() {
            return Err(TryLockError::WouldBlock);
        }
        took(self, Some(Location::caller()));
        Ok(self.guard()?)
    }

    /// The guard of a thread that has just got the lock.
    #[inline]
    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        self.poison.of(MutexGuard { mutex: self, entry: Entry::new(), holder: PhantomData })
    }

    /// Whether a holder panicked.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Forgets that a holder panicked.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value: `&mut self` shows that no other reference is left.
    ///
    /// # Errors
    /// A holder panicked; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.of(self.value.get_mut())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The parts of a guard: for a wait that lets go of the lock.
    #[inline]
    pub(super) fn into_parts(self) -> (&'a Mutex<T>, Waiting<'a>) {
        let mutex = self.mutex;
        mutex.poison.leave(self.entry);
        std::mem::forget(self);
        (mutex, Waiting { raw: &mutex.raw })
    }

    /// After such a wait, with the lock held again.
    #[inline]
    pub(super) fn back(mutex: &'a Mutex<T>) -> LockResult<Self> {
        mutex.guard()
    }
}

/// The right to wait for a condition: the lock is held.
pub(super) struct Waiting<'a> {
    pub(super) raw: &'a RawMutex,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard's holder is the only one with access.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.leave(self.entry);
        // SAFETY: held since the guard was made.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
