//! What its driver may look at, and keep, in a scheduler.

use super::Scheduler;
use crate::{Setup, Where};
use curtail_policy::{AnyPolicy, Job, JobId, Policy, WorkerId};

impl<T> Scheduler<T> {
    /// Workers schedule by themselves what was sent to them.
    #[inline]
    #[must_use]
    pub fn is_two_level(&self) -> bool {
        self.rules.two_level
    }

    /// What it was made from, or switched to.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The policy, to look at.
    #[must_use]
    pub fn policy(&self) -> &AnyPolicy {
        &self.policy
    }

    /// How many jobs are in the system.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// There is no slot for another.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.jobs.vacant().is_none()
    }

    /// Some class has no room left, or will have none soon.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.is_full() || self.room.is_short()
    }

    /// How many jobs wait for a place.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.policy.waiting()
    }

    /// Whether a job waits that only that worker can go on with. O(jobs).
    #[must_use]
    pub fn waits_for(&self, on: WorkerId) -> bool {
        let bound = |(job, at): (Job, Where)| at == Where::Waiting && job.pinned == Some(on);
        self.lasts.waits_for(on) || self.waiting() > 0 && self.jobs().take(self.len()).any(bound)
    }

    /// A job in the system, as the policy knows it, and what its driver keeps of it.
    #[inline]
    #[must_use]
    pub fn get(&self, id: JobId) -> (Job, &T) {
        self.jobs.get(id)
    }

    /// Where a job is; `None`: it is not in the system.
    #[must_use]
    pub fn whereabouts(&self, id: JobId) -> Option<Where> {
        self.jobs.whereabouts(id)
    }

    /// What its driver keeps of a job.
    #[inline]
    #[must_use]
    pub fn data(&self, id: JobId) -> &T {
        self.jobs.data(id)
    }

    /// What its driver keeps of a job.
    #[inline]
    pub fn data_mut(&mut self, id: JobId) -> &mut T {
        self.jobs.data_mut(id)
    }

    /// All jobs in the system and where they are, by their numbers.
    pub fn jobs(&self) -> impl Iterator<Item = (Job, Where)> {
        self.jobs.iter()
    }

    /// Addresses of a job's slot, one in each cache line, for a driver that has it fetched before its
    /// event is told: with thousands of jobs, each slot has left the cache when its job ends.
    pub fn slot_lines(&self, id: JobId) -> impl Iterator<Item = *const u8> + use<T> {
        self.jobs.lines(id)
    }
}
