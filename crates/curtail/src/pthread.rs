//! The locks of C and C++ on fibers: `pthread` functions, interposed.
//!
//! The program's own definitions below win over libc's, for the program and for the libraries it
//! loads (libstdc++'s condition variables). Off a fiber they pass everything through. On a fiber:
//!
//! * whoever holds a mutex, read–write lock or spin lock is not pre-empted: taking one raises the
//!   critical-section depth, giving it back lowers it;
//! * whoever must wait for one lets other fibers run and tries again (its holder is another thread,
//!   or a fiber of this one that blocked while holding it, and would never run if we blocked);
//! * waiting on a condition variable blocks the fiber, not the thread: the one that is to signal it
//!   may be a fiber of the same thread;
//! * `pthread_once` runs its routine without pre-emption.
//!
//! A thread-level wait and a fiber-level wait on one condition variable live in two places: the
//! kernel's futex and our table. A signal goes to a fiber if one waits, and else to libc; a
//! broadcast to both. Either is what POSIX asks for (at least one waiter).

#![allow(unreachable_pub, reason = "C and C++ reach these by their names")]

use crate::{condclock, thread, wait};
use curtail_fiber::on_fiber;
use curtail_fiber::safepoint::{enter_critical, leave_critical, leave_critical_if_inside};
use libc::{c_char, c_int, c_void, clockid_t, timespec};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// libc's own function of that name, found at the first call.
struct Real {
    name: &'static CStr,
    version: Option<&'static CStr>,
    found: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, version: None, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Condition variables exist in two layouts; an unversioned look-up may find the old one.
    const fn versioned(name: &'static CStr) -> Self {
        Self { version: Some(c"GLIBC_2.3.2"), ..Self::new(name) }
    }

    fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let name: *const c_char = self.name.as_ptr();
        // SAFETY: valid C strings; both calls only look names up.
        let found = unsafe {
            let versioned = self.version.map_or(ptr::null_mut(), |version| {
                libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr())
            });
            if versioned.is_null() { libc::dlsym(libc::RTLD_NEXT, name) } else { versioned }
        };
        assert!(!found.is_null(), "the C library has no {:?}", self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls libc's function. `real!(NAME, fn-type; arguments)`
macro_rules! real {
    ($name:literal, $new:ident, $type:ty; $($argument:expr),*) => {{
        static REAL: Real = Real::$new($name);
        // SAFETY: libc's function of this name has this type (POSIX).
        let function: $type = unsafe { std::mem::transmute::<*mut c_void, $type>(REAL.get()) };
        // SAFETY: the caller's own call, passed on.
        unsafe { function($($argument),*) }
    }};
}

type Lock = unsafe extern "C" fn(*mut c_void) -> c_int;
type TimedLock = unsafe extern "C" fn(*mut c_void, *const timespec) -> c_int;
type ClockLock = unsafe extern "C" fn(*mut c_void, clockid_t, *const timespec) -> c_int;
type CondWait = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type CondTimedWait = unsafe extern "C" fn(*mut c_void, *mut c_void, *const timespec) -> c_int;
type CondClockWait =
    unsafe extern "C" fn(*mut c_void, *mut c_void, clockid_t, *const timespec) -> c_int;
type Once = unsafe extern "C" fn(*mut c_void, unsafe extern "C" fn()) -> c_int;

/// The caller has the lock (a robust mutex says so by EOWNERDEAD when its last owner died).
fn is_taken(answer: c_int) -> bool {
    answer == 0 || answer == libc::EOWNERDEAD
}

/// One try on a fiber.
fn attempt(attempt: impl FnOnce() -> c_int) -> c_int {
    enter_critical();
    let answer = attempt();
    if !is_taken(answer) {
        leave_critical();
    }
    answer
}

/// Tries on a fiber until it is taken, it fails for another reason than being held, or `expired`.
fn insist(mut once: impl FnMut() -> c_int, mut expired: impl FnMut() -> bool) -> c_int {
    loop {
        match attempt(&mut once) {
            libc::EBUSY if expired() => return libc::ETIMEDOUT,
            libc::EBUSY => thread::yield_now(),
            answer => return answer,
        }
    }
}

/// Gives a lock back on a fiber.
fn give_back(answer: c_int) -> c_int {
    if answer == 0 && on_fiber() {
        leave_critical_if_inside();
    }
    answer
}

/// Whether `clock` has reached `*deadline`.
///
/// # Safety
/// `deadline` points to a valid timespec.
unsafe fn has_passed(clock: clockid_t, deadline: *const timespec) -> bool {
    let mut now = MaybeUninit::<timespec>::zeroed();
    // SAFETY: `now` is ours; `deadline` is valid by contract.
    unsafe {
        libc::clock_gettime(clock, now.as_mut_ptr());
        let (now, deadline) = (now.assume_init(), *deadline);
        (now.tv_sec, now.tv_nsec) >= (deadline.tv_sec, deadline.tv_nsec)
    }
}

/// Defines a lock's plain, trying and releasing functions.
macro_rules! interpose_lock {
    ($take:ident $take_c:literal, $try:ident $try_c:literal) => {
        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $take(lock: *mut c_void) -> c_int {
            if on_fiber() {
                return insist(|| real!($try_c, new, Lock; lock), || false);
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
    ($($give:ident $give_c:literal),*) => {$(
        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $give(lock: *mut c_void) -> c_int {
            give_back(real!($give_c, new, Lock; lock))
        }
    )*};
}

macro_rules! interpose_timed {
    ($(($timed:ident $timed_c:literal, $clock:ident $clock_c:literal, $try_c:literal)),*) => {$(
        /// # Safety
        /// As POSIX asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $timed(lock: *mut c_void, until: *const timespec) -> c_int {
            if on_fiber() {
                // SAFETY: the caller's timespec.
                let expired = || unsafe { has_passed(libc::CLOCK_REALTIME, until) };
                return insist(|| real!($try_c, new, Lock; lock), expired);
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
                let expired = || unsafe { has_passed(clock, until) };
                return insist(|| real!($try_c, new, Lock; lock), expired);
            }
            real!($clock_c, new, ClockLock; lock, clock, until)
        }
    )*};
}

interpose_lock!(pthread_mutex_lock c"pthread_mutex_lock",
                pthread_mutex_trylock c"pthread_mutex_trylock");
interpose_lock!(pthread_rwlock_rdlock c"pthread_rwlock_rdlock",
                pthread_rwlock_tryrdlock c"pthread_rwlock_tryrdlock");
interpose_lock!(pthread_rwlock_wrlock c"pthread_rwlock_wrlock",
                pthread_rwlock_trywrlock c"pthread_rwlock_trywrlock");
interpose_lock!(pthread_spin_lock c"pthread_spin_lock",
                pthread_spin_trylock c"pthread_spin_trylock");
interpose_release!(pthread_mutex_unlock c"pthread_mutex_unlock",
                   pthread_rwlock_unlock c"pthread_rwlock_unlock",
                   pthread_spin_unlock c"pthread_spin_unlock");
interpose_timed!(
    (pthread_mutex_timedlock c"pthread_mutex_timedlock",
     pthread_mutex_clocklock c"pthread_mutex_clocklock", c"pthread_mutex_trylock"),
    (pthread_rwlock_timedrdlock c"pthread_rwlock_timedrdlock",
     pthread_rwlock_clockrdlock c"pthread_rwlock_clockrdlock", c"pthread_rwlock_tryrdlock"),
    (pthread_rwlock_timedwrlock c"pthread_rwlock_timedwrlock",
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
        _ = wait::wait(cond as usize, || true, || _ = pthread_mutex_unlock(mutex));
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
    // SAFETY: the caller holds the mutex, and `until` is valid.
    let in_time = unsafe {
        wait::wait_until(
            cond as usize,
            || true,
            || _ = pthread_mutex_unlock(mutex),
            || has_passed(clock, until),
        )
    };
    // SAFETY: the caller's mutex.
    match unsafe { pthread_mutex_lock(mutex) } {
        0 if in_time == Some(false) => libc::ETIMEDOUT,
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

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_once(
    control: *mut c_void,
    routine: unsafe extern "C" fn(),
) -> c_int {
    if !on_fiber() {
        return real!(c"pthread_once", new, Once; control, routine);
    }
    enter_critical();
    let answer = real!(c"pthread_once", new, Once; control, routine);
    leave_critical();
    answer
}

/// The interposed functions, named where the runtime needs them, so that the linker takes this
/// module into every program that runs an engine.
pub(crate) fn is_linked() -> bool {
    let functions: [*const (); 5] = [
        crate::futex::syscall as *const (),
        crate::futex::sched_yield as *const (),
        pthread_mutex_lock as *const (),
        pthread_cond_wait as *const (),
        pthread_once as *const (),
    ];
    std::hint::black_box(functions).iter().all(|function| !function.is_null())
}
