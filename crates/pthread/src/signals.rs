//! Signals.

use libc::sigset_t;

/// Calls `f` with another mask of signals, if there is one.
pub(crate) fn with_mask<T>(_mask: *const sigset_t, f: impl FnOnce() -> T) -> T {
    f()
}
