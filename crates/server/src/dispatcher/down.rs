//! Workers that take no jobs: stuck, in a system call or in code without safepoints, or without a core.
//! What has not started there goes on elsewhere, and they get nothing more until they are back.
//!
//! The watchdog tells of those that are stuck, again and again; those without a core say it themselves
//! (`elastic`). What the worker itself has of its jobs is touched in its absence only
//! (`Remote::absence`): where it has come back meanwhile, nothing is done.

use super::Dispatcher;
use super::link::WorkerLink;
use curtail_policy::{JobId, Nanos, WorkerId};
use curtail_rt::fences;
use curtail_sched::{Event, EventKind};
use std::sync::atomic::Ordering;

/// The target of what is logged here.
const LOG: &str = "curtail::dispatcher::down";

/// A worker that gets no jobs.
struct Down {
    on: WorkerId,
    why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It is stuck as long as its count of picks is that.
    Stuck { picks: u32 },
    /// It has no core.
    Parked,
}

/// The workers that get no jobs.
#[derive(Default)]
pub(super) struct Downs(Vec<Down>);

impl Downs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has(&self, on: WorkerId) -> bool {
        self.0.iter().any(|down| down.on == on)
    }

    pub(super) fn is_parked(&self, on: WorkerId) -> bool {
        self.0.iter().any(|down| down.on == on && down.why == Why::Parked)
    }

    /// A worker gets nothing more.
    fn add(&mut self, on: WorkerId, why: Why, worker: &WorkerLink) -> bool {
        worker.remote.signals.stays.thought_down.store(true, Ordering::Release);
        match self.0.iter_mut().find(|down| down.on == on) {
            Some(down) => {
                // One without a core is no longer stuck.
                if why == Why::Parked {
                    down.why = why;
                }
                false
            }
            None => {
                self.0.push(Down { on, why });
                true
            }
        }
    }

    /// Takes out those that are back; true: one of them has a core again.
    fn take_back(&mut self, workers: &[WorkerLink], mut is_back: impl FnMut(WorkerId)) -> bool {
        let mut has_core = false;
        self.0.retain(|&Down { on, why }| {
            let remote = &workers[on.index()].remote;
            let stays = match why {
                Why::Stuck { picks } => remote.kthread.picks() == picks,
                Why::Parked => remote.kthread.is_parked(),
            };
            if !stays {
                is_back(on);
                remote.signals.stays.thought_down.store(false, Ordering::Release);
                has_core |= why == Why::Parked;
            }
            stays
        });
        has_core
    }
}

impl Dispatcher {
    /// A worker is stuck where it has been since that pick. Nothing moves where there is no other one that
    /// takes jobs, nor from a spare one. `None`: all are stuck, and spare ones take jobs.
    pub(super) fn rescue(&mut self, worker: usize, since: Option<u32>, now: u64) {
        let (on, usual) = (WorkerId(worker as u16), self.sched.setup().workers);
        let others = self.down.0.iter().filter(|down| down.on != on).count() + 1;
        if worker >= usual || (since.is_some() && others == usual) {
            return;
        }
        let picks = self.config.workers[worker].remote.kthread.picks();
        if since.is_some_and(|since| since != picks) {
            return;
        }
        if let Some((jobs, _)) = self.take_from(on, now) {
            if !jobs.is_empty() {
                let worker = self.config.shared.in_server(on).0;
                tracing::info!(
                    target: LOG, worker, jobs = jobs.len(), "what a stuck worker had goes on elsewhere"
                );
            }
            self.give_back(on, Some(Why::Stuck { picks }), &jobs, now);
        }
    }

    /// Takes what has not started from a worker that is away, and says whether it has jobs left that have;
    /// `None`: it is back.
    fn take_from(&mut self, on: WorkerId, now: u64) -> Option<(Vec<JobId>, bool)> {
        let remote = self.config.workers[on.index()].remote.clone();
        let (mut jobs, mut is_left) = (Vec::new(), false);
        let take_back = || {
            // SAFETY: its engine, or null; in the worker's absence nothing else touches what this does.
            if let Some(engine) = unsafe { remote.engine.load(Ordering::Acquire).as_mut() } {
                engine.take_back(now, &mut jobs);
                is_left = engine.has_ready();
            }
        };
        remote.absence.meanwhile(fences::rare, take_back)?;
        self.config.workers[on.index()].take_back(&mut jobs);
        Some((jobs, is_left))
    }

    /// Those that are back take jobs again, and those without a core get nothing more. Where one has a
    /// core again, what waits behind requests of others, and has not started, is placed anew.
    #[inline]
    pub(super) fn look_after_down(&mut self, now: u64) {
        let time = self.nanos(now);
        let (workers, sched) = (&self.config.workers, &mut self.sched);
        let shares =
            !self.down.is_empty() && self.down.take_back(workers, |on| sched.worker_up(time, on));
        self.config.spares.end(&self.down, &mut self.sched, time);
        if !self.cores_move {
            return;
        }
        // Spare workers have no cores of the allocator's.
        for index in 0..self.sched.setup().workers {
            let on = WorkerId(index as u16);
            let kthread = &self.config.workers[index].remote.kthread;
            let parked = kthread.is_parked() && !self.down.is_parked(on);
            let shares = shares && kthread.runs_something() && !self.down.has(on);
            if (parked || shares)
                && let Some((jobs, is_left)) = self.take_from(on, now)
            {
                if parked && is_left {
                    // What was sent to it as it parked.
                    self.config.workers[index].remote.kthread.announce_packets();
                }
                self.give_back(on, parked.then_some(Why::Parked), &jobs, now);
            }
        }
    }

    /// Jobs were taken from a worker that had not begun them: they wait again; those that are cancelled
    /// end. `why`: it gets nothing more.
    fn give_back(&mut self, on: WorkerId, why: Option<Why>, jobs: &[JobId], now: u64) {
        let time = self.nanos(now);
        if let Some(why) = why
            && self.down.add(on, why, &self.config.workers[on.index()])
        {
            self.sched.worker_down(time, on);
        }
        for &job in jobs {
            let is_cancelled = self.sched.data(job).message.cause().is_some();
            let what = if is_cancelled { EventKind::Ended } else { EventKind::Returned };
            self.sched.handle_event(time, on, Event { job, attained: Nanos::ZERO, what });
            if is_cancelled {
                self.drop_cancelled(job, now);
            }
        }
    }
}
