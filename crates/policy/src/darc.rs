//! DARC, dynamic application-aware reserved cores (Perséphone §3–4.3), and what is made from it.
//!
//! Each class has a queue of its own. A decision looks at the queues in ascending order of mean
//! service time and gives the oldest request of the first that isn't empty to a worker that it may
//! use: one of its group's own, else one that belongs to a longer group; never one that belongs to a
//! shorter group. So workers may be idle while long requests wait, and short ones find them free.
//! The workers that a class may use follow from a profile of the classes ([`profile`]) by way of a
//! [`plan`]. Until the first profile, and where it never comes, this is c-FCFS. What is in no
//! profile (the unknown class, classes that were not seen in the last window) waits for the
//! spillway, the last worker.
//!
//! * `darc`: reservations are rounded demands, jobs run to completion.
//! * `darc-static`: so many workers for the shortest class, and the others share the rest.
//! * `darc-ps`: what runs is pre-empted, at the end of its quantum, for what is shorter. So the
//!   demand of a group need not be rounded up to workers of its own, which longer ones would miss:
//!   workers are reserved for requests shorter than a quantum, and only those that they keep busy.
//!   With one worker or two that is none, and what remains is a pre-emptive priority. In a group whose
//!   service times hardly vary, jobs are served to the end in turn; elsewhere new ones go before those
//!   that have had a quantum, and these take turns. A job that turns out to be like those of a longer
//!   group goes on among them. Each window is put into force. Until the first profile this is PS.
//!
//! With inboxes of k > 1 jobs, places are still free ones first. A place behind another job is for
//! a job whose own group the worker is reserved for: to steal, the worker must be idle. Under
//! `darc-ps`, where no job waits behind a long one for longer than a quantum, it is for any job
//! that may run there.
//!
//! A decision costs O(classes that wait + log workers). A plan costs O(workers × classes), and no
//! allocation. The dispatcher owns it; the invariant is that of [`Table`], and that the places of
//! worker *w* are taken by the jobs that are `On` *w*.

mod explain;
mod plan;
mod profile;
mod queues;

pub use explain::Reservation;
use plan::{Order, Plan};
use profile::Profile;
use queues::{Key, NOBODY, Next};

use crate::places::Places;
use crate::set::Set;
use crate::table::{List, Table, Where};
use crate::tournament::Tournament;
use crate::{
    ClassId, Decision, Job, JobId, Nanos, Policy, Refused, Spec, WorkerId, dispatcher_slice,
};

/// What waits of one class.
#[derive(Clone, Copy)]
struct Queue {
    fresh: List,
    /// Has run, may go on anywhere.
    started: List,
}

/// The dispatcher's books of a worker, beside [`Places`].
#[derive(Clone, Copy)]
struct Books {
    /// The ids of its jobs, blocked ones not counted, exclusive-or-ed: its job's, where it has one.
    ids: u32,
    /// When the latest of them was sent.
    sent: Nanos,
    /// In which of its lists jobs wait that may go on nowhere else.
    pinned: Set,
}

/// DARC; see the module's head.
pub struct Darc {
    /// What runs is pre-empted.
    preempts: bool,
    /// The length of quanta; of no effect unless it pre-empts.
    quantum: Option<Nanos>,
    table: Table,
    /// By class, the unknown one last.
    queues: Vec<Queue>,
    /// Which of them are not empty.
    waiting: Set,
    /// Started on the dispatcher, and goes on nowhere else.
    parked: List,
    workers: Vec<Books>,
    /// By worker, then as `queues`.
    pinned: Vec<List>,
    places: Places,
    /// The best pinned job of each worker with a free place.
    best_pinned: Tournament<Key>,
    profile: Profile,
    plan: Plan,
    updates: u64,
}

impl Darc {
    /// For the classes that `spec` knows, `workers` workers and job ids below `jobs`.
    pub(crate) fn new(spec: &Spec, workers: usize, jobs: usize) -> Self {
        let classes = spec.class_count() + 1;
        let queue = Queue { fresh: List::EMPTY, started: List::EMPTY };
        let idle = Books { ids: 0, sent: Nanos::ZERO, pinned: Set::EMPTY };
        let mut darc = Self {
            preempts: spec.shares(),
            quantum: spec.quantum,
            table: Table::new(jobs),
            queues: vec![queue; classes],
            waiting: Set::EMPTY,
            parked: List::EMPTY,
            workers: vec![idle; workers],
            pinned: vec![List::EMPTY; workers * classes],
            places: Places::new(workers, spec.jbsq),
            best_pinned: Tournament::new(workers, NOBODY, NOBODY),
            profile: Profile::new(spec),
            plan: Plan::new(spec, workers),
            updates: 0,
        };
        if darc.profile.is_in_force() {
            darc.plan.make(darc.profile.known(), darc.quantum);
        }
        darc
    }

    fn class_index(&self, class: ClassId) -> usize {
        usize::from(class.0).min(self.queues.len() - 1)
    }

    /// After a change of what a worker holds, of what waits for it alone, or of the plan.
    fn refresh(&mut self, worker: usize) {
        let wanted = !self.workers[worker].pinned.is_empty();
        if !self.places.set_wanted(worker, wanted) {
            return;
        }
        let has_place = wanted && self.places.has_place(worker);
        let best = if has_place { self.pinned_key(worker) } else { NOBODY };
        self.best_pinned.set(worker, best);
    }

    fn occupy(&mut self, now: Nanos, on: WorkerId, id: JobId) {
        if on != WorkerId::DISPATCHER {
            let books = &mut self.workers[on.index()];
            (books.ids, books.sent) = (books.ids ^ id.0, now);
            self.places.occupy(on);
            self.refresh(on.index());
        }
    }

    fn vacate(&mut self, on: WorkerId, id: JobId) {
        if on != WorkerId::DISPATCHER {
            let books = &mut self.workers[on.index()];
            books.ids ^= id.0;
            self.places.vacate(on);
            self.refresh(on.index());
        }
    }

    /// A worker that a job of that level may go to now.
    fn place_for(&self, level: u16) -> Option<usize> {
        let reach = self.plan.reach(level);
        let own = reach.start..usize::from(self.plan.level(level).to);
        let own = if self.preempts || own.is_empty() { reach.clone() } else { own };
        self.places.shortest_in(reach, 1).or_else(|| self.places.shortest_in(own, u32::MAX))
    }

    /// The unpinned job that goes next, and where to.
    fn find(&self) -> Option<(Next, usize)> {
        self.places.shortest(0)?;
        let first = self.next_of(&self.waiting)?;
        if let Some(worker) = self.place_for(first.key.0) {
            return Some((first, worker));
        }
        let mut others = self.waiting;
        others.remove(first.queue);
        while let Some(next) = self.next_of(&others) {
            if let Some(worker) = self.place_for(next.key.0) {
                return Some((next, worker));
            }
            others.remove(next.queue);
        }
        None
    }

    fn send(&mut self, now: Nanos, next: &Next, worker: usize) -> Job {
        let to = Where::On(WorkerId(worker as u16));
        let job = self.pop_unpinned(next.queue, next.started, to);
        if !next.started {
            self.profile.waited(next.queue, now.since(job.arrived));
        }
        job
    }

    fn send_pinned(&mut self, worker: usize) -> Job {
        let (_, queue) = self.pinned_queue(worker).expect("the worker has pinned jobs");
        self.pop_pinned(worker, queue, Where::On(WorkerId(worker as u16)))
    }

    /// A look at the window: whether the queues of now violate the objective, and what follows.
    fn review(&mut self, now: Nanos) {
        for class in self.waiting.iter() {
            if let Some(job) = self.table.head(&self.queues[class].fresh) {
                self.profile.waited(class, now.since(job.arrived));
            }
        }
        if self.profile.update() {
            self.updates += 1;
            self.replan();
        }
    }

    /// New reservations from the profile in force.
    fn replan(&mut self) {
        self.plan.make(self.profile.known(), self.quantum);
        self.sort_started();
        (0..self.workers.len()).for_each(|worker| self.refresh(worker));
    }

    /// Whether a job that waits should have `worker` rather than the one job that it holds.
    fn is_wanted(&self, now: Nanos, worker: usize) -> bool {
        let books = &self.workers[worker];
        let job = self.table.job(JobId(books.ids));
        let attained = job.attained + now.since(books.sent);
        let queue = self.plan.queue_of(self.class_index(job.class), attained.0);
        let level = self.plan.level_of(queue);
        let in_turn = self.plan.level(level).order == Order::StartedFirst;
        let rather = |waits: u16| waits < level || waits == level && !in_turn;
        let unpinned = self.next_of(&self.waiting);
        let comes = unpinned.is_some_and(|next| {
            rather(next.key.0) && self.plan.reach(next.key.0).contains(&worker)
        });
        comes || !books.pinned.is_empty() && rather(self.pinned_key(worker).0)
    }
}

impl Policy for Darc {
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        if !self.table.has_room_for(job.id) {
            return Err(Refused(job));
        }
        self.profile.arrived(self.class_index(job.class));
        self.inherit(now, job);
        Ok(())
    }

    fn refused(&mut self, _now: Nanos, class: ClassId) {
        self.profile.refused(self.class_index(class));
    }

    fn inherit(&mut self, _now: Nanos, job: Job) {
        if job.is_fresh() {
            let class = self.class_index(job.class);
            self.table.push(&mut self.queues[class].fresh, job, Where::Out);
            self.waiting.insert(class);
        } else {
            self.requeue(job, Where::Out);
        }
    }

    fn yielded(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.requeue(job, Where::On(on));
        self.vacate(on, job.id);
    }

    fn completed(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        self.table.step(id, Where::On(on), Where::Out);
        self.vacate(on, id);
        let class = self.class_index(self.table.job(id).class);
        if self.profile.completed(class, attained) {
            self.review(now);
        }
    }

    fn dropped(&mut self, _now: Nanos, on: WorkerId, id: JobId, _attained: Nanos) {
        self.table.step(id, Where::On(on), Where::Out);
        self.vacate(on, id);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::On(on), Where::Blocked(on));
        self.vacate(on, id);
    }

    fn woken(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.requeue(job, Where::Blocked(on));
    }

    fn resumed(&mut self, now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::Blocked(on), Where::On(on));
        self.occupy(now, on, id);
    }

    fn decide(&mut self, now: Nanos) -> Decision {
        // The answer to most questions, as each event is followed by one.
        if self.table.waiting() == 0 {
            return Decision::Idle;
        }
        let (owner, pinned) = self.best_pinned.best();
        let (job, worker) = match self.find() {
            Some((next, worker)) if next.key < pinned => (self.send(now, &next, worker), worker),
            _ if pinned != NOBODY => (self.send_pinned(owner), owner),
            _ => {
                let here = Where::On(WorkerId::DISPATCHER);
                return match self.table.pop(&mut self.parked, here) {
                    Some(job) => dispatcher_slice(job, self.quantum),
                    None => Decision::Idle,
                };
            }
        };
        let on = WorkerId(worker as u16);
        self.occupy(now, on, job.id);
        Decision::Run { job, on, quantum: self.quantum.filter(|_| self.preempts) }
    }

    fn wants_place(&self, now: Nanos, on: WorkerId) -> bool {
        let wanted = match self.places.held(on.index()) {
            0 => false,
            1 => self.is_wanted(now, on.index()),
            _ => true,
        };
        self.preempts && wanted
    }

    fn worker_up(&mut self, _now: Nanos, on: WorkerId) {
        self.places.set_up(on.index(), true);
        self.refresh(on.index());
    }

    fn worker_down(&mut self, _now: Nanos, on: WorkerId) {
        self.places.set_up(on.index(), false);
        self.refresh(on.index());
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum;
        if self.profile.is_in_force() {
            self.replan();
        }
    }

    /// O(lists that are not empty).
    fn evict(&mut self) -> Option<Job> {
        self.pop_oldest()
    }

    fn adopt(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.table.adopt(job, on);
        self.occupy(now, on, job.id);
    }
}
