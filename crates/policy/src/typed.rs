//! A queue for each class: weighted and deficit round robin, static partitioning, CSCQ and
//! Shinjuku's multi-queue policy, which differ in the class that is next ([`Order`]); within a class
//! in the order of queueing.
//!
//! Each class has a list of jobs that may run anywhere in its group of workers (usually all), and one
//! for each worker of jobs pinned there. A tournament for each class knows the oldest pinned job
//! whose worker has a free place, so that a decision asks each class once: O(classes + log workers),
//! and when a place is taken or given up, O(log workers) for each class that has jobs pinned there.
//!
//! The invariant, by [`Table`]: a waiting job is in exactly one list, that of its class and of where
//! it may run.

pub(crate) mod cscq;
pub(crate) mod drr;
pub(crate) mod mq;
pub(crate) mod partition;
mod queues;
mod share;
pub(crate) mod wrr;

use crate::classes::Classes;
use crate::table::Where;
use crate::{Decision, Job, JobId, Nanos, Policy, Refused, Spec, WorkerId, dispatcher_slice};
use queues::Queues;
use share::Shares;

/// Which class is next.
pub(crate) trait Order {
    /// A job that yields goes before the others of its class; otherwise after them.
    const YIELDED_FIRST: bool = false;

    /// It changes when it is asked although nothing waits.
    const FORGETS: bool = false;

    /// All memory that it ever needs is allocated here.
    fn new(spec: &Spec, classes: &Classes, workers: usize, jobs: usize) -> Self;

    /// The groups of workers; one for all unless it says otherwise.
    fn shares(spec: &Spec, workers: usize) -> Shares {
        Shares { group_of: vec![0; spec.class_count()], sizes: vec![workers] }
    }

    /// Of the classes that have a job that can be placed now, which one; the unknown classes are the
    /// last.
    fn choose(&mut self, now: Nanos, queues: &Queues) -> Option<usize>;

    /// The job, of the class chosen, has been given a place.
    fn placed(&mut self, _class: usize, _classes: &Classes, _job: &Job) {}

    /// The job had so much service since that was told of it last.
    fn served(&mut self, _class: usize, _classes: &Classes, _job: JobId, _service: Nanos) {}

    /// The class has one more place with a worker, chosen or taken over.
    fn occupied(&mut self, _class: usize) {}

    /// The class has one place less.
    fn vacated(&mut self, _class: usize) {}

    /// The class's mean service time has changed.
    fn learnt(&mut self, _class: usize, _classes: &Classes) {}
}

/// Queues for each class, and the order of the classes; see the module's head.
pub struct Typed<O> {
    order: O,
    shares: bool,
    quantum: Option<Nanos>,
    queues: Queues,
}

#[allow(private_bounds, reason = "the members of the family are all in here")]
impl<O: Order> Typed<O> {
    pub(crate) fn new(spec: &Spec, workers: usize, jobs: usize) -> Self {
        let classes = Classes::new(spec);
        Self {
            order: O::new(spec, &classes, workers, jobs),
            shares: spec.shares(),
            quantum: spec.quantum,
            queues: Queues::new(classes, &O::shares(spec, workers), spec.jbsq, jobs),
        }
    }

    fn occupy(&mut self, on: WorkerId, class: usize) {
        self.queues.occupy(on);
        if on != WorkerId::DISPATCHER {
            self.order.occupied(class);
        }
    }

    fn vacate(&mut self, on: WorkerId, class: usize) {
        self.queues.vacate(on);
        if on != WorkerId::DISPATCHER {
            self.order.vacated(class);
        }
    }

    /// The job has had `attained` by now.
    fn served(&mut self, id: JobId, class: usize, attained: Nanos) {
        let service = attained - self.queues.table.job(id).attained;
        self.order.served(class, &self.queues.classes, id, service);
    }
}

/// Out of line: a driver's loop would have the code of all policies in it, and their registers.
impl<O: Order> Policy for Typed<O> {
    #[inline(never)]
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        if !self.queues.table.has_room_for(job.id) {
            return Err(Refused(job));
        }
        self.inherit(now, job);
        Ok(())
    }

    fn inherit(&mut self, _now: Nanos, job: Job) {
        self.queues.push(job, Where::Out, false);
    }

    #[inline(never)]
    fn yielded(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        let class = self.queues.classes.index(job.class);
        self.served(job.id, class, job.attained);
        self.queues.push(job, Where::On(on), O::YIELDED_FIRST);
        self.vacate(on, class);
    }

    #[inline(never)]
    fn completed(&mut self, _now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        self.queues.table.step(id, Where::On(on), Where::Out);
        let class = self.queues.class_of(id);
        self.served(id, class, attained);
        self.queues.classes.completed(class, attained);
        self.order.learnt(class, &self.queues.classes);
        self.vacate(on, class);
    }

    fn dropped(&mut self, _now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        self.queues.table.step(id, Where::On(on), Where::Out);
        let class = self.queues.class_of(id);
        self.served(id, class, attained);
        self.vacate(on, class);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.queues.table.step(id, Where::On(on), Where::Blocked(on));
        self.vacate(on, self.queues.class_of(id));
    }

    fn woken(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        let class = self.queues.classes.index(job.class);
        self.served(job.id, class, job.attained);
        self.queues.push(job, Where::Blocked(on), false);
    }

    fn resumed(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.queues.table.step(id, Where::Blocked(on), Where::On(on));
        self.occupy(on, self.queues.class_of(id));
    }

    #[inline(never)]
    fn decide(&mut self, now: Nanos) -> Decision {
        // The answer to most questions, as each event is followed by one.
        if !O::FORGETS && self.queues.table.waiting() == 0 {
            return Decision::Idle;
        }
        if let Some(class) = self.order.choose(now, &self.queues)
            && let Some((job, on)) = self.queues.take(class)
        {
            self.order.placed(class, &self.queues.classes, &job);
            self.occupy(on, class);
            return Decision::Run { job, on, quantum: self.quantum.filter(|_| self.shares) };
        }
        match self.queues.take_parked() {
            Some(job) => dispatcher_slice(job, self.quantum),
            None => Decision::Idle,
        }
    }

    #[inline(never)]
    fn wants_place(&self, _now: Nanos, on: WorkerId) -> bool {
        self.shares && self.queues.is_wanted(on.index())
    }

    fn worker_up(&mut self, _now: Nanos, on: WorkerId) {
        self.queues.set_up(on, true);
    }

    fn worker_down(&mut self, _now: Nanos, on: WorkerId) {
        self.queues.set_up(on, false);
    }

    fn waiting(&self) -> usize {
        self.queues.table.waiting()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum;
    }

    /// O(classes × workers where jobs wait that are pinned): it looks at every list's head.
    fn evict(&mut self) -> Option<Job> {
        self.queues.take_oldest()
    }

    fn adopt(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.queues.table.adopt(job, on);
        self.occupy(on, self.queues.classes.index(job.class));
    }
}
