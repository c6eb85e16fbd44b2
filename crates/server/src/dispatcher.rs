//! The dispatcher: sockets and rings around the scheduler ([`curtail_sched`]), which decides. It takes
//! requests in, tells of them and of what the workers did, feeds the workers, keeps their time where
//! they poll flags, and runs requests itself where it is told to (Concord §3.3).
//!
//! One thread, whose loop is a task, since it asks the application ([`crate::ask`]). Everything in here is
//! its own; workers are reached through rings, through the words in [`Remote`], and in their absence.

mod cancel;
mod down;
mod elastic;
mod idle;
mod link;
mod log;
mod orders;
mod place;
mod spares;

pub(crate) use cancel::Deadlines;
pub(crate) use link::WorkerLink;
pub(crate) use orders::{config_of, own_config, thread_mode};
pub(crate) use spares::Spares;

use crate::ask::{self, Asker, Entry, TurnedAway};
use crate::control::Control;
use crate::engine::{Engine, ServerShared};
use crate::intake::{DispatcherIngress, batch};
use crate::jobs::{ByteQuota, JobRecord, prefetch};
use crate::losses::Losses;
use crate::message::Event;
use crate::remote::Remote;
use crate::stats::{ClassStats, row};
use curtail_fiber::safepoint::Kind;
use curtail_net::{Completion, Outcome, Status, Transport, Waiter};
use curtail_policy::{Nanos, WorkerId};
use curtail_rt::clock::{self, GAP_NS};
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::thread::SPARES;
use curtail_rt::yields::Yields;
use curtail_sched::record::Tap;
use curtail_sched::{EventKind, Scheduler, Setup, Watch};
use down::Downs;
pub(crate) use elastic::Elastic;
use log::DecisionLog;
use std::sync::Arc;
use std::time::Duration;

/// Events taken from one worker before the next is looked at.
/// More than arrivals, so that a dispatcher that can't keep up serves what it has first.
const EVENTS: usize = 256;
/// What one arrival or one event may cost the dispatcher before its turn looks like a gap.
pub(crate) const ITEM_NS: u64 = 150;

/// A transport and whether it may still bring something.
pub(crate) struct Line {
    pub transport: Box<dyn Transport>,
    pub open: bool,
}

/// Counts that end in the report.
#[derive(Default)]
pub(crate) struct GapCounters {
    pub malformed: u64,
    pub gaps: u64,
    pub gap_cycles: u64,
    pub last_gap_tsc: u64,
}

pub(crate) struct Dispatcher {
    pub config: DispatcherConfig,
    pub sched: Scheduler<JobRecord>,
    pub gap_counters: GapCounters,
    watch: Watch,
    events: Vec<Event>,
    /// Of this turn: jobs that wait again, which are told of after the arrivals.
    returns: Vec<(WorkerId, Event)>,
    asker: Asker,
    turned_away: TurnedAway,
    decision_log: DecisionLog,
    down: Downs,
    losses: Losses,
    gap_cycles: u64,
    item_cycles: u64,
    /// When this turn began (TSC), and how much it had to do.
    turn: u64,
    yields: Yields,
    items: u64,
    /// The time of this turn (TSC), and whether it had anything to do.
    now: u64,
    active: bool,
    /// How long jobs may take to leave, at the end.
    drain_cycles: u64,
    closing: Option<u64>,
    deadlines: Deadlines,
    /// Its workers' cores come and go.
    pub(crate) cores_move: bool,
    /// Peers have gone; slots that are to be looked at for that, and where the look is.
    departed: bool,
    to_look: usize,
    looks_at: usize,
}

/// What a dispatcher starts from.
pub(crate) struct DispatcherConfig {
    pub shared: ServerShared,
    pub wished: Preempt,
    pub choice: Choice,
    pub kind: Kind,
    pub busy: bool,
    pub shares_core: bool,
    /// Those that the policy knows, then spare ones that have had requests.
    pub workers: Vec<WorkerLink>,
    pub spares: Spares,
    pub lines: Vec<Line>,
    /// By class, and one row more for unknown requests.
    pub classes: Vec<ClassStats>,
    pub control: Arc<Control>,
    pub waiter: Waiter,
    /// The dispatcher's own engine, for as long as it runs.
    pub own: *mut Engine,
    pub own_remote: Arc<Remote>,
    /// Where a core allocator has cores for it and its workers.
    pub elastic: Option<Elastic>,
    /// The bytes of the requests in the system.
    pub byte_quota: ByteQuota,
}

impl Dispatcher {
    /// `tap`: where the scheduler's calls are recorded.
    pub(crate) fn new(
        config: DispatcherConfig,
        asker: Asker,
        mut setup: Setup,
        tap: Option<Tap>,
    ) -> Self {
        config.choice.limit(&mut setup.spec, config.kind);
        setup.pins |= config.choice.effective == Preempt::Signal;
        let clock = config.shared.clock;
        Self {
            watch: Watch::new(setup.workers + SPARES, setup.spec.quantum),
            sched: Scheduler::new(setup, tap),
            gap_counters: GapCounters::default(),
            events: Vec::with_capacity(EVENTS),
            returns: Vec::with_capacity(EVENTS),
            asker,
            turned_away: Vec::new(),
            decision_log: DecisionLog::default(),
            down: Downs::default(),
            losses: Losses::default(),
            gap_cycles: clock.cycles(GAP_NS),
            item_cycles: clock.cycles(ITEM_NS),
            turn: 0,
            yields: Yields::new(),
            items: 0,
            now: 0,
            active: false,
            drain_cycles: 0,
            closing: None,
            deadlines: Deadlines::new(config.shared.deadlines.clone()),
            cores_move: config.elastic.is_some(),
            departed: false,
            to_look: 0,
            looks_at: 0,
            config,
        }
    }

    /// Until every transport has closed and the last job has left, or draining took too long.
    pub(crate) fn run(&mut self, drain: Duration) {
        self.begin(drain);
        ask::drive(self);
    }

    /// Before its first turn.
    pub(crate) fn begin(&mut self, drain: Duration) {
        self.drain_cycles = self.config.shared.clock.cycles(drain.as_nanos() as u64);
        self.turn = clock::now();
        self.gather();
    }

    /// A turn begins: takes in what has come. Here and in [`Dispatcher::decide`], all is in the order
    /// that the scheduler's README states.
    fn gather(&mut self) {
        let mut now = clock::now();
        if self.config.elastic.as_ref().is_some_and(|elastic| elastic.heed(now)) {
            now = clock::now();
            self.turn = now;
        }
        self.now = now;
        self.note_gap(now);
        self.active = self.drain_worker_events(now);
        self.active |= self.take_requests(now);
        if self.asker.parked() > 0 {
            self.active |= self.asker.go_on() || self.asker.has_ready();
        }
    }

    /// The rest of a turn, in which jobs get their places; false: it was the last.
    fn decide(&mut self) -> bool {
        let now = self.now;
        self.publish_turned_away();
        self.active |= self.cancel_some(now);
        self.take_back(now);
        self.look_after_down(now);
        self.active |= self.place(now);
        if let Some(elastic) = &mut self.config.elastic {
            elastic.publish_waiting(now, &self.sched, &self.config.workers, &self.down);
        }
        self.apply_commands(now);
        self.log_decisions(now);
        let staged = self.asker.has_staged();
        // Also in the middle of work, which may be a handler's that never ends, here.
        if self.closing.is_some_and(|since| now.saturating_sub(since) > self.drain_cycles) {
            return staged;
        }
        if self.active || staged {
            self.config.elastic.iter_mut().for_each(|elastic| elastic.note_active(now));
            return true;
        }
        if self.is_done() {
            return false;
        }
        self.idle();
        true
    }

    fn nanos(&self, tsc: u64) -> Nanos {
        self.config.shared.clock.nanos(tsc)
    }

    /// Jobs, and requests that are not jobs yet.
    pub(crate) fn in_system(&self) -> usize {
        self.sched.len() + self.asker.parked()
    }

    fn is_done(&self) -> bool {
        self.in_system() == 0 && self.config.lines.iter().all(|line| !line.open)
    }

    /// A turn of the loop is short; a long one was interrupted by the machine.
    fn note_gap(&mut self, now: u64) {
        let cycles = now - self.turn;
        if cycles > self.gap_cycles + self.items * self.item_cycles {
            self.gap_counters.gaps += 1;
            self.gap_counters.gap_cycles += cycles;
            self.gap_counters.last_gap_tsc = now;
        }
        (self.turn, self.items) = (now, 0);
    }

    /// Takes the workers' news, and tells of jobs that left their places.
    fn drain_worker_events(&mut self, now: u64) -> bool {
        let mut heard = false;
        for index in 0..self.config.workers.len() {
            let mut events = std::mem::take(&mut self.events);
            let worker = &mut self.config.workers[index];
            if worker.events.pop_batch(&mut events, EVENTS) > 0 {
                heard = true;
                self.items += events.len() as u64;
                events.iter().for_each(|event| prefetch(&self.sched, event.job));
                for event in events.drain(..) {
                    let on = WorkerId(index as u16);
                    if event.what.is_before_arrivals() {
                        self.note(on, &event, now);
                    } else {
                        self.returns.push((on, event));
                    }
                }
            }
            self.events = events;
        }
        heard | self.drain_own_events(now)
    }

    /// Tells of jobs that came back to wait.
    fn take_back(&mut self, now: u64) {
        let mut returns = std::mem::take(&mut self.returns);
        returns.drain(..).for_each(|(on, event)| self.note(on, &event, now));
        self.returns = returns;
    }

    fn note(&mut self, on: WorkerId, event: &Event, now: u64) {
        if !event.resume.is_null() {
            self.sched.data_mut(event.job).message.resume = event.resume;
        }
        let clock = self.config.shared.clock;
        self.sched.handle_event(clock.nanos(now), on, event.scheduled(clock));
        if event.what == EventKind::Ended {
            self.ended(event);
        }
    }

    /// The scheduler has let go of the job; what we kept of it is there until the next arrival.
    fn ended(&mut self, event: &Event) {
        self.forget(event.job);
        let held = self.sched.data(event.job);
        let (arrived, of) = (held.message.arrived_tsc, held.message.class);
        let clock = self.config.shared.clock;
        let ns = |from: u64, to: u64| clock.ns(to.saturating_sub(from));
        let class = row(&mut self.config.classes, of);
        match event.outcome {
            Outcome::Done => class.completed += 1,
            Outcome::Failed => class.failed += 1,
            Outcome::Dropped => class.dropped += 1,
            Outcome::Orphaned => class.orphaned += 1,
            Outcome::Cancelled if event.began => class.cancelled_running += 1,
            Outcome::Cancelled => class.cancelled_queued += 1,
            Outcome::Abandoned => class.abandoned += 1,
        }
        if matches!(event.outcome, Outcome::Done | Outcome::Failed) {
            class.sojourn_ns.saturating_record(ns(arrived, event.at_tsc));
            class.queueing_ns.saturating_record(ns(arrived, event.started_tsc));
            class.service_ns.saturating_record(clock.ns(event.ran_cycles));
        }
        let last_gap = event.gap_tsc.max(self.gap_counters.last_gap_tsc);
        self.config.lines[usize::from(held.transport)].transport.completed(&Completion {
            peer: held.peer,
            class: of.0,
            outcome: event.outcome,
            tag: held.tag,
            request_bytes: held.bytes,
            arrived_tsc: arrived,
            started_tsc: event.started_tsc,
            finished_tsc: event.at_tsc,
            ran_cycles: event.ran_cycles,
            preemptions: event.preemptions,
            disturbed: last_gap >= arrived,
        });
    }

    fn take_requests(&mut self, now: u64) -> bool {
        let mut lines = std::mem::take(&mut self.config.lines);
        let mut taken = 0;
        for (index, line) in lines.iter_mut().enumerate().filter(|(_, line)| line.open) {
            let mut ingress = self.ingress(index, now);
            line.open = line.transport.poll(now, &mut ingress) == Status::Open;
            taken += ingress.taken;
        }
        self.config.lines = lines;
        self.items += taken as u64;
        taken > 0
    }

    /// Where requests of that transport come in.
    fn ingress(&mut self, transport: usize, now: u64) -> DispatcherIngress<'_> {
        DispatcherIngress {
            hints: self.sched.setup().spec.dispatch.uses_hints(),
            batch: batch(&self.sched),
            asker: &mut self.asker,
            clock: self.config.shared.clock,
            now: self.config.shared.clock.nanos(now),
            now_tsc: now,
            sched: &mut self.sched,
            byte_quota: &mut self.config.byte_quota,
            buffers: &self.config.shared.buffers,
            classes: &mut self.config.classes,
            malformed: &mut self.gap_counters.malformed,
            replies: &self.config.shared.replies,
            turned_away: &mut self.turned_away,
            transport: transport as u16,
            taken: 0,
            rules: &self.config.shared.rules,
            deadlines: &mut self.deadlines,
            departed: &mut self.departed,
        }
    }
}

impl ask::Loop for Dispatcher {
    #[inline]
    fn asker(&mut self) -> &mut Asker {
        &mut self.asker
    }

    #[inline]
    fn handle_answers(&mut self) {
        // Of no transport: each inquiry knows where it came from.
        self.ingress(0, self.now).settle_answered();
    }

    #[inline]
    fn turn(&mut self) -> bool {
        let goes_on = self.decide();
        if goes_on {
            self.gather();
        }
        goes_on
    }
}
