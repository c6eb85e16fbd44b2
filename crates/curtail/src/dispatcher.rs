//! The dispatcher: takes requests in, asks the policy, feeds the workers, keeps their time where
//! they poll flags, and runs requests itself where the policy is work-conserving (Concord §3.3).
//!
//! One thread. Everything in here is its own; workers are reached through rings and the words in
//! [`Remote`].

use crate::Response;
use crate::clock::{self, Clock};
use crate::control::{Command, Control};
use crate::engine::{Config, Engine, GAP_NS, Surroundings};
use crate::intake::Desk;
use crate::jobs::{Jobs, Place};
use crate::message::{Event, Message, What};
use crate::preempt::{Choice, Preempt};
use crate::remote::Remote;
use crate::stats::{ClassStats, Stats};
use crate::worker::Orders;
use curtail_fiber::safepoint::{Kind, Mode};
use curtail_net::{Completion, Outcome, Status, Transport, Waiter};
use curtail_policy::{AnyPolicy, Decision, Expiry, Job, Nanos, Policy, Spec, WorkerId};
use curtail_ring::spsc;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Events taken from one worker before the next is looked at.
const EVENTS: usize = 64;
/// What one arrival or one event may cost the dispatcher before its turn looks like a gap.
const ITEM_NS: u64 = 150;

/// A worker, as the dispatcher sees it.
pub(crate) struct WorkerLink {
    pub messages: spsc::Producer<Message>,
    /// What the ring had no room for.
    pub overflow: VecDeque<Message>,
    pub events: spsc::Consumer<Event>,
    pub remote: Arc<Remote>,
    pub orders: Arc<Orders>,
    /// Something is staged or was published since the worker was last woken.
    dirty: bool,
    contended: bool,
    /// When the quantum that runs there is to be looked at (TSC), and which one that was.
    quantum_start: u64,
    quantum_end: u64,
}

impl WorkerLink {
    pub(crate) fn new(
        messages: spsc::Producer<Message>,
        events: spsc::Consumer<Event>,
        remote: Arc<Remote>,
        orders: Arc<Orders>,
    ) -> Self {
        Self {
            messages,
            overflow: VecDeque::new(),
            events,
            remote,
            orders,
            dirty: false,
            contended: false,
            quantum_start: 0,
            quantum_end: 0,
        }
    }

    fn send(&mut self, message: Message) {
        self.dirty = true;
        if self.overflow.is_empty() {
            if let Err(full) = self.messages.stage(message) {
                self.overflow.push_back(full.into_inner());
            }
        } else {
            self.overflow.push_back(message);
        }
    }

    fn flush(&mut self) {
        while let Some(message) = self.overflow.pop_front() {
            self.dirty = true;
            if let Err(full) = self.messages.stage(message) {
                self.overflow.push_front(full.into_inner());
                break;
            }
        }
        if self.dirty {
            self.dirty = false;
            self.messages.publish();
            self.remote.parker.unpark();
        }
    }
}

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
    pub around: Surroundings,
    pub spec: Spec,
    pub wished: Preempt,
    pub choice: Choice,
    pub kind: Kind,
    pub busy: bool,
    pub migratable: bool,
    pub shares_core: bool,
    pub policy: AnyPolicy,
    pub jobs: Jobs,
    pub workers: Vec<WorkerLink>,
    pub lines: Vec<Line>,
    pub classes: Vec<ClassStats>,
    pub tally: Tally,
    pub control: Arc<Control>,
    pub waiter: Waiter,
    /// The dispatcher's own engine; null where the policy never asks for it.
    pub own: *mut Engine,
    pub own_remote: Arc<Remote>,
    pub seed: u64,
    events: Vec<Event>,
    refusal: Response,
    dropped: Vec<Completion>,
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
    pub migratable: bool,
    pub shares_core: bool,
    pub workers: Vec<WorkerLink>,
    pub lines: Vec<Line>,
    pub classes: Vec<ClassStats>,
    pub control: Arc<Control>,
    pub waiter: Waiter,
    pub own: *mut Engine,
    pub own_remote: Arc<Remote>,
    pub seed: u64,
}

impl Dispatcher {
    pub(crate) fn new(parts: Parts) -> Self {
        let clock = parts.around.clock;
        let jobs = parts.around.jobs;
        let mut dispatcher = Self {
            policy: parts.spec.build(parts.workers.len(), jobs, parts.seed),
            jobs: Jobs::new(jobs),
            around: parts.around,
            spec: parts.spec,
            wished: parts.wished,
            choice: parts.choice,
            kind: parts.kind,
            busy: parts.busy,
            migratable: parts.migratable,
            shares_core: parts.shares_core,
            workers: parts.workers,
            lines: parts.lines,
            classes: parts.classes,
            tally: Tally::default(),
            control: parts.control,
            waiter: parts.waiter,
            own: parts.own,
            own_remote: parts.own_remote,
            seed: parts.seed,
            events: Vec::with_capacity(EVENTS),
            refusal: Response::default(),
            dropped: Vec::new(),
            quantum_cycles: 0,
            gap_cycles: clock.cycles(GAP_NS),
            item_cycles: clock.cycles(ITEM_NS),
            turn: 0,
            items: 0,
            closing: None,
        };
        dispatcher.set_quantum(dispatcher.spec.quantum);
        dispatcher
    }

    /// Until every transport has closed and the last job has left, or draining took too long.
    pub(crate) fn run(&mut self, drain: Duration) {
        let drain_cycles = self.around.clock.cycles(drain.as_nanos() as u64);
        self.turn = clock::now();
        loop {
            let now = clock::now();
            self.watch(now);
            let mut active = self.hear(now);
            if self.choice.effective == Preempt::Flag {
                self.keep_time(now);
            }
            active |= self.take_requests(now);
            active |= self.place(now);
            self.obey(now);
            if active {
                continue;
            }
            if self.is_done() || self.closing.is_some_and(|since| now - since > drain_cycles) {
                return;
            }
            self.idle();
        }
    }

    fn clock(&self) -> Clock {
        self.around.clock
    }

    fn nanos(&self, tsc: u64) -> Nanos {
        self.around.clock.nanos(tsc)
    }

    fn is_done(&self) -> bool {
        self.jobs.len() == 0 && self.lines.iter().all(|line| !line.open)
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
        for index in 0..self.workers.len() {
            let mut events = std::mem::take(&mut self.events);
            let worker = &mut self.workers[index];
            if worker.events.pop_batch(&mut events, EVENTS) > 0 {
                heard = true;
                self.items += events.len() as u64;
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
        match event.what {
            What::Ended(outcome) => self.ended(on, &event, outcome, time),
            What::Yielded => {
                let attained = self.nanos(event.ran_cycles);
                let pinned = (!self.migratable).then_some(on);
                let job = self.jobs.get(event.job).came_back(event.resume, attained, pinned);
                self.policy.yielded(time, on, job);
            }
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
        let two_level = self.spec.is_two_level() && on != WorkerId::DISPATCHER;
        let entry = self.jobs.get(event.job);
        let job = entry.came_back(event.resume, attained, Some(on));
        if two_level {
            // The worker asked before it heard that it decides by itself now.
            entry.place = Place::On(on);
            let message = entry.message;
            self.policy.resumed(time, on, event.job);
            self.workers[on.index()].send(message);
        } else {
            self.policy.woken(time, on, job);
        }
    }

    fn ended(&mut self, on: WorkerId, event: &Event, outcome: Outcome, time: Nanos) {
        self.policy.completed(time, on, event.job);
        let entry = self.jobs.remove(event.job);
        let arrived = entry.message.arrived_tsc;
        let clock = self.clock();
        let ns = |from: u64, to: u64| clock.ns(to.saturating_sub(from));
        let class = &mut self.classes[usize::from(entry.job.class.0)];
        match outcome {
            Outcome::Done => class.completed += 1,
            Outcome::Failed | Outcome::Dropped => class.failed += 1,
        }
        class.sojourn_ns.saturating_record(ns(arrived, event.at_tsc));
        class.queueing_ns.saturating_record(ns(arrived, event.started_tsc));
        class.service_ns.saturating_record(clock.ns(event.ran_cycles));
        let last_gap = event.gap_tsc.max(self.tally.last_gap_tsc);
        self.lines[usize::from(entry.transport)].transport.completed(&Completion {
            peer: entry.peer,
            class: entry.job.class.0,
            outcome,
            tag: entry.tag,
            arrived_tsc: arrived,
            started_tsc: event.started_tsc,
            finished_tsc: event.at_tsc,
            ran_cycles: event.ran_cycles,
            preemptions: event.preemptions,
            disturbed: last_gap >= arrived,
        });
    }

    /// Flags: raises the word of each worker whose quantum is over, if somebody wants its place.
    fn keep_time(&mut self, now: u64) {
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            let start = worker.remote.progress.running.load(Ordering::Acquire);
            if start != worker.quantum_start {
                worker.quantum_start = start;
                worker.quantum_end = start + self.quantum_cycles;
            }
            if start == 0 || now < worker.quantum_end {
                continue;
            }
            worker.quantum_end = now + self.quantum_cycles;
            let on = WorkerId(index as u16);
            if self.policy.expired(self.around.clock.nanos(now), on) == Expiry::Yield {
                if let Some(poll) = self.workers[index].remote.poll.get() {
                    poll.raise();
                }
            }
        }
    }

    fn take_requests(&mut self, now: u64) -> bool {
        let mut taken = 0;
        for index in 0..self.lines.len() {
            let line = &mut self.lines[index];
            if !line.open {
                continue;
            }
            let mut desk = Desk {
                app: &*self.around.app,
                clock: self.around.clock,
                now: self.around.clock.nanos(now),
                now_tsc: now,
                policy: &mut self.policy,
                jobs: &mut self.jobs,
                envelopes: &self.around.envelopes,
                classes: &mut self.classes,
                malformed: &mut self.tally.malformed,
                refusal: &mut self.refusal,
                reply: &self.around.replies[index],
                dropped: &mut self.dropped,
                transport: index as u16,
                taken: 0,
            };
            line.open = line.transport.poll(now, &mut desk) == Status::Open;
            taken += desk.taken;
            for completion in self.dropped.drain(..) {
                line.transport.completed(&completion);
            }
        }
        self.items += taken as u64;
        taken > 0
    }

    /// Carries out what the policy decides.
    fn place(&mut self, now: u64) -> bool {
        let mut acted = false;
        if self.spec.is_two_level() && self.policy.waiting() > 0 {
            self.tell_serviced();
        }
        let time = self.nanos(now);
        let mut own = None;
        loop {
            match self.policy.decide(time) {
                Decision::Idle => break,
                Decision::Preempt { on } => {
                    if let Some(poll) = self.workers[on.index()].remote.poll.get() {
                        poll.raise();
                    }
                }
                Decision::Run { job, on: WorkerId::DISPATCHER, quantum } => {
                    own = Some((job, quantum));
                    break;
                }
                Decision::Run { job, on, quantum } => self.send(job, on, quantum),
            }
            acted = true;
        }
        for worker in &mut self.workers {
            worker.flush();
        }
        self.tell_contended();
        if let Some((job, quantum)) = own {
            self.run_here(job, quantum, now);
            acted = true;
        }
        acted
    }

    fn send(&mut self, job: Job, on: WorkerId, quantum: Option<Nanos>) {
        let entry = self.jobs.get(job.id);
        entry.place = Place::On(on);
        let mut message = entry.message;
        // A two-level policy leaves quanta to the worker.
        message.quantum_cycles = match quantum {
            Some(quantum) if !self.spec.is_two_level() => self.around.clock.cycles(quantum.0),
            _ => 0,
        };
        self.workers[on.index()].send(message);
    }

    /// Runs a job on this thread, for at most a quantum. It stays here until it ends, unless the
    /// application is migratable: its frames may hold addresses of this thread's locals. (Concord
    /// must keep it because its two threads run differently instrumented code; here it is the same.)
    fn run_here(&mut self, job: Job, quantum: Option<Nanos>, now: u64) {
        let entry = self.jobs.get(job.id);
        entry.place = Place::On(WorkerId::DISPATCHER);
        let mut message = entry.message;
        message.quantum_cycles = quantum.map_or(0, |quantum| self.around.clock.cycles(quantum.0));
        // SAFETY: this thread's engine, made by the server before it started us, and not running
        // anything now; the borrow ends before the fiber is entered.
        unsafe {
            (*self.own).admit(message, now);
            Engine::run(self.own, clock::now());
        }
        self.turn = clock::now();
        self.hear_own(self.turn);
    }

    fn hear_own(&mut self, now: u64) -> bool {
        if self.own.is_null() {
            return false;
        }
        let mut heard = false;
        // SAFETY: as in `run_here`; each borrow lasts one call.
        while let Some(event) = unsafe {
            (*self.own).take_in(now);
            (*self.own).next_event()
        } {
            heard = true;
            self.note(WorkerId::DISPATCHER, event, now);
        }
        heard
    }

    fn tell_serviced(&mut self) {
        if self.workers.len() > 1 {
            for (index, worker) in self.workers.iter().enumerate() {
                let quanta = worker.remote.progress.serviced.load(Ordering::Relaxed);
                self.policy.serviced(WorkerId(index as u16), quanta);
            }
        }
    }

    /// Lets the workers know whether giving up a core would help anybody.
    fn tell_contended(&mut self) {
        if self.spec.is_two_level() {
            return;
        }
        let contended = self.policy.waiting() > 0;
        for worker in &mut self.workers {
            if worker.contended != contended {
                worker.contended = contended;
                worker.remote.wishes.contended.store(contended, Ordering::Relaxed);
            }
        }
    }

    fn obey(&mut self, now: u64) {
        if !self.control.has_mail() {
            return;
        }
        for command in self.control.take() {
            match command {
                Command::Shutdown => {
                    self.closing.get_or_insert(now);
                    self.lines.iter_mut().for_each(|line| line.transport.close());
                }
                Command::Stats(answer) => drop(answer.send(self.stats())),
                Command::Quantum(quantum) => {
                    self.set_quantum(quantum);
                    self.reconfigure();
                }
                Command::Switch(spec) => self.switch(spec, now),
            }
        }
    }

    /// Another policy from now on. What waits moves over in order; what the workers hold is told to
    /// the new policy, and the workers get their part of it.
    fn switch(&mut self, spec: Spec, now: u64) {
        let time = self.nanos(now);
        let mut policy = spec.build(self.workers.len(), self.around.jobs, self.seed);
        for entry in self.jobs.iter() {
            match entry.place {
                Place::Waiting => {}
                Place::On(on) => policy.adopt(time, on, entry.job),
                Place::Blocked(on) => {
                    policy.adopt(time, on, entry.job);
                    policy.blocked(time, on, entry.job.id);
                }
            }
        }
        while let Some(job) = self.policy.evict() {
            policy.arrive(time, job).expect("a policy has room for every job of the table");
        }
        self.policy = policy;
        self.spec = spec;
        self.set_quantum(self.spec.quantum);
        self.reconfigure();
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.spec.quantum = quantum;
        self.policy.set_quantum(quantum);
        self.quantum_cycles = quantum.map_or(0, |quantum| self.clock().cycles(quantum.0));
    }

    /// Gives the workers their orders for the policy in force.
    fn reconfigure(&mut self) {
        self.choice = Choice::make(self.wished, self.spec.preempt, self.kind, self.busy);
        let config = config_of(&self.spec, &self.choice, self.workers.len());
        for worker in &mut self.workers {
            worker.contended = false;
            worker.remote.wishes.contended.store(false, Ordering::Relaxed);
            let core = self.spec.build_core(self.around.jobs);
            *worker.orders.lock().unwrap_or_else(|p| p.into_inner()) = Some((config.clone(), core));
            worker.remote.wishes.epoch.fetch_add(1, Ordering::Release);
            worker.remote.parker.unpark();
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let preemptions = |remote: &Remote| remote.progress.preemptions.load(Ordering::Relaxed);
        Stats {
            classes: self.classes.clone(),
            malformed: self.tally.malformed,
            unsent: self.unsent(),
            in_system: self.jobs.len(),
            waiting: self.policy.waiting(),
            preemptions: self.workers.iter().map(|worker| preemptions(&worker.remote)).sum(),
            policy: self.spec.name.clone(),
            quantum: self.spec.quantum,
            preempt: self.choice.effective,
        }
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.around.replies.iter().map(|reply| reply.dropped()).sum()
    }

    /// Nothing to do.
    fn idle(&mut self) {
        if !self.busy {
            self.sleep();
        } else if self.shares_core {
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
        if self.policy.waiting() > 0 {
            std::thread::yield_now();
            return;
        }
        let remote = self.own_remote.clone();
        let own = self.own;
        let (workers, control, waiter) = (&mut self.workers, &self.control, &mut self.waiter);
        let work = || {
            control.has_mail()
                || workers.iter_mut().any(|worker| !worker.events.is_empty())
                // SAFETY: this thread's engine, which runs nothing now.
                || (!own.is_null() && unsafe { (*own).has_mail() })
        };
        remote.parker.sleep(work, || {
            if let Err(error) = waiter.wait(Some(Duration::from_millis(100))) {
                tracing::warn!(%error, "epoll");
                std::thread::yield_now();
            }
        });
    }
}

/// The workers' part of a policy.
pub(crate) fn config_of(spec: &Spec, choice: &Choice, workers: usize) -> Config {
    Config {
        mode: choice.mode(),
        central: !spec.is_two_level(),
        report_serviced: spec.is_two_level() && workers > 1,
    }
}

/// The dispatcher's own engine times itself: nobody else watches the dispatcher.
pub(crate) fn own_config(choice: &Choice) -> Config {
    let mode = if choice.effective == Preempt::Never { Mode::Off } else { Mode::Clock };
    Config { mode, central: true, report_serviced: false }
}
