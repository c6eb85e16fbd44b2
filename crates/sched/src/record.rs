//! What a scheduler was told, in which order, and what it answered: so that a run can be played
//! again, action by action.
//!
//! A [`Tap`] in a [`Scheduler`](crate::Scheduler) writes down each call that can change it, and each
//! answer, as bytes (`wire`), and hands them on in chunks; it belongs to the scheduler's thread.
//! Answers are a function of the calls before.
//!
//! A dispatcher that polls asks for actions all the time. That there is none, right after the same
//! answer, before anything happened and before the time that the scheduler named, is not written down:
//! it changes nothing, by the protocol.

mod header;
mod wire;

pub use wire::{Damaged, MAGIC, Reader};

use crate::{Action, Arrival, Event, Setup};
use curtail_policy::{JobId, Nanos, WorkerId};

/// One call at a scheduler, with its answer where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the calls' own arguments")]
pub enum Call {
    /// A scheduler is made.
    Begin(Setup),
    /// [`Command::Policy`](crate::Command::Policy).
    Switch { now: Nanos, setup: Setup },
    /// [`Command::Quantum`](crate::Command::Quantum).
    Quantum { quantum: Option<Nanos> },
    /// [`Scheduler::handle_arrival`](crate::Scheduler::handle_arrival); the job it became, unless it
    /// was refused.
    Arrive { now: Nanos, arrival: Arrival, admitted: Option<JobId> },
    /// [`Scheduler::handle_event`](crate::Scheduler::handle_event).
    Event { now: Nanos, on: WorkerId, event: Event },
    /// [`Scheduler::handle_cancel`](crate::Scheduler::handle_cancel).
    Cancel { now: Nanos, job: JobId, begun: bool },
    /// [`Scheduler::handle_serviced`](crate::Scheduler::handle_serviced).
    Serviced { on: WorkerId, quanta: u64 },
    /// [`Scheduler::worker_up`](crate::Scheduler::worker_up).
    WorkerUp { now: Nanos, on: WorkerId },
    /// [`Scheduler::worker_down`](crate::Scheduler::worker_down).
    WorkerDown { now: Nanos, on: WorkerId },
    /// [`Scheduler::quantum_over`](crate::Scheduler::quantum_over), and whether the job is to yield.
    QuantumOver { now: Nanos, on: WorkerId, yields: bool },
    /// [`Scheduler::poll_action`](crate::Scheduler::poll_action), and the answer.
    Poll { now: Nanos, action: Option<Action> },
}

/// Takes a chunk of bytes, and gives an empty buffer back; `None`: it has no room, and the record
/// ends here.
pub type Drain = Box<dyn FnMut(Vec<u8>) -> Option<Vec<u8>> + Send>;

/// Writes calls down; see the module's head.
pub struct Tap {
    drain: Option<Drain>,
    buffer: Vec<u8>,
    wire: wire::Writer,
    /// What was told last of each worker's quanta: telling it again changes nothing.
    serviced: Vec<u64>,
    /// The last answer was that there is nothing to do, which holds until then.
    idle_until: Option<Nanos>,
}

impl Tap {
    /// Bytes that are handed on at a time.
    pub const CHUNK: usize = 1 << 16;
    /// No call takes more, but those that have a [`Setup`].
    const LONGEST: usize = 128;

    /// Hands what it writes to `drain`.
    #[must_use]
    pub fn new(drain: Drain) -> Self {
        let mut buffer = Vec::with_capacity(Self::CHUNK);
        buffer.extend_from_slice(MAGIC);
        let wire = wire::Writer::default();
        Self { drain: Some(drain), buffer, wire, serviced: Vec::new(), idle_until: None }
    }

    pub(crate) fn note(&mut self, call: &Call) {
        self.idle_until = None;
        if let Call::Begin(setup) | Call::Switch { setup, .. } = call {
            self.serviced.clear();
            self.serviced.resize(setup.workers, 0);
        }
        if self.drain.is_none() {
            return;
        }
        self.wire.write(call, &mut self.buffer);
        if self.buffer.len() + Self::LONGEST > Self::CHUNK {
            self.hand_on();
        }
    }

    pub(crate) fn note_serviced(&mut self, on: WorkerId, quanta: u64) {
        if std::mem::replace(&mut self.serviced[on.index()], quanta) != quanta {
            self.note(&Call::Serviced { on, quanta });
        }
    }

    /// `timeout`: when the scheduler wants to be asked again.
    pub(crate) fn note_action(
        &mut self,
        now: Nanos,
        action: Option<Action>,
        timeout: Option<Nanos>,
    ) {
        let idle = action.is_none();
        if !(idle && self.idle_until.is_some_and(|until| now < until)) {
            self.note(&Call::Poll { now, action });
        }
        if idle {
            self.idle_until = Some(timeout.unwrap_or(Nanos::MAX));
        }
    }

    fn hand_on(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        match drain(std::mem::take(&mut self.buffer)) {
            Some(empty) => self.buffer = empty,
            None => self.drain = None,
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.hand_on();
    }
}
