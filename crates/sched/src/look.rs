//! Jobs that wait without blocking: for a lock that any job or thread may hold, or with a time
//! limit. They gave up their places and look again soon.
//!
//! To the policy such a job blocks. It is woken a little later: when no other job waits for a
//! place, or when another job has had one. If it were queued at once, a policy that ranks jobs
//! might give it its place back every time, and never run the job that it waits for.
//!
//! The invariant: what is in `looking` is blocked, for the policy and in the table of jobs.

use curtail_policy::{JobId, Nanos, WorkerId};
use std::collections::VecDeque;

/// A job that yielded looks again after this at the earliest: meanwhile the place is the others'.
pub const PAUSE: Nanos = Nanos::from_micros(5);
/// Whatever the others do, it looks again after this.
pub const PATIENCE: Nanos = Nanos::from_micros(500);

/// A job that yielded.
#[derive(Clone, Copy, Debug)]
struct Looking {
    job: JobId,
    on: WorkerId,
    /// When it did.
    since: Nanos,
    /// What others had done by then.
    progress: u64,
}

/// All of them, in the order in which they yielded.
pub(crate) struct Lookout {
    looking: VecDeque<Looking>,
    /// How often a job has left its place otherwise than by giving way.
    progress: u64,
}

impl Lookout {
    /// For at most so many jobs.
    pub(crate) fn new(jobs: usize) -> Self {
        Self { looking: VecDeque::with_capacity(jobs), progress: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.looking.is_empty()
    }

    /// A job has left its place on a worker.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.progress += 1;
    }

    pub(crate) fn yielded(&mut self, now: Nanos, on: WorkerId, job: JobId) {
        self.looking.push_back(Looking { job, on, since: now, progress: self.progress });
    }

    /// When the first of them looks again, if nothing happens before; `others` wait for places.
    pub(crate) fn next(&self, others: bool) -> Option<Nanos> {
        let first = self.looking.front()?;
        let may = first.progress != self.progress || !others;
        Some(first.since + if may { PAUSE } else { PATIENCE })
    }

    /// Takes out the first, if it looks again now.
    pub(crate) fn take(&mut self, now: Nanos, others: bool) -> Option<(JobId, WorkerId)> {
        self.next(others).filter(|at| *at <= now)?;
        self.looking.pop_front().map(|first| (first.job, first.on))
    }
}
