//! Sleeping by C's functions (`nanosleep`, `usleep` and their like), interposed: on a thread or in a
//! handler they block that, not its kthread, as [`curtail_rt::time::sleep`] does. `std::thread::sleep`,
//! C++'s `sleep_for` and what waits a little before it tries again inside of a library come here.
//!
//! From any thread. Plain threads, other clocks than the wall's and the monotonic one, and invalid
//! times go to libc. So do threads that read what RCU protects, which must not leave the processor.
//! No signal cuts a sleep here, so nothing is ever left of one.

#![allow(unreachable_pub, reason = "C and C++ reach these by their names")]

use crate::real;
use curtail_rt::block::{self, Deadline, Queue};
use curtail_rt::thread::{KThread, without_limit};
use libc::{c_int, c_uint, clockid_t, timespec};
use std::mem::MaybeUninit;
use std::time::Duration;

type Nanosleep = unsafe extern "C" fn(*const timespec, *mut timespec) -> c_int;
type ClockNanosleep =
    unsafe extern "C" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
type Usleep = unsafe extern "C" fn(c_uint) -> c_int;
type Sleep = unsafe extern "C" fn(c_uint) -> c_uint;

/// Whether the caller can sleep without its kthread.
fn can_block() -> bool {
    KThread::current_tcb().is_some() && block::may_wait()
}

/// The calling thread blocks for so long. The limit of a [`curtail_rt::time::timeout`] does not end it:
/// nothing can unwind through code of C.
fn block_for(duration: Duration) {
    let nobody_wakes = Queue::new();
    let deadline = Deadline::after(duration);
    without_limit(|| block::wait_in(&nobody_wakes, 0, deadline, || true, || {}));
}

/// `None`: libc is to refuse it.
fn duration_of(time: timespec) -> Option<Duration> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// What that clock shows, since its beginning.
fn now(clock: clockid_t) -> Option<Duration> {
    let mut now = MaybeUninit::<timespec>::zeroed();
    // SAFETY: `now` is ours, and a timespec of zeroes is one.
    let now = unsafe {
        libc::clock_gettime(clock, now.as_mut_ptr());
        now.assume_init()
    };
    duration_of(now)
}

/// Blocks until that clock shows `end`, or later.
fn block_until(clock: clockid_t, end: Duration) {
    let left = || end.checked_sub(now(clock)?).filter(|left| !left.is_zero());
    while let Some(left) = left() {
        block_for(left);
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's time, if there is one.
    let duration = if can_block() { unsafe { time.as_ref() } } else { None };
    let Some(duration) = duration.copied().and_then(duration_of) else {
        return real!(c"nanosleep", new, Nanosleep; time, left);
    };
    block_for(duration);
    0
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    let known = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
        && matches!(flags, 0 | libc::TIMER_ABSTIME);
    // SAFETY: the caller's time, if there is one.
    let duration = if known && can_block() { unsafe { time.as_ref() } } else { None };
    let Some(duration) = duration.copied().and_then(duration_of) else {
        return real!(c"clock_nanosleep", new, ClockNanosleep; clock, flags, time, left);
    };
    match flags {
        0 => block_for(duration),
        _ => block_until(clock, duration),
    }
    0
}

/// # Safety
/// As POSIX asks for: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usleep(micros: c_uint) -> c_int {
    if !can_block() {
        return real!(c"usleep", new, Usleep; micros);
    }
    block_for(Duration::from_micros(micros.into()));
    0
}

/// # Safety
/// As POSIX asks for: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
    if !can_block() {
        return real!(c"sleep", new, Sleep; seconds);
    }
    block_for(Duration::from_secs(seconds.into()));
    0
}
