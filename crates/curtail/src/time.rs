//! Time for threads: [`sleep`], [`timeout`], [`interval`].

use crate::block::{self, Deadline, Queue, Wait};
use crate::thread::KThread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// The calling thread sleeps for `duration`, at least. A plain thread sleeps in the kernel.
pub fn sleep(duration: Duration) {
    if KThread::current_tcb().is_none() {
        return std::thread::sleep(duration);
    }
    let nobody_wakes = Queue::new();
    let deadline = Deadline::after(duration);
    let ended = block::wait_in(&nobody_wakes, 0, deadline, || true, || {});
    if ended == Wait::Expired && block::over_limit() {
        block::end_by_limit();
    }
}

/// The time of a [`timeout`] was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time was over")
    }
}

impl std::error::Error for Elapsed {}

/// What a wait unwinds with when the time of the timeout around it is over.
struct Unwound;

/// Ends the closure of the innermost timeout that is over.
pub(crate) fn elapse() -> ! {
    if let Some(tcb) = KThread::current_tcb() {
        // Destructors on the way may wait.
        tcb.limit.set(crate::thread::NO_LIMIT);
    }
    resume_unwind(Box::new(Unwound));
}

/// Runs `f`, and ends it if it waits when `duration` is over: the wait unwinds, so that destructors
/// run, up to here. `f` is not ended while it computes; a wait that began in time and ended in time
/// is not undone.
///
/// # Errors
/// [`Elapsed`].
///
/// # Panics
/// If `f` panics. A program that is compiled with `panic = "abort"` aborts when a time is over.
pub fn timeout<F: FnOnce() -> T, T>(duration: Duration, f: F) -> Result<T, Elapsed> {
    let Some(tcb) = KThread::current_tcb() else {
        panic!("curtail::time::timeout needs a runtime: see curtail::run");
    };
    let outer = tcb.limit.get();
    let own = Deadline::after(duration).map_or(u64::MAX, |deadline| deadline.0);
    tcb.limit.set(outer.min(own));
    let result = catch_unwind(AssertUnwindSafe(|| crate::user::call(f)));
    tcb.limit.set(outer);
    match result {
        Ok(value) => Ok(value),
        Err(payload) if payload.is::<Unwound>() => {
            if block::over_limit() {
                resume_unwind(payload); // An outer one is over as well.
            }
            Err(Elapsed(()))
        }
        Err(payload) => resume_unwind(payload),
    }
}
