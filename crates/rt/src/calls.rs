//! What runs on fibers and calls the engine below them: the safepoints' hook, waiting, waking.
//!
//! On the engine's thread, on a fiber's stack, while the engine waits further down: it holds no
//! reference into itself then.

use crate::cancel::Cause;
use crate::clock;
use crate::context::Facts;
use crate::thread::{KThread, Tcb};
use curtail_fiber::Suspend;
use curtail_fiber::safepoint::{Block, Safepoint};
use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

#[cfg(not(test))]
unsafe extern "Rust" {
    /// Of `curtail-libc`, which uses this crate: readies the functions of C that it interposes, for this
    /// kthread.
    safe fn curtail_libc_prepare_kthread();
}

/// This crate's own tests do without.
#[cfg(test)]
fn curtail_libc_prepare_kthread() {}

thread_local! {
    /// The process's panic hook runs on this thread.
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// An engine, for the request that runs on it and calls from its own stack.
#[derive(Clone, Copy)]
pub struct EngineHooks {
    /// The first argument of each function.
    ///
    /// Each must be called on the engine's thread, while a request or a thread runs there, and the caller
    /// holds no reference into the engine.
    pub engine: *mut (),
    /// The quantum of the request is over: whether it is to give up the thread.
    pub expired: unsafe fn(*mut ()) -> bool,
    /// Of a thread: whether requests want the processor.
    pub waits: unsafe fn(*mut ()) -> bool,
    /// For how many cycles it has been on a core so far; until now (TSC).
    pub served: unsafe fn(*mut (), u64) -> Option<u64>,
    /// Why it is cancelled, as far as can be seen now; whose control block that is.
    pub cause: unsafe fn(*mut (), &Tcb) -> Option<Cause>,
    /// What is known of it.
    pub facts: unsafe fn(*mut ()) -> Option<Facts>,
    /// By the kthread's own loop, while nothing runs: runs what is ready, requests and threads, until
    /// nothing is or the kthread is asked for something; true: something ran.
    pub serve: unsafe fn(*mut ()) -> bool,
    /// Likewise: whether `serve` would find something that the kthread does not see by itself.
    pub has_reason: unsafe fn(*mut ()) -> bool,
    /// Likewise: the kthread is about to sleep. For how long at most.
    pub rests: unsafe fn(*mut ()) -> Option<Duration>,
    /// Likewise: calls what runs or sleeps without the engine.
    pub away: unsafe fn(*mut (), &mut dyn FnMut()),
    /// From within `away`: how many requests are ready that only this kthread can run.
    pub stranded: unsafe fn(*mut ()) -> usize,
    /// Likewise: the kthread has given its core back, or has one again.
    pub moved: unsafe fn(*mut ()),
    /// While a batch thread runs: the word that changes when something is sent to the engine, and what it
    /// is until then.
    pub sent: unsafe fn(*mut ()) -> (*const AtomicU32, u32),
}

/// The calling kthread's engine, which it has since a request with a job's number runs.
#[inline]
fn hooks() -> EngineHooks {
    KThread::here().engine.get().expect("jobs run on engines")
}

/// Of a fork's child, which has the thread that forked, in the middle of a job, and no other: nothing
/// yields or waits on fibers there, or it would go on with this thread's other jobs, which are its
/// parent's.
fn keep_to_one_job_in_children() {
    extern "C" fn in_child() {
        crate::forked::note_child();
        // SAFETY: this handler runs on the one thread that the child has, before anything else.
        unsafe {
            crate::blocking::begin_anew();
            crate::wait::begin_anew();
        }
        // The block of a kthread's safepoints may lie in such memory.
        Safepoint::this_thread().keep_block(curtail_shm::leave_to_parent);
        if KThread::try_here().is_some() {
            KThread::forget_here();
            Safepoint::this_thread().set_hook(None);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler touches the calling thread's own words, and makes system calls.
        let error = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(error, 0, "no memory for a handler of forks");
    });
}

/// Has this thread's safepoints call [`on_safepoint`].
pub fn hook_safepoints() {
    curtail_libc_prepare_kthread();
    Safepoint::this_thread().set_hook(Some(on_safepoint));
    keep_to_one_job_in_children();
    crate::panics::install();
}

/// Called by a safepoint of this thread when its time is over, on the interrupted stack.
pub(crate) unsafe extern "C" fn on_safepoint(_: *mut Block) {
    let Some(tcb) = KThread::current_tcb() else { return };
    // Between a failed call and a look at why it failed, others may run.
    let errno = errno();
    match tcb.request() {
        None => KThread::here().expired(tcb),
        // Time is not kept for what is asked about a request.
        Some(job) if Tcb::is_aside(job) => {}
        Some(_) => {
            let hooks = hooks();
            // SAFETY: this thread's engine, since a request runs; below us it holds no reference into
            // itself.
            if unsafe { (hooks.expired)(hooks.engine) } {
                curtail_fiber::suspend(Suspend::Preempted);
            }
        }
    }
    set_errno(errno);
}

#[inline(never)]
fn errno() -> i32 {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// Of whatever thread calls: after a suspension that may be another one.
#[inline(never)]
fn set_errno(errno: i32) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// How long the request that calls has been on a core so far, all its quanta together, in TSC
/// cycles; `None` where no request calls.
#[must_use]
pub fn served_cycles() -> Option<u64> {
    let tcb = KThread::current_tcb()?;
    if let Some(late) = tcb.late() {
        return Some(late.ran(clock::now()));
    }
    tcb.request().filter(|job| !Tcb::is_aside(*job))?;
    let hooks = hooks();
    // SAFETY: this thread's engine, with a running job.
    unsafe { (hooks.served)(hooks.engine, clock::now()) }
}

/// Whether the request that the caller works for is cancelled, and why.
pub(crate) fn cause() -> Option<Cause> {
    let tcb = KThread::current_tcb()?;
    let told = tcb.cancel.cause();
    if told.is_some() || tcb.aside().is_some() {
        return told;
    }
    let here = KThread::here();
    if tcb.late().is_none() && tcb.request().is_none() {
        return tcb.case.cause();
    }
    // A notice may have come while it ran.
    if here.has_mail() {
        here.take_in();
    }
    match tcb.late() {
        Some(late) => here.cause_of(late),
        None => {
            let hooks = hooks();
            // SAFETY: this thread's engine, since a request runs; nothing else touches it meanwhile.
            unsafe { (hooks.cause)(hooks.engine, tcb) }
        }
    }
}

/// What is known of the request that runs, whose control block that is; `None`: it is a thread's.
pub(crate) fn facts(tcb: &Tcb) -> Option<Facts> {
    if let Some(late) = tcb.late() {
        return Some(late.facts());
    }
    tcb.request().filter(|job| !Tcb::is_aside(*job))?;
    let hooks = hooks();
    // SAFETY: this thread's engine, since a request runs; nothing else touches it meanwhile.
    unsafe { (hooks.facts)(hooks.engine) }
}

/// Gives up the thread until the request is made ready. Since it can be, it must not be pre-empted
/// (hold a critical section), so that it is not ready and waiting at once.
pub(crate) fn block_request() {
    curtail_fiber::suspend(Suspend::Blocked);
}

/// Gives up the thread, and under a central policy the place on the worker, to other jobs; returns
/// when it is this job's turn again.
pub(crate) fn yield_request() {
    curtail_fiber::suspend(Suspend::Yielded);
}
