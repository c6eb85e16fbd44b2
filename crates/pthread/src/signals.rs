//! Signals: masks of a thread's own, and signals to one thread.
//!
//! The kernel knows kthreads, which run now this thread and now that. So the mask of all kthreads is one: it
//! blocks what every thread of the program blocks, and is set anew on all of them before the call returns
//! that changes it. A signal to the process thus finds a handler as long as one thread lets it through. It
//! runs on whichever kthread the kernel takes, which may be running a thread that blocks it.
//!
//! A signal to one thread is kept until that thread returns from a wait, which it ends.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::follow::{self, GLIBCS, Set, bit, never, set_own_mask};
use crate::handlers;
use crate::pause::{fail, is_ours};
use crate::registry::{self, Control};
use curtail_fiber::is_on_a_stack;
use curtail_libc::real;
use curtail_rt::block::Spin;
use curtail_rt::kernel::kernel;
use libc::{c_int, pthread_t, sigset_t};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many threads block each signal, and how many threads there are.
struct Blocked {
    by: [u32; 64],
    threads: u32,
}

static BLOCKED: Spin<Blocked> = Spin::new(Blocked { by: [0; 64], threads: 0 });

impl Blocked {
    fn change(&mut self, old: Set, new: Set) {
        for (index, by) in self.by.iter_mut().enumerate() {
            *by += (new >> index & 1) as u32;
            *by -= (old >> index & 1) as u32;
        }
    }

    fn by_all(&self) -> Set {
        let all = self.by.iter().enumerate();
        all.fold(0, |set, (index, &by)| set | (Set::from(by == self.threads) << index))
    }
}

/// Before the first kthread is made: blocks everything, so that the runtime's own threads get no signal of
/// the program's. What was blocked before.
pub(crate) fn block_all() -> Set {
    curtail_rt::blocking::keep_signals_out();
    set_own_mask(!GLIBCS)
}

/// A thread is about to exist, with that mask.
pub(crate) fn enter(thread: &Control, mask: Set) {
    let mask = mask & !never();
    thread.mask.store(mask, Ordering::Relaxed);
    update(|blocked| {
        blocked.threads += 1;
        blocked.change(0, mask);
    });
}

/// A thread has ended.
pub(crate) fn leave(thread: &Control) {
    let mask = thread.mask.load(Ordering::Relaxed);
    update(|blocked| {
        blocked.threads -= 1;
        blocked.change(mask, 0);
    });
}

fn change(thread: &Control, mask: Set) {
    let old = thread.mask.swap(mask, Ordering::Relaxed);
    if old != mask {
        update(|blocked| blocked.change(old, mask));
    }
}

fn update(change: impl FnOnce(&mut Blocked)) {
    // A handler may change masks as well.
    let before = set_own_mask(!GLIBCS);
    let has_changed = BLOCKED.with(|blocked| {
        change(blocked);
        let common = blocked.by_all();
        follow::set_common(common)
    });
    match has_changed {
        true => follow::have_all_follow(),
        false => _ = set_own_mask(before),
    }
}

/// # Safety
/// A set, or null.
unsafe fn read_set(set: *const sigset_t) -> Option<Set> {
    // SAFETY: by contract.
    (!set.is_null()).then(|| unsafe { set.cast::<Set>().read() })
}

/// Calls `f` with another mask, if there is one.
pub(crate) fn with_mask<T>(mask: *const sigset_t, f: impl FnOnce() -> T) -> T {
    // SAFETY: the caller's set.
    let (Some(mask), Some(own)) = (unsafe { read_set(mask) }, registry::own()) else {
        return f();
    };
    let before = own.mask.load(Ordering::Relaxed);
    // A handler that runs as soon as the mask lets it ends the wait that begins then.
    let _waiting = handlers::Waiting::begin(own, None);
    change(own, mask & !never());
    deliver(own);
    let result = f();
    change(own, before);
    result
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    type Call = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
    let Some(own) = registry::own().filter(|_| is_ours()) else {
        return real!(c"pthread_sigmask", new, Call; how, set, old);
    };
    let before = own.mask.load(Ordering::Relaxed);
    // SAFETY: the caller's set, if there is one.
    let given = unsafe { read_set(set) };
    let wanted = match (how, given) {
        (_, None) => before,
        (libc::SIG_BLOCK, Some(set)) => before | set,
        (libc::SIG_UNBLOCK, Some(set)) => before & !set,
        (libc::SIG_SETMASK, Some(set)) => set,
        _ => return libc::EINVAL,
    };
    if !old.is_null() {
        // SAFETY: the caller's place, of 128 bytes.
        unsafe {
            libc::sigemptyset(old);
            old.cast::<Set>().write(before);
        }
    }
    change(own, wanted & !never());
    deliver(own);
    0
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's own call.
    match unsafe { pthread_sigmask(how, set, old) } {
        0 => 0,
        error => fail(error),
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    type Call = unsafe extern "C" fn(pthread_t, c_int) -> c_int;
    if !(0..=64).contains(&signal) {
        return libc::EINVAL;
    }
    let Some(control) = registry::find(thread as usize) else {
        return match is_on_a_stack(thread as usize) {
            true if !is_ours() => send_here(signal),
            true => libc::ESRCH,
            false => real!(c"pthread_kill", new, Call; thread, signal),
        };
    };
    if signal == 0 {
        return 0;
    }
    let is_self = registry::own().is_some_and(|own| ptr::eq(own, Arc::as_ptr(&control)));
    // What has no handler concerns the process, whichever thread it is sent to.
    if !is_self && !handlers::has(signal) {
        // SAFETY: a plain call. Where all block it, it waits for whoever asks for it (`sigwait`).
        return match unsafe { libc::kill(libc::getpid(), signal) } {
            0 => 0,
            _ => crate::call::errno(),
        };
    }
    control.pending.fetch_or(bit(signal), Ordering::SeqCst);
    match is_self {
        true => deliver(&control),
        false => handlers::interrupt(&control),
    }
    0
}

/// To the calling kernel thread.
fn send_here(signal: c_int) -> c_int {
    // SAFETY: plain calls.
    let answer = unsafe {
        let me = kernel(libc::SYS_gettid, [0; 6]);
        kernel(libc::SYS_tgkill, [libc::getpid().into(), me, signal.into(), 0, 0, 0])
    };
    if answer == 0 { 0 } else { crate::call::errno() }
}

/// Runs the handlers of the signals that were sent to the calling thread, and that it does not block.
pub(crate) fn deliver(own: &Control) {
    while let pending @ 1.. = own.pending.load(Ordering::SeqCst) & !own.mask.load(Ordering::Relaxed)
    {
        let signal = pending.trailing_zeros() as c_int + 1;
        own.pending.fetch_and(!bit(signal), Ordering::SeqCst);
        send_here(signal);
    }
}

/// # Safety
/// As POSIX asks for: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pause() -> c_int {
    type Call = unsafe extern "C" fn() -> c_int;
    match registry::own().filter(|_| crate::pause::can_wait()) {
        Some(own) => {
            handlers::wait_for_signal(own);
            fail(libc::EINTR)
        }
        None => real!(c"pause", new, Call;),
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigsuspend(mask: *const sigset_t) -> c_int {
    type Call = unsafe extern "C" fn(*const sigset_t) -> c_int;
    match registry::own().filter(|_| crate::pause::can_wait()) {
        Some(own) => {
            with_mask(mask, || handlers::wait_for_signal(own));
            fail(libc::EINTR)
        }
        None => real!(c"sigsuspend", new, Call; mask),
    }
}
