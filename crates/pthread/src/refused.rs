//! What a thread of Curtail's can't have: priorities and owners that the kernel would have to know, and an
//! end that another thread asks for. Each fails with the error that POSIX has for it.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::pause::is_ours;
use curtail_libc::real;
use libc::{c_int, c_void, pthread_t};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `main` runs as a thread of Curtail's: what is made then is for such threads. A fork's child has
/// the kernel's.
fn runs() -> bool {
    is_ours() || crate::begin::first() != 0 && curtail_rt::forked::generation() == 0
}

type Set = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// Mutexes that lend their owner a priority.
///
/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_setprotocol(
    attributes: *mut c_void,
    protocol: c_int,
) -> c_int {
    const INHERIT: c_int = 1;
    const PROTECT: c_int = 2;
    match protocol {
        INHERIT | PROTECT if runs() => libc::ENOTSUP,
        _ => real!(c"pthread_mutexattr_setprotocol", new, Set; attributes, protocol),
    }
}

/// Mutexes of which the kernel tells that their owner has died.
///
/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_setrobust(
    attributes: *mut c_void,
    robust: c_int,
) -> c_int {
    match robust {
        libc::PTHREAD_MUTEX_ROBUST if runs() => libc::EINVAL,
        _ => real!(c"pthread_mutexattr_setrobust", new, Set; attributes, robust),
    }
}

/// `pthread_mutexattr_setrobust` by its older name.
///
/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_setrobust_np(
    attributes: *mut c_void,
    robust: c_int,
) -> c_int {
    // SAFETY: the caller's own call.
    unsafe { pthread_mutexattr_setrobust(attributes, robust) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: pthread_t) -> c_int {
    type Call = unsafe extern "C" fn(pthread_t) -> c_int;
    static SAID: AtomicBool = AtomicBool::new(false);
    if !curtail_fiber::is_on_a_stack(thread as usize) {
        return real!(c"pthread_cancel", new, Call; thread);
    }
    // Programs rarely look at the answer, and wait for the thread's end next.
    if !SAID.swap(true, Ordering::Relaxed) && std::env::var_os("CURTAIL_QUIET").is_none() {
        eprintln!("curtail: pthread_cancel does nothing here (CURTAIL_QUIET=1 hides this)");
    }
    libc::ENOSYS
}
