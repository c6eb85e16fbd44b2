//! The dispatcher: takes requests in, asks the policy, feeds the workers, keeps their time where
//! they poll flags, and runs requests itself where the policy is work-conserving (Concord §3.3).
//!
//! One thread. Everything in here is its own; workers are reached through rings and the words in
//! [`Remote`].

mod link;
mod look;
mod orders;
mod place;
mod tell;

pub(crate) use link::WorkerLink;
pub(crate) use orders::{config_of, own_config};

use crate::Response;
use crate::classify::Classifier;
use crate::clock::{self, Clock};
use crate::control::Control;
use crate::engine::{Engine, GAP_NS, Surroundings};
use crate::intake::{Desk, batch};
use crate::jobs::{Jobs, Place};
use crate::message::{Event, Message, What};
use crate::preempt::{Choice, Preempt};
use crate::remote::Remote;
use crate::stats::{ClassStats, row};
use crate::thread::KThread;
use curtail_fiber::safepoint::Kind;
use curtail_net::{Completion, Outcome, Status, Transport, Waiter};
use curtail_policy::record::{Tap, Tapped};
use curtail_policy::{Nanos, Policy, Spec, WorkerId};
use look::Lookout;
use std::sync::Arc;
use std::time::Duration;
use tell::Told;

/// Events taken from one worker before the next is looked at.
/// More than arrivals, so that a dispatcher that can't keep up serves what it has first.
const EVENTS: usize = 256;
/// What one arrival or one event may cost the dispatcher before its turn looks like a gap.
const ITEM_NS: u64 = 150;

/// A transport and whether it may still bring something.
pub(crate) struct Line {
    pub transport: Box<dyn Transport>,
    pub open: bool,
}

/// Counts that end in the report.
#[derive(Default)]
pub(crate) struct Tally {
    pub malformed: u64,
    pub gaps: u64,
    pub gap_cycles: u64,
    pub last_gap_tsc: u64,
}

pub(crate) struct Dispatcher {
    pub set: Parts,
    pub policy: Tapped,
    pub jobs: Jobs,
    pub tally: Tally,
    events: Vec<Event>,
    refusal: Response,
    turned_away: Vec<Completion>,
    lookout: Lookout,
    told: Told,
    quantum_cycles: u64,
    gap_cycles: u64,
    item_cycles: u64,
    /// When this turn began (TSC), and how much it had to do.
    turn: u64,
    items: u64,
    closing: Option<u64>,
}

/// What a dispatcher starts from.
pub(crate) struct Parts {
    pub around: Surroundings,
    pub spec: Spec,
    pub wished: Preempt,
    pub choice: Choice,
    pub kind: Kind,
    pub busy: bool,
    /// Never again once signals have interrupted handlers: then it is not only safepoints where
    /// they may be continued.
    pub migratable: bool,
    pub shares_core: bool,
    pub workers: Vec<WorkerLink>,
    pub lines: Vec<Line>,
    pub classifier: Classifier,
    /// By class, and one row more for unknown requests.
    pub classes: Vec<ClassStats>,
    pub control: Arc<Control>,
    pub waiter: Waiter,
    /// The dispatcher's own engine, for as long as it runs.
    pub own: *mut Engine,
    pub own_remote: Arc<Remote>,
    pub seed: u64,
    /// Bytes that the requests in the system may have.
    pub memory: usize,
    /// Where the policy's calls are recorded, until the policy has it.
    pub tap: Option<Tap>,
}

impl Parts {
    /// What a policy needs room for, and its seed.
    fn size(&self) -> (usize, usize, u64) {
        (self.workers.len(), self.around.jobs, self.seed)
    }
}

impl Dispatcher {
    pub(crate) fn new(mut set: Parts) -> Self {
        set.choice.limit(&mut set.spec, set.kind);
        set.migratable &= set.choice.effective != Preempt::Signal;
        let clock = set.around.clock;
        let mut dispatcher = Self {
            policy: Tapped::new(&set.spec, set.size(), set.tap.take()),
            jobs: Jobs::new(set.around.jobs, set.memory),
            tally: Tally::default(),
            events: Vec::with_capacity(EVENTS),
            refusal: Response::default(),
            turned_away: Vec::new(),
            lookout: Lookout::default(),
            told: Told::default(),
            quantum_cycles: 0,
            gap_cycles: clock.cycles(GAP_NS),
            item_cycles: clock.cycles(ITEM_NS),
            turn: 0,
            items: 0,
            closing: None,
            set,
        };
        dispatcher.set_quantum(dispatcher.set.spec.quantum);
        dispatcher
    }

    /// Until every transport has closed and the last job has left, or draining took too long.
    pub(crate) fn run(&mut self, drain: Duration) {
        let drain_cycles = self.set.around.clock.cycles(drain.as_nanos() as u64);
        self.turn = clock::now();
        loop {
            let now = clock::now();
            self.watch(now);
            // Arrivals first: they came before the quanta ended that the workers report.
            let mut active = self.take_requests(now);
            active |= self.hear(now);
            if self.set.choice.is_watched() {
                self.keep_time(now);
            }
            self.look_again(now);
            active |= self.place(now);
            self.obey(now);
            self.tell(now);
            // Also in the middle of work, which may be a handler's that never ends, here.
            if self.closing.is_some_and(|since| now.saturating_sub(since) > drain_cycles) {
                return;
            }
            if active {
                continue;
            }
            if self.is_done() {
                return;
            }
            self.idle();
        }
    }

    fn clock(&self) -> Clock {
        self.set.around.clock
    }

    fn nanos(&self, tsc: u64) -> Nanos {
        self.set.around.clock.nanos(tsc)
    }

    fn is_done(&self) -> bool {
        self.jobs.len() == 0 && self.set.lines.iter().all(|line| !line.open)
    }

    /// A turn of the loop is short; a long one was interrupted by the machine.
    fn watch(&mut self, now: u64) {
        let cycles = now - self.turn;
        if cycles > self.gap_cycles + self.items * self.item_cycles {
            self.tally.gaps += 1;
            self.tally.gap_cycles += cycles;
            self.tally.last_gap_tsc = now;
        }
        (self.turn, self.items) = (now, 0);
    }

    /// Takes the workers' news.
    fn hear(&mut self, now: u64) -> bool {
        let mut heard = false;
        for index in 0..self.set.workers.len() {
            let mut events = std::mem::take(&mut self.events);
            let worker = &mut self.set.workers[index];
            if worker.events.pop_batch(&mut events, EVENTS) > 0 {
                heard = true;
                self.items += events.len() as u64;
                events.iter().for_each(|event| self.jobs.prefetch(event.job));
                for event in events.drain(..) {
                    self.note(WorkerId(index as u16), event, now);
                }
            }
            self.events = events;
        }
        heard | self.hear_own(now)
    }

    fn note(&mut self, on: WorkerId, event: Event, now: u64) {
        let time = self.nanos(now);
        self.lookout.note(event.what);
        match event.what {
            What::Ended(outcome) => self.ended(on, &event, outcome, time),
            What::Yielded => {
                let attained = self.nanos(event.ran_cycles);
                let pinned = (!self.set.migratable).then_some(on);
                let job = self.jobs.get(event.job).came_back(event.resume, attained, pinned);
                self.policy.yielded(time, on, job);
            }
            What::GaveWay => self.gave_way(on, event, now),
            What::Blocked => {
                self.jobs.get(event.job).place = Place::Blocked(on);
                self.policy.blocked(time, on, event.job);
            }
            What::Woken => self.woken(on, &event, time),
            What::Resumed => {
                self.jobs.get(event.job).place = Place::On(on);
                self.policy.resumed(time, on, event.job);
            }
        }
    }

    fn woken(&mut self, on: WorkerId, event: &Event, time: Nanos) {
        let attained = self.nanos(event.ran_cycles);
        let two_level = self.set.spec.is_two_level() && on != WorkerId::DISPATCHER;
        let entry = self.jobs.get(event.job);
        let job = entry.came_back(event.resume, attained, Some(on));
        if two_level {
            // The worker asked before it heard that it decides by itself now.
            entry.place = Place::On(on);
            let message = entry.message;
            self.policy.resumed(time, on, event.job);
            self.set.workers[on.index()].send(message);
        } else {
            self.policy.woken(time, on, job);
        }
    }

    fn ended(&mut self, on: WorkerId, event: &Event, outcome: Outcome, time: Nanos) {
        let attained = self.nanos(event.ran_cycles);
        self.policy.completed(time, on, event.job, attained);
        let entry = self.jobs.remove(event.job);
        if entry.message.inline == Message::IN_ENVELOPE {
            // SAFETY: with its last event the job came back to us.
            let envelope = unsafe { self.set.around.envelopes.get(event.job) };
            self.jobs.put_away(&mut envelope.payload);
        }
        let arrived = entry.message.arrived_tsc;
        let clock = self.clock();
        let ns = |from: u64, to: u64| clock.ns(to.saturating_sub(from));
        let class = row(&mut self.set.classes, entry.job.class);
        match outcome {
            Outcome::Done => class.completed += 1,
            Outcome::Failed | Outcome::Dropped => class.failed += 1,
            Outcome::Orphaned => class.orphaned += 1,
        }
        if outcome != Outcome::Orphaned {
            class.sojourn_ns.saturating_record(ns(arrived, event.at_tsc));
            class.queueing_ns.saturating_record(ns(arrived, event.started_tsc));
            class.service_ns.saturating_record(clock.ns(event.ran_cycles));
        }
        let last_gap = event.gap_tsc.max(self.tally.last_gap_tsc);
        self.set.lines[usize::from(entry.transport)].transport.completed(&Completion {
            peer: entry.peer,
            class: entry.job.class.0,
            outcome,
            tag: entry.tag,
            request_bytes: entry.bytes,
            arrived_tsc: arrived,
            started_tsc: event.started_tsc,
            finished_tsc: event.at_tsc,
            ran_cycles: event.ran_cycles,
            preemptions: event.preemptions,
            disturbed: last_gap >= arrived,
        });
    }

    fn take_requests(&mut self, now: u64) -> bool {
        let mut taken = 0;
        for index in 0..self.set.lines.len() {
            let line = &mut self.set.lines[index];
            if !line.open {
                continue;
            }
            let batch = batch(&self.jobs);
            let mut desk = Desk {
                app: &*self.set.around.app,
                classifier: &self.set.classifier,
                clock: self.set.around.clock,
                now: self.set.around.clock.nanos(now),
                now_tsc: now,
                policy: &mut self.policy,
                jobs: &mut self.jobs,
                envelopes: &self.set.around.envelopes,
                classes: &mut self.set.classes,
                malformed: &mut self.tally.malformed,
                refusal: &mut self.refusal,
                reply: &self.set.around.replies[index],
                turned_away: &mut self.turned_away,
                transport: index as u16,
                hints: self.set.spec.dispatch.uses_hints(),
                batch,
                taken: 0,
            };
            line.open = line.transport.poll(now, &mut desk) == Status::Open;
            taken += desk.taken;
            for completion in self.turned_away.drain(..) {
                line.transport.completed(&completion);
            }
        }
        self.items += taken as u64;
        taken > 0
    }

    /// Nothing to do.
    fn idle(&mut self) {
        if !self.set.busy {
            self.sleep();
        } else if self.set.shares_core {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
            return;
        }
        self.turn = clock::now();
    }

    /// Sleeps until a transport has something, a worker reports, or a command comes. While central
    /// jobs wait for a worker to report, it stays awake between yields to others.
    fn sleep(&mut self) {
        if self.policy.waiting() > 0 || !self.lookout.is_empty() {
            std::thread::yield_now();
            return;
        }
        let remote = self.set.own_remote.clone();
        let own = self.set.own;
        let (workers, control, waiter) =
            (&mut self.set.workers, &self.set.control, &mut self.set.waiter);
        let work = || {
            control.has_mail()
                || workers.iter_mut().any(|worker| !worker.events.is_empty())
                // SAFETY: this thread's engine, which runs nothing now.
                || unsafe { (*own).has_mail() }
        };
        let most = KThread::here().time_left(Some(Duration::from_millis(100)));
        remote.parker.sleep(work, || {
            if let Err(error) = waiter.wait(most) {
                tracing::warn!(%error, "epoll");
                std::thread::yield_now();
            }
        });
    }
}
