//! [`RwLock`]: as `std::sync::RwLock`; writers do not starve.

use super::poison::{Entry, Flag};
use super::raw_rwlock::{READ, RawRwLock, WRITE};
use crate::held::took;
use curtail_fiber::safepoint::{enter_lock, leave_lock};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

/// A lock for many readers or one writer, as [`std::sync::RwLock`], for threads, handlers and plain
/// threads. A holder is not pre-empted. A thread that reads must not read again while a writer may
/// wait: it would wait for itself.
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    poison: Flag,
    value: UnsafeCell<T>,
}

// SAFETY: as for a value that moves: the lock gives access to a writer alone, or to readers.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share it, so it has to be `Sync`; a writer may be on any thread.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// Reads under a [`RwLock`] until it is dropped. It stays with the thread that took it.
#[must_use = "the lock is released at once where its guard is not kept"]
pub struct RwLockReadGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    /// Not `Send`: the critical-section depth is the holder's.
    holder: PhantomData<*const ()>,
}

/// Writes under a [`RwLock`] until it is dropped. It stays with the thread that took it.
#[must_use = "the lock is released at once where its guard is not kept"]
pub struct RwLockWriteGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    entry: Entry,
    holder: PhantomData<*const ()>,
}

// SAFETY: by reference a guard gives `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// A free one.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { raw: RawRwLock::new(), poison: Flag::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// A writer panicked; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        let value = self.value.into_inner();
        self.poison.of(value)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds it and none has waited longer.
    ///
    /// # Errors
    /// A writer panicked; the guard is in the error.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.raw.read();
        took(self, Some(Location::caller()));
        self.reader()
    }

    /// Waits until no other thread holds it.
    ///
    /// # Errors
    /// A writer panicked; the guard is in the error.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.raw.write();
        took(self, Some(Location::caller()));
        self.writer()
    }

    /// The lock, as a reader, if there is no need to wait.
    ///
    /// # Errors
    /// There is; or a writer panicked, with the guard in the error.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.try_take(READ) { Ok(self.reader()?) } else { Err(TryLockError::WouldBlock) }
    }

    /// The lock, as the writer, if there is no need to wait.
    ///
    /// # Errors
    /// There is; or a writer panicked, with the guard in the error.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.try_take(WRITE) { Ok(self.writer()?) } else { Err(TryLockError::WouldBlock) }
    }

    #[track_caller]
    fn try_take(&self, want: u32) -> bool {
        enter_lock();
        let taken = self.raw.try_take(want);
        match taken {
            true => took(self, Some(Location::caller())),
            false => leave_lock(),
        }
        taken
    }

    #[inline]
    fn reader(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.of(RwLockReadGuard { lock: self, holder: PhantomData })
    }

    #[inline]
    fn writer(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let (entry, holder) = (Entry::new(), PhantomData);
        self.poison.of(RwLockWriteGuard { lock: self, entry, holder })
    }

    /// Whether a writer panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Forgets that a writer panicked.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value: `&mut self` shows that no other reference is left.
    ///
    /// # Errors
    /// A writer panicked; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.of(self.value.get_mut())
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, without a moment in which another could write.
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let lock = this.lock;
        lock.poison.leave(this.entry);
        std::mem::forget(this);
        // SAFETY: the guard's, which is gone.
        unsafe { lock.raw.downgrade() };
        RwLockReadGuard { lock, holder: PhantomData }
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no writer while there are readers.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the writer is the only one with access.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held since the guard was made.
        unsafe { self.lock.raw.leave_read() };
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.leave(self.entry);
        // SAFETY: held since the guard was made.
        unsafe { self.lock.raw.leave_write() };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
