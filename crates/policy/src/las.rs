//! Least attained service first on one worker: the job that has run least runs next, for a quantum;
//! among equals, the one that became ready first. Owned by the worker's thread. O(log jobs on this
//! worker) each time that a job becomes ready or is picked (a binary heap).

use crate::{CorePolicy, Job, Nanos};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A ready job; the greatest is the next to run.
struct Entry {
    job: Job,
    /// What it has attained, or as much as those have that it lets go first.
    rank: Nanos,
    seq: u64,
}

impl Entry {
    fn key(&self) -> (Nanos, u64) {
        (self.rank, self.seq)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

/// Least attained service first; see the module's head.
pub struct Las {
    ready: BinaryHeap<Entry>,
    /// No rank in `ready` is greater.
    last: Nanos,
    next_seq: u64,
    quantum: Option<Nanos>,
}

impl Las {
    /// With room for `jobs`.
    #[must_use]
    pub fn new(jobs: usize, quantum: Option<Nanos>) -> Self {
        Self { ready: BinaryHeap::with_capacity(jobs), last: Nanos::ZERO, next_seq: 0, quantum }
    }

    fn push(&mut self, job: Job, rank: Nanos) {
        self.last = if self.ready.is_empty() { rank } else { self.last.max(rank) };
        self.ready.push(Entry { job, rank, seq: self.next_seq });
        self.next_seq += 1;
    }
}

impl CorePolicy for Las {
    fn quantum(&self) -> Option<Nanos> {
        self.quantum
    }

    fn ready(&mut self, _now: Nanos, job: Job) {
        self.push(job, job.attained);
    }

    fn yielded(&mut self, _now: Nanos, job: Job) {
        let last = if self.ready.is_empty() { Nanos::ZERO } else { self.last };
        self.push(job, job.attained.max(last));
    }

    fn pick(&mut self, _now: Nanos) -> Option<(Job, Option<Nanos>)> {
        let next = self.ready.pop()?;
        Some((next.job, self.quantum))
    }

    fn len(&self) -> usize {
        self.ready.len()
    }

    /// A waiting job that has run for as long goes first, since it became ready earlier.
    fn wants_place(&self, attained: Nanos) -> bool {
        self.ready.peek().is_some_and(|first| first.rank <= attained)
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassId, JobId};

    #[test]
    fn a_place_is_wanted_by_who_has_run_no_more() {
        let mut las = Las::new(4, Some(Nanos(100)));
        assert!(!las.wants_place(Nanos(900)), "no job is there");
        for (id, attained) in [(0, 300), (1, 200)] {
            let job = Job::new(JobId(id), ClassId(0), Nanos::ZERO);
            las.ready(Nanos::ZERO, Job { attained: Nanos(attained), ..job });
        }
        let wanted = [199, 200, 201].map(|attained| las.wants_place(Nanos(attained)));
        assert_eq!(wanted, [false, true, true], "of equals, who was ready first");
    }

    #[test]
    fn who_yields_goes_behind_all_that_are_ready() {
        let mut las = Las::new(4, Some(Nanos(100)));
        let job = |id, attained| Job {
            attained: Nanos(attained),
            ..Job::new(JobId(id), ClassId(0), Nanos::ZERO)
        };
        for (id, attained) in [(0, 300), (1, 200)] {
            las.ready(Nanos::ZERO, job(id, attained));
        }
        las.yielded(Nanos::ZERO, job(2, 10));
        las.yielded(Nanos::ZERO, job(3, 0));
        las.ready(Nanos::ZERO, job(4, 50));
        let order = std::iter::from_fn(|| las.pick(Nanos::ZERO)).map(|(job, _)| job.id.0);
        assert_eq!(order.collect::<Vec<_>>(), [4, 1, 0, 2, 3]);
        // What it lets go first is forgotten with the last of them.
        las.yielded(Nanos::ZERO, job(5, 10));
        las.ready(Nanos::ZERO, job(6, 9));
        assert_eq!(las.pick(Nanos::ZERO).map(|(job, _)| job.id), Some(JobId(6)));
    }
}
