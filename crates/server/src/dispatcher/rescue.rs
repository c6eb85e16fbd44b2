//! Workers that are stuck, in a system call or in code without safepoints: what has not started there
//! goes on elsewhere, and they get nothing more until they are back.
//!
//! The watchdog tells of them, again and again. What the worker itself has of its jobs is touched in its
//! absence only (`Remote::absence`): where it has come back meanwhile, nothing is done.

use super::Dispatcher;
use curtail_policy::{JobId, Nanos, WorkerId};
use curtail_rt::fences;
use curtail_sched::EventKind;
use std::sync::atomic::Ordering;

/// The target of what is logged here.
const LOG: &str = "curtail::dispatcher::rescue";

/// A worker that gets no jobs.
pub(super) struct Stuck {
    on: WorkerId,
    /// Its count of picks: as long as that stays, so does the worker.
    picks: u32,
}

impl Dispatcher {
    /// A worker is stuck where it has been since that pick. Nothing moves where there is no other one that
    /// takes jobs.
    pub(super) fn rescue(&mut self, worker: usize, picks: u32, now: u64) {
        let on = WorkerId(worker as u16);
        let others = self.stuck.iter().filter(|stuck| stuck.on != on).count() + 1;
        let remote = self.config.workers[worker].remote.clone();
        if others == self.config.workers.len() || remote.kthread.picks() != picks {
            return;
        }
        let mut jobs = Vec::new();
        let take_back = || {
            // SAFETY: its engine, or null; in the worker's absence nothing else touches what this does.
            if let Some(engine) = unsafe { remote.engine.load(Ordering::Acquire).as_mut() } {
                engine.take_back(now, &mut jobs);
            }
        };
        if remote.absence.meanwhile(fences::rare, take_back).is_none() {
            return; // It is back.
        }
        self.config.workers[worker].take_back(&mut jobs);
        if !self.stuck.iter().any(|stuck| stuck.on == on) {
            self.stuck.push(Stuck { on, picks });
            self.sched.worker_down(self.nanos(now), on);
        }
        self.give_back(on, &jobs, now);
    }

    fn give_back(&mut self, on: WorkerId, jobs: &[JobId], now: u64) {
        if !jobs.is_empty() {
            let worker = self.config.shared.in_server(on).0;
            tracing::info!(
                target: LOG, worker, jobs = jobs.len(), "what a stuck worker had goes on elsewhere"
            );
        }
        for &job in jobs {
            let event =
                curtail_sched::Event { job, attained: Nanos::ZERO, what: EventKind::Returned };
            self.sched.handle_event(self.nanos(now), on, event);
        }
    }

    /// Those that are back take jobs again.
    #[inline]
    pub(super) fn look_after_stuck(&mut self, now: u64) {
        if !self.stuck.is_empty() {
            self.welcome_back(now);
        }
    }

    #[cold]
    fn welcome_back(&mut self, now: u64) {
        let time = self.nanos(now);
        let (workers, sched) = (&self.config.workers, &mut self.sched);
        self.stuck.retain(|&Stuck { on, picks }| {
            let stays = workers[on.index()].remote.kthread.picks() == picks;
            if !stays {
                sched.worker_up(time, on);
            }
            stays
        });
    }
}
