//! One run of one job: from the pick to what becomes of it.

use super::Engine;
use crate::activation::{Activation, run};
use crate::message::{Event, EventKind, Message};
use crate::serve::Serving;
use curtail_fiber::{Fiber, Label, Suspend, Task};
use curtail_net::Outcome;
use curtail_policy::{CorePolicy, Job, JobId};
use curtail_rt::cancel::Cause;
use curtail_rt::clock;
use curtail_rt::contain::discard;
use curtail_rt::timeline;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The target of what is logged here.
const LOG: &str = "curtail::engine::run";

impl Engine {
    /// The next job to run and its quantum in cycles (0: to completion).
    fn pick(&mut self, now: u64) -> Option<(*mut Activation, u64)> {
        let Some((job, quantum)) = self.core.pick(self.shared.clock.nanos(now)) else {
            return self.pick_last();
        };
        let activation = match self.here[job.id.0 as usize] {
            none if none.is_null() => self.activate(job),
            activation => activation,
        };
        // SAFETY: what the core policy holds is here, so it is ours.
        let own = unsafe { (*activation).message.quantum_cycles };
        let cycles = match (own, quantum) {
            (0, Some(quantum)) => self.shared.clock.cycles(quantum.0),
            (own, _) => own,
        };
        Some((activation, cycles))
    }

    /// Runs the next ready job until it gives up the thread. `now`: a fresh TSC reading. Returns the
    /// TSC at the end; `None`: nothing is ready.
    ///
    /// # Safety
    /// `this` is this thread's engine; the caller holds no reference into it.
    pub(crate) unsafe fn run(this: *mut Self, now: u64) -> Option<u64> {
        // SAFETY: exclusive until the fiber is entered.
        let (activation, fiber, first) = unsafe { (*this).prepare(now)? };
        // SAFETY: as above.
        unsafe {
            (*this).sample_overhead(now);
            let ready = usize::from((*this).has_ready());
            (*this).kthread.note_pick(ready);
            (*this).kthread.set_current(&raw const (*activation).tcb);
        }
        // SAFETY: the fiber is the activation's; `on_safepoint`, which runs on it, does not touch
        // the `Fiber`. The task's argument, the activation, lives until the job has left.
        let why = unsafe {
            Self::away(this, || match first {
                true => {
                    let task = Task { run, argument: activation.cast() };
                    (*fiber).start(task, (*this).label(activation))
                }
                false => (*fiber).resume(),
            })
        };
        let end = clock::now();
        // SAFETY: the fiber is suspended or idle: exclusive again.
        unsafe {
            (*this).kthread.set_current(ptr::null());
            (*this).kthread.nothing_runs();
            if (*this).looks_soon(end) {
                (*this).expect_mail();
            }
            Some((*this).conclude(activation, why, now, end))
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

    /// Up to the switch: arms the safepoints. True: this is the job's first run.
    fn prepare(&mut self, now: u64) -> Option<(*mut Activation, *mut Fiber, bool)> {
        loop {
            let (pointer, quantum) = self.pick(now)?;
            self.running = pointer;
            self.run_start = now;
            self.quantum_cycles = quantum;
            // SAFETY: ours, and its fiber does not run.
            let activation = unsafe { &mut *pointer };
            let first = activation.started_tsc == 0;
            let cause = self.cause_of(activation);
            if first && (cause == Some(Cause::Departed) || self.is_orphaned(&activation.message)) {
                activation.started_tsc = now;
                self.end(pointer, Outcome::Orphaned, now);
                continue;
            }
            activation.tcb.come_to(&self.kthread.shared);
            if first {
                activation.tcb.begin_request(activation.job.id.0, activation.job.class.0);
                activation.started_tsc = now;
                activation.request = self.request_in(&activation.message);
                activation.app = Arc::as_ptr(&self.shared.app);
                activation.state = &raw const *self.state;
                if let Some(cause) = cause {
                    activation.serving = Serving::Cancellation(cause);
                }
            } else if let Some(cause) = cause {
                self.mark(activation, cause);
            }
            if activation.fiber.is_none() {
                activation.fiber = self.fiber().or_else(|| {
                    // No memory for a stack: this request is refused, and others end and give theirs
                    // back.
                    activation.serving = Serving::Refusal;
                    self.reserve.take()
                });
            }
            let Some(fiber) = &mut activation.fiber else {
                self.end(pointer, Outcome::Dropped, now);
                continue;
            };
            self.arm(now);
            self.arm_beat(now);
            return Some((pointer, fiber, first));
        }
    }

    /// What a stack overflow would tell of the job.
    ///
    /// # Safety
    /// The activation is ours.
    unsafe fn label(&self, activation: *const Activation) -> Label {
        // SAFETY: by contract.
        let job = unsafe { &(*activation).job };
        Label {
            job: u64::from(job.id.0),
            class: job.class.0,
            worker: self.shared.in_server(self.id).0,
            stack_bytes: 0,
        }
    }

    fn fiber(&mut self) -> Option<Fiber> {
        Fiber::new(&mut self.stacks).map_err(|error| tracing::error!(target: LOG, %error)).ok()
    }

    /// The client has gone, so a request that has not begun is not run.
    pub(super) fn is_orphaned(&self, message: &Message) -> bool {
        if !message.answers() {
            return false;
        }
        // SAFETY: we hold the job's message; the dispatcher has written these before.
        let (peer, transport) = unsafe { self.shared.envelopes.origin(message.job) };
        self.shared.replies[usize::from(transport)].is_gone(peer)
    }

    fn request_in(&self, message: &Message) -> *const [u8] {
        if message.inline == Message::IN_ENVELOPE {
            // SAFETY: we hold the job's message; the envelope stays untouched until it has left.
            unsafe { &raw const *self.shared.envelopes.get(message.job).payload }
        } else {
            ptr::null::<u8>() as *const [u8; 0] as *const [u8] // the message's own; see `activation::run`
        }
    }

    /// After the switch back, at `end`. When the worker is free again (TSC), after it has sent the
    /// answer, if there is one.
    fn conclude(&mut self, pointer: *mut Activation, why: Suspend, start: u64, end: u64) -> u64 {
        // SAFETY: `running` has just left its fiber.
        unsafe { self.alone.count(self.running, &mut self.quanta) };
        if self.armed() && !matches!(why, Suspend::Preempted) {
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
        // SAFETY: ours; its fiber does not run.
        let activation = unsafe { &mut *pointer };
        activation.ran_cycles += ran;
        if timeline::is_on() {
            let Job { id, class, .. } = activation.job;
            timeline::note(kind_of(&why), (start, ran), id.0, class.0);
        }
        activation.job.attained = self.shared.clock.nanos(activation.ran_cycles);
        let mut free = end;
        match why {
            Suspend::Done => free = self.end(pointer, activation.outcome, end),
            // What is no panic of Rust's, out of what contains those.
            Suspend::Panicked(payload) => {
                discard(payload);
                activation.response.clear();
                free = self.end(pointer, Outcome::Failed, end);
            }
            Suspend::Preempted => {
                activation.preemptions += 1;
                let last = activation.tcb.cancel.is_last();
                if last && self.abandon(pointer, end) {
                    // It has left.
                } else if last && !self.config.central {
                    self.last.push_back(activation.job);
                } else if self.config.central && !beats {
                    self.send_back(pointer, end);
                } else {
                    self.requeue(activation.job, end);
                }
            }
            // It waits for something that another job may have to do, which may be queued centrally
            // behind it: so it gives up its place, too.
            Suspend::Yielded if self.config.central => {
                self.push_event(pointer, EventKind::Yielded, end)
            }
            Suspend::Yielded if activation.tcb.cancel.is_last() => {
                self.last.push_back(activation.job);
            }
            Suspend::Yielded => {
                self.take_in(end);
                self.core.yielded(self.shared.clock.nanos(end), activation.job);
            }
            Suspend::Blocked => self.push_event(pointer, EventKind::Blocked, end),
        }
        if self.config.report_serviced {
            self.remote.progress.serviced.store(self.quanta, Ordering::Relaxed);
        }
        free
    }

    /// A job that gave up the thread is ready again, after those that came while it ran.
    fn requeue(&mut self, job: Job, now: u64) {
        self.take_in(now);
        self.core.ready(self.shared.clock.nanos(now), job);
    }

    /// The job has left: answers, tells, and keeps what can be used again. When it has answered (TSC).
    fn end(&mut self, pointer: *mut Activation, outcome: Outcome, end: u64) -> u64 {
        let answered = self.answer(pointer, end);
        self.push_event(pointer, EventKind::Ended(outcome), end);
        if let Some(event) = self.outbox.back_mut() {
            event.busy_cycles += answered - end;
        }
        // SAFETY: ours, made by `Box::into_raw` in `activate`, and taken out of `here` right below;
        // the pointer in the event of an ended job is null.
        let mut activation = unsafe { Box::from_raw(pointer) };
        self.leave(activation.job.id);
        if activation.serving == Serving::Refusal && activation.fiber.is_some() {
            self.reserve = activation.fiber.take();
        }
        activation.tcb.end_request();
        activation.response.clear();
        self.quanta -= u64::from(activation.preemptions);
        self.put_away(activation);
        answered
    }

    /// Sends the answer of a job that has ended at `end`, if it has one. When that is done (TSC): it
    /// is the worker's time, too, and of short requests most of it.
    fn answer(&self, pointer: *const Activation, end: u64) -> u64 {
        // SAFETY: ours, and its fiber does not run.
        let Activation { message, response, .. } = unsafe { &*pointer };
        if !message.answers() || !response.is_answer() {
            return end;
        }
        // SAFETY: the job is still ours: its event is not sent yet.
        let (peer, transport) = unsafe { self.shared.envelopes.origin(message.job) };
        response.send(&*self.shared.replies[usize::from(transport)], peer);
        clock::now().max(end)
    }

    /// The job goes back to the dispatcher, with its activation.
    fn send_back(&mut self, pointer: *mut Activation, end: u64) {
        // SAFETY: ours until the event is sent.
        let (job, quanta) = unsafe { ((*pointer).job.id, (*pointer).preemptions) };
        self.quanta -= u64::from(quanta);
        if curtail_rt::thread::is_to_stop(self.kthread) {
            // Nobody takes it back: it is left behind, and what it borrows stays.
            self.shared.rules.note_left();
        }
        self.push_event(pointer, EventKind::Preempted, end);
        self.leave(job);
    }

    pub(super) fn leave(&mut self, job: JobId) {
        self.here[job.0 as usize] = ptr::null_mut();
    }

    pub(super) fn push_event(&mut self, pointer: *mut Activation, what: EventKind, at_tsc: u64) {
        // SAFETY: the activation is ours.
        let activation = unsafe { &*pointer };
        self.outbox.push_back(Event {
            job: activation.job.id,
            what,
            preemptions: activation.preemptions,
            began: !matches!(activation.serving, Serving::Cancellation(_)),
            started_tsc: activation.started_tsc,
            at_tsc,
            ran_cycles: activation.ran_cycles,
            busy_cycles: activation.ran_cycles,
            gap_tsc: self.kthread.last_gap(),
            resume: match what {
                EventKind::Preempted | EventKind::Woken | EventKind::Yielded => pointer,
                EventKind::Ended(_) | EventKind::Blocked | EventKind::Resumed => ptr::null_mut(),
            },
        });
    }
}

/// How a run that ended in that way is recorded.
fn kind_of(why: &Suspend) -> timeline::EventKind {
    match why {
        Suspend::Done | Suspend::Panicked(_) => timeline::EventKind::RanToEnd,
        Suspend::Preempted => timeline::EventKind::RanUntilPreempted,
        Suspend::Yielded => timeline::EventKind::RanUntilYield,
        Suspend::Blocked => timeline::EventKind::RanUntilBlocked,
    }
}
