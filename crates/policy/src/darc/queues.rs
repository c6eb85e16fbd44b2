//! What waits under DARC, and in which order: a queue for each class, and lists for each worker of
//! the jobs that may go on nowhere else.
//!
//! A part of [`Darc`]. The invariant: a class is in `waiting` if and only if its queue is not empty,
//! and in a worker's `pinned` set if and only if the worker's list for it is not.

use super::plan::Order;
use super::{Books, Darc, Queue};
use crate::set::Set;
use crate::table::{List, Table, Where};
use crate::{Job, WorkerId};

/// A priority: the level, then the order in which jobs of one level go.
pub(super) type Key = (u16, u64);
pub(super) const NOBODY: Key = (u16::MAX, Table::NEVER);
/// In a [`Key`]: after the jobs of the level that go first.
const LATER: u64 = 1 << 63;

/// What a decision found.
pub(super) struct Next {
    pub(super) key: Key,
    pub(super) queue: usize,
    pub(super) started: bool,
}

impl Darc {
    /// Where a job that has started queues.
    pub(super) fn queue_of(&self, job: &Job) -> usize {
        let class = self.class_index(job.class);
        if self.preempts { self.plan.queue_of(class, job.attained.0) } else { class }
    }

    /// Queues a job that has started.
    pub(super) fn requeue(&mut self, job: Job, from: Where) {
        let queue = self.queue_of(&job);
        match job.pinned {
            None => {
                self.table.push(&mut self.queues[queue].started, job, from);
                self.waiting.insert(queue);
            }
            Some(WorkerId::DISPATCHER) => self.table.push(&mut self.parked, job, from),
            Some(on) => {
                let list = on.index() * self.queues.len() + queue;
                self.table.push(&mut self.pinned[list], job, from);
                self.workers[on.index()].pinned.insert(queue);
                self.refresh(on.index());
            }
        }
    }

    pub(super) fn key(&self, queue: usize, list: &List, started: bool) -> Key {
        let level = self.plan.level_of(queue);
        let first = match self.plan.level(level).order {
            Order::Queueing => false,
            Order::StartedFirst => started,
            Order::FreshFirst => !started,
        };
        let order = self.table.head_seq(list) | if first { 0 } else { LATER };
        (level, order)
    }

    /// The best key among the pinned jobs of a worker that has some.
    pub(super) fn pinned_key(&self, worker: usize) -> Key {
        self.pinned_queue(worker).map_or(NOBODY, |(key, _)| key)
    }

    pub(super) fn pinned_queue(&self, worker: usize) -> Option<(Key, usize)> {
        let lists = &self.pinned[worker * self.queues.len()..][..self.queues.len()];
        let waiting = self.workers[worker].pinned.iter();
        waiting.map(|queue| (self.key(queue, &lists[queue], true), queue)).min()
    }

    /// The job that goes next among those of `queues`.
    pub(super) fn next_of(&self, queues: &Set) -> Option<Next> {
        let candidates = queues.iter().map(|index| {
            let queue = &self.queues[index];
            let started = match (queue.started.is_empty(), queue.fresh.is_empty()) {
                (true, _) => NOBODY,
                (false, _) => self.key(index, &queue.started, true),
            };
            let fresh = match queue.fresh.is_empty() {
                true => NOBODY,
                false => self.key(index, &queue.fresh, false),
            };
            Next { key: started.min(fresh), queue: index, started: started < fresh }
        });
        candidates.min_by_key(|next| next.key)
    }

    pub(super) fn pop_unpinned(&mut self, index: usize, started: bool, to: Where) -> Job {
        let queue = &mut self.queues[index];
        let list = if started { &mut queue.started } else { &mut queue.fresh };
        let job = self.table.pop(list, to).expect("the list was looked at");
        if queue.fresh.is_empty() && queue.started.is_empty() {
            self.waiting.remove(index);
        }
        job
    }

    pub(super) fn pop_pinned(&mut self, worker: usize, queue: usize, to: Where) -> Job {
        let list = &mut self.pinned[worker * self.queues.len() + queue];
        let job = self.table.pop(list, to).expect("the worker's mask says that there is one");
        if list.is_empty() {
            self.workers[worker].pinned.remove(queue);
        }
        job
    }

    /// Jobs that had turned out to be longer than their class, and that may go on anywhere, queue
    /// by the new plan: among classes that were the longer ones by the old plan they might get
    /// workers now that are reserved for shorter ones.
    pub(super) fn sort_started(&mut self) {
        let mut all = List::EMPTY;
        let oldest = |darc: &Self| {
            let seqs = darc.queues.iter().map(|queue| darc.table.head_seq(&queue.started));
            seqs.zip(0..).min().filter(|&(seq, _)| seq != Table::NEVER).map(|(_, index)| index)
        };
        while let Some(index) = oldest(self) {
            self.table.shift(&mut self.queues[index as usize].started, &mut all);
        }
        while let Some(job) = self.table.head(&all) {
            let queue = self.queue_of(&job);
            self.table.shift(&mut all, &mut self.queues[queue].started);
        }
        for (index, queue) in self.queues.iter().enumerate() {
            match queue.fresh.is_empty() && queue.started.is_empty() {
                true => self.waiting.remove(index),
                false => self.waiting.insert(index),
            }
        }
    }

    /// Takes out the job that was queued first.
    pub(super) fn pop_oldest(&mut self) -> Option<Job> {
        let of_worker = |(worker, books): (usize, &Books)| {
            let lists = &self.pinned[worker * self.queues.len()..];
            let oldest =
                books.pinned.iter().map(|queue| (self.table.head_seq(&lists[queue]), queue));
            oldest.min().map(|(seq, queue)| (seq, worker, queue))
        };
        let pinned = self.workers.iter().enumerate().filter_map(of_worker).min();
        let pinned_seq = pinned.map_or(Table::NEVER, |(seq, ..)| seq);
        let parked_seq = self.table.head_seq(&self.parked);
        let mut unpinned = (Table::NEVER, 0, false);
        for index in self.waiting.iter() {
            let Queue { fresh, started, .. } = &self.queues[index];
            let fresh = (self.table.head_seq(fresh), index, false);
            unpinned = unpinned.min(fresh).min((self.table.head_seq(started), index, true));
        }
        match (pinned, unpinned.0) {
            (Some((seq, worker, queue)), other) if seq < other.min(parked_seq) => {
                let job = self.pop_pinned(worker, queue, Where::Out);
                self.refresh(worker);
                Some(job)
            }
            (_, other) if other < pinned_seq.min(parked_seq) => {
                Some(self.pop_unpinned(unpinned.1, unpinned.2, Where::Out))
            }
            _ => self.table.pop(&mut self.parked, Where::Out),
        }
    }
}
