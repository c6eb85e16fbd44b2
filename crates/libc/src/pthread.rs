//! The locks of C and C++ on fibers: `pthread` functions, interposed.
//!
//! The program's own definitions below win over libc's, for the program and for the libraries it
//! loads (libstdc++'s condition variables). Off a fiber they pass everything through. On a fiber:
//!
//! * the holder of a mutex, read–write lock or spin lock has a grace: where its quantum ends, it goes on
//!   for a while;
//! * a fiber that must wait for one blocks in the table of `wait` until it is released here, by a
//!   fiber or by a plain thread. What libc gives back by itself (a plain thread waits for a
//!   condition) is found by trying again from time to time;
//! * waiting on a condition variable blocks the fiber, not the thread: the one that is to signal it
//!   may be a fiber of the same thread.
//!
//! A thread-level wait and a fiber-level wait on one condition variable live in two places: the
//! kernel's futex and our table. A signal goes to a fiber if one waits, and else to libc; a
//! broadcast to both. Either is what POSIX asks for (at least one waiter).

#![allow(unreachable_pub, reason = "C and C++ reach these by their names")]

use crate::condclock;
use crate::owner::{self, Kind};
use crate::real;
use crate::until::{Until, is_valid, time_left};
use curtail_fiber::on_fiber;
use curtail_fiber::safepoint::{enter_lock, leave_lock, leave_lock_if_held};
use curtail_rt::block::{Deadline, Place, Wait};
use curtail_rt::held::took;
use curtail_rt::wait;
use libc::{c_int, c_void, clockid_t, timespec};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

type Lock = unsafe extern "C" fn(*mut c_void) -> c_int;
type TimedLock = unsafe extern "C" fn(*mut c_void, *const timespec) -> c_int;
type ClockLock = unsafe extern "C" fn(*mut c_void, clockid_t, *const timespec) -> c_int;
type CondWait = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type CondTimedWait = unsafe extern "C" fn(*mut c_void, *mut c_void, *const timespec) -> c_int;
type CondClockWait =
    unsafe extern "C" fn(*mut c_void, *mut c_void, clockid_t, *const timespec) -> c_int;

/// The caller has the lock (a robust mutex says so by EOWNERDEAD when its last owner died).
fn is_taken(answer: c_int) -> bool {
    answer == 0 || answer == libc::EOWNERDEAD
}

/// One try on a fiber.
fn attempt(attempt: impl FnOnce() -> c_int) -> c_int {
    enter_lock();
    let answer = attempt();
    if !is_taken(answer) {
        leave_lock();
    }
    answer
}

/// After so long a lock is tried again, whether it was seen to be released or not. Doubles each
/// time, up to [`LONGEST_LOOK`].
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(16);

/// Takes a lock on a fiber: waits until it is taken, it fails for another reason than being held, or
/// its time is over.
fn insist(
    lock: *mut c_void,
    kind: Kind,
    mut once: impl FnMut() -> c_int,
    until: Option<Until>,
) -> c_int {
    let answer = attempt(&mut once);
    // By whom, C does not say.
    took(lock, None);
    if answer != libc::EBUSY {
        return answer;
    }
    // SAFETY: the caller's lock.
    if unsafe { owner::is_caller(lock, kind) } {
        return libc::EDEADLK;
    }
    if until.is_some_and(|until| !is_valid(until)) {
        return libc::EINVAL;
    }
    let (mut place, mut look) = (Place::Last, FIRST_LOOK);
    loop {
        let left = until.map_or(Some(look), time_left);
        let Some(left) = left else {
            return match attempt(&mut once) {
                libc::EBUSY => libc::ETIMEDOUT,
                answer => answer,
            };
        };
        let mut answer = libc::EBUSY;
        let still = || {
            answer = once();
            answer == libc::EBUSY
        };
        enter_lock();
        let deadline = Deadline::after(left.min(look));
        let ended = wait::wait(lock as usize, place, deadline, still, || {});
        if !is_taken(answer) {
            leave_lock();
        }
        match ended {
            Wait::NotNeeded => return answer,
            // Woken, and perhaps too late: then it waits in front.
            Wait::Woken(_) => (place, look) = (Place::First, FIRST_LOOK),
            Wait::Expired => look = (2 * look).min(LONGEST_LOOK),
        }
    }
}

/// How many of those who wait for a lock are woken when it is released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    One,
    /// Readers may come in together.
    All,
}

/// A lock was released, if `answer` says so.
fn give_back(lock: *mut c_void, answer: c_int, next: Next) -> c_int {
    if answer != 0 {
        return answer;
    }
    // libc's release is a locked operation (a spin lock's is followed by a fence, below): it comes
    // before this look.
    if wait::anybody_at(lock as usize) {
        match next {
            Next::One => _ = wait::wake_one(lock as usize),
            Next::All => wait::wake_all(lock as usize),
        }
    }
    if on_fiber() {
        leave_lock_if_held();
    }
    answer
}

/// Defines a lock's plain, trying and releasing functions.
macro_rules! interpose_lock {
    ($kind:ident: $take:ident $take_c:literal, $try:ident $try_c:literal) => {
        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $take(lock: *mut c_void) -> c_int {
            if on_fiber() {
                return insist(lock, Kind::$kind, || real!($try_c, new, Lock; lock), None);
            }
            real!($take_c, new, Lock; lock)
        }

        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $try(lock: *mut c_void) -> c_int {
            if on_fiber() {
                return attempt(|| real!($try_c, new, Lock; lock));
            }
            real!($try_c, new, Lock; lock)
        }
    };
}

macro_rules! interpose_release {
    ($($give:ident $give_c:literal $next:ident),*) => {$(
        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $give(lock: *mut c_void) -> c_int {
            let answer = real!($give_c, new, Lock; lock);
            give_back(lock, answer, Next::$next)
        }
    )*};
}

macro_rules! interpose_timed {
    ($(($kind:ident: $timed:ident $timed_c:literal, $clock:ident $clock_c:literal, $try_c:literal)),*) => {$(
        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $timed(lock: *mut c_void, until: *const timespec) -> c_int {
            if on_fiber() {
                // SAFETY: the caller's timespec.
                let until = (libc::CLOCK_REALTIME, unsafe { *until });
                return insist(lock, Kind::$kind, || real!($try_c, new, Lock; lock), Some(until));
            }
            real!($timed_c, new, TimedLock; lock, until)
        }

        /// # Safety
        /// As glibc asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $clock(
            lock: *mut c_void,
            clock: clockid_t,
            until: *const timespec,
        ) -> c_int {
            if on_fiber() {
                // SAFETY: the caller's timespec.
                let until = (clock, unsafe { *until });
                return insist(lock, Kind::$kind, || real!($try_c, new, Lock; lock), Some(until));
            }
            real!($clock_c, new, ClockLock; lock, clock, until)
        }
    )*};
}

interpose_lock!(Mutex: pthread_mutex_lock c"pthread_mutex_lock",
                pthread_mutex_trylock c"pthread_mutex_trylock");
interpose_lock!(ReadWrite: pthread_rwlock_rdlock c"pthread_rwlock_rdlock",
                pthread_rwlock_tryrdlock c"pthread_rwlock_tryrdlock");
interpose_lock!(ReadWrite: pthread_rwlock_wrlock c"pthread_rwlock_wrlock",
                pthread_rwlock_trywrlock c"pthread_rwlock_trywrlock");
interpose_lock!(Spin: pthread_spin_lock c"pthread_spin_lock",
                pthread_spin_trylock c"pthread_spin_trylock");
interpose_release!(pthread_mutex_unlock c"pthread_mutex_unlock" One,
                   pthread_rwlock_unlock c"pthread_rwlock_unlock" All);

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(lock: *mut c_void) -> c_int {
    let answer = real!(c"pthread_spin_unlock", new, Lock; lock);
    fence(Ordering::SeqCst); // libc's is a plain store.
    give_back(lock, answer, Next::One)
}

interpose_timed!(
    (Mutex: pthread_mutex_timedlock c"pthread_mutex_timedlock",
     pthread_mutex_clocklock c"pthread_mutex_clocklock", c"pthread_mutex_trylock"),
    (ReadWrite: pthread_rwlock_timedrdlock c"pthread_rwlock_timedrdlock",
     pthread_rwlock_clockrdlock c"pthread_rwlock_clockrdlock", c"pthread_rwlock_tryrdlock"),
    (ReadWrite: pthread_rwlock_timedwrlock c"pthread_rwlock_timedwrlock",
     pthread_rwlock_clockwrlock c"pthread_rwlock_clockwrlock", c"pthread_rwlock_trywrlock")
);

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(cond: *mut c_void, mutex: *mut c_void) -> c_int {
    if !on_fiber() {
        return real!(c"pthread_cond_wait", versioned, CondWait; cond, mutex);
    }
    // SAFETY: the caller holds the mutex, as POSIX asks; it is taken again before we return.
    unsafe {
        let release = || _ = pthread_mutex_unlock(mutex);
        _ = wait::wait(cond as usize, Place::Last, None, || true, release);
        pthread_mutex_lock(mutex)
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    cond: *mut c_void,
    mutex: *mut c_void,
    until: *const timespec,
) -> c_int {
    if !on_fiber() {
        return real!(c"pthread_cond_timedwait", versioned, CondTimedWait; cond, mutex, until);
    }
    // SAFETY: the caller's own arguments.
    unsafe { wait_timed(cond, mutex, condclock::of(cond), until) }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_clockwait(
    cond: *mut c_void,
    mutex: *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    if !on_fiber() {
        return real!(c"pthread_cond_clockwait", new, CondClockWait; cond, mutex, clock, until);
    }
    // SAFETY: the caller's own arguments.
    unsafe { wait_timed(cond, mutex, clock, until) }
}

/// # Safety
/// As for `pthread_cond_clockwait`, on a fiber.
unsafe fn wait_timed(
    cond: *mut c_void,
    mutex: *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: valid, by contract.
    let until = (clock, unsafe { *until });
    if !is_valid(until) {
        return libc::EINVAL;
    }
    // What is over already is waited for all the same: the mutex is let go of, and others run.
    let deadline = Deadline::after(time_left(until).unwrap_or_default());
    // SAFETY: the caller holds the mutex.
    let release = || _ = unsafe { pthread_mutex_unlock(mutex) };
    let ended = wait::wait(cond as usize, Place::Last, deadline, || true, release);
    // SAFETY: the caller's mutex.
    match unsafe { pthread_mutex_lock(mutex) } {
        // If that clock was set back meanwhile, it has woken for nothing, as it may.
        0 if ended == Wait::Expired && time_left(until).is_none() => libc::ETIMEDOUT,
        answer => answer,
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut c_void) -> c_int {
    if wait::wake_one(cond as usize) {
        return 0;
    }
    real!(c"pthread_cond_signal", versioned, Lock; cond)
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut c_void) -> c_int {
    wait::wake_all(cond as usize);
    real!(c"pthread_cond_broadcast", versioned, Lock; cond)
}
