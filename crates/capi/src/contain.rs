//! C++ exceptions that leave a function of the application. Off a fiber; what leaves a handler ends in
//! the runtime.

use std::ffi::{c_int, c_void};

/// A C++ exception left the function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thrown;

unsafe extern "C-unwind" {
    /// `crates/fiber/native/contain.cc`; in programs without the C++ runtime it just calls.
    fn curtail_contain(
        run: unsafe extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
    ) -> c_int;
}

/// A call, before and after.
struct Call<F, R> {
    function: Option<F>,
    result: Option<R>,
}

/// Calls, and ends C++ exceptions there.
pub(crate) fn contain<R>(function: impl FnOnce() -> R) -> Result<R, Thrown> {
    unsafe extern "C-unwind" fn run<F: FnOnce() -> R, R>(argument: *mut c_void) {
        // SAFETY: the `call` below, of this type, which no other code uses meanwhile.
        let call = unsafe { &mut *argument.cast::<Call<F, R>>() };
        call.result = call.function.take().map(|function| function());
    }

    fn runner<F: FnOnce() -> R, R>(_: &Call<F, R>) -> unsafe extern "C-unwind" fn(*mut c_void) {
        run::<F, R>
    }

    let mut call = Call { function: Some(function), result: None };
    let run = runner(&call);
    // SAFETY: calls `run` once, here and now. Panics would pass through it, as its type says.
    let thrown = unsafe { curtail_contain(run, (&raw mut call).cast()) };
    if thrown == 0 { call.result.ok_or(Thrown) } else { Err(Thrown) }
}
