//! The jobs a policy knows, one slot for each [`JobId`], and FIFO lists threaded through the slots.
//!
//! Owned by one policy, so one thread touches it. The invariant: a job is in exactly one [`Where`],
//! and it is linked into exactly one [`List`] if and only if that is [`Where::Waiting`].
//! Every step checks where the job comes from, in every build: an event that does not fit is a bug
//! of the caller and would lose or duplicate a job.

use crate::{Job, JobId, WorkerId};
use std::fmt;

const NIL: u32 = u32::MAX;

/// Where a job is, as far as its policy knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Not in the policy.
    Out,
    /// In one of the policy's lists.
    Waiting,
    /// Sent to that worker, and neither finished nor blocked.
    On(WorkerId),
    /// Started on that worker, and waits for something.
    Blocked(WorkerId),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Out => f.write_str("not in the policy"),
            Self::Waiting => f.write_str("waiting in the policy"),
            Self::On(worker) => write!(f, "on {worker}"),
            Self::Blocked(worker) => write!(f, "blocked on {worker}"),
        }
    }
}

#[derive(Clone, Copy)]
struct Slot {
    job: Job,
    /// When it was queued, as a number: lists of one table merge in this order.
    seq: u64,
    next: u32,
    at: Where,
}

/// A FIFO list through a [`Table`]'s slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

/// All slots of one policy.
pub(crate) struct Table {
    slots: Vec<Slot>,
    next_seq: u64,
    /// What is pushed to the front is older than all before it.
    front_seq: u64,
    waiting: usize,
}

impl Table {
    /// Younger than every job.
    pub(crate) const NEVER: u64 = u64::MAX;

    /// From the middle, as jobs are also put before all others; below 2⁶³ for as long as it matters.
    const FIRST_SEQ: u64 = 1 << 62;

    /// Room for the ids below `jobs`.
    pub(crate) fn new(jobs: usize) -> Self {
        assert!(jobs < NIL as usize, "job ids are 32 bits wide");
        let job = Job::new(JobId(0), crate::ClassId(0), crate::Nanos::ZERO);
        let empty = Slot { job, seq: 0, next: NIL, at: Where::Out };
        let (next_seq, front_seq) = (Self::FIRST_SEQ, Self::FIRST_SEQ);
        Self { slots: vec![empty; jobs], next_seq, front_seq, waiting: 0 }
    }

    /// Whether there is a slot for that id.
    pub(crate) fn has_room_for(&self, id: JobId) -> bool {
        (id.0 as usize) < self.slots.len()
    }

    /// How many jobs are in lists.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Moves a job; neither is [`Where::Waiting`].
    pub(crate) fn step(&mut self, id: JobId, from: Where, to: Where) {
        let slot = &mut self.slots[id.0 as usize];
        if slot.at != from {
            out_of_step(id, slot.at, from);
        }
        slot.at = to;
    }

    /// A job that is in `from` waits in a structure other than a [`List`]; its record replaces the
    /// slot's.
    pub(crate) fn enter(&mut self, job: Job, from: Where) {
        self.step(job.id, from, Where::Waiting);
        self.slots[job.id.0 as usize].job = job;
        self.waiting += 1;
    }

    /// A job that waited in another structure is in `to` from now on.
    pub(crate) fn leave(&mut self, id: JobId, to: Where) -> Job {
        self.step(id, Where::Waiting, to);
        self.waiting -= 1;
        self.slots[id.0 as usize].job
    }

    /// Puts a job that is in `from` before all others of the list, and counts it as older than any
    /// that waits; its record replaces the slot's.
    pub(crate) fn push_front(&mut self, list: &mut List, job: Job, from: Where) {
        self.enter(job, from);
        self.front_seq -= 1;
        let index = job.id.0;
        let slot = &mut self.slots[index as usize];
        (slot.seq, slot.next) = (self.front_seq, list.head);
        if list.head == NIL {
            list.tail = index;
        }
        list.head = index;
    }

    /// Appends a job that is in `from`; its record replaces the slot's.
    pub(crate) fn push(&mut self, list: &mut List, job: Job, from: Where) {
        self.step(job.id, from, Where::Waiting);
        let index = job.id.0;
        let slot = &mut self.slots[index as usize];
        (slot.job, slot.seq, slot.next) = (job, self.next_seq, NIL);
        self.next_seq += 1;
        self.waiting += 1;
        if list.head == NIL {
            list.head = index;
        } else {
            self.slots[list.tail as usize].next = index;
        }
        list.tail = index;
    }

    /// Takes the head off, which is in `to` from now on.
    pub(crate) fn pop(&mut self, list: &mut List, to: Where) -> Option<Job> {
        if list.head == NIL {
            return None;
        }
        let slot = &mut self.slots[list.head as usize];
        slot.at = to;
        list.head = slot.next;
        self.waiting -= 1;
        Some(slot.job)
    }

    /// Moves the head of `from` to the tail of `to`, with its number in the order of queueing.
    pub(crate) fn shift(&mut self, from: &mut List, to: &mut List) {
        let index = from.head;
        debug_assert!(index != NIL, "there is a head to move");
        from.head = std::mem::replace(&mut self.slots[index as usize].next, NIL);
        if to.head == NIL {
            to.head = index;
        } else {
            self.slots[to.tail as usize].next = index;
        }
        to.tail = index;
    }

    /// The head, left where it is.
    pub(crate) fn head(&self, list: &List) -> Option<Job> {
        (list.head != NIL).then(|| self.slots[list.head as usize].job)
    }

    /// The job in that slot, as it was queued or adopted last.
    pub(crate) fn job(&self, id: JobId) -> &Job {
        &self.slots[id.0 as usize].job
    }

    /// A job that was not queued here is on `on`: its record is what the slot has.
    pub(crate) fn adopt(&mut self, job: Job, on: WorkerId) {
        self.step(job.id, Where::Out, Where::On(on));
        self.slots[job.id.0 as usize].job = job;
    }

    /// The head's number in the order of queueing; [`Table::NEVER`] where there is none.
    pub(crate) fn head_seq(&self, list: &List) -> u64 {
        if list.head == NIL { Self::NEVER } else { self.slots[list.head as usize].seq }
    }
}

#[cold]
#[inline(never)]
fn out_of_step(id: JobId, is: Where, expected: Where) -> ! {
    panic!("job {} is {is}; the event reported is for one that is {expected}", id.0)
}
