//! The dispatcher of a two-level policy: it sends each job to a worker once, and the worker's
//! [`CorePolicy`](crate::CorePolicy) does the rest (Tiny Quanta §3.2). d-FCFS is the simplest case.
//!
//! A job waits here only between its arrival and the next decision. The exceptions come from a live
//! switch: jobs that started on the dispatcher itself under the policy before, and that no worker
//! may go on with, and jobs that a worker gave back before it heard of the switch.
//!
//! The dispatcher owns it. A decision costs O(1) where the worker is random, the next in turn or the
//! better of two; for the shortest queue O(log workers), as does whatever makes a queue longer or
//! shorter (a [`Tournament`]).

use crate::places::Inboxes;
use crate::rng::Rng;
use crate::table::{List, Table, Where};
use crate::tournament::Tournament;
use crate::{Decision, Job, JobId, Nanos, Policy, Refused, Ties, WorkerId, dispatcher_slice};

/// Which worker gets a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Any, all equally likely.
    Random,
    /// Each in turn.
    RoundRobin,
    /// One with the fewest unfinished jobs.
    Shortest(Ties),
}

/// A load balancer in front of independent workers; see the module's head.
pub struct PerWorker {
    choice: Choice,
    /// Workers take turns among their jobs; otherwise each runs to completion.
    shares: bool,
    quantum: Option<Nanos>,
    table: Table,
    /// Arrived, and not yet sent.
    new: List,
    /// Started on the dispatcher, and goes on nowhere else.
    parked: List,
    /// Each worker's unfinished jobs, and which workers take new ones.
    inboxes: Inboxes,
    /// Where the choice needs it: each worker's key is its unfinished jobs, then (MSQ only) the
    /// complement of the quanta that they have had, so that the most serviced comes first.
    shortest: Option<Tournament<(u32, u64)>>,
    /// How many of each worker's jobs are blocked.
    blocked: Vec<u32>,
    /// The complement of the quanta that jobs have had on each worker that is down.
    serviced: Vec<u64>,
    rng: Rng,
    /// Whose turn it is.
    turn: usize,
}

impl PerWorker {
    pub(crate) fn new(
        choice: Choice,
        shares: bool,
        quantum: Option<Nanos>,
        (workers, jobs, seed): (usize, usize, u64),
    ) -> Self {
        Self {
            choice,
            shares,
            quantum,
            table: Table::new(jobs),
            new: List::EMPTY,
            parked: List::EMPTY,
            inboxes: Inboxes::new(workers),
            shortest: matches!(choice, Choice::Shortest(Ties::Msq | Ties::Random))
                .then(|| Tournament::new(workers, (0, u64::MAX), Self::DOWN)),
            blocked: vec![0; workers],
            serviced: vec![u64::MAX; workers],
            rng: Rng::new(seed),
            turn: 0,
        }
    }

    /// The key of a worker that takes no jobs.
    const DOWN: (u32, u64) = (u32::MAX, u64::MAX);

    fn workers(&self) -> usize {
        self.inboxes.workers()
    }

    fn queue(&mut self, job: Job, from: Where) {
        let here = job.pinned == Some(WorkerId::DISPATCHER);
        let list = if here { &mut self.parked } else { &mut self.new };
        self.table.push(list, job, from);
    }

    fn joins(&mut self, on: WorkerId) {
        if let Some(worker) = self.inboxes.occupy(on) {
            self.rank(worker, None);
        }
    }

    fn leaves(&mut self, on: WorkerId) {
        if let Some(worker) = self.inboxes.vacate(on) {
            self.rank(worker, None);
        }
    }

    /// After a change of a worker's unfinished jobs, or of the quanta that they have had.
    fn rank(&mut self, worker: usize, quanta: Option<u64>) {
        let Some(shortest) = &mut self.shortest else { return };
        if self.inboxes.is_up(worker) {
            let serviced = quanta.map_or_else(|| shortest.key(worker).1, |quanta| !quanta);
            shortest.set(worker, (self.inboxes.held(worker), serviced));
        } else if let Some(quanta) = quanta {
            self.serviced[worker] = !quanta;
        }
    }

    /// A worker that is up; there is one.
    fn choose(&mut self) -> WorkerId {
        let mut worker = match self.choice {
            Choice::Random => self.rng.below(self.workers()),
            Choice::RoundRobin => {
                let next = (self.turn + 1) % self.workers();
                std::mem::replace(&mut self.turn, next)
            }
            Choice::Shortest(ties) => match &self.shortest {
                Some(shortest) if ties == Ties::Random => {
                    shortest.tied(self.rng.below(shortest.ties()))
                }
                Some(shortest) => shortest.best().0,
                None => self.shorter_of_two(),
            },
        };
        if !self.inboxes.is_up(worker) {
            worker = self.another();
        }
        WorkerId(worker as u16)
    }

    /// Any worker that is up, all equally likely; in place of one that is not.
    #[cold]
    fn another(&mut self) -> usize {
        let nth = self.rng.below(self.workers() - self.inboxes.down());
        let mut up = (0..self.workers()).filter(|&worker| self.inboxes.is_up(worker));
        up.nth(nth).expect("so many are up")
    }

    /// Of two distinct workers drawn at random the one with fewer unfinished jobs, else the one
    /// drawn first, which is as random.
    fn shorter_of_two(&mut self) -> usize {
        let first = self.rng.below(self.workers());
        if self.workers() == 1 {
            return first;
        }
        let other = self.rng.below(self.workers() - 1);
        let second = other + usize::from(other >= first);
        let inboxes = &self.inboxes;
        let length = |worker: usize| match inboxes.is_up(worker) {
            true => inboxes.held(worker),
            false => u32::MAX,
        };
        if length(second) < length(first) { second } else { first }
    }
}

impl Policy for PerWorker {
    fn arrive(&mut self, _now: Nanos, job: Job) -> Result<(), Refused> {
        if !self.table.has_room_for(job.id) {
            return Err(Refused(job));
        }
        self.queue(job, Where::Out);
        Ok(())
    }

    fn yielded(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.queue(job, Where::On(on));
        self.leaves(on);
    }

    fn completed(&mut self, _now: Nanos, on: WorkerId, id: JobId, _attained: Nanos) {
        self.table.step(id, Where::On(on), Where::Out);
        self.leaves(on);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::On(on), Where::Blocked(on));
        if on != WorkerId::DISPATCHER {
            self.blocked[on.index()] += 1;
        }
    }

    fn woken(&mut self, now: Nanos, on: WorkerId, job: Job) {
        if on == WorkerId::DISPATCHER {
            // No core policy will look after it there.
            self.queue(job, Where::Blocked(on));
        } else {
            self.resumed(now, on, job.id);
        }
    }

    fn resumed(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::Blocked(on), Where::On(on));
        if on != WorkerId::DISPATCHER {
            self.blocked[on.index()] -= 1;
        }
    }

    fn serviced(&mut self, on: WorkerId, quanta: u64) {
        if self.choice == Choice::Shortest(Ties::Msq) && on != WorkerId::DISPATCHER {
            self.rank(on.index(), Some(quanta));
        }
    }

    fn decide(&mut self, _now: Nanos) -> Decision {
        // The answer to most questions, as each event is followed by one.
        if self.table.waiting() == 0 {
            return Decision::Idle;
        }
        let placed = |job: &Job| job.pinned.is_some() || self.inboxes.down() < self.workers();
        if let Some(next) = self.table.head(&self.new).filter(placed) {
            let on = next.pinned.unwrap_or_else(|| self.choose());
            self.joins(on);
            let job = self.table.pop(&mut self.new, Where::On(on)).unwrap_or(next);
            return Decision::Run { job, on, quantum: self.quantum.filter(|_| self.shares) };
        }
        match self.table.pop(&mut self.parked, Where::On(WorkerId::DISPATCHER)) {
            Some(job) => dispatcher_slice(job, self.quantum),
            None => Decision::Idle,
        }
    }

    fn wants_place(&self, _now: Nanos, on: WorkerId) -> bool {
        let ready = self.inboxes.held(on.index()) - self.blocked[on.index()];
        self.shares && ready > 1
    }

    fn worker_up(&mut self, _now: Nanos, on: WorkerId) {
        let worker = on.index();
        if self.inboxes.set_up(worker, true)
            && let Some(shortest) = &mut self.shortest
        {
            shortest.set(worker, (self.inboxes.held(worker), self.serviced[worker]));
        }
    }

    fn worker_down(&mut self, _now: Nanos, on: WorkerId) {
        let worker = on.index();
        if self.inboxes.set_up(worker, false)
            && let Some(shortest) = &mut self.shortest
        {
            self.serviced[worker] = shortest.key(worker).1;
            shortest.set(worker, Self::DOWN);
        }
    }

    fn waiting(&self) -> usize {
        self.table.waiting()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum;
    }

    fn evict(&mut self) -> Option<Job> {
        let new_first = self.table.head_seq(&self.new) < self.table.head_seq(&self.parked);
        let list = if new_first { &mut self.new } else { &mut self.parked };
        self.table.pop(list, Where::Out)
    }

    fn adopt(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.table.step(job.id, Where::Out, Where::On(on));
        self.joins(on);
    }
}
