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
use curtail_policy::WorkerId;
use curtail_rt::clock::{self, Clock};
use curtail_rt::thread::{KThread, Member, heed, is_wanted};
use std::sync::atomic::Ordering;

/// So long without work the dispatcher keeps its core.
const PATIENCE_NS: u64 = 1_000_000;

/// A dispatcher's side of a core allocator.
pub(crate) struct Elastic {
    kthread: &'static KThread,
    /// When there was last anything to do (TSC).
    was_active: u64,
}

impl Elastic {
    /// Of the calling kthread.
    pub(crate) fn here() -> Self {
        Self { kthread: KThread::here(), was_active: clock::now() }
    }

    fn member(&self) -> &'static Member {
        self.kthread.member().expect("a kthread under a core allocator")
    }

    /// Does what the allocator asks, which may be to wait for a core; true: it may have had none meanwhile.
    #[inline]
    pub(super) fn heed(&self, now: u64) -> bool {
        heed(self.kthread, now)
    }

    pub(super) fn note_active(&mut self, now: u64) {
        self.was_active = now;
    }

    /// So many jobs wait for a worker.
    #[inline]
    pub(super) fn publish_waiting(&self, waiting: usize, workers: &[WorkerLink], down: &Downs) {
        self.member().publish_waiting(waiting);
        for worker in workers {
            let jobs_wait = &worker.remote.signals.stays.jobs_wait;
            // A store takes the line away from the worker.
            if jobs_wait.load(Ordering::Relaxed) != (waiting > 0) {
                jobs_wait.store(waiting > 0, Ordering::Release);
            }
        }
        if waiting > 0 && !down.is_empty() {
            call_parked(workers, down);
        }
    }

    /// Whether there has been nothing to do for so long that the dispatcher gives its core back.
    pub(super) fn pauses(&self) -> bool {
        let patience = Clock::get().cycles(PATIENCE_NS);
        self.member().is_linked() && clock::now().saturating_sub(self.was_active) > patience
    }

    /// What it gives the core back by.
    pub(super) fn place(&self) -> (&'static KThread, &'static Member) {
        (self.kthread, self.member())
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

/// What waits beside a worker that has nothing to do is for one that has no core.
#[cold]
fn call_parked(workers: &[WorkerLink], down: &Downs) {
    let is_down = |index: usize| down.has(WorkerId(index as u16));
    let all = || workers.iter().map(|worker| &worker.remote.kthread).enumerate();
    if all().any(|(index, kthread)| !is_down(index) && !kthread.runs_something()) {
        let parked = all().filter(|&(index, kthread)| is_down(index) && kthread.is_parked());
        parked.for_each(|(_, kthread)| kthread.announce_packets());
    }
}
