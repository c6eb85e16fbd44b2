//! Work stealing: a queue for each worker, and idle workers take from the others' (ZygOS; Shenango
//! §5; Perséphone §5.1 measures against it). Jobs run to completion.
//!
//! Arrivals are spread over the queues at random, as receive-side scaling spreads flows. A worker
//! with a free place takes the oldest job of its own queue. One that holds none and finds its own
//! queue empty takes the oldest job of another's: any with jobs in it, all equally likely, the
//! longest, or the one whose oldest has waited longest ([`Victim`]).
//!
//! The queues are kept here, at the dispatcher, so that a theft is a decision like any other and no
//! worker touches another's memory; what a theft costs on a real machine is the simulator's to add.
//!
//! O(log workers) a decision. The invariant, by [`Table`]: a waiting job is in exactly one list; and
//! `stocked` has exactly the workers whose own lists hold jobs that others may take.

use crate::places::Places;
use crate::rng::Rng;
use crate::table::{List, Table, Where};
use crate::tournament::Tournament;
use crate::{
    Decision, Job, JobId, Nanos, Policy, Refused, Spec, Victim, WorkerId, dispatcher_slice,
};

/// The workers whose queues are not empty, for drawing one of them.
struct Stocked {
    members: Vec<u32>,
    /// Where each worker is among them; `u32::MAX`: not.
    index: Vec<u32>,
}

impl Stocked {
    const OUT: u32 = u32::MAX;

    fn set(&mut self, worker: usize, stocked: bool) {
        let index = self.index[worker];
        if stocked == (index != Self::OUT) {
            return;
        }
        if stocked {
            self.index[worker] = self.members.len() as u32;
            self.members.push(worker as u32);
        } else {
            self.members.swap_remove(index as usize);
            self.index[worker] = Self::OUT;
            if let Some(&moved) = self.members.get(index as usize) {
                self.index[moved as usize] = index;
            }
        }
    }
}

/// A queue for each worker, and thieves; see the module's head.
pub struct Steal {
    /// On the dispatcher, which must come back.
    quantum: Option<Nanos>,
    table: Table,
    /// Each worker's queue, of jobs that others may take.
    own: Vec<List>,
    /// How many are in it.
    lengths: Vec<u32>,
    /// Started on that worker, and goes on nowhere else.
    pinned: Vec<List>,
    /// Started on the dispatcher, and goes on nowhere else.
    parked: List,
    places: Places,
    /// When the oldest job of each worker with a free place was queued, pinned or not.
    ripe: Tournament<u64>,
    stocked: Stocked,
    /// The stocked workers in the order in which they are robbed, where that is not random: by the
    /// complement of the length, so that the longest comes first, or by when the oldest was queued.
    victims: Option<Tournament<u64>>,
    victim: Victim,
    rng: Rng,
}

impl Steal {
    pub(crate) fn new(spec: &Spec, workers: usize, jobs: usize, seed: u64) -> Self {
        Self {
            quantum: spec.quantum,
            table: Table::new(jobs),
            own: vec![List::EMPTY; workers],
            lengths: vec![0; workers],
            pinned: vec![List::EMPTY; workers],
            parked: List::EMPTY,
            places: Places::new(workers, spec.jbsq),
            ripe: Tournament::new(workers, Table::NEVER, Table::NEVER),
            stocked: Stocked {
                members: Vec::with_capacity(workers),
                index: vec![Stocked::OUT; workers],
            },
            victims: (spec.victim != Victim::Random)
                .then(|| Tournament::new(workers, u64::MAX, u64::MAX)),
            victim: spec.victim,
            rng: Rng::new(seed),
        }
    }

    /// The queue of a job that was on `on`.
    fn home(&mut self, on: WorkerId) -> usize {
        if on == WorkerId::DISPATCHER { self.rng.below(self.places.workers()) } else { on.index() }
    }

    /// The job, which was in `from`, waits from now on; `home`: in whose queue, if it may run
    /// anywhere.
    fn queue(&mut self, job: Job, from: Where, home: usize) {
        let (list, worker) = match job.pinned {
            Some(WorkerId::DISPATCHER) => return self.table.push(&mut self.parked, job, from),
            Some(worker) => (&mut self.pinned[worker.index()], worker.index()),
            None => (&mut self.own[home], home),
        };
        self.table.push(list, job, from);
        self.lengths[worker] += u32::from(job.pinned.is_none());
        self.refresh(worker);
    }

    /// Takes the oldest job out of `from`'s queue, or of those that are pinned there.
    fn take(&mut self, from: usize, pinned: bool, to: Where) -> Option<Job> {
        let list = if pinned { &mut self.pinned[from] } else { &mut self.own[from] };
        let job = self.table.pop(list, to)?;
        self.lengths[from] -= u32::from(!pinned);
        self.refresh(from);
        Some(job)
    }

    /// After a change of what a worker holds or of what waits for it.
    fn refresh(&mut self, worker: usize) {
        let length = self.lengths[worker];
        self.stocked.set(worker, length > 0);
        let oldest = self.table.head_seq(&self.own[worker]);
        if let Some(victims) = &mut self.victims {
            let oldest_first = self.victim == Victim::Oldest;
            victims.set(worker, if oldest_first { oldest } else { !u64::from(length) });
        }
        let oldest = oldest.min(self.table.head_seq(&self.pinned[worker]));
        let has_place = self.places.has_place(worker);
        self.ripe.set(worker, if has_place { oldest } else { Table::NEVER });
    }

    fn occupy(&mut self, on: WorkerId) {
        self.places.occupy(on);
        if on != WorkerId::DISPATCHER {
            self.refresh(on.index());
        }
    }

    fn vacate(&mut self, on: WorkerId) {
        self.places.vacate(on);
        if on != WorkerId::DISPATCHER {
            self.refresh(on.index());
        }
    }

    /// The oldest job of a worker with a free place, from its own queue; it has the place.
    fn own(&mut self) -> Option<(Job, WorkerId)> {
        let (worker, seq) = self.ripe.best();
        if seq == Table::NEVER {
            return None;
        }
        let on = WorkerId(worker as u16);
        let pinned = self.table.head_seq(&self.pinned[worker]) == seq;
        // First the place, then the job: the worker's next job is none of this decision's.
        self.occupy(on);
        Some((self.take(worker, pinned, Where::On(on))?, on))
    }

    /// The oldest job of another's queue, for a worker that has nothing at all; it has a place there.
    fn stolen(&mut self) -> Option<(Job, WorkerId)> {
        let idle = self.places.shortest(0).filter(|on| self.places.held(on.index()) == 0)?;
        let stocked = self.stocked.members.len();
        let victim = match &self.victims {
            _ if stocked == 0 => return None,
            None => self.stocked.members[self.rng.below(stocked)] as usize,
            Some(victims) => victims.best().0,
        };
        self.occupy(idle);
        Some((self.take(victim, false, Where::On(idle))?, idle))
    }
}

impl Policy for Steal {
    fn arrive(&mut self, _now: Nanos, job: Job) -> Result<(), Refused> {
        if !self.table.has_room_for(job.id) {
            return Err(Refused(job));
        }
        let home = self.rng.below(self.places.workers());
        self.queue(job, Where::Out, home);
        Ok(())
    }

    fn yielded(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        let home = self.home(on);
        self.queue(job, Where::On(on), home);
        self.vacate(on);
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
        let home = self.home(on);
        self.queue(job, Where::Blocked(on), home);
    }

    fn resumed(&mut self, _now: Nanos, on: WorkerId, id: JobId) {
        self.table.step(id, Where::Blocked(on), Where::On(on));
        self.occupy(on);
    }

    fn decide(&mut self, _now: Nanos) -> Decision {
        let found = match self.own() {
            None => self.stolen(),
            own => own,
        };
        if let Some((job, on)) = found {
            return Decision::Run { job, on, quantum: None };
        }
        match self.table.pop(&mut self.parked, Where::On(WorkerId::DISPATCHER)) {
            Some(job) => dispatcher_slice(job, self.quantum),
            None => Decision::Idle,
        }
    }

    fn wants_place(&self, _now: Nanos, _on: WorkerId) -> bool {
        false
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
    }

    /// O(workers): it looks at every list's head.
    fn evict(&mut self) -> Option<Job> {
        let heads = |lists: &[List]| {
            let seqs = lists.iter().map(|list| self.table.head_seq(list)).enumerate();
            seqs.min_by_key(|&(_, seq)| seq).unwrap_or((0, Table::NEVER))
        };
        let (own, pinned) = (heads(&self.own), heads(&self.pinned));
        if self.table.head_seq(&self.parked) < own.1.min(pinned.1) {
            return self.table.pop(&mut self.parked, Where::Out);
        }
        let oldest = if own.1 < pinned.1 { own } else { pinned };
        self.take(oldest.0, pinned.1 < own.1, Where::Out)
    }

    fn adopt(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.table.step(job.id, Where::Out, Where::On(on));
        self.occupy(on);
    }
}
