//! What runs on each worker, as a pre-emptive [`super::Ranked`] must know it, and whose place has
//! been asked for.
//!
//! The invariant: `last` holds the running jobs whose places have not been asked for, as far as they
//! are known: where a worker holds one job, that was placed here while it held none.

use super::Rank;
use super::heap::{Heaps, Key};
use crate::tournament::Tournament;
use crate::{Job, Nanos, WorkerId};
use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Occupant {
    lasting: u64,
    ticket: u64,
    since: Nanos,
    /// As it was placed.
    job: Job,
}

impl Occupant {
    fn ran(&self, now: Nanos) -> Nanos {
        now.since(self.since)
    }

    fn standing(&self, order: &impl Rank, now: Nanos) -> u64 {
        order.standing(&self.job, self.lasting, self.job.attained + self.ran(now), now)
    }
}

/// What runs on each worker, and whose place has been asked for.
pub(crate) struct Running {
    /// Whether workers are asked for their places at all.
    asks: bool,
    jobs: Vec<Option<Occupant>>,
    /// By the complement of (lasting rank, ticket), so that the last in the order comes first.
    last: Tournament<Key>,
    asked: Vec<bool>,
    /// How many have been asked and have not given up their places.
    outstanding: usize,
    /// Workers that have been asked, and are still to be told. In between, what ran there may have
    /// stopped, and the worker may have been asked again.
    to_tell: VecDeque<WorkerId>,
    /// Which workers are in `to_tell`: each at most once.
    queued: Vec<bool>,
}

impl Running {
    pub(crate) fn new(workers: usize, asks: bool) -> Self {
        Self {
            asks,
            jobs: vec![None; workers],
            last: Tournament::new(workers, Heaps::WORST, Heaps::WORST),
            asked: vec![false; workers],
            outstanding: 0,
            to_tell: VecDeque::with_capacity(workers),
            queued: vec![false; workers],
        }
    }

    /// `job` alone runs on `on` from now on.
    pub(crate) fn started(
        &mut self,
        order: &impl Rank,
        now: Nanos,
        on: WorkerId,
        job: &Job,
        key: Key,
    ) {
        let lasting = order.lasting(key.0, now);
        let running = Occupant { lasting, ticket: key.1, since: now, job: *job };
        self.jobs[on.index()] = Some(running);
        self.list(on.index());
    }

    /// What runs on `on` goes on after a quantum.
    pub(crate) fn renew(&mut self, order: &impl Rank, now: Nanos, on: WorkerId) {
        if let Some(job) = &mut self.jobs[on.index()] {
            job.lasting = order.lasting(job.standing(order, now), now);
            if !self.asked[on.index()] {
                self.list(on.index());
            }
        }
    }

    /// Ranks have changed.
    pub(crate) fn renew_all(&mut self, order: &impl Rank, now: Nanos) {
        (0..self.jobs.len()).for_each(|worker| self.renew(order, now, WorkerId(worker as u16)));
    }

    /// For how long the job has been on `on`, alone, and how much service it has had there; where
    /// that is known.
    pub(crate) fn stay(&self, now: Nanos, on: WorkerId, job: &Job) -> Option<(Nanos, Nanos)> {
        let known = (on != WorkerId::DISPATCHER).then(|| self.jobs[on.index()])??;
        let same = known.job.id == job.id;
        same.then(|| (known.ran(now), job.attained - known.job.attained))
    }

    /// What ran there does not any more, or it is not known what runs there.
    pub(crate) fn stopped(&mut self, on: WorkerId) {
        if on == WorkerId::DISPATCHER {
            return;
        }
        self.jobs[on.index()] = None;
        self.last.set(on.index(), Heaps::WORST);
        if std::mem::take(&mut self.asked[on.index()]) {
            self.outstanding -= 1;
        }
    }

    fn list(&mut self, worker: usize) {
        if let (true, Some(job)) = (self.asks, self.jobs[worker]) {
            // The worst key stands for "none" here. The one job that has it, of rank 0 and ticket
            // 0, ranks before all others: its place is never asked for.
            self.last.set(worker, (!job.lasting, !job.ticket));
        }
    }

    /// How many places will be free because they were asked for.
    pub(crate) fn asked(&self) -> usize {
        self.outstanding
    }

    /// No worker has been asked for a place, and none is to be told of it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outstanding == 0 && self.to_tell.is_empty()
    }

    /// Where the last job in the order runs whose place has not been asked for.
    pub(crate) fn last(&self) -> Option<WorkerId> {
        let (worker, key) = self.last.best();
        (key != Heaps::WORST).then_some(WorkerId(worker as u16))
    }

    /// Whether the job that runs on `on` ranks strictly after `rank`. What is not known does.
    pub(crate) fn ranks_after(
        &self,
        order: &impl Rank,
        now: Nanos,
        on: WorkerId,
        rank: u64,
    ) -> bool {
        self.jobs[on.index()].is_none_or(|job| job.standing(order, now) > rank)
    }

    /// Asks for the place of what runs on `on`, if that ranks after `rank` and was not asked yet.
    pub(crate) fn ask_for(&mut self, order: &impl Rank, now: Nanos, on: WorkerId, rank: u64) {
        let worker = on.index();
        let may = |job: Occupant| self.asks && order.may_ask(job.ran(now));
        let known = self.jobs[worker].is_some_and(may);
        if known && !self.asked[worker] && self.ranks_after(order, now, on, rank) {
            self.asked[worker] = true;
            self.outstanding += 1;
            self.last.set(worker, Heaps::WORST);
            if !std::mem::replace(&mut self.queued[worker], true) {
                self.to_tell.push_back(on);
            }
        }
    }

    /// The next that was asked for its place and still has it.
    pub(crate) fn next_to_ask(&mut self) -> Option<WorkerId> {
        while let Some(on) = self.to_tell.pop_front() {
            self.queued[on.index()] = false;
            if self.asked[on.index()] {
                return Some(on);
            }
        }
        None
    }

    /// That place is not wanted any more.
    pub(crate) fn unask(&mut self, on: WorkerId) {
        if std::mem::take(&mut self.asked[on.index()]) {
            self.outstanding -= 1;
            self.list(on.index());
        }
    }
}
