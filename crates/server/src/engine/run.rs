//! One run of one job: from the pick to what becomes of it.

use super::Engine;
use crate::dispatched::DispatchedRequest;
use crate::message::Event;
use crate::serve::Serving;
use curtail_fiber::Label;
use curtail_net::Outcome;
use curtail_policy::{CorePolicy, Job, JobId};
use curtail_rt::cancel::Cause;
use curtail_rt::clock;
use curtail_rt::thread::Left;
use curtail_rt::timeline;
use curtail_sched::EventKind;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The target of what is logged here.
const LOG: &str = "curtail::engine::run";

impl Engine {
    /// The next job to run and its quantum in cycles (0: to completion).
    fn pick(&mut self, now: u64) -> Option<(*mut DispatchedRequest, u64)> {
        let Some((job, quantum)) = self.core.pick(self.shared.clock.nanos(now)) else {
            return self.pick_last();
        };
        let request = match self.here[job.id.0 as usize] {
            none if none.is_null() => self.activate(job),
            request => request,
        };
        // SAFETY: what the core policy holds is here, so it is ours.
        let own = unsafe { (*request).message.quantum_cycles };
        let cycles = match (own, quantum) {
            (0, Some(quantum)) => self.shared.clock.cycles(quantum.0),
            (own, _) => own,
        };
        Some((request, cycles))
    }

    /// Runs the next ready job until it gives up the thread. `now`: a fresh TSC reading. Returns the
    /// TSC at the end; `None`: nothing is ready.
    ///
    /// # Safety
    /// `this` is this thread's engine; the caller holds no reference into it.
    pub(crate) unsafe fn run(this: *mut Self, now: u64) -> Option<u64> {
        // SAFETY: exclusive until the request is entered.
        let (request, kthread, resumer) = unsafe {
            let request = (*this).prepare(now)?;
            (*this).sample_overhead(now);
            let ready = usize::from((*this).has_ready());
            (*this).kthread.note_pick(ready);
            (request, (*this).kthread, Rc::as_ptr(&(*this).resumer))
        };
        // SAFETY: the request was adopted when it came here, and lives until it has left. The resumer
        // lives as long as the engine.
        let why = unsafe { Self::away(this, || (*resumer).run(kthread, &(*request).task)) };
        let end = clock::now();
        // SAFETY: nothing runs: exclusive again.
        unsafe {
            kthread.nothing_runs();
            if (*this).looks_soon(end) {
                (*this).expect_mail();
            }
            Some((*this).conclude(request, why, now, end))
        }
    }

    /// Every so often, measures what lies between two stretches of handlers' code: a clock reading
    /// each time would cost as much as some requests.
    fn sample_overhead(&mut self, since: u64) {
        const EVERY: u64 = 64;
        self.counts.runs += 1;
        if self.counts.runs.is_multiple_of(EVERY) {
            self.counts.overhead_cycles += (clock::now() - since) * EVERY;
        }
    }

    /// Up to the switch: arms the safepoints.
    fn prepare(&mut self, now: u64) -> Option<*mut DispatchedRequest> {
        loop {
            self.running = ptr::null_mut();
            let (pointer, quantum) = self.pick(now)?;
            self.running = pointer;
            self.run_start = now;
            self.quantum_cycles = quantum;
            // SAFETY: ours, and it does not run.
            let request = unsafe { &mut *pointer };
            let first = request.task.started().is_none();
            let cause = self.cause_of(request);
            request.task.clock_in(now);
            if !first {
                if let Some(cause) = cause {
                    self.mark(request, cause);
                }
            } else if cause == Some(Cause::Departed) || self.shared.is_orphaned(&request.message) {
                self.end(pointer, Outcome::Orphaned, now);
                continue;
            } else if !self.begin(request, cause) {
                self.end(pointer, Outcome::Dropped, now);
                continue;
            }
            self.arm(now);
            self.arm_beat(now);
            return Some(pointer);
        }
    }

    /// Gives a request what it starts with; false: there is no stack for it, not even to refuse it on.
    fn begin(&mut self, request: &mut DispatchedRequest, cause: Option<Cause>) -> bool {
        if let Some(cause) = cause {
            request.serving = Serving::Cancellation(cause);
        }
        let label = Label {
            job: u64::from(request.job.id.0),
            class: request.job.class.0,
            worker: self.shared.in_server(self.id).0,
            stack_bytes: 0,
        };
        let (serving, reserve) = (&mut request.serving, &mut self.reserve);
        let stack = || {
            self.kthread.take_stack_for_request().or_else(|error| {
                tracing::error!(target: LOG, %error);
                // This request is refused, and others end and give theirs back.
                *serving = Serving::Refusal;
                reserve.take().ok_or(())
            })
        };
        // SAFETY: it was lent when it came here, and has not run.
        unsafe { self.resumer.begin(&request.task, stack, label) }.is_ok()
    }

    /// After the switch back, at `end`. When the worker is free again (TSC), after it has sent the
    /// answer, if there is one.
    fn conclude(
        &mut self,
        pointer: *mut DispatchedRequest,
        why: Left,
        start: u64,
        end: u64,
    ) -> u64 {
        // SAFETY: `running` has just left the processor.
        unsafe { self.alone.count(self.running, &mut self.quanta) };
        if self.armed() && why != Left::Preempted {
            self.note_late(self.late(end), end);
        }
        let beats = std::mem::take(&mut self.beats);
        if beats {
            self.safepoint.disarm();
        }
        self.disarm();
        self.running = ptr::null_mut();
        let ran = end.saturating_sub(start);
        self.counts.run_cycles += ran;
        // SAFETY: ours; it does not run.
        let request = unsafe { &mut *pointer };
        request.task.clock_out(end);
        if timeline::is_on() {
            let Job { id, class, .. } = request.job;
            timeline::note(kind_of(why), (start, ran), id.0, class.0);
        }
        request.job.attained = self.shared.clock.nanos(request.task.ran_cycles());
        let last = request.task.tcb().cancel.is_last();
        let mut free = end;
        match why {
            Left::Ended => free = self.end(pointer, request.outcome, end),
            Left::Preempted => {
                request.task.count_cuts(1);
                if last && self.abandon(pointer, end) {
                    // It has left.
                } else if last && !self.config.central {
                    self.last.push_back(request.job);
                } else if self.config.central && !beats {
                    self.send_back(pointer, end);
                } else {
                    self.requeue(request.job, end);
                }
            }
            // It waits for something that another job may have to do, which may be queued centrally
            // behind it: so it gives up its place, too.
            Left::Yielded if self.config.central => {
                self.push_event(pointer, EventKind::Yielded, end)
            }
            Left::Yielded if last => self.last.push_back(request.job),
            Left::Yielded => {
                self.poll(end);
                self.core.yielded(self.shared.clock.nanos(end), request.job);
            }
            Left::Blocked => self.push_event(pointer, EventKind::Blocked, end),
        }
        if self.config.report_serviced {
            self.remote.progress.serviced.store(self.quanta, Ordering::Relaxed);
        }
        free
    }

    /// A job that gave up the thread is ready again, after those that came while it ran.
    fn requeue(&mut self, job: Job, now: u64) {
        self.poll(now);
        self.core.ready(self.shared.clock.nanos(now), job);
    }

    /// The job has left: answers, tells, and keeps what can be used again. When it has answered (TSC).
    fn end(&mut self, pointer: *mut DispatchedRequest, outcome: Outcome, end: u64) -> u64 {
        let answered = self.send_response(pointer, end);
        // SAFETY: ours, and it does not run.
        unsafe { (*pointer).outcome = outcome };
        self.push_event(pointer, EventKind::Ended, end);
        if let Some(event) = self.outbox.back_mut() {
            event.busy_cycles += answered - end;
        }
        // SAFETY: ours, made by `Box::into_raw` in `activate`, and taken out of `here` right below;
        // the pointer in the event of an ended job is null.
        let mut request = unsafe { Box::from_raw(pointer) };
        self.unlink(request.job.id);
        request.task.let_go();
        if request.serving == Serving::Refusal
            && let Some(stack) = request.task.take_stack()
        {
            self.reserve = Some(stack);
        }
        request.response.clear();
        self.quanta -= u64::from(request.task.cuts());
        self.put_away(request);
        answered
    }

    /// Sends the answer of a job that has ended at `end`, if it has one. When that is done (TSC): it
    /// is the worker's time, too, and of short requests most of it.
    fn send_response(&self, pointer: *const DispatchedRequest, end: u64) -> u64 {
        // SAFETY: ours, and it does not run.
        let DispatchedRequest { message, response, .. } = unsafe { &*pointer };
        if !message.answers() || !response.is_answer() {
            return end;
        }
        // SAFETY: the job is still ours: its event is not sent yet.
        let (peer, transport) = unsafe { self.shared.buffers.origin(message.job) };
        response.send(&*self.shared.replies[usize::from(transport)], peer);
        clock::now().max(end)
    }

    /// The job goes back to the dispatcher, with its request.
    fn send_back(&mut self, pointer: *mut DispatchedRequest, end: u64) {
        // SAFETY: ours until the event is sent.
        let (job, quanta) = unsafe { ((*pointer).job.id, (*pointer).task.cuts()) };
        self.quanta -= u64::from(quanta);
        if curtail_rt::thread::is_to_stop(self.kthread) {
            // Nobody takes it back: it is left behind, and what it borrows stays.
            self.shared.rules.note_left();
        }
        self.push_event(pointer, EventKind::Preempted, end);
        self.unlink(job);
    }

    pub(super) fn unlink(&mut self, job: JobId) {
        self.here[job.0 as usize] = ptr::null_mut();
    }

    pub(super) fn push_event(
        &mut self,
        pointer: *mut DispatchedRequest,
        what: EventKind,
        at_tsc: u64,
    ) {
        // SAFETY: the request is ours.
        let request = unsafe { &*pointer };
        let ran_cycles = request.task.ran_cycles();
        self.outbox.push_back(Event {
            job: request.job.id,
            what,
            outcome: request.outcome,
            preemptions: request.task.cuts(),
            began: !matches!(request.serving, Serving::Cancellation(_)),
            started_tsc: request.task.started().unwrap_or(at_tsc),
            at_tsc,
            ran_cycles,
            busy_cycles: ran_cycles,
            gap_tsc: self.kthread.last_gap(),
            resume: match what {
                EventKind::Preempted | EventKind::Woken | EventKind::Yielded => pointer,
                _ => ptr::null_mut(),
            },
        });
    }
}

/// How a run that ended in that way is recorded.
fn kind_of(why: Left) -> timeline::EventKind {
    match why {
        Left::Ended => timeline::EventKind::RanToEnd,
        Left::Preempted => timeline::EventKind::RanUntilPreempted,
        Left::Yielded => timeline::EventKind::RanUntilYield,
        Left::Blocked => timeline::EventKind::RanUntilBlocked,
    }
}
