//! Calls of the application from the runtime's own stack, where a panic must end in the call.
//!
//! Any thread's. The invariant: nothing of the application unwinds out of here, the payload of its
//! panic included, whose `Drop` is the application's code, too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls; `None`: it panicked.
pub fn contain<R>(call: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Some(result),
        Err(payload) => {
            discard(payload);
            None
        }
    }
}

/// Drops what a panic carried. Where that panics, what the second one carries is leaked: it might
/// go on for ever.
pub fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}
