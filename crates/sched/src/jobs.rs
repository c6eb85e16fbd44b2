//! The table of jobs: a slot for each that is in the system, with what its driver keeps of it.
//!
//! Slots are used again last in, first out, so that few of them stay warm, and made when they are
//! needed first: a table with room for many jobs costs what it was used for. The invariant: a slot
//! is free, or its job is in exactly one [`Where`]. Every step checks where the job comes from, in
//! every build: an event that does not fit would lose or double a job.

use crate::{Arrival, EventKind};
use curtail_policy::{ClassId, Job, JobId, Nanos, WorkerId};
use std::fmt;

/// Where a job is, as far as its scheduler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// With the policy.
    Waiting,
    /// On that worker, or on its way there or back.
    On(WorkerId),
    /// Blocked on that worker.
    Blocked(WorkerId),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting"),
            Self::On(worker) => write!(f, "on {worker}"),
            Self::Blocked(worker) => write!(f, "blocked on {worker}"),
        }
    }
}

/// The kinds of [`Where`], and none; and those of cancelled jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    On,
    Blocked,
    /// Cancelled, and with the policy still; it had not begun, or it had.
    Doomed,
    DoomedBegun,
    /// Cancelled, and not the policy's any more.
    LastWaiting,
    LastOn,
    LastBlocked,
}

/// A [`Where`], or none: the worker is the one where the job is, or was last.
type At = (State, WorkerId);

const WAITS: At = (State::Waiting, WorkerId::DISPATCHER);

fn whereabouts((state, on): At) -> Option<Where> {
    match state {
        State::Free => None,
        State::Waiting | State::Doomed | State::DoomedBegun | State::LastWaiting => {
            Some(Where::Waiting)
        }
        State::On | State::LastOn => Some(Where::On(on)),
        State::Blocked | State::LastBlocked => Some(Where::Blocked(on)),
    }
}

/// What becomes of a job for which the policy has found a place.
pub(crate) enum Placed {
    /// It goes there.
    Sent,
    /// It was cancelled, and has left.
    Dropped,
    /// It was cancelled, and waits until nothing else does.
    Last,
}

/// A slot. The job is kept in 32 bytes, so that a simulated one fits into little more than a cache
/// line.
struct Slot<T> {
    arrived: Nanos,
    attained: Nanos,
    /// [`NO_HINT`]: none.
    hint: Nanos,
    class: ClassId,
    /// Where it is bound to, if `is_pinned`.
    pinned: WorkerId,
    /// Where it is, or was last: [`At`] in two fields, which leave no gap.
    state: State,
    on: WorkerId,
    is_pinned: bool,
    data: T,
}

const NO_HINT: Nanos = Nanos::MAX;

const _: () = assert!(size_of::<Slot<()>>() == 32);

impl<T> Slot<T> {
    #[inline]
    fn at(&self) -> At {
        (self.state, self.on)
    }

    fn job(&self, id: JobId) -> Job {
        Job {
            id,
            class: self.class,
            arrived: self.arrived,
            attained: self.attained,
            pinned: self.is_pinned.then_some(self.pinned),
            hint: (self.hint != NO_HINT).then_some(self.hint),
        }
    }

    #[inline]
    fn waits(&mut self, id: JobId, attained: Nanos, pinned: Option<WorkerId>) -> Job {
        self.attained = attained;
        self.is_pinned = pinned.is_some();
        self.pinned = pinned.unwrap_or(WorkerId::DISPATCHER);
        self.job(id)
    }
}

/// The table of jobs that are in the system.
pub(crate) struct Jobs<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Jobs<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(u32::try_from(capacity).is_ok(), "job ids are 32 bits wide");
        Self { slots: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity), capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The slot that the next job gets; `None`: all are taken.
    #[inline]
    pub(crate) fn vacant(&self) -> Option<JobId> {
        match self.free.last() {
            Some(&index) => Some(JobId(index)),
            None => (self.slots.len() < self.capacity).then_some(JobId(self.slots.len() as u32)),
        }
    }

    /// Puts a job into the slot that [`Jobs::vacant`] named.
    #[inline]
    pub(crate) fn insert(&mut self, id: JobId, arrival: &Arrival, data: T) {
        let slot = Slot {
            arrived: arrival.at,
            attained: Nanos::ZERO,
            hint: arrival.hint.unwrap_or(NO_HINT),
            class: arrival.class,
            pinned: WorkerId::DISPATCHER,
            state: WAITS.0,
            on: WAITS.1,
            is_pinned: false,
            data,
        };
        if self.free.pop().is_some() {
            self.slots[id.0 as usize] = slot;
        } else {
            self.slots.push(slot);
        }
    }

    /// The job leaves from `on`.
    #[inline]
    pub(crate) fn remove(&mut self, id: JobId, on: WorkerId) {
        self.step(id, (State::On, on), (State::Free, on));
        self.free.push(id.0);
    }

    /// Of a job in the system, or one that has left last from its slot.
    #[inline]
    pub(crate) fn class(&self, id: JobId) -> ClassId {
        self.slots[id.0 as usize].class
    }

    /// A job is cancelled that waits, or is on a worker, or blocked; false: it is cancelled already.
    pub(crate) fn cancel(&mut self, id: JobId, begun: bool) -> bool {
        let slot = &mut self.slots[id.0 as usize];
        slot.state = match slot.state {
            State::Waiting if begun => State::DoomedBegun,
            State::Waiting => State::Doomed,
            State::On => State::LastOn,
            State::Blocked => State::LastBlocked,
            State::Free => out_of_step(id, slot.at(), WAITS),
            _ => return false,
        };
        true
    }

    /// The policy has found a place on `on` for a job; what becomes of it.
    #[inline]
    pub(crate) fn placed(&mut self, id: JobId, on: WorkerId) -> Placed {
        let slot = &mut self.slots[id.0 as usize];
        match slot.state {
            State::Doomed => {
                (slot.state, slot.on) = (State::Free, on);
                self.free.push(id.0);
                Placed::Dropped
            }
            State::DoomedBegun => {
                (slot.state, slot.on) = (State::LastWaiting, on);
                Placed::Last
            }
            _ => {
                self.send(id, on);
                Placed::Sent
            }
        }
    }

    /// Whether a job is cancelled and not the policy's any more.
    pub(crate) fn is_last(&self, id: JobId) -> bool {
        let state = self.slots[id.0 as usize].state;
        matches!(state, State::LastWaiting | State::LastOn | State::LastBlocked)
    }

    /// Something happened to such a job on `on`.
    pub(crate) fn last(&mut self, id: JobId, on: WorkerId, attained: Nanos, what: EventKind) {
        let (from, to) = match what {
            EventKind::Ended => (State::LastOn, State::Free),
            EventKind::Preempted | EventKind::Yielded | EventKind::Returned => {
                (State::LastOn, State::LastWaiting)
            }
            EventKind::Blocked => (State::LastOn, State::LastBlocked),
            EventKind::Woken => (State::LastBlocked, State::LastWaiting),
            EventKind::Resumed => (State::LastBlocked, State::LastOn),
        };
        self.step(id, (from, on), (to, on)).attained = attained;
        if what == EventKind::Ended {
            self.free.push(id.0);
        }
    }

    /// Such a job, which waits, goes to `on`.
    pub(crate) fn send_last(&mut self, id: JobId, on: WorkerId) {
        self.step(id, (State::LastWaiting, on), (State::LastOn, on));
    }

    /// A waiting job goes to `on`.
    #[inline]
    pub(crate) fn send(&mut self, id: JobId, on: WorkerId) {
        self.step(id, WAITS, (State::On, on));
    }

    /// A job that yielded on `on` waits again, after so much service, perhaps bound to `pinned`.
    #[inline]
    pub(crate) fn yielded(
        &mut self,
        id: JobId,
        on: WorkerId,
        attained: Nanos,
        pinned: Option<WorkerId>,
    ) -> Job {
        self.step(id, (State::On, on), WAITS).waits(id, attained, pinned)
    }

    /// A job that was blocked on `on` waits for a place there.
    pub(crate) fn woken(&mut self, id: JobId, on: WorkerId, attained: Nanos) -> Job {
        self.step(id, (State::Blocked, on), WAITS).waits(id, attained, Some(on))
    }

    pub(crate) fn block(&mut self, id: JobId, on: WorkerId, attained: Nanos) {
        self.step(id, (State::On, on), (State::Blocked, on)).attained = attained;
    }

    pub(crate) fn resume(&mut self, id: JobId, on: WorkerId, attained: Nanos) {
        self.step(id, (State::Blocked, on), (State::On, on)).attained = attained;
    }

    #[inline]
    fn step(&mut self, id: JobId, from: At, to: At) -> &mut Slot<T> {
        let slot = &mut self.slots[id.0 as usize];
        if slot.at() != from {
            out_of_step(id, slot.at(), from);
        }
        (slot.state, slot.on) = to;
        slot
    }

    #[inline]
    pub(crate) fn get(&self, id: JobId) -> (Job, &T) {
        let slot = &self.slots[id.0 as usize];
        (slot.job(id), &slot.data)
    }

    pub(crate) fn whereabouts(&self, id: JobId) -> Option<Where> {
        whereabouts(self.slots.get(id.0 as usize)?.at())
    }

    #[inline]
    pub(crate) fn data(&self, id: JobId) -> &T {
        &self.slots[id.0 as usize].data
    }

    #[inline]
    pub(crate) fn data_mut(&mut self, id: JobId) -> &mut T {
        &mut self.slots[id.0 as usize].data
    }

    /// Those in the system, by their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Job, Where)> {
        let in_system = |(index, slot): (usize, &Slot<T>)| {
            Some((slot.job(JobId(index as u32)), whereabouts(slot.at())?))
        };
        self.slots.iter().enumerate().filter_map(in_system)
    }

    /// Where the slot lies, for the cache: addresses, one in each line. Nothing is read.
    pub(crate) fn lines(&self, id: JobId) -> impl Iterator<Item = *const u8> + use<T> {
        let slot = self.slots.get(id.0 as usize).map(std::ptr::from_ref::<Slot<T>>);
        let lines = size_of::<Slot<T>>().div_ceil(64);
        slot.into_iter().flat_map(move |slot| {
            (0..lines).map(move |line| slot.cast::<u8>().wrapping_add(line * 64))
        })
    }
}

#[cold]
#[inline(never)]
fn out_of_step(id: JobId, is: At, expected: At) -> ! {
    let word = |at| whereabouts(at).map_or("not in the system".to_owned(), |at| at.to_string());
    panic!("job {} is {}; what was told is about one that is {}", id.0, word(is), word(expected))
}
