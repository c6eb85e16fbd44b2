//! What runs on fibers and calls the engine below them: the safepoints' hook, waiting, waking.
//!
//! On the engine's thread, on a fiber's stack, while `Engine::run` waits further down: it holds no
//! reference into the engine then.

use crate::clock;
use crate::engine::Engine;
use crate::remote::Remote;
use curtail_fiber::Suspend;
use curtail_fiber::safepoint::Block;
use curtail_policy::JobId;
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

thread_local! {
    static ENGINE: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
}

/// Makes `engine` this thread's; null: it has none any more.
pub(crate) fn set_engine(engine: *mut Engine) {
    ENGINE.set(engine);
}

/// Called by a safepoint of this thread when its time is over, on the interrupted stack.
pub(crate) unsafe extern "C" fn on_safepoint(_: *mut Block) {
    let engine = ENGINE.get();
    if engine.is_null() || !curtail_fiber::on_fiber() {
        return;
    }
    // SAFETY: this thread's engine; `Engine::run`, below us, holds no reference into it.
    if unsafe { (*engine).expired() } {
        curtail_fiber::suspend(Suspend::Preempted);
    }
}

/// A job on this thread, as somebody who will wake it knows it.
#[derive(Clone)]
pub(crate) struct Waker {
    remote: Arc<Remote>,
    job: JobId,
}

impl Waker {
    /// Makes the job ready. Once per [`block`], from any thread.
    pub(crate) fn wake(self) {
        self.remote.wake(self.job);
    }
}

/// The running job's waker; `None` where no fiber of an engine runs.
pub(crate) fn waker() -> Option<Waker> {
    let engine = ENGINE.get();
    if engine.is_null() || !curtail_fiber::on_fiber() {
        return None;
    }
    // SAFETY: this thread's engine, with a running job.
    unsafe {
        let (remote, job) = (*engine).running_job()?;
        Some(Waker { remote, job })
    }
}

/// How long the request that calls has been on a core so far, all its quanta together, in TSC
/// cycles; `None` where no request calls.
#[must_use]
pub fn served_cycles() -> Option<u64> {
    let engine = ENGINE.get();
    if engine.is_null() || !curtail_fiber::on_fiber() {
        return None;
    }
    // SAFETY: this thread's engine, with a running job; nothing else touches it meanwhile.
    unsafe { (*engine).served(clock::now()) }
}

/// Gives up the thread until the job's waker is used. Between handing the waker out and this call
/// the job must not be pre-empted (hold a critical section), so that the wake-up finds it blocked.
#[inline(never)]
pub(crate) fn block() {
    curtail_fiber::suspend(Suspend::Blocked);
}

/// Gives up the thread, and under a central policy the place on the worker, to other jobs; returns
/// when it is this job's turn again.
#[inline(never)]
pub(crate) fn let_others_run() {
    curtail_fiber::suspend(Suspend::Yielded);
}
