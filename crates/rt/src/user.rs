//! Where the runtime calls closures of the user's.
//!
//! Curtail's own code is never instrumented: the compiler pass leaves out every function of this
//! crate, and a closure that was inlined into one would lose its safepoints. What stands in this
//! module is the exception: the pass treats it as the user's.

/// Calls `f`.
#[inline(never)]
pub fn call<F: FnOnce() -> T, T>(f: F) -> T {
    f()
}

/// Calls `f` with something to refer to.
#[inline(never)]
pub(crate) fn call_with<F: FnOnce(A) -> T, A, T>(f: F, argument: A) -> T {
    f(argument)
}
