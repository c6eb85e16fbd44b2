//! One order for all that waits, by a key that each job has when it is queued: fixed priority, SJF,
//! SRPT, EDF and `auto`, which differ in the key ([`Rank`]); equal ranks in the order of arrival.
//!
//! The first job in that order that may run on a worker with a free place goes there, a job that may
//! run anywhere to the shortest inbox. Jobs that are pinned to a worker wait in a heap for each
//! worker, all others in one more; a tournament over the workers knows the first pinned job whose
//! worker has a free place. A decision is O(log jobs + log workers). The invariant: a waiting job is
//! in exactly one heap and in the chain that keeps the order of queueing.
//!
//! Where jobs may be pre-empted, a job that is queued while every place it could have is taken asks
//! for the place of the running job that comes last in the order, if that one ranks strictly after
//! it ([`Decision::Preempt`]). Not with inboxes of more than one job: the place that becomes free
//! there is not the one that the job wants. At the ends of quanta a job yields to those that rank
//! before it.

pub(crate) mod chain;
pub(crate) mod edf;
pub(crate) mod fp;
pub(crate) mod heap;
mod preempt;
mod rank;
mod renew;
pub(crate) mod sjf;
pub(crate) mod srpt;

use crate::classes::Classes;
use crate::places::Places;
use crate::table::{Table, Where};
use crate::tournament::Tournament;
use crate::{Decision, Job, JobId, Nanos, Policy, Refused, Spec, WorkerId, dispatcher_slice};
use chain::Chain;
use heap::{Heaps, Key, Root};
use preempt::Running;
pub(crate) use rank::{Rank, Visit};

/// A central queue in the order of a rank; see the module's head.
pub struct Ranked<R> {
    pub(crate) order: R,
    shares: bool,
    quantum: Option<Nanos>,
    classes: Classes,
    table: Table,
    heaps: Heaps,
    /// In the order of queueing.
    chain: Chain,
    /// The order of arrival of each job, its second key.
    tickets: Vec<u64>,
    next_ticket: u64,
    /// May run anywhere; those that must leave reserved places free apart from the others.
    anywhere: [Root; 2],
    /// How many of both there are.
    loose: usize,
    /// Of each job that waits or is on a worker: it must leave reserved places free.
    modest: Vec<bool>,
    /// How many of those are on workers.
    held_modest: usize,
    /// Started on the dispatcher, and goes on nowhere else.
    parked: Root,
    /// Started on that worker, and goes on nowhere else.
    pinned: Vec<Root>,
    /// The key of the first pinned job of each worker with a free place.
    first_pinned: Tournament<Key>,
    places: Places,
    running: Running,
    /// The ranks are those of this epoch, but for what waits from `stale` on.
    epoch: u64,
    stale: Option<u32>,
}

#[allow(private_bounds, reason = "the members of the family are all in here")]
impl<R: Rank> Ranked<R> {
    pub(crate) fn new(spec: &Spec, workers: usize, jobs: usize) -> Self {
        Self {
            order: R::new(spec, workers),
            shares: spec.shares(),
            quantum: spec.quantum,
            classes: Classes::new(spec),
            table: Table::new(jobs),
            heaps: Heaps::new(jobs),
            chain: Chain::new(jobs),
            tickets: vec![0; jobs],
            next_ticket: 0,
            anywhere: [Root::EMPTY; 2],
            loose: 0,
            modest: vec![false; jobs],
            held_modest: 0,
            parked: Root::EMPTY,
            pinned: vec![Root::EMPTY; workers],
            first_pinned: Tournament::new(workers, Heaps::WORST, Heaps::WORST),
            places: Places::new(workers, spec.jbsq),
            running: Running::new(workers, spec.asks_midway()),
            epoch: 0,
            stale: None,
        }
    }

    fn ticket(&mut self, id: JobId) {
        self.tickets[id.0 as usize] = self.next_ticket;
        self.next_ticket += 1;
    }

    fn root(&mut self, job: &Job) -> &mut Root {
        match job.pinned {
            None => &mut self.anywhere[usize::from(self.modest[job.id.0 as usize])],
            Some(WorkerId::DISPATCHER) => &mut self.parked,
            Some(worker) => &mut self.pinned[worker.index()],
        }
    }

    /// The job, which was in `from`, waits from now on.
    fn queue(&mut self, job: Job, from: Where) {
        self.table.enter(job, from);
        let key = (self.order.rank(&self.classes, &job), self.tickets[job.id.0 as usize]);
        self.chain.push(job.id.0);
        self.modest[job.id.0 as usize] = self.order.is_modest(&job);
        let mut root = *self.root(&job);
        self.heaps.push(&mut root, job.id.0, key);
        *self.root(&job) = root;
        match job.pinned {
            None => self.loose += 1,
            Some(worker) => self.refresh(worker),
        }
    }

    /// A waiting job, which is in `to` from now on.
    fn unqueue(&mut self, id: u32, to: Where) -> Job {
        let job = self.table.leave(JobId(id), to);
        if self.stale == Some(id) {
            self.stale = self.chain.after(id);
        }
        self.chain.remove(id);
        let mut root = *self.root(&job);
        self.heaps.remove(&mut root, id);
        *self.root(&job) = root;
        match job.pinned {
            None => self.loose -= 1,
            Some(worker) => self.refresh(worker),
        }
        job
    }

    /// After a change of what `worker` holds or what waits for it alone.
    fn refresh(&mut self, worker: WorkerId) {
        if worker == WorkerId::DISPATCHER {
            return;
        }
        let worker = worker.index();
        let root = self.pinned[worker];
        if !self.places.set_wanted(worker, !root.is_empty()) {
            return;
        }
        let first =
            if self.places.has_place(worker) { self.heaps.least(root) } else { Heaps::WORST };
        self.first_pinned.set(worker, first);
    }

    fn occupy(&mut self, on: WorkerId, id: JobId) {
        self.held_modest += self.counts(on, id);
        self.places.occupy(on);
        self.refresh(on);
    }

    /// The job's place on `on` is free.
    fn vacate(&mut self, on: WorkerId, id: JobId) {
        self.held_modest -= self.counts(on, id);
        self.places.vacate(on);
        self.refresh(on);
        self.running.stopped(on);
    }

    fn counts(&self, on: WorkerId, id: JobId) -> usize {
        usize::from(on != WorkerId::DISPATCHER && self.modest[id.0 as usize])
    }

    /// The job stops running on `on`.
    fn leave(&mut self, now: Nanos, on: WorkerId, job: &Job, preempted: bool) {
        if let Some((took, served)) = self.running.stay(now, on, job) {
            self.order.left(&Visit { took, served, preempted });
        }
    }

    /// The job goes to `on`, where it runs at once if nothing else is there.
    fn place(&mut self, now: Nanos, on: WorkerId, job: &Job) {
        if on != WorkerId::DISPATCHER && self.places.held(on.index()) == 0 {
            let key = (self.order.rank(&self.classes, job), self.tickets[job.id.0 as usize]);
            self.running.started(&self.order, now, on, job, key);
        } else {
            self.running.stopped(on);
        }
        self.occupy(on, job.id);
    }

    /// The first job that may run anywhere, if it is its turn as soon as there is a place.
    fn first_anywhere(&self) -> Option<u32> {
        let [any, modest] = self.anywhere;
        let reserved = self.order.reserved();
        let room = reserved == 0 || self.held_modest + reserved < self.places.workers();
        let modest = if room { modest } else { Root::EMPTY };
        let first = if self.heaps.least(any) <= self.heaps.least(modest) { any } else { modest };
        first.least()
    }

    /// The first job that a worker with a free place may run, and that worker.
    fn first(&self) -> Option<(u32, WorkerId)> {
        let (worker, pinned) = self.first_pinned.best();
        if let (Some(node), Some(shortest)) = (self.first_anywhere(), self.places.shortest(0))
            && self.heaps.key(node) < pinned
        {
            return Some((node, shortest));
        }
        let node = self.pinned[worker].least().filter(|_| pinned != Heaps::WORST)?;
        Some((node, WorkerId(worker as u16)))
    }

    /// The rank of the first job that waits and that `worker` may run.
    fn rank_waiting_for(&self, worker: usize) -> Option<u64> {
        let [any, modest] = self.anywhere;
        let least = [any, modest, self.pinned[worker]].into_iter().filter(|root| !root.is_empty());
        least.map(|root| self.heaps.least(root).0).min()
    }

    /// The job has just been queued. If every place that it may have is taken, whose should it get?
    fn ask(&mut self, now: Nanos, job: &Job) {
        let rank = self.heaps.key(job.id.0).0;
        match job.pinned {
            Some(WorkerId::DISPATCHER) => {}
            Some(worker) if self.places.has_place(worker.index()) => {}
            Some(worker) => self.running.ask_for(&self.order, now, worker, rank),
            None if self.places.shortest(0).is_some() => {}
            // Enough have been asked for all that wait.
            None if self.running.asked() >= self.loose => {}
            None => {
                if let Some(last) = self.last_running(now) {
                    self.running.ask_for(&self.order, now, last, rank);
                }
            }
        }
    }

    /// Whose place is to be asked for now, as far as the reason still holds.
    fn preempts(&mut self, now: Nanos) -> Option<WorkerId> {
        if self.running.asked() == 0
            && let (Some(node), Some(last)) = (self.first_anywhere(), self.running.last())
        {
            // What came back since may rank before what was placed meanwhile.
            self.running.ask_for(&self.order, now, last, self.heaps.key(node).0);
        }
        while let Some(on) = self.running.next_to_ask() {
            let waits = self.rank_waiting_for(on.index());
            if waits.is_some_and(|rank| self.running.ranks_after(&self.order, now, on, rank)) {
                return Some(on);
            }
            self.running.unask(on);
        }
        None
    }

    fn arrives(&mut self, now: Nanos, job: Job) {
        self.ticket(job.id);
        self.rerank(now);
        self.queue(job, Where::Out);
        self.ask(now, &job);
    }
}

/// Out of line: a driver's loop would have the code of all policies in it, and their registers.
impl<R: Rank> Policy for Ranked<R> {
    #[inline(never)]
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        if !self.table.has_room_for(job.id) {
            return Err(Refused(job));
        }
        self.order.arrived(&job);
        self.arrives(now, job);
        Ok(())
    }

    fn inherit(&mut self, now: Nanos, job: Job) {
        self.arrives(now, job);
    }

    #[inline(never)]
    fn yielded(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.leave(now, on, &job, true);
        self.vacate(on, job.id);
        self.queue(job, Where::On(on));
        self.ask(now, &job);
    }

    #[inline(never)]
    fn completed(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        self.table.step(id, Where::On(on), Where::Out);
        let job = Job { attained, ..*self.table.job(id) };
        self.leave(now, on, &job, false);
        self.classes.completed(self.classes.index(job.class), attained);
        self.order.completed(now, &job, attained);
        self.vacate(on, job.id);
        self.rerank(now);
    }

    fn dropped(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        self.table.step(id, Where::On(on), Where::Out);
        let job = Job { attained, ..*self.table.job(id) };
        self.leave(now, on, &job, false);
        self.vacate(on, job.id);
        self.rerank(now);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::On(on), Where::Blocked(on));
        self.vacate(on, id);
    }

    fn woken(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.queue(job, Where::Blocked(on));
        self.ask(now, &job);
    }

    fn resumed(&mut self, now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::Blocked(on), Where::On(on));
        let job = *self.table.job(id);
        self.place(now, on, &job);
    }

    #[inline(never)]
    fn decide(&mut self, now: Nanos) -> Decision {
        // The answer to most questions, as each event is followed by one.
        if self.table.waiting() == 0 && self.running.is_quiet() {
            return Decision::Idle;
        }
        if let Some((node, on)) = self.first() {
            let job = self.unqueue(node, Where::On(on));
            self.place(now, on, &job);
            let quantum = self.order.quantum(&job, self.quantum).filter(|_| self.shares);
            return Decision::Run { job, on, quantum };
        }
        if let Some(on) = self.preempts(now) {
            return Decision::Preempt { on };
        }
        match self.parked.least() {
            Some(node) => {
                let job = self.unqueue(node, Where::On(WorkerId::DISPATCHER));
                dispatcher_slice(job, self.quantum)
            }
            None => Decision::Idle,
        }
    }

    #[inline(never)]
    fn wants_place(&self, now: Nanos, on: WorkerId) -> bool {
        let crowded = self.places.held(on.index()) > 1;
        let wanted = || {
            let waits = self.rank_waiting_for(on.index());
            waits.is_some_and(|rank| self.running.ranks_after(&self.order, now, on, rank))
        };
        self.shares && (crowded || wanted())
    }

    fn renewed(&mut self, now: Nanos, on: WorkerId) {
        if R::AGES {
            self.running.renew(&self.order, now, on);
        }
    }

    fn worker_up(&mut self, _now: Nanos, on: WorkerId) {
        self.places.set_up(on.index(), true);
        self.refresh(on);
    }

    /// What runs there can't give up its place before the worker is up again: it is not asked for.
    fn worker_down(&mut self, _now: Nanos, on: WorkerId) {
        self.places.set_up(on.index(), false);
        self.running.stopped(on);
        self.refresh(on);
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum;
        self.order.set_quantum(quantum);
    }

    fn evict(&mut self) -> Option<Job> {
        let node = self.chain.head()?;
        Some(self.unqueue(node, Where::Out))
    }

    fn adopt(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.table.adopt(job, on);
        self.modest[job.id.0 as usize] = self.order.is_modest(&job);
        self.ticket(job.id);
        self.place(now, on, &job);
    }
}
