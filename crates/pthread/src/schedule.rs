//! What a thread is to be like, and what the kernel alone could give it: priorities and processors. A
//! thread of Curtail's has neither of its own, so what asks for one fails with the error that POSIX has
//! for that, and what asks for the usual succeeds.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::registry;
use curtail_fiber::is_on_a_stack;
use curtail_libc::real;
use libc::{c_char, c_int, clockid_t, cpu_set_t, pthread_attr_t, pthread_t, sched_param};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Bytes of a stack where nothing else is said.
const USUAL: usize = 8 << 20;
const MOST: usize = 1 << 30;
const LEAST: usize = 16 << 10;

/// What the attributes of a thread to be say.
pub(crate) struct Wanted {
    pub detached: bool,
    /// Where it is not the usual one.
    pub stack_size: Option<usize>,
}

/// The usual bytes of a stack: as much as the process's limit says.
pub(crate) fn usual_stack() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is ours.
        let asked = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
        match limit.rlim_cur {
            libc::RLIM_INFINITY => USUAL,
            _ if asked != 0 => USUAL,
            bytes => (bytes as usize).clamp(LEAST, MOST),
        }
    })
}

/// # Errors
/// What `pthread_create` is to answer.
///
/// # Safety
/// Attributes that were initialised, or null.
pub(crate) unsafe fn wanted(attributes: *const pthread_attr_t) -> Result<Wanted, c_int> {
    type GetInt = unsafe extern "C" fn(*const pthread_attr_t, *mut c_int) -> c_int;
    type GetSize = unsafe extern "C" fn(*const pthread_attr_t, *mut usize) -> c_int;
    if attributes.is_null() {
        return Ok(Wanted { detached: false, stack_size: None });
    }
    let (mut detached, mut inherit, mut policy, mut bytes) = (0, 0, 0, 0_usize);
    real!(c"pthread_attr_getdetachstate", new, GetInt; attributes, &raw mut detached);
    real!(c"pthread_attr_getinheritsched", new, GetInt; attributes, &raw mut inherit);
    real!(c"pthread_attr_getschedpolicy", new, GetInt; attributes, &raw mut policy);
    real!(c"pthread_attr_getstacksize", new, GetSize; attributes, &raw mut bytes);
    let asks = inherit == libc::PTHREAD_EXPLICIT_SCHED && is_real_time(policy);
    if asks {
        return Err(libc::EPERM);
    }
    let usual = usual_stack();
    Ok(Wanted {
        detached: detached == libc::PTHREAD_CREATE_DETACHED,
        stack_size: (bytes != usual && bytes <= MOST).then(|| bytes.max(LEAST)),
    })
}

fn is_real_time(policy: c_int) -> bool {
    matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// Whether a thread is, or was, one of Curtail's.
fn is_ours(thread: pthread_t) -> bool {
    is_on_a_stack(thread as usize)
}

fn is_gone(thread: pthread_t) -> bool {
    registry::find(thread as usize).is_none()
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedparam(
    thread: pthread_t,
    policy: c_int,
    param: *const sched_param,
) -> c_int {
    type Set = unsafe extern "C" fn(pthread_t, c_int, *const sched_param) -> c_int;
    if !is_ours(thread) {
        return real!(c"pthread_setschedparam", new, Set; thread, policy, param);
    }
    // SAFETY: the caller's.
    let priority = unsafe { (*param).sched_priority };
    match policy {
        _ if is_gone(thread) => libc::ESRCH,
        libc::SCHED_OTHER if priority == 0 => 0,
        libc::SCHED_OTHER => libc::EINVAL,
        _ => libc::EPERM,
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getschedparam(
    thread: pthread_t,
    policy: *mut c_int,
    param: *mut sched_param,
) -> c_int {
    type Get = unsafe extern "C" fn(pthread_t, *mut c_int, *mut sched_param) -> c_int;
    if !is_ours(thread) {
        return real!(c"pthread_getschedparam", new, Get; thread, policy, param);
    }
    if is_gone(thread) {
        return libc::ESRCH;
    }
    // SAFETY: the caller's places.
    unsafe {
        *policy = libc::SCHED_OTHER;
        (*param).sched_priority = 0;
    }
    0
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int {
    type Set = unsafe extern "C" fn(pthread_t, c_int) -> c_int;
    match priority {
        _ if !is_ours(thread) => real!(c"pthread_setschedprio", new, Set; thread, priority),
        _ if is_gone(thread) => libc::ESRCH,
        0 => 0,
        _ => libc::EINVAL,
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getcpuclockid(thread: pthread_t, clock: *mut clockid_t) -> c_int {
    type Get = unsafe extern "C" fn(pthread_t, *mut clockid_t) -> c_int;
    match is_ours(thread) {
        // There is no such clock: a thread has no processor time of its own here.
        true => libc::ENOENT,
        false => real!(c"pthread_getcpuclockid", new, Get; thread, clock),
    }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getaffinity_np(
    thread: pthread_t,
    bytes: usize,
    set: *mut cpu_set_t,
) -> c_int {
    type Get = unsafe extern "C" fn(pthread_t, usize, *mut cpu_set_t) -> c_int;
    if !is_ours(thread) {
        return real!(c"pthread_getaffinity_np", new, Get; thread, bytes, set);
    }
    // SAFETY: the caller's set. The process's first thread: kthreads float, or are pinned one each.
    match unsafe { libc::sched_getaffinity(libc::getpid(), bytes, set) } {
        0 => 0,
        // SAFETY: the calling thread's own.
        _ => unsafe { *libc::__errno_location() },
    }
}

/// A thread that may run wherever the process may has what it asks for; any other set is refused.
///
/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setaffinity_np(
    thread: pthread_t,
    bytes: usize,
    set: *const cpu_set_t,
) -> c_int {
    type Set = unsafe extern "C" fn(pthread_t, usize, *const cpu_set_t) -> c_int;
    if !is_ours(thread) {
        return real!(c"pthread_setaffinity_np", new, Set; thread, bytes, set);
    }
    let mut all = MaybeUninit::<cpu_set_t>::zeroed();
    // SAFETY: our own set, and the caller's.
    let includes_all = unsafe {
        libc::sched_getaffinity(libc::getpid(), size_of::<cpu_set_t>(), all.as_mut_ptr());
        let all = all.assume_init();
        (0..8 * bytes.min(size_of::<cpu_set_t>()))
            .all(|core| !libc::CPU_ISSET(core, &all) || libc::CPU_ISSET(core, &*set))
    };
    if includes_all { 0 } else { libc::EINVAL }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int {
    type Set = unsafe extern "C" fn(pthread_t, *const c_char) -> c_int;
    let Some(control) = registry::find(thread as usize) else {
        return real!(c"pthread_setname_np", new, Set; thread, name);
    };
    // SAFETY: the caller's string.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    if bytes.len() > 15 {
        return libc::ERANGE;
    }
    let mut padded = [0; 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    control.name.with(|name| *name = padded);
    0
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getname_np(
    thread: pthread_t,
    name: *mut c_char,
    bytes: usize,
) -> c_int {
    type Get = unsafe extern "C" fn(pthread_t, *mut c_char, usize) -> c_int;
    let Some(control) = registry::find(thread as usize) else {
        return real!(c"pthread_getname_np", new, Get; thread, name, bytes);
    };
    let kept = control.name.with(|name| *name);
    let length = kept.iter().position(|&byte| byte == 0).map_or(16, |at| at + 1);
    if bytes < length {
        return libc::ERANGE;
    }
    // SAFETY: the caller's place, of that many bytes.
    unsafe { name.cast::<u8>().copy_from_nonoverlapping(kept.as_ptr(), length) };
    0
}
