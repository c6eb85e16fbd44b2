//! Semaphores: glibc's own words, with waits in the table by address.
//!
//! A thread of Curtail's takes what is there by libc's `sem_trywait`, and otherwise waits in the table;
//! whoever posts looks there, too. Plain threads wait in libc.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::pause::{can_wait, fail, insist};
use curtail_libc::real;
use curtail_rt::wait;
use libc::{c_int, c_void, clockid_t, timespec};

type Call = unsafe extern "C" fn(*mut c_void) -> c_int;
type Timed = unsafe extern "C" fn(*mut c_void, *const timespec) -> c_int;
type Clocked = unsafe extern "C" fn(*mut c_void, clockid_t, *const timespec) -> c_int;

/// glibc's `private` word says by a bit whether processes share it: behind the value's eight bytes.
unsafe fn is_shared(semaphore: *mut c_void) -> bool {
    const SHARED: u32 = 128;
    // SAFETY: the caller's semaphore, of 32 bytes.
    unsafe { semaphore.cast::<u32>().add(2).read_volatile() & SHARED != 0 }
}

/// # Safety
/// The caller's semaphore.
unsafe fn take(semaphore: *mut c_void, until: Option<curtail_libc::until::Until>) -> c_int {
    let once = || real!(c"sem_trywait", new, Call; semaphore) == 0;
    if once() {
        return 0;
    }
    // SAFETY: by contract.
    let shared = unsafe { is_shared(semaphore) };
    match insist(semaphore as usize, once, until, shared) {
        Ok(()) => 0,
        Err(error) => fail(error),
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_wait(semaphore: *mut c_void) -> c_int {
    if !can_wait() {
        return real!(c"sem_wait", new, Call; semaphore);
    }
    // SAFETY: the caller's.
    unsafe { take(semaphore, None) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut c_void, until: *const timespec) -> c_int {
    if !can_wait() {
        return real!(c"sem_timedwait", new, Timed; semaphore, until);
    }
    // SAFETY: the caller's semaphore and time.
    unsafe { take(semaphore, Some((libc::CLOCK_REALTIME, *until))) }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(
    semaphore: *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    let known = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC);
    if !known || !can_wait() {
        return real!(c"sem_clockwait", new, Clocked; semaphore, clock, until);
    }
    // SAFETY: the caller's semaphore and time.
    unsafe { take(semaphore, Some((clock, *until))) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut c_void) -> c_int {
    let answer = real!(c"sem_post", new, Call; semaphore);
    if answer == 0 {
        // libc's post is a locked operation: it comes before this look.
        wait::wake_one(semaphore as usize);
    }
    answer
}
