//! The quanta of workers that do not time themselves: when the scheduler's driver is to look at a
//! worker, and what it sees there.
//!
//! A look takes a cache line away from the worker, so it is due only when the quantum seen last is
//! over: what started later ends later.

use curtail_policy::{Nanos, WorkerId};

#[derive(Clone, Copy)]
struct Seen {
    /// When the quantum began that was seen last.
    since: Nanos,
    /// When to look again.
    look_at: Nanos,
    /// How long the job that was sent there last may run at a time; `None`: as all.
    quantum: Option<Nanos>,
}

/// The quanta of workers that do not time themselves.
pub struct Watch {
    workers: Vec<Seen>,
    /// What holds for all.
    quantum: Option<Nanos>,
}

/// Where nothing is to be timed, a look is due after this.
const RARELY: Nanos = Nanos::from_micros(1_000);

impl Watch {
    /// Of so many workers, for a policy of that quantum.
    #[must_use]
    pub fn new(workers: usize, quantum: Option<Nanos>) -> Self {
        let never = Seen { since: Nanos::MAX, look_at: Nanos::ZERO, quantum: None };
        Self { workers: vec![never; workers], quantum }
    }

    /// Quanta are of another length from now on.
    pub fn set_quantum(&mut self, quantum: Option<Nanos>) {
        *self = Self::new(self.workers.len(), quantum);
    }

    /// A job was sent to `on`, for so long at a time.
    #[inline]
    pub fn sent(&mut self, now: Nanos, on: WorkerId, quantum: Option<Nanos>) {
        let seen = &mut self.workers[on.index()];
        seen.quantum = quantum;
        if let Some(quantum) = quantum {
            seen.look_at = seen.look_at.min(now + quantum);
        }
    }

    /// Whether it is time to look at what runs on `on`.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: Nanos, on: WorkerId) -> bool {
        now >= self.workers[on.index()].look_at
    }

    /// What runs on `on` began its quantum at `since`; `None`: nothing runs there. Whether that quantum
    /// is over, which the scheduler is to be told ([`Scheduler::quantum_over`](crate::Scheduler)).
    #[must_use]
    pub fn look(&mut self, now: Nanos, on: WorkerId, since: Option<Nanos>) -> bool {
        let seen = &mut self.workers[on.index()];
        let Some(quantum) = seen.quantum.or(self.quantum) else {
            seen.look_at = now + RARELY;
            return false;
        };
        let Some(since) = since else {
            // The worker may begin by itself.
            seen.look_at = now + Nanos(quantum.0 / 8);
            return false;
        };
        if since != seen.since {
            (seen.since, seen.look_at) = (since, since + quantum);
            if now < seen.look_at {
                return false;
            }
        }
        seen.look_at = now + quantum;
        true
    }
}
