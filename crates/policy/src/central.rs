//! One queue for all workers: c-FCFS, JBSQ(k), Shinjuku and Concord.
//!
//! What waits is queued here, in one order of queueing, and is pushed into the workers' inboxes of
//! at most *k* jobs each, the running one included (JBSQ(k), Concord §3.2; JBSQ(1) is a single
//! queue). The oldest job that may run on a worker with a free place goes first, a job that may run
//! anywhere to the shortest inbox. Under processor sharing a pre-empted job comes back to the tail.
//!
//! A job that has started may be pinned to its worker. Such jobs wait in a list for each worker,
//! so that no decision searches: tournaments over the workers know the shortest inbox ([`Places`]) and
//! the oldest pinned job whose worker has a free place.
//!
//! A work-conserving dispatcher (Concord §3.3) runs jobs itself when every inbox is full.

use crate::places::Places;
use crate::table::{List, Table, Where};
use crate::tournament::Tournament;
use crate::{Decision, Job, JobId, Nanos, Policy, Refused, WorkerId, dispatcher_slice};

/// How a [`Central`] differs from plain c-FCFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// k of JBSQ(k).
    pub(crate) k: u16,
    /// Processor sharing: jobs run for a quantum. Otherwise they run to completion.
    pub(crate) shares: bool,
    /// The length of quanta; of no effect unless `shares`.
    pub(crate) quantum: Option<Nanos>,
    /// The dispatcher takes jobs that have not started when every inbox is full.
    pub(crate) work_conserving: bool,
}

/// A central queue; see the module's head.
pub struct Central {
    options: Options,
    table: Table,
    /// Not started.
    fresh: List,
    /// Started, may go on anywhere.
    migratable: List,
    /// Started on the dispatcher, and goes on nowhere else.
    parked: List,
    /// Started on that worker, and goes on nowhere else.
    pinned: Vec<List>,
    places: Places,
    /// When the oldest pinned job of each worker with a free place was queued.
    oldest_pinned: Tournament<u64>,
}

impl Central {
    pub(crate) fn new(options: Options, workers: usize, jobs: usize) -> Self {
        Self {
            options,
            table: Table::new(jobs),
            fresh: List::EMPTY,
            migratable: List::EMPTY,
            parked: List::EMPTY,
            pinned: vec![List::EMPTY; workers],
            places: Places::new(workers, options.k),
            oldest_pinned: Tournament::new(workers, Table::NEVER, Table::NEVER),
        }
    }

    /// Queues a started job at the tail.
    fn requeue(&mut self, job: Job, from: Where) {
        let list = match job.pinned {
            None => &mut self.migratable,
            Some(WorkerId::DISPATCHER) => &mut self.parked,
            Some(worker) => &mut self.pinned[worker.index()],
        };
        self.table.push(list, job, from);
    }

    /// After a change of what `worker` holds or what waits for it alone. The dispatcher's own jobs
    /// are in no tournament.
    fn refresh(&mut self, worker: WorkerId) {
        if worker == WorkerId::DISPATCHER {
            return;
        }
        let worker = worker.index();
        let pinned = &self.pinned[worker];
        if !self.places.set_wanted(worker, !pinned.is_empty()) {
            return;
        }
        let has_place = self.places.has_place(worker);
        let oldest = if has_place { self.table.head_seq(pinned) } else { Table::NEVER };
        self.oldest_pinned.set(worker, oldest);
    }

    fn occupy(&mut self, on: WorkerId) {
        self.places.occupy(on);
        self.refresh(on);
    }

    fn vacate(&mut self, on: WorkerId) {
        self.places.vacate(on);
        self.refresh(on);
    }

    /// Takes out the oldest job that a worker with a free place may run.
    fn take_for_worker(&mut self) -> Option<(Job, WorkerId)> {
        let fresh = self.table.head_seq(&self.fresh);
        let migratable = self.table.head_seq(&self.migratable);
        let (owner, pinned) = self.oldest_pinned.best();
        let (on, list) = match self.places.shortest(0) {
            Some(on) if fresh < migratable.min(pinned) => (on, &mut self.fresh),
            Some(on) if migratable < pinned => (on, &mut self.migratable),
            _ if pinned == Table::NEVER => return None,
            _ => (WorkerId(owner as u16), &mut self.pinned[owner]),
        };
        let job = self.table.pop(list, Where::On(on))?;
        self.occupy(on);
        Some((job, on))
    }

    /// Takes out the job that the dispatcher itself may run, now that there is nothing to push. What
    /// is parked here depends on the dispatcher alone and so runs whether inboxes are full or not.
    fn take_for_dispatcher(&mut self) -> Option<Job> {
        let here = Where::On(WorkerId::DISPATCHER);
        if let Some(job) = self.table.pop(&mut self.parked, here) {
            return Some(job);
        }
        // What has not started waits only while every inbox is full.
        if self.options.work_conserving { self.table.pop(&mut self.fresh, here) } else { None }
    }
}

impl Policy for Central {
    fn arrive(&mut self, _now: Nanos, job: Job) -> Result<(), Refused> {
        if !self.table.has_room_for(job.id) {
            return Err(Refused(job));
        }
        if job.is_fresh() {
            self.table.push(&mut self.fresh, job, Where::Out);
        } else {
            self.requeue(job, Where::Out);
            job.pinned.into_iter().for_each(|worker| self.refresh(worker));
        }
        Ok(())
    }

    fn yielded(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.requeue(job, Where::On(on));
        self.vacate(on);
        job.pinned.into_iter().for_each(|worker| self.refresh(worker));
    }

    fn completed(&mut self, _now: Nanos, on: WorkerId, id: JobId, _attained: Nanos) {
        self.table.step(id, Where::On(on), Where::Out);
        self.vacate(on);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::On(on), Where::Blocked(on));
        self.vacate(on);
    }

    fn woken(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.requeue(job, Where::Blocked(on));
        job.pinned.into_iter().for_each(|worker| self.refresh(worker));
    }

    fn resumed(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::Blocked(on), Where::On(on));
        self.occupy(on);
    }

    fn decide(&mut self, _now: Nanos) -> Decision {
        // The answer to most questions, as each event is followed by one.
        if self.table.waiting() == 0 {
            return Decision::Idle;
        }
        if let Some((job, on)) = self.take_for_worker() {
            let quantum = self.options.quantum.filter(|_| self.options.shares);
            return Decision::Run { job, on, quantum };
        }
        match self.take_for_dispatcher() {
            Some(job) => dispatcher_slice(job, self.options.quantum),
            None => Decision::Idle,
        }
    }

    fn wants_place(&self, _now: Nanos, on: WorkerId) -> bool {
        let anywhere = !self.fresh.is_empty() || !self.migratable.is_empty();
        let here = !self.pinned[on.index()].is_empty() || self.places.held(on.index()) > 1;
        self.options.shares && (anywhere || here)
    }

    fn worker_up(&mut self, _now: Nanos, on: WorkerId) {
        self.places.set_up(on.index(), true);
        self.refresh(on);
    }

    fn worker_down(&mut self, _now: Nanos, on: WorkerId) {
        self.places.set_up(on.index(), false);
        self.refresh(on);
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.options.quantum = quantum;
    }

    /// O(workers): it looks at every list's head.
    fn evict(&mut self) -> Option<Job> {
        let lists = [&self.fresh, &self.migratable, &self.parked].into_iter().chain(&self.pinned);
        let oldest = lists.enumerate().min_by_key(|(_, list)| self.table.head_seq(list))?.0;
        let list = match oldest {
            0 => &mut self.fresh,
            1 => &mut self.migratable,
            2 => &mut self.parked,
            pinned => &mut self.pinned[pinned - 3],
        };
        let job = self.table.pop(list, Where::Out)?;
        if oldest >= 3 {
            self.refresh(WorkerId((oldest - 3) as u16));
        }
        Some(job)
    }

    fn adopt(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.table.step(job.id, Where::Out, Where::On(on));
        self.occupy(on);
    }
}
