//! Under a core allocator: the dispatcher keeps a core, its workers have cores while they have work
//! (Shenango §4).
//!
//! A worker without work gives its core back by itself; one that is asked to does so at the next
//! safepoint, or between two jobs. What has started there stays; the rest waits at the dispatcher again.
//! What waits is in the dispatcher's line of the allocator's page, so that the allocator grants another
//! core where it waits for long; jobs that only a worker without a core can go on with count as mail for
//! that one.

use super::down::Downs;
use super::link::WorkerLink;
use crate::jobs::JobRecord;
use curtail_policy::WorkerId;
use curtail_rt::clock::{self, Clock};
use curtail_rt::thread::{AllocatorClient, KThread, heed, is_wanted};
use curtail_sched::Scheduler;
use std::sync::atomic::Ordering;

/// So long without work the dispatcher keeps its core.
const PATIENCE_NS: u64 = 1_000_000;
/// From one look for jobs of workers without a core to the next.
const LOOK_NS: u64 = 20_000;

/// A dispatcher's side of a core allocator.
pub(crate) struct Elastic {
    kthread: &'static KThread,
    /// When there was last anything to do (TSC).
    was_active: u64,
    /// When to look again for jobs of workers without a core (TSC).
    look_tsc: u64,
}

impl Elastic {
    /// Of the calling kthread.
    pub(crate) fn here() -> Self {
        Self { kthread: KThread::here(), was_active: clock::now(), look_tsc: 0 }
    }

    fn client(&self) -> &'static AllocatorClient {
        self.kthread.client().expect("a kthread under a core allocator")
    }

    /// Does what the allocator asks, which may be to wait for a core; true: it may have had none meanwhile.
    #[inline]
    pub(super) fn heed(&self, now: u64) -> bool {
        heed(self.kthread, now)
    }

    pub(super) fn note_active(&mut self, now: u64) {
        self.was_active = now;
    }

    /// Tells the allocator, and the workers, what waits for a worker. `now`: TSC.
    #[inline]
    pub(super) fn publish_waiting(
        &mut self,
        now: u64,
        sched: &Scheduler<JobRecord>,
        workers: &[WorkerLink],
        down: &Downs,
    ) {
        let waiting = sched.waiting();
        self.client().publish_waiting(waiting);
        for worker in workers {
            let jobs_wait = &worker.remote.signals.stays.jobs_wait;
            // A store takes the line away from the worker.
            if jobs_wait.load(Ordering::Relaxed) != (waiting > 0) {
                jobs_wait.store(waiting > 0, Ordering::Release);
            }
        }
        if !down.is_empty() && !sched.is_empty() && now >= self.look_tsc {
            self.look_tsc = now + Clock::get().cycles(LOOK_NS);
            call_parked(sched, workers);
        }
    }

    /// Whether there has been nothing to do for so long that the dispatcher gives its core back.
    pub(super) fn pauses(&self) -> bool {
        let patience = Clock::get().cycles(PATIENCE_NS);
        self.is_linked() && clock::now().saturating_sub(self.was_active) > patience
    }

    /// Whether there is an allocator, which would grant it another core.
    pub(super) fn is_linked(&self) -> bool {
        self.client().is_linked()
    }

    /// What it gives the core back by.
    pub(super) fn place(&self) -> (&'static KThread, &'static AllocatorClient) {
        (self.kthread, self.client())
    }

    /// Whether it is to look what the allocator asks, or a worker has given its core back, or has one
    /// again, and was not looked at since.
    pub(super) fn has_news(&self, workers: &[WorkerLink], down: &Downs) -> bool {
        let moved = |(index, worker): (usize, &WorkerLink)| {
            worker.remote.kthread.is_parked() != down.is_parked(WorkerId(index as u16))
        };
        is_wanted(self.kthread, clock::now()) || workers.iter().enumerate().any(moved)
    }
}

/// Has those without a core get one that have jobs which no other worker can go on with.
#[cold]
fn call_parked(sched: &Scheduler<JobRecord>, workers: &[WorkerLink]) {
    for (index, worker) in workers.iter().enumerate() {
        let kthread = &worker.remote.kthread;
        if kthread.is_parked() && sched.waits_for(WorkerId(index as u16)) {
            kthread.announce_packets();
        }
    }
}
