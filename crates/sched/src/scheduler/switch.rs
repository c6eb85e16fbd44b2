//! Changes while jobs are in the system: workers that come and go, and a live switch of the policy.

use super::Scheduler;
use crate::jobs::Where;
use crate::record::Call;
use crate::room::Room;
use crate::rules::{Rules, Setup};
use curtail_policy::{Nanos, Policy, WorkerId};

impl<T> Scheduler<T> {
    /// `on` takes jobs again; or it is a spare worker, with a number beyond the setup's, and takes
    /// what waits from now on. Spare ones are down at first.
    pub fn worker_up(&mut self, now: Nanos, on: WorkerId) {
        self.lasts.grow(on.index() + 1);
        if self.up.set(on, true) {
            self.note(|| Call::WorkerUp { now, on });
            if !self.up.is_spare(on) {
                self.policy.worker_up(now, on);
            }
        }
    }

    /// `on` has no core, or is stuck. What it holds stays there; it gets nothing more until it is up.
    pub fn worker_down(&mut self, now: Nanos, on: WorkerId) {
        self.lasts.grow(on.index() + 1);
        if self.up.set(on, false) {
            self.note(|| Call::WorkerDown { now, on });
            if !self.up.is_spare(on) {
                self.policy.worker_down(now, on);
            }
        }
    }

    /// Another policy from now on. What waits moves over in order; what the workers hold is told to it.
    pub(super) fn switch(&mut self, now: Nanos, setup: Setup) {
        self.note(|| Call::Switch { now, setup: setup.clone() });
        let mut policy = setup.spec.build(setup.workers, setup.jobs, setup.seed);
        self.up.down().for_each(|worker| policy.worker_down(now, worker));
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
