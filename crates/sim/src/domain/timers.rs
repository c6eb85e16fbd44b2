//! What happens at its time, whatever workers and dispatcher do: blocked jobs wake, workers lose their
//! cores and have them back. Only systems with [`Blocking`](crate::Blocking) or
//! [`Outages`](crate::Outages) have any of it, and it stays out of the others' way: nothing in here is
//! inlined.

use super::links::News;
use super::worker::Next;
use super::{Domain, Sink, dispatch_key, id};
use crate::agenda::{Key, NEVER, key, time};
use curtail_policy::{CorePolicy, JobId, Nanos, WorkerId};
use curtail_sched::EventKind;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// What the job waited for on that worker has come.
    Wake(JobId, WorkerId),
    /// The worker loses its core.
    Lose(u16),
    /// It has one again.
    Return(u16),
}

/// All that are set.
pub(super) struct Timers {
    /// When the first is due.
    pub(super) next: Key,
    /// The second is their number: of equals the one that was set first.
    heap: BinaryHeap<Reverse<(u64, u64, Timer)>>,
    set: u64,
}

impl Timers {
    pub(super) fn new() -> Self {
        Self { next: NEVER, heap: BinaryHeap::new(), set: 0 }
    }

    pub(super) fn set(&mut self, at: u64, timer: Timer) {
        self.heap.push(Reverse((at, self.set, timer)));
        self.set += 1;
        self.next = self.next.min(dispatch_key(at));
    }

    fn take(&mut self, now: u64) -> Option<Timer> {
        if self.next > dispatch_key(now) {
            return None;
        }
        let Reverse((.., timer)) = self.heap.pop()?;
        self.next = self.heap.peek().map_or(NEVER, |Reverse((at, ..))| dispatch_key(*at));
        Some(timer)
    }
}

/// What a worker owes to the dispatcher, that could do nothing when it was asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owed {
    #[default]
    Nothing,
    /// Its quantum has ended.
    Quantum,
    /// It is to yield.
    Place,
}

/// A worker that has no core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    since: u64,
    /// What was due there then.
    due: Key,
    pub(super) owed: Owed,
}

impl Domain {
    /// The first of them that is due; false: none is.
    #[cold]
    #[inline(never)]
    pub(super) fn timer(&mut self, now: u64, sink: &mut impl Sink) -> bool {
        match self.links.timers.take(now) {
            None => return false,
            Some(Timer::Wake(job, on)) => self.wake(job, on, now, sink),
            Some(Timer::Lose(worker)) => self.lose(usize::from(worker), now),
            Some(Timer::Return(worker)) => self.get_back(usize::from(worker), now, sink),
        }
        true
    }

    /// The job that runs on `worker` blocks.
    #[cold]
    #[inline(never)]
    pub(super) fn block(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        self.sched.data_mut(self.workers[worker].job).blocks_at = 0;
        if self.costs.switch > 0 {
            self.counts.overhead_ns += self.costs.switch;
            self.schedule(worker, Next::Blocked, now + self.costs.switch);
        } else {
            self.blocked(worker, now, sink);
        }
    }

    /// The worker has left the job that blocks.
    #[cold]
    #[inline(never)]
    pub(super) fn blocked(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        let job = self.workers[worker].job;
        if !self.two_level {
            self.workers[worker].quanta -= u64::from(self.sched.data(job).quanta);
        }
        self.sleep(job, id(worker), now);
        self.start_again(worker, now);
        self.tell(now, News { on: id(worker), job, what: EventKind::Blocked }, sink);
    }

    /// As `start`, for those to whom it does not belong.
    #[cold]
    #[inline(never)]
    fn start_again(&mut self, worker: usize, now: u64) {
        self.start(worker, now);
    }

    /// The job sleeps on `on` from now on.
    pub(super) fn sleep(&mut self, job: JobId, on: WorkerId, now: u64) {
        let wait = self.blocker.as_mut().map_or(0, |blocker| blocker.wait());
        // A wait that ends at once takes a nanosecond all the same: the job has left the worker.
        self.links.timers.set(now + wait.max(1), Timer::Wake(job, on));
    }

    #[cold]
    #[inline(never)]
    fn wake(&mut self, job: JobId, on: WorkerId, now: u64, sink: &mut impl Sink) {
        if !self.two_level || on == WorkerId::DISPATCHER {
            return self.tell(now, News { on, job, what: EventKind::Woken }, sink);
        }
        let (known, _) = self.job(job);
        let at = &mut self.workers[on.index()];
        at.core.ready(Nanos(now), known);
        if at.is_free() {
            self.start_again(on.index(), now);
        }
        self.tell(now, News { on, job, what: EventKind::Resumed }, sink);
    }

    #[cold]
    #[inline(never)]
    fn lose(&mut self, worker: usize, now: u64) {
        let due = self.agenda.key(worker);
        self.agenda.set(worker, NEVER);
        self.workers[worker].lost = Some(Lost { since: now, due, owed: Owed::Nothing });
        let Some(thief) = &mut self.thief else { return };
        self.links.timers.set(now + thief.length().max(1), Timer::Return(worker as u16));
        if thief.told {
            self.sched.worker_down(Nanos(now), id(worker));
        }
    }

    #[cold]
    #[inline(never)]
    fn get_back(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        let at = &mut self.workers[worker];
        let Some(Lost { since, due, owed }) = at.lost.take() else { return };
        let lost = now - since;
        self.counts.lost_ns += lost;
        at.delay(lost);
        if due != NEVER {
            let rank = due - key(time(due), 0);
            self.agenda.set(worker, key(time(due) + lost, rank));
        }
        if let Some(thief) = &mut self.thief {
            self.links.timers.set(now + thief.next().max(1), Timer::Lose(worker as u16));
            if thief.told {
                self.sched.worker_up(Nanos(now), id(worker));
            }
        }
        let at = &self.workers[worker];
        match owed {
            _ if at.next == Next::Nothing => self.start_again(worker, now),
            Owed::Quantum if at.is_running() => self.quantum_end(worker, now, sink),
            Owed::Place if at.is_running() => self.preempt(worker, now, sink),
            _ => {}
        }
        if self.workers[worker].next == Next::Nothing {
            self.agenda.set(worker, NEVER);
        }
    }
}
