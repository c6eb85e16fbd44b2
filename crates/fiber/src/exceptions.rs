//! C++ exceptions that leave what is called.

/// A C++ exception left what was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxxException;

/// Calls. A C++ exception that leaves `f` ends here, where the feature `cxx` is there; a panic goes on.
/// Rust's `catch_unwind` must not see the former, so this stands between the two.
///
/// # Errors
/// There was such an exception.
#[cfg(not(feature = "cxx"))]
#[inline]
pub fn contain_exceptions<F: FnOnce()>(f: F) -> Result<(), CxxException> {
    f();
    Ok(())
}

/// Calls. A C++ exception that leaves `f` ends here; a panic goes on. Rust's `catch_unwind` must not see
/// the former, so this stands between the two.
///
/// # Errors
/// There was such an exception.
#[cfg(feature = "cxx")]
pub fn contain_exceptions<F: FnOnce()>(f: F) -> Result<(), CxxException> {
    use std::ffi::{c_int, c_void};

    unsafe extern "C-unwind" {
        fn curtail_contain(
            run: unsafe extern "C-unwind" fn(*mut c_void),
            argument: *mut c_void,
        ) -> c_int;
    }

    unsafe extern "C-unwind" fn run<F: FnOnce()>(argument: *mut c_void) {
        // SAFETY: the variable below, of this type, which nothing else uses meanwhile.
        let f = unsafe { (*argument.cast::<Option<F>>()).take() };
        if let Some(f) = f {
            f();
        }
    }

    let mut f = Some(f);
    // SAFETY: calls `run` once, on this stack. Panics pass through it (its type says so), C++
    // exceptions end in it.
    match unsafe { curtail_contain(run::<F>, (&raw mut f).cast()) } {
        0 => Ok(()),
        _ => Err(CxxException),
    }
}
