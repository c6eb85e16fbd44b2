//! [`OnceLock`]: as `std::sync::OnceLock`.

use super::once::Once;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is written once, as [`std::sync::OnceLock`]. For threads, handlers and plain threads.
pub struct OnceLock<T> {
    once: Once,
    /// Written while `once` runs; there when it is complete.
    value: UnsafeCell<MaybeUninit<T>>,
    /// It drops a value.
    own: PhantomData<T>,
}

// SAFETY: any thread may write the value, or drop it, and others share it afterwards.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: it moves with its value.
unsafe impl<T: Send> Send for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        let value = UnsafeCell::new(MaybeUninit::uninit());
        Self { once: Once::new(), value, own: PhantomData }
    }

    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: complete, so it was written, and is not written again by reference.
        self.once.is_completed().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: complete, so it was written; `&mut self` is the only reference.
        self.once.is_completed().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Waits until the value is there.
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.get().expect("complete")
    }

    /// Writes the value.
    ///
    /// # Errors
    /// There is one already: `value` comes back.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    /// The value; if there is none yet, `f` makes it. Others that need it meanwhile wait.
    ///
    /// # Panics
    /// If `f` panics; the next one makes it then.
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(f),
        }
    }

    #[cold]
    fn init<F: FnOnce() -> T>(&self, f: F) -> &T {
        self.once.call_once_force(|_| {
            let value = crate::user::call(f);
            // SAFETY: while this runs, no other thread touches the value: it is not complete.
            unsafe { (*self.value.get()).write(value) };
        });
        self.get().expect("complete")
    }

    /// The value.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        if !self.once.is_completed() {
            return None;
        }
        self.once = Once::new();
        // SAFETY: it was written, and counts as not written from here on.
        Some(unsafe { self.value.get_mut().assume_init_read() })
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let this = Self::new();
        let set = this.set(value);
        debug_assert!(set.is_ok());
        this
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().map_or_else(Self::new, |value| Self::from(value.clone()))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<uninit>")),
        };
        shown.finish()
    }
}
