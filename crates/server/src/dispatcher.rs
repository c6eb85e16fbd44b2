//! The dispatcher: sockets and rings around the scheduler ([`curtail_sched`]), which decides. It takes
//! requests in, tells of them and of what the workers did, feeds the workers, keeps their time where
//! they poll flags, and runs requests itself where it is told to (Concord §3.3).
//!
//! One thread, whose loop is a task, since it asks the application ([`crate::ask`]). Everything in here is
//! its own; workers are reached through rings, through the words in [`Remote`], and in their absence.

mod admit;
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

use crate::ask::{self, Asker, Entry};
use crate::engine::{Engine, ServerShared};
use crate::jobs::{ByteQuota, JobRecord, prefetch};
use crate::message::Event;
use crate::stats::row;
use crate::transport_loop::{PollTerms, TransportLoop};
use curtail_net::Completion;
use curtail_policy::{Nanos, WorkerId};
use curtail_rt::clock;
use curtail_rt::preempt::Preempt;
use curtail_rt::thread::SPARES;
use curtail_rt::yields::Yields;
use curtail_sched::record::Tap;
use curtail_sched::{EventKind, Scheduler, Setup, Watch};
use down::Downs;
pub(crate) use elastic::Elastic;
use std::time::Duration;

/// Events taken from one worker before the next is looked at.
/// More than arrivals, so that a dispatcher that can't keep up serves what it has first.
const EVENTS: usize = 256;
pub(crate) struct Dispatcher {
    pub config: DispatcherConfig,
    pub base: TransportLoop,
    pub sched: Scheduler<JobRecord>,
    watch: Watch,
    events: Vec<Event>,
    /// Of this turn: jobs that wait again, which are told of after the arrivals.
    returns: Vec<(WorkerId, Event)>,
    /// How often the policy in force had changed its mind when that was logged; `None`: nothing was.
    logged: Option<u64>,
    down: Downs,
    yields: Yields,
    deadlines: Deadlines,
    /// Its workers' cores come and go.
    pub(crate) cores_move: bool,
    /// Slots that are to be looked at for peers that have gone, and where the look is.
    to_look: usize,
    looks_at: usize,
}

/// What a dispatcher starts from.
pub(crate) struct DispatcherConfig {
    pub shared: ServerShared,
    /// Those that the policy knows, then spare ones that have had requests.
    pub workers: Vec<WorkerLink>,
    pub spares: Spares,
    /// The dispatcher's own engine, for as long as it runs.
    pub own: *mut Engine,
    /// Where a core allocator has cores for it and its workers.
    pub elastic: Option<Elastic>,
    /// The bytes of the requests in the system.
    pub byte_quota: ByteQuota,
}

impl Dispatcher {
    /// `tap`: where the scheduler's calls are recorded.
    pub(crate) fn new(
        config: DispatcherConfig,
        base: TransportLoop,
        mut setup: Setup,
        tap: Option<Tap>,
    ) -> Self {
        base.config.choice.limit(&mut setup.spec, base.config.kind);
        setup.pins |= base.config.choice.effective == Preempt::Signal;
        Self {
            base,
            watch: Watch::new(setup.workers + SPARES, setup.spec.quantum),
            sched: Scheduler::new(setup, tap),
            events: Vec::with_capacity(EVENTS),
            returns: Vec::with_capacity(EVENTS),
            logged: None,
            down: Downs::default(),
            yields: Yields::new(),
            deadlines: Deadlines::new(config.shared.deadlines.clone()),
            cores_move: config.elastic.is_some(),
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
        self.base.begin(drain);
        self.gather();
    }

    /// A turn begins: takes in what has come. Here and in [`Dispatcher::decide`], all is in the order
    /// that the scheduler's README states.
    fn gather(&mut self) {
        let mut now = clock::now();
        if self.config.elastic.as_ref().is_some_and(|elastic| elastic.heed(now)) {
            now = self.base.restart_turn();
        }
        self.base.begin_turn(now);
        self.base.active = self.drain_worker_events(now);
        let hints = self.sched.setup().spec.dispatch.uses_hints();
        self.base.active |= self.base.poll(PollTerms::new(self.sched.is_short(), hints), |_| true);
        self.base.active |= self.base.go_on();
    }

    /// The rest of a turn, in which jobs get their places; false: it was the last.
    fn decide(&mut self) -> bool {
        let now = self.base.entry.now;
        self.base.publish_turned_away();
        self.base.active |= self.cancel_some(now);
        self.take_back(now);
        self.look_after_down(now);
        self.base.active |= self.place(now);
        if let Some(elastic) = &mut self.config.elastic {
            elastic.publish_waiting(now, &self.sched, &self.config.workers, &self.down);
        }
        self.apply_commands(now);
        if self.base.is_to_look() {
            self.log();
        }
        let staged = self.base.entry.asker.has_staged();
        // Also in the middle of work, which may be a handler's that never ends, here.
        if self.base.has_drained() {
            return staged;
        }
        if self.base.active || staged {
            self.config.elastic.iter_mut().for_each(|elastic| elastic.note_active(now));
            return true;
        }
        if self.in_system() == 0 && self.base.is_closed() {
            return false;
        }
        if !self.base.spins() {
            self.sleep();
        }
        true
    }

    fn nanos(&self, tsc: u64) -> Nanos {
        self.config.shared.clock.nanos(tsc)
    }

    /// Jobs, and requests that are not jobs yet.
    pub(crate) fn in_system(&self) -> usize {
        self.sched.len() + self.base.entry.asker.parked()
    }

    /// Takes the workers' news, and tells of jobs that left their places.
    fn drain_worker_events(&mut self, now: u64) -> bool {
        let mut heard = false;
        for index in 0..self.config.workers.len() {
            let mut events = std::mem::take(&mut self.events);
            let worker = &mut self.config.workers[index];
            if worker.events.pop_batch(&mut events, EVENTS) > 0 {
                heard = true;
                self.base.items += events.len() as u64;
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
        let (class, arrived_tsc) = (held.message.class, held.message.arrived_tsc);
        let last_gap = event.gap_tsc.max(self.base.kthread.last_gap());
        let ended = Completion {
            peer: held.peer,
            class: class.0,
            outcome: event.outcome,
            tag: held.tag,
            request_bytes: held.bytes,
            arrived_tsc,
            started_tsc: event.started_tsc,
            finished_tsc: event.at_tsc,
            ran_cycles: event.ran_cycles,
            preemptions: event.preemptions,
            disturbed: last_gap >= arrived_tsc,
        };
        let clock = self.config.shared.clock;
        row(&mut self.base.entry.classes, class).note_end(&ended, event.began, clock);
        self.base.publish(held.transport, &ended);
    }
}

impl ask::Loop for Dispatcher {
    #[inline]
    fn asker(&mut self) -> &mut Asker {
        &mut self.base.entry.asker
    }

    #[inline]
    fn handle_answers(&mut self) {
        self.settle_answered();
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
