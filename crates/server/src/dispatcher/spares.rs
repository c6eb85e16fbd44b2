//! Spare workers: where all others are stuck, they take what waits, one request at a time.
//!
//! The watchdog tells when all are stuck, again and again. A spare worker's thread is started at the
//! first need and stays. Its link joins the others' once its engine is there, and the scheduler knows by
//! [`Scheduler::worker_up`](curtail_sched::Scheduler::worker_up) for how long it is needed.

use super::down::Downs;
use super::link::WorkerLink;
use crate::jobs::JobRecord;
use curtail_policy::{Nanos, WorkerId};
use curtail_rt::thread::SPARES;
use curtail_sched::Scheduler;
use std::sync::atomic::Ordering;

const _: () = assert!(SPARES <= curtail_sched::MOST_SPARES, "or records could not be read");

/// A dispatcher's spare workers.
pub(crate) struct Spares {
    /// Of those whose engines were not there yet, the next one last.
    links: Vec<WorkerLink>,
    /// Starts the next one's thread; false: that can't be.
    start: Box<dyn Fn() -> bool + Send>,
    /// So many are left to start.
    left: usize,
    /// How many have joined the others and take what waits.
    up: usize,
}

impl Spares {
    /// `start` starts the next one's thread; false: that can't be.
    pub(crate) fn new(
        mut links: Vec<WorkerLink>,
        start: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        links.reverse();
        Self { left: links.len(), links, start: Box::new(start), up: 0 }
    }

    /// All workers that the policy knows are stuck, unless `down` says otherwise by now. `all`: so are
    /// the spare ones that live. True: some have joined the workers, and have no orders yet.
    pub(super) fn relieve(
        &mut self,
        (workers, down): (&mut Vec<WorkerLink>, &Downs),
        sched: &mut Scheduler<JobRecord>,
        all: bool,
        now: Nanos,
    ) -> bool {
        let (usual, known) = (sched.setup().workers, workers.len());
        if down.count() < usual {
            return false;
        }
        let has_engine =
            |link: &mut WorkerLink| !link.remote.engine.load(Ordering::Acquire).is_null();
        workers.extend(std::iter::from_fn(|| self.links.pop_if(has_engine)));
        self.up = workers.len() - usual;
        (usual..workers.len()).for_each(|spare| sched.worker_up(now, WorkerId(spare as u16)));
        // The runtime may have started one for threads.
        self.left = self.left.min(self.links.len());
        if all && sched.waiting() > 0 && self.left == self.links.len() && self.left > 0 {
            self.left -= usize::from((self.start)());
        }
        workers.len() > known
    }

    /// Spare workers take nothing more where a worker that the policy knows takes jobs again.
    #[inline]
    pub(super) fn end(&mut self, down: &Downs, sched: &mut Scheduler<JobRecord>, now: Nanos) {
        let usual = sched.setup().workers;
        if self.up > 0 && down.count() < usual {
            let spares = usual..usual + std::mem::take(&mut self.up);
            spares.for_each(|spare| sched.worker_down(now, WorkerId(spare as u16)));
        }
    }
}
