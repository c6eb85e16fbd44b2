//! `sigaltstack`, interposed. The kernel knows one alternate stack for each of its threads, on which the
//! handlers of all threads of Curtail's run that are there. One that could set it would take it from the
//! others, and free memory that they are on: wasmtime does when a thread ends.
//!
//! So a thread keeps its kthread's, which is large, and hears that what it wanted was done. What is
//! larger than that is refused. Other callers have libc's own function.

#![allow(unreachable_pub, reason = "C, and libraries, reach it by its name")]

use crate::real;
use curtail_rt::thread::KThread;
use libc::{EINVAL, ENOMEM, EPERM, MINSIGSTKSZ, SS_DISABLE, SS_ONSTACK, c_int, stack_t};
use std::mem::MaybeUninit;
use std::ptr;

type SigAltStack = unsafe extern "C" fn(*const stack_t, *mut stack_t) -> c_int;

/// Not in libc's crate: see sigaltstack(2). It changes nothing for what is never set.
const SS_AUTODISARM: c_int = 1 << 31;

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(wanted: *const stack_t, old: *mut stack_t) -> c_int {
    if wanted.is_null() || KThread::current_tcb().is_none() {
        return real!(c"sigaltstack", new, SigAltStack; wanted, old);
    }
    // SAFETY: the caller's own, not null.
    let wanted = unsafe { *wanted };
    let mut now = MaybeUninit::<stack_t>::zeroed();
    let failed = real!(c"sigaltstack", new, SigAltStack; ptr::null(), now.as_mut_ptr());
    if failed != 0 {
        return failed;
    }
    // SAFETY: filled in by the call; zeroes are one, too.
    let now = unsafe { now.assume_init() };
    if let Err(error) = check(&wanted, &now) {
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = error };
        return -1;
    }
    if !old.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *old = now };
    }
    0
}

/// Whether a thread may have what it wants, where its kthread has `now`; else POSIX' error.
fn check(wanted: &stack_t, now: &stack_t) -> Result<(), c_int> {
    match wanted.ss_flags & !SS_AUTODISARM {
        _ if now.ss_flags & SS_ONSTACK != 0 => Err(EPERM),
        SS_DISABLE => Ok(()),
        0 | SS_ONSTACK if (MINSIGSTKSZ..=now.ss_size).contains(&wanted.ss_size) => Ok(()),
        0 | SS_ONSTACK => Err(ENOMEM),
        _ => Err(EINVAL),
    }
}
