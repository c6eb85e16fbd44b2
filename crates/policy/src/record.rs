//! What was asked of a policy, in which order, and what it answered: so that a run can be played
//! again, decision by decision.
//!
//! [`Tapped`] stands in for an [`AnyPolicy`] and passes every call on. With a [`Tap`] in it, it
//! writes down each call that can change the policy, and each answer, as bytes (`wire`), and hands
//! them on in chunks; it belongs to the thread that the policy belongs to. Without one it costs a
//! branch. Answers are a function of the calls before: a [`Call`] holds all that went in, and of
//! what came out as much as tells two answers apart.
//!
//! A dispatcher that polls asks for decisions all the time. An answer [`Decision::Idle`] right after
//! another, before anything happened and before the policy wanted to be asked, is not written down:
//! it changes nothing, by the protocol.

mod header;
mod wire;

pub use header::Header;
pub use wire::{Damaged, MAGIC, Reader};

use crate::{AnyPolicy, Decision, Job, JobId, Nanos, Policy, Refused, Spec, WorkerId};

/// One call at a policy, with its answer where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the calls' own arguments")]
pub enum Call {
    /// A policy is made, and replaces the one before, if there was one.
    Begin(Header),
    /// [`Policy::arrive`]; whether the job was refused.
    Arrive { now: Nanos, job: Job, refused: bool },
    /// [`Policy::inherit`]: the policy before gave it up by [`Policy::evict`].
    Inherit { now: Nanos, job: Job },
    /// [`Policy::adopt`].
    Adopt { now: Nanos, on: WorkerId, job: Job },
    /// [`Policy::yielded`].
    Yielded { now: Nanos, on: WorkerId, job: Job },
    /// [`Policy::completed`].
    Completed { now: Nanos, on: WorkerId, job: JobId, attained: Nanos },
    /// [`Policy::blocked`].
    Blocked { now: Nanos, on: WorkerId, job: JobId },
    /// [`Policy::woken`].
    Woken { now: Nanos, on: WorkerId, job: Job },
    /// [`Policy::resumed`].
    Resumed { now: Nanos, on: WorkerId, job: JobId },
    /// [`Policy::serviced`].
    Serviced { on: WorkerId, quanta: u64 },
    /// [`Policy::set_quantum`].
    SetQuantum { quantum: Option<Nanos> },
    /// [`Policy::decide`], and the decision.
    Decide { now: Nanos, decision: Decided },
    /// [`Policy::renewed`].
    Renewed { now: Nanos, on: WorkerId },
    /// [`Policy::worker_up`].
    WorkerUp { now: Nanos, on: WorkerId },
    /// [`Policy::worker_down`].
    WorkerDown { now: Nanos, on: WorkerId },
}

/// A [`Decision`], as far as it tells two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in `Decision`")]
pub enum Decided {
    /// [`Decision::Idle`].
    Idle,
    /// [`Decision::Run`].
    Run { job: JobId, on: WorkerId, quantum: Option<Nanos> },
    /// [`Decision::Preempt`].
    Preempt { on: WorkerId },
}

impl From<Decision> for Decided {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Idle => Self::Idle,
            Decision::Run { job, on, quantum } => Self::Run { job: job.id, on, quantum },
            Decision::Preempt { on } => Self::Preempt { on },
        }
    }
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
    /// The last call was a decision to do nothing, which holds until then.
    idle_until: Option<Nanos>,
}

impl Tap {
    /// Bytes that are handed on at a time.
    pub const CHUNK: usize = 1 << 16;
    /// No call takes more, but [`Call::Begin`].
    const LONGEST: usize = 128;

    /// Hands what it writes to `drain`.
    #[must_use]
    pub fn new(drain: Drain) -> Self {
        let mut buffer = Vec::with_capacity(Self::CHUNK);
        buffer.extend_from_slice(MAGIC);
        let wire = wire::Writer::default();
        Self { drain: Some(drain), buffer, wire, serviced: Vec::new(), idle_until: None }
    }

    fn note(&mut self, call: &Call) {
        self.idle_until = None;
        if self.drain.is_none() {
            return;
        }
        self.wire.write(call, &mut self.buffer);
        if self.buffer.len() + Self::LONGEST > Self::CHUNK {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        match drain(std::mem::take(&mut self.buffer)) {
            Some(empty) => self.buffer = empty,
            None => self.drain = None,
        }
    }

    fn begin(&mut self, header: Header) {
        self.serviced.clear();
        self.serviced.resize(header.workers, 0);
        self.note(&Call::Begin(header));
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.hand_on();
    }
}

/// A policy, and perhaps a tap; see the module's head.
pub struct Tapped {
    policy: AnyPolicy,
    tap: Option<Box<Tap>>,
}

impl Tapped {
    /// The policy of that specification; see [`Spec::build`].
    ///
    /// # Panics
    /// As [`Spec::build`].
    #[must_use]
    pub fn new(spec: &Spec, size: (usize, usize, u64), tap: Option<Tap>) -> Self {
        let (workers, jobs, seed) = size;
        let mut tap = tap.map(Box::new);
        if let Some(tap) = &mut tap {
            tap.begin(Header { spec: spec.clone(), workers, jobs, seed });
        }
        Self { policy: spec.build(workers, jobs, seed), tap }
    }

    /// The policy that is to replace this one. The tap goes over to it: what this one still has it
    /// is expected to give to the other.
    ///
    /// # Panics
    /// As [`Spec::build`].
    #[must_use]
    pub fn successor(&mut self, spec: &Spec, size: (usize, usize, u64)) -> Self {
        let tap = self.tap.take().map(|tap| *tap);
        Self::new(spec, size, tap)
    }

    /// The policy itself, to look at.
    #[must_use]
    pub fn policy(&self) -> &AnyPolicy {
        &self.policy
    }

    #[inline]
    fn note(&mut self, call: impl FnOnce() -> Call) {
        if let Some(tap) = &mut self.tap {
            tap.note(&call());
        }
    }
}

impl Policy for Tapped {
    #[inline]
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        let arrived = self.policy.arrive(now, job);
        self.note(|| Call::Arrive { now, job, refused: arrived.is_err() });
        arrived
    }

    fn inherit(&mut self, now: Nanos, job: Job) {
        self.note(|| Call::Inherit { now, job });
        self.policy.inherit(now, job);
    }

    #[inline]
    fn yielded(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.note(|| Call::Yielded { now, on, job });
        self.policy.yielded(now, on, job);
    }

    #[inline]
    fn completed(&mut self, now: Nanos, on: WorkerId, job: JobId, attained: Nanos) {
        self.note(|| Call::Completed { now, on, job, attained });
        self.policy.completed(now, on, job, attained);
    }

    fn blocked(&mut self, now: Nanos, on: WorkerId, job: JobId) {
        self.note(|| Call::Blocked { now, on, job });
        self.policy.blocked(now, on, job);
    }

    fn woken(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.note(|| Call::Woken { now, on, job });
        self.policy.woken(now, on, job);
    }

    fn resumed(&mut self, now: Nanos, on: WorkerId, job: JobId) {
        self.note(|| Call::Resumed { now, on, job });
        self.policy.resumed(now, on, job);
    }

    #[inline]
    fn serviced(&mut self, on: WorkerId, quanta: u64) {
        if let Some(tap) = &mut self.tap
            && std::mem::replace(&mut tap.serviced[on.index()], quanta) != quanta
        {
            tap.note(&Call::Serviced { on, quanta });
        }
        self.policy.serviced(on, quanta);
    }

    #[inline]
    fn decide(&mut self, now: Nanos) -> Decision {
        let decision = self.policy.decide(now);
        if let Some(tap) = &mut self.tap {
            let idle = decision == Decision::Idle;
            if !(idle && tap.idle_until.is_some_and(|until| now < until)) {
                tap.note(&Call::Decide { now, decision: decision.into() });
            }
            if idle {
                tap.idle_until = Some(self.policy.next_wakeup().unwrap_or(Nanos::MAX));
            }
        }
        decision
    }

    /// Not written down: a question, which changes nothing. What follows from it is.
    #[inline]
    fn wants_place(&self, now: Nanos, on: WorkerId) -> bool {
        self.policy.wants_place(now, on)
    }

    #[inline]
    fn renewed(&mut self, now: Nanos, on: WorkerId) {
        self.note(|| Call::Renewed { now, on });
        self.policy.renewed(now, on);
    }

    fn worker_up(&mut self, now: Nanos, on: WorkerId) {
        self.note(|| Call::WorkerUp { now, on });
        self.policy.worker_up(now, on);
    }

    fn worker_down(&mut self, now: Nanos, on: WorkerId) {
        self.note(|| Call::WorkerDown { now, on });
        self.policy.worker_down(now, on);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.policy.next_wakeup()
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.policy.waiting()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.note(|| Call::SetQuantum { quantum });
        self.policy.set_quantum(quantum);
    }

    /// Not written down: by what is evicted the next policy inherits.
    fn evict(&mut self) -> Option<Job> {
        self.policy.evict()
    }

    fn adopt(&mut self, now: Nanos, on: WorkerId, job: Job) {
        self.note(|| Call::Adopt { now, on, job });
        self.policy.adopt(now, on, job);
    }
}
