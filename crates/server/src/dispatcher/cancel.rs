//! Which requests are cancelled: by their deadlines, by the departure of their peers, by the program.
//!
//! The dispatcher's alone. A request that waits here and has not begun is answered here; where one is
//! elsewhere its worker is told. A look for requests whose peers have gone goes through the table of
//! jobs in pieces, one a turn, so that no turn is long.

use super::Dispatcher;
use crate::ask::Origin;
use crate::jobs::JobRecord;
use crate::message::{Event, Message};
use crate::stats::row;
use curtail_net::Outcome;
use curtail_policy::{JobId, WorkerId};
use curtail_rt::cancel::{Cause, OnCancel};
use curtail_rt::context::{NEVER, RequestId};
use curtail_sched::{EventKind, Scheduler, Where};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of the table that one turn looks at for peers that have gone.
const LOOKS: usize = 256;

/// The deadlines of requests, the earliest first; some of them have ended.
pub(crate) struct Deadlines {
    /// When, which job, when that arrived (TSC).
    heap: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// By job: for its worker to look at.
    by_job: Arc<[AtomicU64]>,
}

impl Deadlines {
    pub(super) fn new(by_job: Arc<[AtomicU64]>) -> Self {
        Self { heap: BinaryHeap::new(), by_job }
    }

    pub(crate) fn add(&mut self, job: JobId, arrived_tsc: u64, at_tsc: u64) {
        self.by_job[job.0 as usize].store(at_tsc, Ordering::Relaxed);
        self.heap.push(Reverse((at_tsc, job.0, arrived_tsc)));
    }

    /// The job has left.
    pub(super) fn end(&mut self, job: JobId) {
        self.by_job[job.0 as usize].store(NEVER, Ordering::Relaxed);
    }

    /// When the first of them is, perhaps of one that has ended.
    pub(super) fn first(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    fn pop_due(&mut self, now: u64) -> Option<(JobId, u64)> {
        self.first().filter(|&at| at <= now)?;
        self.heap.pop().map(|Reverse((_, job, arrived))| (JobId(job), arrived))
    }

    /// Forgets those that have ended, where they are more than the others.
    pub(super) fn tidy(&mut self, sched: &Scheduler<JobRecord>) {
        if self.heap.len() > 64 + 2 * sched.len() {
            self.heap.retain(|Reverse((_, job, arrived))| is_here(sched, JobId(*job), *arrived));
        }
    }
}

/// Whether that is the request which arrived then.
fn is_here(sched: &Scheduler<JobRecord>, job: JobId, arrived_tsc: u64) -> bool {
    sched.whereabouts(job).is_some() && sched.data(job).message.arrived_tsc == arrived_tsc
}

impl Dispatcher {
    /// Cancels requests whose deadlines have passed or whose peers have gone; true: it has more to do.
    pub(super) fn cancel_some(&mut self, now: u64) -> bool {
        while let Some((job, arrived)) = self.deadlines.pop_due(now) {
            if is_here(&self.sched, job, arrived) {
                self.cancel_job(job, Cause::Deadline, now);
            }
        }
        if std::mem::take(&mut self.base.entry.departed) {
            self.to_look = self.config.shared.jobs;
        }
        let looks = self.to_look.min(LOOKS);
        for _ in 0..looks {
            self.looks_at = (self.looks_at + 1) % self.config.shared.jobs;
            let job = JobId(self.looks_at as u32);
            if self.sched.whereabouts(job).is_none() {
                continue;
            }
            let JobRecord { peer, transport, message, .. } = self.sched.data(job);
            let reply = &self.config.shared.replies[usize::from(*transport)];
            if message.answers() && reply.is_gone(*peer) {
                self.cancel_job(job, Cause::Departed, now);
            }
        }
        self.to_look -= looks;
        self.deadlines.tidy(&self.sched);
        self.to_look > 0
    }

    /// Cancels a request of this dispatcher, if that is what the name says and it is still here.
    pub(super) fn cancel(&mut self, id: RequestId, cause: Cause, now: u64) {
        let job = JobId(id.place as u32);
        if id.place >> 32 == self.config.shared.index && is_here(&self.sched, job, id.arrived_tsc) {
            self.cancel_job(job, cause, now);
        }
    }

    fn cancel_job(&mut self, job: JobId, cause: Cause, now: u64) {
        let held = self.sched.data_mut(job);
        if held.message.cause().is_some() {
            return;
        }
        held.message.cancel(cause);
        let arrived_tsc = held.message.arrived_tsc;
        let (class, started) = (held.message.class, !held.message.resume.is_null());
        let Some(at) = self.sched.whereabouts(job) else { return };
        let begun = started || at != Where::Waiting;
        // A worker cannot be asked whether it has begun what was sent there; what has not is not run.
        if !(begun && self.config.shared.rules.on_cancel(class) == OnCancel::Finish) {
            self.sched.handle_cancel(self.nanos(now), job, begun);
        }
        // Under a two-level policy another one may run there.
        let runs = matches!(at, Where::On(_)) && !self.sched.is_two_level();
        match at {
            // What it has of the mark goes with its message.
            Where::Waiting => {}
            Where::On(on) | Where::Blocked(on) => {
                let worker = (on != WorkerId::DISPATCHER).then(|| &self.config.workers[on.index()]);
                let remote = worker.map_or(&self.base.remote, |worker| &worker.remote);
                let mut cancels = remote.cancels.lock().unwrap_or_else(PoisonError::into_inner);
                cancels.push((job, arrived_tsc, cause));
                drop(cancels);
                remote.kthread.notify();
                if let Some(worker) = worker.filter(|_| runs) {
                    worker.preempt(now, self.base.config.choice.effective);
                }
            }
        }
    }

    /// A request was cancelled before it began, and has left the scheduler: has the client told so,
    /// and tells of its end.
    pub(super) fn drop_cancelled(&mut self, job: JobId, now: u64) {
        let JobRecord { message, peer, transport, .. } = self.sched.data(job);
        let (message, peer, transport) = (*message, *peer, usize::from(*transport));
        let cause = message.cause().unwrap_or(Cause::Asked);
        if cause != Cause::Departed && message.answers() {
            let payload = match message.inline {
                Message::IN_BUFFER => {
                    // SAFETY: the job is ours.
                    let buffer = unsafe { self.config.shared.buffers.get(job) };
                    buffer.payload.clone()
                }
                length => message.payload[..usize::from(length)].to_vec(),
            };
            self.forget(job);
            row(&mut self.base.entry.classes, message.class).cancelled_queued += 1;
            let arrived_tsc = message.arrived_tsc;
            let origin = Origin { peer, transport: transport as u16, arrived_tsc };
            let asked = (message.class, cause);
            return self.base.entry.cancelled(&payload, origin, asked);
        }
        let outcome = match cause {
            Cause::Departed => Outcome::Orphaned,
            _ => Outcome::Cancelled,
        };
        let event = Event {
            job,
            what: EventKind::Ended,
            outcome,
            preemptions: 0,
            began: false,
            started_tsc: now,
            at_tsc: now,
            ran_cycles: 0,
            busy_cycles: 0,
            gap_tsc: 0,
            resume: std::ptr::null_mut(),
        };
        self.ended(&event);
    }

    /// A job has left: what of it is not in its slot.
    #[inline]
    pub(super) fn forget(&mut self, job: JobId) {
        let held = self.sched.data(job);
        if held.message.inline == Message::IN_BUFFER {
            // SAFETY: with its last event the job came back to us.
            let buffer = unsafe { self.config.shared.buffers.get(job) };
            self.config.byte_quota.put_away(&mut buffer.payload);
        }
        self.config.byte_quota.left(held.message.class, held.bytes);
        if held.deadline_tsc != NEVER {
            self.deadlines.end(job);
        }
    }
}
