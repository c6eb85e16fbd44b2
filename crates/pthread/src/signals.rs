//! Signals: masks of a thread's own, and signals to one thread.
//!
//! The kernel knows kthreads, which run now this thread and now that. So the mask of all kthreads is one: it
//! blocks what every thread of the program blocks, and is set anew on all of them before the call returns
//! that changes it. A signal to the process thus finds a handler as long as one thread lets it through. It
//! runs on whichever kthread the kernel takes, which may be running a thread that blocks it.
//!
//! A signal to one thread is kept until that thread returns from a wait, which it ends.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::word;
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
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// A set of signals, as the kernel has it: number 1 is the lowest bit.
pub(crate) type Set = u64;

pub(crate) const fn bit(signal: c_int) -> Set {
    1 << (signal - 1)
}

/// glibc's own two, which no thread may block.
const GLIBCS: Set = bit(32) | bit(33);

/// How many threads block each signal, and how many threads there are.
struct Blocked {
    by: [u32; 64],
    threads: u32,
}

static BLOCKED: Spin<Blocked> = Spin::new(Blocked { by: [0; 64], threads: 0 });
/// What all kthreads block: everything, until the first thread begins.
static COMMON: AtomicU64 = AtomicU64::new(!0);
/// The last time that all kthreads were told to follow [`COMMON`], and how many have not yet: each in
/// half of the bits.
static ROUND: AtomicU64 = AtomicU64::new(0);
/// How long a change of the mask waits for kthreads that do not follow: their core may be another
/// program's.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the runtime uses itself, and what can't be blocked.
fn never() -> Set {
    let first = libc::SIGRTMIN();
    let own = (first..first + 8).fold(0, |all, signal| all | bit(signal));
    own | GLIBCS | bit(libc::SIGKILL) | bit(libc::SIGSTOP)
}

/// Tells a kthread to follow.
fn follow_signal() -> c_int {
    libc::SIGRTMIN() + 6
}

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

fn set_own_mask(mask: Set) -> Set {
    let mut old: Set = 0;
    let arguments = [libc::SIG_SETMASK.into(), word(&raw const mask), word(&raw mut old), 8, 0, 0];
    // SAFETY: our own words.
    unsafe { kernel(libc::SYS_rt_sigprocmask, arguments) };
    old
}

/// Before the first kthread is made: blocks everything, so that the runtime's own threads get no signal of
/// the program's. What was blocked before.
pub(crate) fn block_all() -> Set {
    curtail_rt::blocking::keep_signals_out();
    set_own_mask(!GLIBCS)
}

/// The mask of a kthread that has just begun, and whose number others know: who changes the common mask
/// afterwards tells it to follow.
pub(crate) fn take_common() {
    fence(Ordering::SeqCst);
    loop {
        let common = COMMON.load(Ordering::SeqCst);
        set_own_mask(common & !never());
        // A later one may have been followed before this one was set.
        if COMMON.load(Ordering::SeqCst) == common {
            break;
        }
    }
}

/// Calls `f` with the mask of a thread of the program's, on a plain thread that works for it: for what starts
/// children.
pub(crate) fn with_programs_mask<T>(mask: Set, f: impl FnOnce() -> T) -> T {
    let before = set_own_mask(mask);
    let result = f();
    set_own_mask(before);
    result
}

/// Before the first kthread is made: what has one follow.
pub(crate) fn prepare() {
    // SAFETY: the action is fully initialised, and its handler has this signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = follow as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        handlers::set(follow_signal(), &raw const action);
    }
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
        COMMON.swap(common, Ordering::SeqCst) != common
    });
    match has_changed {
        true => have_all_follow(),
        false => _ = set_own_mask(before),
    }
}

/// Sets the mask of all kthreads, and waits until each has.
#[cold]
fn have_all_follow() {
    // SAFETY: no arguments, always succeed.
    let (process, me) = unsafe { (libc::getpid(), kernel(libc::SYS_gettid, [0; 6]) as c_int) };
    let mut tids = [0; 64];
    let count = curtail_rt::thread::kthread_tids(&mut tids);
    let others = || tids[..count].iter().filter(|&&tid| tid != me);
    // Whoever waits for an earlier round waits for this one: it sets what that would have.
    let begin = |round: u64| Some(((round >> 32) + 1) << 32 | others().count() as u64);
    let begun = ROUND.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin);
    let round = (begun.unwrap_or(0) >> 32) as u32 + 1;
    // Before it is waited for the others, one of which may wait for this one.
    take_common();
    let until = Instant::now() + PATIENCE;
    for &tid in others() {
        // SAFETY: a signal that has a handler, to a thread of this process or to none, with information
        // that the kernel reads in full.
        let send = || unsafe {
            let mut info: Queued = std::mem::zeroed();
            (info.code, info.value) = (libc::SI_QUEUE, round);
            let signal = follow_signal().into();
            let arguments = [process.into(), tid.into(), signal, word(&raw const info), 0, 0];
            kernel(libc::SYS_rt_tgsigqueueinfo, arguments)
        };
        let mut sent = send();
        // So many signals wait already: there is room when some have come.
        while sent == -i64::from(libc::EAGAIN) && Instant::now() < until {
            // SAFETY: no arguments.
            unsafe { kernel(libc::SYS_sched_yield, [0; 6]) };
            sent = send();
        }
        if sent != 0 {
            count_follower(round);
        }
    }
    while ROUND.load(Ordering::SeqCst) as u32 != 0 && Instant::now() < until {
        // SAFETY: no arguments.
        unsafe { kernel(libc::SYS_sched_yield, [0; 6]) };
    }
}

/// What is sent with a signal, as the kernel has it.
#[repr(C)]
struct Queued {
    signal: c_int,
    error: c_int,
    code: c_int,
    _sender: [u32; 3],
    value: u32,
    _rest: [u32; 25],
}

/// One kthread fewer is behind in that round, if it is still the last.
fn count_follower(round: u32) {
    let one_fewer = |state: u64| {
        let is_this = (state >> 32) as u32 == round && state as u32 != 0;
        is_this.then(|| state - 1)
    };
    let _ = ROUND.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_fewer);
}

/// On a kthread: from its return on, the mask is the common one.
extern "C" fn follow(_: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's own context and information.
    let round = unsafe {
        return_with_common(context);
        (*info.cast::<Queued>()).value
    };
    count_follower(round);
}

/// From the return of the handler that calls on, the mask is the common one.
///
/// # Safety
/// The handler's context, on a kthread.
pub(crate) unsafe fn return_with_common(context: *mut libc::c_void) {
    // SAFETY: by contract: the kernel takes the mask from there at the return; its sets have eight bytes.
    unsafe {
        let mask = &raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        mask.cast::<Set>().write(COMMON.load(Ordering::SeqCst) & !never());
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
