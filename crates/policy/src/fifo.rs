//! First come, first served on one worker: run to completion (FCFS), or a quantum each in turn,
//! back to the tail (processor sharing, Tiny Quanta §4).
//!
//! Owned by the worker's thread. It is also the inbox of a worker under a central policy. O(1) each
//! time that a job becomes ready or is picked.

use crate::{CorePolicy, Job, Nanos};
use std::collections::VecDeque;

/// A FIFO queue of ready jobs; see the module's head.
pub struct Fifo {
    queue: VecDeque<Job>,
    shares: bool,
    quantum: Option<Nanos>,
}

impl Fifo {
    /// Runs each job to completion, in the order in which they became ready; a quantum set later
    /// has no effect.
    #[must_use]
    pub fn run_to_completion(jobs: usize) -> Self {
        Self { queue: VecDeque::with_capacity(jobs), shares: false, quantum: None }
    }

    /// Runs each job for a quantum, in the order in which they became ready.
    #[must_use]
    pub fn round_robin(jobs: usize, quantum: Option<Nanos>) -> Self {
        Self { queue: VecDeque::with_capacity(jobs), shares: true, quantum }
    }
}

impl CorePolicy for Fifo {
    #[inline]
    fn quantum(&self) -> Option<Nanos> {
        self.quantum
    }

    #[inline(always)]
    fn ready(&mut self, _now: Nanos, job: Job) {
        self.queue.push_back(job);
    }

    #[inline(always)]
    fn pick(&mut self, _now: Nanos) -> Option<(Job, Option<Nanos>)> {
        let job = self.queue.pop_front()?;
        if self.queue.is_empty() {
            // Back to the start of the buffer: a short queue stays in few cache lines instead of
            // wandering through a buffer made for the worst case.
            self.queue.clear();
        }
        Some((job, self.quantum))
    }

    #[inline]
    fn len(&self) -> usize {
        self.queue.len()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum.filter(|_| self.shares);
    }
}
