//! Cancelled jobs on their worker: marked, put behind all others, left for ever.
//!
//! The dispatcher says which (`Remote::cancels`), by number and arrival: a number alone may have gone
//! to another request since.

use super::Engine;
use crate::activation::Activation;
use crate::message::EventKind;
use curtail_net::{Outcome, Peer};
use curtail_policy::JobId;
use curtail_rt::cancel::{Cause, OnCancel};
use curtail_rt::clock;
use curtail_rt::context::{Facts, RequestId};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Quantum of a job that runs because nothing else is ready, where the policy has none.
const LAST_NS: u64 = 5_000;

impl Engine {
    /// Attends to a notice, if one has come. Also on a job's fiber.
    #[inline]
    pub(crate) fn handle_notices(&mut self) {
        if self.kthread.take_noticed() {
            self.take_cancels();
        }
    }

    #[cold]
    fn take_cancels(&mut self) {
        let cancels = {
            let mut cancels = self.remote.cancels.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *cancels)
        };
        for (job, arrived_tsc, cause) in cancels {
            // SAFETY: null, or here and so ours; the control block's cells may change while its
            // fiber runs.
            let found = unsafe { self.here[job.0 as usize].as_ref() };
            match found.filter(|found| found.message.arrived_tsc == arrived_tsc) {
                Some(found) => {
                    let rule = self.shared.rules.on_cancel(found.message.class);
                    self.kthread.cancel(&found.tcb, cause, rule);
                }
                None => self.pending.push((job, arrived_tsc, cause)),
            }
        }
    }

    /// Why a job that begins, or comes back, is cancelled, if word of that came before it.
    fn take_pending(&mut self, job: JobId, arrived_tsc: u64) -> Option<Cause> {
        // What word is of another of that number has come too late.
        let mut found = None;
        self.pending.retain(|&(pending, arrived, cause)| {
            if pending == job && arrived == arrived_tsc {
                found = Some(cause);
            }
            pending != job
        });
        found
    }

    /// Why a job that is about to run is cancelled; its message says so from then on.
    #[inline]
    pub(super) fn cause_of(&mut self, activation: &mut Activation) -> Option<Cause> {
        if !self.pending.is_empty()
            && let Some(cause) =
                self.take_pending(activation.job.id, activation.message.arrived_tsc)
        {
            activation.message.cancel(cause);
        }
        activation.message.cause()
    }

    /// A job that has begun is cancelled.
    pub(super) fn mark(&self, activation: &Activation, cause: Cause) {
        if activation.tcb.cancel.cause().is_none() {
            let rule = self.shared.rules.on_cancel(activation.message.class);
            self.kthread.cancel(&activation.tcb, cause, rule);
        }
    }

    /// The next of those that run when nothing else is ready.
    pub(super) fn pick_last(&mut self) -> Option<(*mut Activation, u64)> {
        let job = self.last.pop_front()?;
        Some((self.here[job.id.0 as usize], self.shared.clock.cycles(LAST_NS)))
    }

    /// Whether there is one.
    pub(crate) fn has_last(&self) -> bool {
        !self.last.is_empty()
    }

    /// Whether the running job is to make room for any other.
    pub(super) fn runs_last(&self) -> bool {
        // SAFETY: null, or the job whose fiber calls us.
        unsafe { self.running.as_ref() }.is_some_and(|running| running.tcb.cancel.is_last())
    }

    /// Whether the running job is to be left where it is.
    pub(super) fn runs_for_nothing(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.running.as_ref() }.is_some_and(|running| {
            let rule = self.shared.rules.on_cancel(running.message.class);
            running.tcb.cancel.is_last() && matches!(rule, OnCancel::Abandon { .. })
        })
    }

    /// A cancelled job has been pre-empted: leaves it where it is for ever, if its class says so and
    /// has room for that. True: it has left.
    pub(super) fn abandon(&mut self, pointer: *mut Activation, now: u64) -> bool {
        // SAFETY: ours; its fiber does not run.
        let activation = unsafe { &mut *pointer };
        if !activation.tcb.cancel.is_last() || !self.shared.rules.may_abandon(activation.job.class)
        {
            return false;
        }
        self.push_event(pointer, EventKind::Ended(Outcome::Abandoned), now);
        self.leave(activation.job.id);
        self.quanta -= u64::from(activation.preemptions);
        // The envelope is the next request's of that number. What its frames refer to, and will not
        // look at, is the buffer: that stays.
        if activation.message.inline == crate::message::Message::IN_ENVELOPE {
            // SAFETY: the job is still ours: its event is not sent yet.
            let envelope = unsafe { self.shared.envelopes.get(activation.job.id) };
            std::mem::forget(std::mem::take(&mut envelope.payload));
        }
        // It was made by `Box::into_raw`. Nothing frees it any more, and it keeps its fiber.
        self.kthread.leave_request();
        true
    }

    /// Whether the running job is cancelled, as far as that can be seen without being told.
    pub(crate) fn cause_of_running(&self) -> Option<Cause> {
        // SAFETY: as above.
        let message = unsafe { self.running.as_ref() }?.message;
        if self.is_orphaned(&message) {
            return Some(Cause::Departed);
        }
        let deadline = self.shared.deadlines[message.job.0 as usize].load(Ordering::Relaxed);
        (clock::now() >= deadline).then_some(Cause::Deadline)
    }

    /// What is known of the running job.
    pub(crate) fn facts_of_running(&self) -> Option<Facts> {
        // SAFETY: as above.
        let message = unsafe { self.running.as_ref() }?.message;
        let (peer, reply) = match message.answers() {
            false => (Peer::None, None),
            true => {
                // SAFETY: the job is ours; its handler refers to the payload alone.
                let envelope = unsafe { self.shared.envelopes.origin(message.job) };
                (envelope.0, Some(self.shared.replies[usize::from(envelope.1)].clone()))
            }
        };
        Some(Facts {
            id: RequestId {
                place: self.shared.index << 32 | u64::from(message.job.0),
                arrived_tsc: message.arrived_tsc,
            },
            class: message.class,
            peer,
            deadline_tsc: self.shared.deadlines[message.job.0 as usize].load(Ordering::Relaxed),
            reply,
            route: self.shared.control.clone(),
        })
    }
}
