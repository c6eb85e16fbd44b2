//! Time for threads: [`sleep`], [`timeout`], [`interval`].

use crate::block::{self, Deadline, Queue, Wait};
use crate::thread::KThread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

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

/// The calling thread sleeps until `instant`, at least; not at all if that has passed.
pub fn sleep_until(instant: Instant) {
    loop {
        let left = instant.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left);
    }
}

/// Ticks that come `period` after each other; the first comes one period from now.
///
/// # Panics
/// If `period` is zero.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of zero");
    Interval { last: Instant::now(), period }
}

/// See [`interval`].
#[derive(Clone, Debug)]
pub struct Interval {
    /// When the last tick was due that was waited for or missed.
    last: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick, and returns how many were missed. If one or more have come since
    /// the last call, returns at once: the latest of them is this call's, those before it were
    /// missed. The ticks to come stay where they are, so an interval does not drift.
    pub fn tick(&mut self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.last);
        let passed = since.as_nanos() / self.period.as_nanos();
        if passed == 0 {
            self.last += self.period;
            sleep_until(self.last);
            return 0;
        }
        // In steps that a multiplication of durations can take.
        let mut left = passed;
        while left > 0 {
            let step = u32::try_from(left).unwrap_or(u32::MAX);
            self.last += self.period * step;
            left -= u128::from(step);
        }
        u64::try_from(passed - 1).unwrap_or(u64::MAX)
    }

    /// The time from one tick to the next.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Begins anew: the next tick comes one period from now.
    pub fn reset(&mut self) {
        self.last = Instant::now();
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
        tcb.limit.set(Deadline::NEVER);
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
    let own = Deadline::after(duration).unwrap_or(Deadline::NEVER);
    tcb.limit.set(outer.min(own));
    let result = catch_unwind(AssertUnwindSafe(|| crate::user::call(f)));
    tcb.limit.set(outer);
    match result {
        Ok(value) => Ok(value),
        Err(payload) if payload.is::<Unwound>() => {
            if tcb.limit.get().has_passed() {
                resume_unwind(payload); // An outer one is over as well.
            }
            Err(Elapsed(()))
        }
        Err(payload) => resume_unwind(payload),
    }
}
