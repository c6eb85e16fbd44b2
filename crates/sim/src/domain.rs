//! A dispatcher and its workers. With several dispatchers there are several of these, which know
//! nothing of each other.
//!
//! Every worker has at most one pending event, which the [`Agenda`] orders; the dispatcher's queues
//! are each in the order of time already (all delays are constant), so that it has one next time,
//! too. [`Domain::step`] does what comes next.

mod dispatcher;
mod links;
mod timers;
mod worker;

use crate::agenda::{Agenda, COMPLETION, DISPATCH, Key, NEVER, key, time};
use crate::config::{Config, Hints};
use crate::costs::Costs;
use crate::disturb::{Blocker, Thief};
use crate::engine::Done;
use crate::jobs::{Newcomer, Progress};
use curtail_policy::{AnyPolicy, ClassId, Job, JobId, Nanos, PreemptKind, WorkerId};
use curtail_sched::{Arrival, Scheduler, Setup};
use curtail_workload::{Distribution, Service, ServiceSampler};
use links::Links;
use worker::{Next, Worker};

/// Where news of the jobs goes.
pub(crate) trait Sink {
    fn completed(&mut self, done: &Done, counted: bool);
    fn dropped(&mut self, class: ClassId, counted: bool);
}

/// What a domain counts.
pub(crate) struct Counts {
    pub(crate) events: u64,
    pub(crate) preemptions: u64,
    /// Workers' time in jobs and around them, in nanoseconds.
    pub(crate) app_ns: u64,
    pub(crate) overhead_ns: u64,
    /// How long workers had no cores, in nanoseconds.
    pub(crate) lost_ns: u64,
    /// By how much jobs overran their quanta before they yielded.
    pub(crate) late: Option<Distribution>,
}

pub(crate) struct Domain {
    sched: Scheduler<Progress>,
    /// Workers schedule what was sent to them by themselves.
    two_level: bool,
    /// The dispatcher is told of completed quanta.
    reports: bool,
    capacity: usize,
    /// The dispatcher ends quanta. Otherwise they end by themselves.
    watched: bool,
    /// No job ever yields.
    never: bool,
    hints: Hints,
    class_means_ns: Vec<u64>,
    costs: Costs,
    /// The dispatcher and the ways from and to it take no time.
    instant: bool,
    /// A quantum's end takes no time.
    ideal: bool,
    overshoot: Option<ServiceSampler>,
    blocker: Option<Blocker>,
    thief: Option<Thief>,
    workers: Vec<Worker>,
    agenda: Agenda,
    /// Workers whose completed quanta changed since the policy was told.
    unreported: Vec<u16>,
    links: Links,
    pub(crate) counts: Counts,
}

impl Domain {
    /// Part `index` of a system, with `workers` workers.
    pub(crate) fn new(config: &Config, workers: usize, index: usize) -> Self {
        let mut spec = config.spec.clone();
        let never = spec.preempt == PreemptKind::Never;
        // A dispatcher whose own jobs are never pre-empted would not come back to its queues.
        spec.work_conserving &= !never;
        let costs = config.costs;
        let seed = config.seed.wrapping_add(index as u64);
        let overshoots = costs.overshoot != Service::Constant(0);
        let setup = Setup {
            spec: spec.clone(),
            workers,
            jobs: config.capacity,
            seed,
            pins: config.pinned,
            keeps_room: config.keeps_room,
        };
        let room = (config.capacity / workers).clamp(64, 4_096);
        let mut thief = config.outages.map(|outages| Thief::new(&outages, seed));
        let links = Links::new(thief.as_mut().map(|thief| (workers, thief)));
        Self {
            sched: Scheduler::new(setup, None),
            two_level: spec.is_two_level(),
            reports: spec.is_two_level() && workers > 1,
            capacity: config.capacity,
            watched: matches!(spec.preempt, PreemptKind::Flag | PreemptKind::Signal),
            never,
            hints: config.hints,
            class_means_ns: config.class_means_ns.clone(),
            costs,
            instant: costs.is_instant(),
            ideal: costs.is_instant() && costs.notify == 0 && !overshoots,
            overshoot: overshoots.then(|| costs.overshoot.sampler(seed)),
            blocker: config.blocking.map(|blocking| Blocker::new(blocking, seed)),
            thief,
            workers: (0..workers).map(|_| Worker::new(spec.build_core(room))).collect(),
            agenda: Agenda::new(workers),
            unreported: Vec::with_capacity(workers),
            links,
            counts: Counts {
                events: 0,
                preemptions: 0,
                app_ns: 0,
                overhead_ns: 0,
                lost_ns: 0,
                late: (overshoots || !costs.is_instant() || costs.notify > 0)
                    .then(Distribution::sojourn),
            },
        }
    }

    /// When the next event is.
    #[inline]
    pub(crate) fn next(&self) -> Key {
        self.agenda.next().0.min(self.links.next)
    }

    /// The dispatcher's policy.
    pub(crate) fn policy(&self) -> &AnyPolicy {
        self.sched.policy()
    }

    /// Jobs in this part of the system.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.sched.len() + self.links.newcomers
    }

    /// Does what comes next; there is something.
    #[inline(always)]
    pub(crate) fn step(&mut self, sink: &mut impl Sink) {
        self.counts.events += 1;
        let (at, worker) = self.agenda.next();
        if self.links.next < at {
            return self.links_event(time(self.links.next), sink);
        }
        self.worker_event(worker, time(at), sink);
        // A worker that found nothing to do is taken off the agenda only now: by most events it
        // gets something else at once.
        if self.workers[worker].next == Next::Nothing {
            self.agenda.set(worker, NEVER);
        }
    }

    /// A request arrives.
    #[inline]
    pub(crate) fn arrive(&mut self, newcomer: Newcomer, sink: &mut impl Sink) {
        self.counts.events += 1;
        // Where there is no slot the scheduler says so, as in the runtime, if it is free to.
        if self.len() < self.capacity || self.instant && self.links.newcomers == 0 {
            self.receive(newcomer.request.at_ns, newcomer, sink);
        } else {
            sink.dropped(ClassId(newcomer.request.class), newcomer.counted);
        }
    }

    /// The dispatcher has taken a request in.
    #[inline]
    fn admit(&mut self, now: u64, newcomer: Newcomer, sink: &mut impl Sink) {
        let Newcomer { request, counted } = newcomer;
        let class = ClassId(request.class);
        let hint = match self.hints {
            Hints::None => None,
            Hints::Class => {
                self.class_means_ns.get(usize::from(request.class)).map(|&ns| Nanos(ns))
            }
            Hints::Exact => Some(Nanos(request.service_ns)),
        };
        let service = request.service_ns;
        let remaining = self.costs.inflated(service);
        let blocks_at = self.blocker.as_mut().map_or(0, |blocker| blocker.draw(remaining));
        let progress = Progress {
            blocks_at,
            remaining,
            attained: 0,
            service,
            quantum: 0,
            quanta: 0,
            started: false,
            counted,
        };
        let arrival = Arrival { class, at: Nanos(request.at_ns), hint };
        if self.sched.handle_arrival(Nanos(now), arrival, |_| progress).is_err() {
            sink.dropped(class, counted);
        }
    }

    /// A job as its worker knows it.
    #[inline]
    fn job(&self, id: JobId) -> (Job, &Progress) {
        let (job, progress) = self.sched.get(id);
        (Job { attained: Nanos(progress.attained), ..job }, progress)
    }

    /// A job completes.
    #[inline]
    fn completes(&self, id: JobId, now: u64, sink: &mut impl Sink) {
        let (job, progress) = self.sched.get(id);
        let done = Done::of(&job, progress.service, progress.quanta, now);
        sink.completed(&done, progress.counted);
    }

    fn schedule(&mut self, worker: usize, next: Next, at: u64) {
        self.workers[worker].next = next;
        let rank = match next {
            Next::QuantumEnd | Next::Yield | Next::Switched => crate::agenda::QUANTUM,
            Next::Nothing | Next::Complete | Next::Finished | Next::Blocked => COMPLETION,
        };
        self.agenda.set(worker, key(at, rank));
    }
}

fn id(worker: usize) -> WorkerId {
    WorkerId(worker as u16)
}

fn dispatch_key(at: u64) -> Key {
    if at == u64::MAX { NEVER } else { key(at, DISPATCH) }
}
