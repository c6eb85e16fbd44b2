//! A live switch of the policy.

use super::Scheduler;
use crate::jobs::Where;
use crate::record::Call;
use crate::room::Room;
use crate::rules::{Rules, Setup};
use curtail_policy::{Nanos, Policy, WorkerId};

impl<T> Scheduler<T> {
    /// Another policy from now on. What waits moves over in order; what the workers hold is told to it.
    pub(super) fn switch(&mut self, now: Nanos, setup: Setup) {
        self.note(|| Call::Switch { now, setup: setup.clone() });
        let mut policy = setup.spec.build(setup.workers, setup.jobs, setup.seed);
        for (worker, _) in self.up.iter().enumerate().filter(|(_, up)| !**up) {
            policy.worker_down(now, WorkerId(worker as u16));
        }
        for (job, at) in self.jobs.iter() {
            if self.jobs.is_last(job.id) {
                continue;
            }
            match at {
                Where::Waiting => {}
                Where::On(on) => policy.adopt(now, on, job),
                Where::Blocked(on) => {
                    policy.adopt(now, on, job);
                    policy.blocked(now, on, job.id);
                }
            }
        }
        while let Some(job) = self.policy.evict() {
            policy.inherit(now, job);
        }
        self.rules = Rules::of(&setup);
        let jobs = self.jobs.iter();
        let jobs = jobs.map(|(job, at)| (job, at, !self.jobs.is_last(job.id)));
        self.room = Room::of(&setup, jobs);
        (self.policy, self.setup) = (policy, setup);
    }
}
