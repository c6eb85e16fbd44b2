//! C11's threads (`<threads.h>`), by those of POSIX: glibc's own wait in the kernel.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::thread::{Routine, pthread_create, pthread_detach, pthread_exit, pthread_join};
use libc::{c_int, c_void, pthread_cond_t, pthread_key_t, pthread_mutex_t, pthread_t, timespec};
use std::ptr;

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

/// An error of POSIX's, in C11's words.
fn answer(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM | libc::EAGAIN => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

unsafe extern "C" {
    fn pthread_once(control: *mut c_void, routine: unsafe extern "C-unwind" fn()) -> c_int;
}

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// What the first function of a thread needs: its routine answers with a number.
struct Begin(Start, *mut c_void);

unsafe extern "C-unwind" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: made by `thrd_create` for this thread alone.
    let Begin(start, argument) = *unsafe { Box::from_raw(argument.cast::<Begin>()) };
    // SAFETY: the program's routine and its argument.
    let result = unsafe { start(argument) };
    ptr::without_provenance_mut(result as isize as usize)
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let argument = Box::into_raw(Box::new(Begin(start, argument)));
    let routine: Routine = begin;
    // SAFETY: the caller's place; the argument is for the thread alone.
    let error = unsafe { pthread_create(thread, ptr::null(), routine, argument.cast()) };
    if error != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(argument) });
    }
    answer(error)
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut value = ptr::null_mut();
    // SAFETY: the caller's thread; our own place.
    let error = unsafe { pthread_join(thread, &raw mut value) };
    if error == 0 && !result.is_null() {
        // SAFETY: the caller's place.
        unsafe { *result = value.addr() as c_int };
    }
    answer(error)
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's thread.
    answer(unsafe { pthread_detach(thread) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_exit(result: c_int) -> ! {
    // SAFETY: the caller is to end.
    unsafe { pthread_exit(ptr::without_provenance_mut(result as isize as usize)) }
}

/// # Safety
/// As C asks for: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_yield() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's times.
    match unsafe { libc::clock_nanosleep(libc::CLOCK_REALTIME, 0, time, left) } {
        0 => 0,
        libc::EINTR => -1,
        _ => -2,
    }
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex: glibc's is one of POSIX's.
    answer(unsafe { libc::pthread_mutex_lock(mutex) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: as in `mtx_lock`.
    answer(unsafe { libc::pthread_mutex_trylock(mutex) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_timedlock(
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: as in `mtx_lock`; the caller's time.
    answer(unsafe { libc::pthread_mutex_timedlock(mutex, until) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: as in `mtx_lock`.
    answer(unsafe { libc::pthread_mutex_unlock(mutex) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's, which are POSIX's.
    answer(unsafe { libc::pthread_cond_wait(cond, mutex) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: as in `cnd_wait`.
    answer(unsafe { libc::pthread_cond_timedwait(cond, mutex, until) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: as in `cnd_wait`.
    answer(unsafe { libc::pthread_cond_signal(cond) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: as in `cnd_wait`.
    answer(unsafe { libc::pthread_cond_broadcast(cond) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tss_create(
    key: *mut pthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    // SAFETY: the caller's place.
    answer(unsafe { libc::pthread_key_create(key, destructor) })
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tss_delete(key: pthread_key_t) {
    // SAFETY: the caller's key.
    unsafe { libc::pthread_key_delete(key) };
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(
    control: *mut c_void,
    routine: unsafe extern "C-unwind" fn(),
) {
    // SAFETY: the caller's flag: glibc's is POSIX's control.
    unsafe { pthread_once(control, routine) };
}
