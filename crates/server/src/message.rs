//! What dispatcher and workers tell each other: one cache line each, through SPSC rings.
//!
//! A small request travels inside the message, so that nothing but the ring's own lines, which the
//! hardware prefetches, crosses between the cores. What does not fit lies in the job's
//! [`JobBuffer`].
//!
//! **Ownership.** A job is the dispatcher's until its message is in the ring, then the worker's until it
//! has ended, or is pre-empted under a central policy, and that event is in the ring back. The buffer and
//! the request go with it. Of a job that yielded, blocked or was woken the worker tells, and keeps it.

use crate::ask::Payload;
use crate::dispatched::DispatchedRequest;
use curtail_net::{Outcome, Peer};
use curtail_policy::{ClassId, JobId};
use curtail_rt::cancel::Cause;
use curtail_rt::clock::Clock;
use curtail_sched::EventKind;
use std::cell::UnsafeCell;
use std::ptr;

/// Payload bytes that travel in the message.
pub(crate) const INLINE: usize = 32;

/// A job on its way to a worker.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Message {
    pub job: JobId,
    pub class: ClassId,
    /// Length of the payload where it is inline; [`Message::IN_BUFFER`] otherwise.
    pub inline: u8,
    /// Bit 0: the client waits for a response; above: why it is cancelled, or 0. Not a `bool`: an
    /// `Option` of a message would hide in it, and such messages are copied in odd pieces, whose
    /// loads wait for all stores before them.
    pub reply: u8,
    pub arrived_tsc: u64,
    /// 0: to completion, or as the worker's own policy says.
    pub quantum_cycles: u64,
    /// A started job comes (back) to this worker; null: a new one.
    pub resume: *mut DispatchedRequest,
    pub payload: [u8; INLINE],
}

const _: () = assert!(size_of::<Message>() == 64);

// SAFETY: the pointer is the job's request, which moves with the job (see the module head); the
// holder of the message holds the job.
unsafe impl Send for Message {}

impl Message {
    pub(crate) const IN_BUFFER: u8 = u8::MAX;

    /// The client waits for a response.
    #[inline]
    pub(crate) fn answers(&self) -> bool {
        self.reply & 1 != 0
    }

    /// Why it is cancelled.
    #[inline]
    pub(crate) fn cause(&self) -> Option<Cause> {
        Cause::of(self.reply >> 1)
    }

    /// It is cancelled.
    pub(crate) fn cancel(&mut self, cause: Cause) {
        self.reply = self.reply & 1 | (cause as u8) << 1;
    }
}

/// A job's news, on its way to the dispatcher.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Event {
    pub job: JobId,
    /// What a worker did with it; never [`EventKind::Returned`], which is the dispatcher's own.
    pub what: EventKind,
    /// Of one that has left: how.
    pub outcome: Outcome,
    pub preemptions: u32,
    /// Of one that has left: its handler had begun.
    pub began: bool,
    pub started_tsc: u64,
    pub at_tsc: u64,
    /// Cycles in which it had a core so far.
    pub ran_cycles: u64,
    /// Cycles of its worker's time so far, with what it took besides: sending the answer.
    pub busy_cycles: u64,
    /// End of the last gap that the worker saw (TSC); 0: none yet.
    pub gap_tsc: u64,
    /// `Preempted`, `Woken`, `Yielded`: where it goes on.
    pub resume: *mut DispatchedRequest,
}

const _: () = assert!(size_of::<Event>() == 64);

// SAFETY: as for `Message`.
unsafe impl Send for Event {}

impl Event {
    /// The event as the scheduler has it.
    pub(crate) fn scheduled(&self, clock: Clock) -> curtail_sched::Event {
        let attained = clock.nanos(self.busy_cycles);
        curtail_sched::Event { job: self.job, attained, what: self.what }
    }
}

/// What of a job does not fit into its message.
pub(crate) struct JobBuffer {
    pub peer: Peer,
    pub transport: u16,
    pub payload: Vec<u8>,
}

/// The buffers of all jobs, by job number.
pub(crate) struct JobBuffers(Box<[UnsafeCell<JobBuffer>]>);

// SAFETY: an buffer is touched only by the owner of its job, and ownership passes through a ring
// (release on push, acquire on pop).
unsafe impl Sync for JobBuffers {}
// SAFETY: it holds plain data.
unsafe impl Send for JobBuffers {}

impl JobBuffers {
    pub(crate) fn new(jobs: usize) -> Self {
        let empty = || JobBuffer { peer: Peer::None, transport: 0, payload: Vec::new() };
        Self((0..jobs).map(|_| UnsafeCell::new(empty())).collect())
    }

    /// Where the job's request came from, and by which transport.
    ///
    /// # Safety
    /// The caller owns the job, and nothing changes these two meanwhile.
    pub(crate) unsafe fn origin(&self, job: JobId) -> (Peer, u16) {
        let buffer = self.0[job.0 as usize].get();
        // SAFETY: by contract. By fields: its payload may be borrowed by a handler.
        unsafe { ((*buffer).peer, (*buffer).transport) }
    }

    /// # Safety
    /// The caller owns the job, and holds no other reference into its buffer.
    #[allow(clippy::mut_from_ref)] // Exclusive by the contract.
    pub(crate) unsafe fn get(&self, job: JobId) -> &mut JobBuffer {
        // SAFETY: exclusive by the contract.
        unsafe { &mut *self.0[job.0 as usize].get() }
    }
}

impl Message {
    /// A new job whose payload is `payload`; false in the second place: it must go into the buffer.
    #[inline]
    pub(crate) fn new(
        job: JobId,
        class: ClassId,
        payload: &Payload,
        arrived_tsc: u64,
    ) -> (Self, bool) {
        let fits = payload.is_small();
        let message = Self {
            job,
            class,
            inline: if fits { payload.len() as u8 } else { Self::IN_BUFFER },
            reply: 0,
            arrived_tsc,
            quantum_cycles: 0,
            resume: ptr::null_mut(),
            payload: *payload.small(),
        };
        (message, fits)
    }
}
