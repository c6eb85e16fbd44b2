//! Cancelled jobs on their worker: marked, put behind all others, left for ever.
//!
//! The dispatcher says which (`Remote::cancels`), by number and arrival: a number alone may have gone
//! to another request since.

use super::Engine;
use crate::dispatched::DispatchedRequest;
use curtail_net::Outcome;
use curtail_policy::JobId;
use curtail_rt::cancel::{Cause, OnCancel};
use curtail_sched::EventKind;
use std::sync::PoisonError;

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
            // SAFETY: null, or here and so ours; the task's cells may change while it runs.
            let found = unsafe { self.here[job.0 as usize].as_ref() };
            match found.filter(|found| found.message.arrived_tsc == arrived_tsc) {
                Some(found) => {
                    let rule = self.shared.rules.on_cancel(found.message.class);
                    self.kthread.cancel(found.task.tcb(), cause, rule);
                }
                // What word there was of another of that number has come too late.
                None => drop(self.pending.insert(job, (arrived_tsc, cause))),
            }
        }
    }

    /// Why a job that begins, or comes back, is cancelled, if word of that came before it.
    fn take_pending(&mut self, job: JobId, arrived_tsc: u64) -> Option<Cause> {
        let (arrived, cause) = self.pending.remove(&job)?;
        (arrived == arrived_tsc).then_some(cause)
    }

    /// Why a job that is about to run is cancelled; its message says so from then on.
    #[inline]
    pub(super) fn cause_of(&mut self, request: &mut DispatchedRequest) -> Option<Cause> {
        if !self.pending.is_empty()
            && let Some(cause) = self.take_pending(request.job.id, request.message.arrived_tsc)
        {
            request.message.cancel(cause);
        }
        request.message.cause()
    }

    /// A job that has begun is cancelled.
    pub(super) fn mark(&self, request: &DispatchedRequest, cause: Cause) {
        if request.task.tcb().cancel.cause().is_none() {
            let rule = self.shared.rules.on_cancel(request.message.class);
            self.kthread.cancel(request.task.tcb(), cause, rule);
        }
    }

    /// The next of those that run when nothing else is ready.
    pub(super) fn pick_last(&mut self) -> Option<(*mut DispatchedRequest, u64)> {
        let job = self.last.pop_front()?;
        Some((self.here[job.id.0 as usize], self.shared.clock.cycles(LAST_NS)))
    }

    /// Whether there is one.
    pub(crate) fn has_last(&self) -> bool {
        !self.last.is_empty()
    }

    /// Whether the running job is to make room for any other.
    pub(super) fn runs_last(&self) -> bool {
        // SAFETY: null, or the request that calls us.
        unsafe { self.running.as_ref() }.is_some_and(|running| running.task.tcb().cancel.is_last())
    }

    /// Whether the running job is to be left where it is.
    pub(super) fn runs_for_nothing(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.running.as_ref() }.is_some_and(|running| {
            let rule = self.shared.rules.on_cancel(running.message.class);
            running.task.tcb().cancel.is_last() && matches!(rule, OnCancel::Abandon { .. })
        })
    }

    /// A cancelled job has been pre-empted: leaves it where it is for ever, if its class says so and
    /// has room for that. True: it has left.
    pub(super) fn abandon(&mut self, pointer: *mut DispatchedRequest, now: u64) -> bool {
        // SAFETY: ours; it does not run.
        let request = unsafe { &mut *pointer };
        if !request.task.tcb().cancel.is_last() || !self.shared.rules.may_abandon(request.job.class)
        {
            return false;
        }
        request.outcome = Outcome::Abandoned;
        self.push_event(pointer, EventKind::Ended, now);
        self.unlink(request.job.id);
        self.quanta -= u64::from(request.task.cuts());
        // The buffer is the next request's of that number. What the frames of this one refer to, and will
        // not look at, is its payload: that stays.
        if request.message.inline == crate::message::Message::IN_BUFFER {
            // SAFETY: the job is still ours: its event is not sent yet.
            let buffer = unsafe { self.shared.buffers.get(request.job.id) };
            std::mem::forget(std::mem::take(&mut buffer.payload));
        }
        // It was made by `Box::into_raw`. Nothing frees it any more, and it keeps its stack.
        self.kthread.leave_request();
        true
    }
}
