//! [`LazyLock`]: as `std::sync::LazyLock`.

use super::once::Once;
use super::once_lock::OnceLock;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is made when it is first needed, as [`std::sync::LazyLock`]. For threads, handlers
/// and plain threads.
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// Taken by the one closure that `once` runs.
    make: Cell<Option<F>>,
    once: Once,
}

// SAFETY: `make` is taken by one thread, under `once`; the rest is `Sync` by itself.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// To be made by `f`.
    #[must_use]
    pub const fn new(f: F) -> Self {
        Self { value: OnceLock::new(), make: Cell::new(Some(f)), once: Once::new() }
    }

    /// The value.
    ///
    /// # Panics
    /// If making it panics, or did before.
    #[inline]
    pub fn force(this: &Self) -> &T {
        match this.value.get() {
            Some(value) => value,
            None => this.make(),
        }
    }

    #[cold]
    fn make(&self) -> &T {
        self.once.call_once(|| {
            let make = self.make.take().expect("called once");
            let set = self.value.set(crate::user::call(make));
            debug_assert!(set.is_ok());
        });
        self.value.get().expect("made")
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("LazyLock");
        match self.value.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<uninit>")),
        };
        shown.finish()
    }
}
