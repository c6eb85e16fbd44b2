//! Locks for handlers: a fiber that waits gives its thread to other requests.
//!
//! A fiber that holds a [`Mutex`] is not pre-empted (its critical-section depth is raised), so that
//! nobody on its thread waits for a holder that is merely out of turn. The locks of `std::sync` and
//! parking_lot get the same from the compiler pass, those of C and C++ from the runtime.

use crate::wait;
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs `body` without pre-emption. If the quantum ends meanwhile, the request yields right after.
pub fn no_preempt<R>(body: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            leave_critical();
        }
    }
    enter_critical();
    let _leave = Leave;
    body()
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may wait.
const WANTED: u32 = 2;

/// A mutual exclusion lock, for fibers and plain threads. Not re-entrant.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to one holder at a time; a value that may move between threads may
// be reached from several, one after another.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked one.
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody else holds it.
    pub fn lock(&self) -> Guard<'_, T> {
        enter_critical();
        if !self.take(FREE, HELD) {
            let address = (&raw const self.state) as usize;
            while self.state.swap(WANTED, Ordering::SeqCst) != FREE {
                wait::wait(address, || self.state.load(Ordering::SeqCst) == WANTED, || {});
            }
        }
        Guard { mutex: self, _here: PhantomData }
    }

    /// The lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        enter_critical();
        if self.take(FREE, HELD) {
            return Some(Guard { mutex: self, _here: PhantomData });
        }
        leave_critical();
        None
    }

    fn take(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("Mutex").field(&&*guard).finish(),
            None => f.write_str("Mutex(<held>)"),
        }
    }
}

/// Holds a [`Mutex`], for the fiber or thread that took it. It goes where it was made: it lowers the
/// critical-section depth of its own thread.
pub struct Guard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Neither `Send` nor `Sync` by itself.
    _here: PhantomData<*mut ()>,
}

// SAFETY: a shared guard gives `&T` and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for Guard<'_, T> {}

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard's holder is the only one with access.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.mutex.state.swap(FREE, Ordering::SeqCst) == WANTED {
            wait::wake_one((&raw const self.mutex.state) as usize);
        }
        leave_critical();
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar {
    /// Its address is what counts; a byte gives it one of its own.
    place: AtomicU32,
}

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { place: AtomicU32::new(0) }
    }

    /// Lets go of the lock and waits; takes it again before it returns. May return for nothing:
    /// check the condition in a loop.
    pub fn wait<'a, T: ?Sized>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        let mutex = guard.mutex;
        wait::wait(self.address(), || true, || drop(guard));
        mutex.lock()
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        wait::wake_one(self.address());
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        wait::wake_all(self.address());
    }

    fn address(&self) -> usize {
        (&raw const self.place) as usize
    }
}
