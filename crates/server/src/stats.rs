//! What a server knows about itself: always on, kept by the dispatcher, copied out on demand.

use curtail_net::{Completion, Outcome};
use curtail_policy::{ClassId, Nanos, WorkerId};
use curtail_rt::clock::Clock;
use curtail_rt::{Preempt, StallPlace, Ticks};
use hdrhistogram::Histogram;

/// Up to a minute in nanoseconds; longer values count as a minute.
pub fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, digits).expect("valid bounds")
}

/// What is counted of one class.
#[derive(Clone, Debug)]
pub struct ClassStats {
    /// The class's name.
    pub name: String,
    /// Requests whose handler returned.
    pub completed: u64,
    /// Requests whose handler panicked.
    pub failed: u64,
    /// Requests for which there was no room.
    pub dropped: u64,
    /// Requests that were never run, for their peer had gone before they began.
    pub orphaned: u64,
    /// Requests that were never run, for they were cancelled before they began otherwise than by the
    /// departure of their peer.
    pub cancelled_queued: u64,
    /// Requests whose handler ended by [`Cancelled`](curtail_rt::Cancelled).
    pub cancelled_running: u64,
    /// Requests that were left where they were, for ever ([`OnCancel::Abandon`](curtail_rt::OnCancel)).
    pub abandoned: u64,
    /// From arrival to the end, in nanoseconds.
    pub sojourn_ns: Histogram<u64>,
    /// From arrival to the first run, in nanoseconds.
    pub queueing_ns: Histogram<u64>,
    /// On a core, all quanta together, in nanoseconds.
    pub service_ns: Histogram<u64>,
}

impl ClassStats {
    pub(crate) fn new(name: String) -> Self {
        // Two digits: some kilobytes each, and a record stays cheap.
        let histogram = || histogram(2);
        Self {
            name,
            completed: 0,
            failed: 0,
            dropped: 0,
            orphaned: 0,
            cancelled_queued: 0,
            cancelled_running: 0,
            abandoned: 0,
            sojourn_ns: histogram(),
            queueing_ns: histogram(),
            service_ns: histogram(),
        }
    }
}

impl ClassStats {
    /// A request that was let in has ended. `began`: its handler had begun.
    pub(crate) fn note_end(&mut self, ended: &Completion, began: bool, clock: Clock) {
        match ended.outcome {
            Outcome::Done => self.completed += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Dropped => self.dropped += 1,
            Outcome::Orphaned => self.orphaned += 1,
            Outcome::Cancelled if began => self.cancelled_running += 1,
            Outcome::Cancelled => self.cancelled_queued += 1,
            Outcome::Abandoned => self.abandoned += 1,
        }
        if matches!(ended.outcome, Outcome::Done | Outcome::Failed) {
            let since_arrival = |tsc: u64| clock.ns(tsc.saturating_sub(ended.arrived_tsc));
            self.sojourn_ns.saturating_record(since_arrival(ended.finished_tsc));
            self.queueing_ns.saturating_record(since_arrival(ended.started_tsc));
            self.service_ns.saturating_record(clock.ns(ended.ran_cycles));
        }
    }

    /// A row in which nothing is counted.
    #[must_use]
    pub fn none() -> Self {
        Self::new("unknown".to_owned())
    }

    /// Adds what another dispatcher counted of the same class.
    pub(crate) fn add(&mut self, more: &Self) {
        self.completed += more.completed;
        self.failed += more.failed;
        self.dropped += more.dropped;
        self.orphaned += more.orphaned;
        self.cancelled_queued += more.cancelled_queued;
        self.cancelled_running += more.cancelled_running;
        self.abandoned += more.abandoned;
        for (all, part) in [
            (&mut self.sojourn_ns, &more.sojourn_ns),
            (&mut self.queueing_ns, &more.queueing_ns),
            (&mut self.service_ns, &more.service_ns),
        ] {
            all.add(part).expect("same bounds");
        }
    }
}

/// The row of a class among `rows`, of which the last is for unknown requests.
pub(crate) fn row(rows: &mut [ClassStats], class: ClassId) -> &mut ClassStats {
    let last = rows.len() - 1;
    &mut rows[usize::from(class.0).min(last)]
}

/// The rows of the classes, and that of unknown requests.
pub(crate) fn split(mut rows: Vec<ClassStats>) -> (Vec<ClassStats>, ClassStats) {
    let unknown = rows.pop().expect("there is always a row for unknown requests");
    (rows, unknown)
}

/// A look at a running server.
#[derive(Clone, Debug)]
pub struct Stats {
    /// By class, in the application's order.
    pub classes: Vec<ClassStats>,
    /// Requests that the classifier did not recognise ([`ClassId::UNKNOWN`]).
    pub unknown: ClassStats,
    /// What the policy has decided for itself, such as workers reserved for classes, in one line.
    pub decided: Option<String>,
    /// Inputs that were no requests.
    pub malformed: u64,
    /// Responses that could not be sent.
    pub unsent: u64,
    /// Requests in the system now.
    pub in_system: usize,
    /// Of these, waiting at the dispatcher.
    pub waiting: usize,
    /// Pre-emptions so far, of all workers.
    pub preemptions: u64,
    /// By worker, in order.
    pub workers: Vec<WorkerStats>,
    /// The policy in force.
    pub policy: String,
    /// The quantum in force.
    pub quantum: Option<Nanos>,
    /// How running requests are pre-empted.
    pub preempt: Preempt,
    /// Why that is not what was asked for, where it is not.
    pub preempt_note: Option<String>,
    /// By signal: what became of the signals so far, of all workers.
    pub ticks: Ticks,
    /// Of the requests in the system, those that came first, the oldest first: sixteen of each
    /// dispatcher at most. Without a dispatcher: of those that have started, on workers that have a core
    /// and come to a safepoint within some milliseconds.
    pub oldest: Vec<RequestStats>,
    /// What the transports counted, by name.
    pub transports: Vec<(&'static str, u64)>,
    /// Where code stalled, the most frequent place first.
    pub stalls: Vec<StallPlace>,
}

/// A look at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStats {
    /// Its class.
    pub class: ClassId,
    /// How long it has been in the system.
    pub age: Nanos,
    /// The service that it had had when its worker last told.
    pub attained: Nanos,
    /// Where it is.
    pub state: RequestState,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// At the dispatcher.
    Waiting,
    /// On that worker, running or queued.
    On(WorkerId),
    /// It waits for something on that worker.
    Blocked(WorkerId),
}

/// Adds counts of the same names.
pub(crate) fn add_counts(all: &mut Vec<(&'static str, u64)>, more: Vec<(&'static str, u64)>) {
    for (name, count) in more {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += count,
            None => all.push((name, count)),
        }
    }
}

/// A look at one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerStats {
    /// Which, as the application knows it; its thread is called `curtail-N`.
    pub worker: WorkerId,
    /// Requests that it holds now: running, queued or blocked there.
    pub holds: usize,
    /// Pre-emptions so far.
    pub preemptions: u64,
    /// False: it has given its core back to the core allocator, and waits for one.
    pub has_core: bool,
    /// The kernel's number of its thread; `None`: it does not live. Its name is no mark of it: threads
    /// that a handler starts inherit that.
    pub tid: Option<u32>,
}

/// How the workers' time went, as shares of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In handlers.
    pub app: f64,
    /// In the runtime: switching, dispatching, answering.
    pub switch: f64,
    /// Waiting for work.
    pub idle: f64,
    /// Seconds of processor time that the workers' threads were given, as the kernel counts them,
    /// less what they spun away waiting. Not a share, and not what the shares are of: a thread that
    /// others keep from its core gets none.
    pub busy_s: f64,
}

/// What the machine took away, as seen from the dispatcher's and the workers' cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Only longer gaps count.
    pub gap_threshold_ns: u64,
    /// How many there were.
    pub gaps: u64,
    /// Their share of the watched cores' time.
    pub lost_share: f64,
}

/// What a server leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// The policy at the end.
    pub policy: String,
    /// How running requests were pre-empted.
    pub preempt: Preempt,
    /// Why that is not what was asked for, where it is not.
    pub preempt_note: Option<String>,
    /// The quantum at the end.
    pub quantum: Option<Nanos>,
    /// Workers.
    pub workers: usize,
    /// Jobs that gave up their core because their quantum was over.
    pub preemptions: u64,
    /// How long after the end of its quantum a job gave up its core, in nanoseconds.
    pub late_ns: Histogram<u64>,
    /// By signal: what became of the signals.
    pub ticks: Ticks,
    /// The workers' time.
    pub cpu: Cpu,
    /// The machine's gaps.
    pub noise: Noise,
    /// By class.
    pub classes: Vec<ClassStats>,
    /// Requests that the classifier did not recognise ([`ClassId::UNKNOWN`]).
    pub unknown: ClassStats,
    /// What the policy had decided for itself in the end, in one line.
    pub decided: Option<String>,
    /// Inputs that were no requests.
    pub malformed: u64,
    /// Responses that could not be sent.
    pub unsent: u64,
    /// Requests that were still in the system when draining took too long. If there were any, or a class
    /// [abandons](curtail_rt::OnCancel::Abandon) requests, the application and the workers' states are never
    /// dropped, since such a request may borrow them for ever; then `notes` says so.
    pub abandoned: usize,
    /// What the user should know about the machine and the layout.
    pub notes: Vec<String>,
}
