//! Barriers: words of our own in the bytes of a `pthread_barrier_t`, for plain threads, too.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::pause::{LOOK, can_wait};
use curtail_libc::real;
use curtail_rt::block::{Deadline, Place};
use curtail_rt::wait;
use libc::{c_int, c_uint, c_void, pthread_barrier_t, pthread_barrierattr_t};
use std::sync::atomic::{AtomicU32, Ordering};

/// What `pthread_barrier_wait` says to one of those who have come.
const SERIAL: c_int = -1;

/// What lies in a barrier.
#[repr(C)]
struct Barrier {
    count: AtomicU32,
    arrived: AtomicU32,
    /// How often all have come.
    rounds: AtomicU32,
    /// Those who have not left yet: until then its bytes are in use.
    inside: AtomicU32,
    shared: AtomicU32,
}

const _: () = assert!(size_of::<Barrier>() <= size_of::<pthread_barrier_t>());
const _: () = assert!(align_of::<Barrier>() <= align_of::<pthread_barrier_t>());

/// # Safety
/// The caller's barrier, initialised by [`pthread_barrier_init`].
unsafe fn at<'a>(barrier: *mut c_void) -> &'a Barrier {
    // SAFETY: by contract.
    unsafe { &*barrier.cast::<Barrier>() }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut c_void,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    type Get = unsafe extern "C" fn(*const pthread_barrierattr_t, *mut c_int) -> c_int;
    if count == 0 || i32::try_from(count).is_err() {
        return libc::EINVAL;
    }
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    if !attributes.is_null() {
        real!(c"pthread_barrierattr_getpshared", new, Get; attributes, &raw mut shared);
    }
    let made = Barrier {
        count: AtomicU32::new(count),
        arrived: AtomicU32::new(0),
        rounds: AtomicU32::new(0),
        inside: AtomicU32::new(0),
        shared: AtomicU32::new(u32::from(shared == libc::PTHREAD_PROCESS_SHARED)),
    };
    // SAFETY: the caller's bytes, which nothing uses yet.
    unsafe { barrier.cast::<Barrier>().write(made) };
    0
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut c_void) -> c_int {
    // SAFETY: by contract.
    let barrier = unsafe { at(barrier) };
    // Those who were let through need it for some instructions more.
    while barrier.inside.load(Ordering::Acquire) != 0 {
        match can_wait() {
            true => curtail_rt::yield_now(),
            false => std::thread::yield_now(),
        }
    }
    0
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut c_void) -> c_int {
    let address = barrier as usize;
    // SAFETY: by contract.
    let barrier = unsafe { at(barrier) };
    barrier.inside.fetch_add(1, Ordering::Relaxed);
    let round = barrier.rounds.load(Ordering::Acquire);
    let arrived = barrier.arrived.fetch_add(1, Ordering::AcqRel) + 1;
    let is_last = arrived == barrier.count.load(Ordering::Relaxed);
    if is_last {
        // Before the round ends: who comes for the next one counts from nothing.
        barrier.arrived.store(0, Ordering::Relaxed);
        barrier.rounds.store(round.wrapping_add(1), Ordering::SeqCst);
        wait::wake_all(address);
    } else {
        let still = || barrier.rounds.load(Ordering::SeqCst) == round;
        while still() {
            let is_shared = barrier.shared.load(Ordering::Relaxed) != 0;
            let deadline = is_shared.then(|| Deadline::after(LOOK)).flatten();
            wait::wait(address, Place::Last, deadline, still, || {});
        }
    }
    barrier.inside.fetch_sub(1, Ordering::Release);
    if is_last { SERIAL } else { 0 }
}
