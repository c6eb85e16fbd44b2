//! Threads come and go: `pthread_create`, `pthread_join` and their kin.
//!
//! A thread's number is the thread pointer of its own thread-locals, which is what glibc's
//! `pthread_self` returns.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::follow;
use crate::pause::{LONGEST, LOOK, insist, is_ours};
use crate::registry::{self, Control, Fate};
use crate::schedule;
use crate::signals;
use curtail_libc::real;
use curtail_libc::until::Until;
use curtail_rt::{Builder, JoinHandle};
use libc::{c_int, c_void, clockid_t, pthread_attr_t, pthread_t, timespec};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) type Routine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    fn curtail_pthread_call(
        routine: Routine,
        argument: *mut c_void,
        result: *mut *mut c_void,
    ) -> c_int;
}

/// Threads that have not ended, the first one included.
static ALIVE: AtomicUsize = AtomicUsize::new(1);
/// The first thread has ended by `pthread_exit`: the process ends with the last one.
static FIRST_ENDED: AtomicBool = AtomicBool::new(false);

/// What a thread is to run.
struct Work(Routine, *mut c_void);

// SAFETY: pthread's own contract: the argument is for the new thread.
unsafe impl Send for Work {}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    type Create =
        unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Routine, *mut c_void) -> c_int;
    if !is_ours() {
        return real!(c"pthread_create", new, Create; thread, attributes, routine, argument);
    }
    // SAFETY: the caller's attributes, or none.
    let wanted = match unsafe { schedule::wanted(attributes) } {
        Ok(wanted) => wanted,
        Err(error) => return error,
    };
    let control = Control::new(wanted.detached);
    let mut builder = Builder::new();
    if let Some(bytes) = wanted.stack_size {
        builder = builder.stack_size(bytes);
    }
    let (its, work) = (control.clone(), Work(routine, argument));
    let mask = registry::own().map_or(0, |own| own.mask.load(Ordering::Relaxed));
    signals::enter(&control, mask);
    ALIVE.fetch_add(1, Ordering::Relaxed);
    let started = builder.spawn_known(
        move || live(&its, work),
        |pointer| {
            control.id.store(pointer, Ordering::Relaxed);
            // SAFETY: the caller's place.
            unsafe { *thread = pointer as pthread_t };
            registry::insert(control.clone());
        },
    );
    match started {
        Ok(handle) => {
            keep(&control, handle);
            0
        }
        Err(_) => {
            signals::leave(&control);
            ALIVE.fetch_sub(1, Ordering::Relaxed);
            libc::EAGAIN
        }
    }
}

/// A thread has started: its handle is for who joins it.
fn keep(control: &Control, handle: JoinHandle<()>) {
    // A detached one's is dropped after the lock.
    let _dropped = control.state.with(|state| match state.fate {
        Fate::Detached => Some(handle),
        _ => state.handle.replace(handle),
    });
}

/// A thread's life.
fn live(control: &Arc<Control>, Work(routine, argument): Work) {
    registry::set_own(Some(control));
    call(control, routine, argument);
    end_in_child(control);
    registry::set_own(None);
    finish(control);
    leave();
}

/// Calls a thread's routine, and keeps its result.
fn call(control: &Control, routine: Routine, argument: *mut c_void) {
    let mut result = ptr::null_mut();
    // SAFETY: the program's routine and its argument.
    let exited = unsafe { curtail_pthread_call(routine, argument, &raw mut result) } != 0;
    if !exited {
        control.value.store(result, Ordering::Relaxed);
    }
}

fn finish(control: &Control) {
    signals::leave(control);
    let gone = control.state.with(|state| {
        state.done = true;
        state.fate != Fate::Joinable
    });
    if gone {
        registry::remove(control);
    }
    control.ended.store(1, Ordering::SeqCst);
    curtail_rt::wait::wake_all(&raw const control.ended as usize);
}

/// A thread has ended. The last one ends the process where the first has left that to it.
fn leave() {
    if ALIVE.fetch_sub(1, Ordering::SeqCst) == 1 && FIRST_ENDED.load(Ordering::SeqCst) {
        // SAFETY: as at the end of `main`.
        unsafe { libc::exit(0) };
    }
}

/// The first thread's life: `main`. Returns if that returns.
pub(crate) fn live_first(routine: Routine, argument: *mut c_void, mask: follow::Set) {
    let control = Control::new(false);
    // SAFETY: no arguments.
    let me = unsafe { libc::pthread_self() } as usize;
    control.id.store(me, Ordering::Relaxed);
    registry::insert(control.clone());
    registry::set_own(Some(&control));
    signals::enter(&control, mask);
    let mut result = ptr::null_mut();
    // SAFETY: the program's `main`, and its arguments.
    let exited = unsafe { curtail_pthread_call(routine, argument, &raw mut result) } != 0;
    if exited {
        end_in_child(&control);
        finish(&control);
        FIRST_ENDED.store(true, Ordering::SeqCst);
        leave();
        loop {
            curtail_rt::park();
        }
    }
}

/// The thread that a fork's child has is not Curtail's any more: its end is the process's, once the kernel's
/// threads that it has started have ended. One of these may wait for it. Where there is no `/proc`, it waits
/// for none.
fn end_in_child(control: &Control) {
    if is_ours() {
        return;
    }
    curtail_fiber::end_thread_locals();
    // Whoever joined it before the fork is not here; somebody else may.
    control.state.with(|state| {
        if state.fate == Fate::Joining {
            state.fate = Fate::Joinable;
        }
    });
    finish(control);
    let has_others =
        || std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1);
    let mut look = LOOK;
    while has_others() {
        std::thread::sleep(look);
        look = (look * 2).min(LONGEST);
    }
    // SAFETY: as the last thread's end does.
    unsafe { libc::exit(0) };
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    type Exit = unsafe extern "C-unwind" fn(*mut c_void) -> !;
    if let Some(own) = registry::own() {
        own.value.store(value, Ordering::Relaxed);
    }
    real!(c"pthread_exit", new, Exit; value)
}

/// The calling thread is to wait for that one's end, or to take it if it has ended.
fn claim(control: &Control) -> Result<(), c_int> {
    if registry::own().is_some_and(|own| ptr::eq(own, control)) {
        return Err(libc::EDEADLK);
    }
    let ended = control.state.with(|state| match state.fate {
        Fate::Joinable => {
            state.fate = Fate::Joining;
            Ok(state.done)
        }
        // Whoever waits for the thread that has forked is not in the child.
        Fate::Joining if !is_ours() => Ok(state.done),
        Fate::Joining | Fate::Detached => Err(libc::EINVAL),
    })?;
    if ended {
        registry::remove(control);
    }
    Ok(())
}

/// The calling thread waits no longer; true: it has ended just now, and is the caller's to take.
fn give_back(control: &Control) -> bool {
    control.state.with(|state| {
        if !state.done {
            state.fate = Fate::Joinable;
        }
        state.done
    })
}

/// Waits until a claimed thread has left its stack, and answers with its result.
fn take(control: &Control, value: *mut *mut c_void) {
    loop {
        match control.state.with(|state| state.handle.take()) {
            // Its routine can't panic: it is the program's, in C.
            Some(handle) if is_ours() => break drop(handle.join()),
            // It has ended in another process; what it left is never looked at here.
            Some(handle) => std::mem::forget(handle),
            None if is_first(control) || !is_ours() => {
                break wait_for_end(control, None).unwrap_or_default();
            }
            // The thread that made it has still to leave the handle.
            None => curtail_rt::yield_now(),
        }
    }
    if !value.is_null() {
        // SAFETY: the caller's place.
        unsafe { *value = control.value.load(Ordering::Relaxed) };
    }
}

fn is_first(control: &Control) -> bool {
    crate::begin::first() == control.id.load(Ordering::Relaxed)
}

fn wait_for_end(control: &Control, until: Option<Until>) -> Result<(), c_int> {
    let ended = || control.ended.load(Ordering::SeqCst) != 0;
    insist(&raw const control.ended as usize, ended, until, false)
}

/// The thread, or whether it is the C library's to say.
fn look_up(thread: pthread_t) -> Result<Arc<Control>, Foreign> {
    registry::find(thread as usize).ok_or(match curtail_fiber::is_on_a_stack(thread as usize) {
        true => Foreign::Gone,
        false => Foreign::Plain,
    })
}

/// Not a thread that is known here.
pub(crate) enum Foreign {
    /// It was one.
    Gone,
    Plain,
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    type Join = unsafe extern "C" fn(pthread_t, *mut *mut c_void) -> c_int;
    match look_up(thread) {
        Ok(control) => match claim(&control) {
            Ok(()) => {
                take(&control, value);
                0
            }
            Err(error) => error,
        },
        Err(Foreign::Gone) => libc::ESRCH,
        Err(Foreign::Plain) if is_ours() => {
            let value = SendPointer(value);
            curtail_rt::blocking(move || real!(c"pthread_join", new, Join; thread, { value }.get()))
        }
        Err(Foreign::Plain) => real!(c"pthread_join", new, Join; thread, value),
    }
}

/// The caller's place, for a thread that works for the caller while that waits.
struct SendPointer(*mut *mut c_void);

// SAFETY: see the type.
unsafe impl Send for SendPointer {}

impl SendPointer {
    fn get(self) -> *mut *mut c_void {
        self.0
    }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    type Join = unsafe extern "C" fn(pthread_t, *mut *mut c_void) -> c_int;
    match look_up(thread) {
        Ok(control) if control.ended.load(Ordering::SeqCst) == 0 => libc::EBUSY,
        // SAFETY: the caller's own call.
        Ok(_) => unsafe { pthread_join(thread, value) },
        Err(Foreign::Gone) => libc::ESRCH,
        Err(Foreign::Plain) => real!(c"pthread_tryjoin_np", new, Join; thread, value),
    }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_timedjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's own call.
    unsafe { pthread_clockjoin_np(thread, value, libc::CLOCK_REALTIME, until) }
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_clockjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    type Join =
        unsafe extern "C" fn(pthread_t, *mut *mut c_void, clockid_t, *const timespec) -> c_int;
    let control = match look_up(thread) {
        Ok(control) => control,
        Err(Foreign::Gone) => return libc::ESRCH,
        Err(Foreign::Plain) => {
            return real!(c"pthread_clockjoin_np", new, Join; thread, value, clock, until);
        }
    };
    // SAFETY: the caller's time, if there is one.
    let until = unsafe { until.as_ref() }.map(|until| (clock, *until));
    if let Err(error) = claim(&control) {
        return error;
    }
    if let Err(error) = wait_for_end(&control, until)
        && !give_back(&control)
    {
        return error;
    }
    take(&control, value);
    0
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    type Detach = unsafe extern "C" fn(pthread_t) -> c_int;
    let control = match look_up(thread) {
        Ok(control) => control,
        Err(Foreign::Gone) => return libc::ESRCH,
        Err(Foreign::Plain) => return real!(c"pthread_detach", new, Detach; thread),
    };
    let left = control.state.with(|state| match state.fate {
        Fate::Joinable => {
            state.fate = Fate::Detached;
            Ok((state.done, state.handle.take()))
        }
        Fate::Joining | Fate::Detached => Err(libc::EINVAL),
    });
    match left {
        Ok((done, handle)) => {
            if done {
                registry::remove(&control);
            }
            drop(handle);
            0
        }
        Err(error) => error,
    }
}
