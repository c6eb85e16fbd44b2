//! Children, and other waits for what only the kernel knows of: they wait on a plain thread, and the caller
//! as a thread.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{errno, set_errno};
use crate::follow;
use crate::pause::can_wait;
use crate::registry;
use curtail_libc::real;
use libc::{c_char, c_int, id_t, idtype_t, pid_t, rusage, siginfo_t, sigset_t, timespec};
use std::ptr;
use std::sync::atomic::Ordering;

/// What the caller gave, for a thread that works for it while it waits.
struct Given<T>(T);

// SAFETY: see the type.
unsafe impl<T> Send for Given<T> {}

impl<T> Given<T> {
    fn call<R>(self, f: impl FnOnce(T) -> R) -> Given<R> {
        Given(f(self.0))
    }
}

/// Calls `f` where it may wait in the kernel; `errno` is the caller's.
fn wait_elsewhere<R>(f: impl FnOnce() -> R) -> R {
    if !can_wait() {
        return f();
    }
    let given = Given(f);
    let Given((answer, error)) = curtail_rt::blocking(move || given.call(|f| (f(), errno())));
    set_errno(error);
    answer
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait4(
    child: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    type Call = unsafe extern "C" fn(pid_t, *mut c_int, c_int, *mut rusage) -> pid_t;
    let now = options | libc::WNOHANG;
    let answer = real!(c"wait4", new, Call; child, status, now, usage);
    if answer != 0 || options & libc::WNOHANG != 0 {
        return answer;
    }
    wait_elsewhere(|| real!(c"wait4", new, Call; child, status, options, usage))
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { wait4(child, status, options, ptr::null_mut()) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { wait4(-1, status, 0, ptr::null_mut()) }
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { wait4(-1, status, options, usage) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitid(
    kind: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(idtype_t, id_t, *mut siginfo_t, c_int) -> c_int;
    if options & libc::WNOHANG != 0 {
        return real!(c"waitid", new, Call; kind, id, info, options);
    }
    wait_elsewhere(|| real!(c"waitid", new, Call; kind, id, info, options))
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char) -> c_int;
    let mask = registry::own().map(|own| own.mask.load(Ordering::Relaxed));
    wait_elsewhere(|| match mask {
        Some(mask) => follow::with_programs_mask(mask, || real!(c"system", new, Call; command)),
        None => real!(c"system", new, Call; command),
    })
}

/// A child that shared its parent's memory would share its threads' as well; POSIX lets it be a copy.
///
/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { libc::fork() }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    type Call = unsafe extern "C" fn(*const sigset_t, *mut c_int) -> c_int;
    wait_elsewhere(|| real!(c"sigwait", new, Call; set, signal))
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    type Call = unsafe extern "C" fn(*const sigset_t, *mut siginfo_t) -> c_int;
    wait_elsewhere(|| real!(c"sigwaitinfo", new, Call; set, info))
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    time: *const timespec,
) -> c_int {
    type Call = unsafe extern "C" fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int;
    wait_elsewhere(|| real!(c"sigtimedwait", new, Call; set, info, time))
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flock(fd: c_int, operation: c_int) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_int) -> c_int;
    if operation & libc::LOCK_NB != 0 || operation & libc::LOCK_UN != 0 {
        return real!(c"flock", new, Call; fd, operation);
    }
    wait_elsewhere(|| real!(c"flock", new, Call; fd, operation))
}

/// `fcntl`, for locks of files.
pub(crate) fn lock_file(call: impl FnOnce() -> c_int, command: c_int) -> c_int {
    const OFD_SETLKW: c_int = 38;
    match command {
        libc::F_SETLKW | OFD_SETLKW => wait_elsewhere(call),
        _ => call(),
    }
}
