//! One run: requests come in, events happen in the order of time, and what completes is counted.

use crate::agenda::{ARRIVAL, Agenda, NEVER, key};
use crate::config::{Config, ConfigError};
use crate::domain::{Counts, Domain, Sink};
use crate::jobs::Newcomer;
use crate::threads::Threads;
use curtail_policy::{AnyPolicy, Balancer, ClassId, Job, Share};
use curtail_workload::{Distribution, Recorder, Request, Until, numbers};

/// A job that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When it arrived, in nanoseconds.
    pub arrived_ns: u64,
    /// When it completed.
    pub finished_ns: u64,
    /// Its class.
    pub class: ClassId,
    /// Its un-inflated service time.
    pub service_ns: u64,
    /// Quanta that ended before it did.
    pub quanta: u32,
}

impl Done {
    pub(crate) fn of(job: &Job, service_ns: u64, quanta: u32, finished_ns: u64) -> Self {
        Self { arrived_ns: job.arrived.0, finished_ns, class: job.class, service_ns, quanta }
    }

    /// From its arrival to its completion, in nanoseconds.
    #[must_use]
    pub const fn sojourn_ns(&self) -> u64 {
        self.finished_ns - self.arrived_ns
    }
}

/// What is told of every job that completes, those of the warm-up included, and may look at the
/// policy now and then.
pub trait Observer {
    /// A job has completed.
    fn completed(&mut self, done: &Done);

    /// When [`Observer::look`] is wanted next, in nanoseconds: it comes before the first request
    /// that arrives then or later.
    fn wants_to_look_ns(&self) -> u64 {
        u64::MAX
    }

    /// A look at the policy, the first dispatcher's where there are several.
    fn look(&mut self, policy: &AnyPolicy) {
        let _ = policy;
    }
}

impl<F: FnMut(&Done)> Observer for F {
    fn completed(&mut self, done: &Done) {
        self(done);
    }
}

/// What the workers' time went into, as shares of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Running jobs.
    pub app: f64,
    /// Starting, switching and finishing.
    pub overhead: f64,
    /// No core was there.
    pub lost: f64,
    /// Nothing.
    pub idle: f64,
}

/// What came of a run. "Counted" are jobs that arrived after the warm-up.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counted jobs that completed.
    pub recorder: Recorder,
    /// Counted jobs that arrived.
    pub offered: u64,
    /// Counted jobs that were dropped, by class.
    pub dropped: Vec<u64>,
    /// All jobs that arrived.
    pub arrived: u64,
    /// All jobs that completed.
    pub completed: u64,
    /// All jobs that were dropped.
    pub refused: u64,
    /// From the end of the warm-up to the last arrival, in nanoseconds.
    pub window_ns: u64,
    /// From the end of the warm-up to the last completion.
    pub until_drained_ns: u64,
    /// How often a job was pre-empted.
    pub preemptions: u64,
    /// By how much jobs overran their quanta; `None` where that costs nothing.
    pub late: Option<Distribution>,
    /// What the workers' time went into.
    pub shares: Shares,
    /// Events simulated: arrivals, ends of quanta, completions, and what a dispatcher does that
    /// takes time.
    pub events: u64,
    /// The most jobs that were in the system at once when one arrived.
    pub most_in_system: usize,
    /// Where there is no dispatcher: how often a worker stole from another.
    pub thefts: u64,
    /// Where there is no dispatcher: how often a worker found nothing for so long that it slept.
    pub parkings: u64,
    /// What the policy had decided for itself in the end, in one line; several dispatchers' with
    /// ` | ` between. Classes are called as the policy's plans call them.
    pub decided: Option<String>,
}

/// Simulates a system under these requests, which arrive in the order of time, until the last job
/// has left. Requests of a class beyond `classes` count as the last.
///
/// # Errors
/// The configuration makes no sense.
///
/// # Panics
/// Where the requests run backwards, or a policy breaks its protocol.
pub fn run(
    config: &Config,
    requests: impl Iterator<Item = Request>,
    classes: usize,
    warmup: Until,
) -> Result<Outcome, ConfigError> {
    run_observed(config, requests, classes, warmup, |_: &Done| {})
}

/// Runs a simulation whose `observer` is told of each job that completes.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_observed(
    config: &Config,
    requests: impl Iterator<Item = Request>,
    classes: usize,
    warmup: Until,
    observer: impl Observer,
) -> Result<Outcome, ConfigError> {
    config.validate()?;
    let tally = Tally {
        recorder: Recorder::new(classes),
        dropped: vec![0; classes.max(1)],
        completed: 0,
        refused: 0,
        last_finish_ns: 0,
        observer,
    };
    let run = Run { arrivals: Arrivals::new(requests, warmup), tally };
    if config.spec.is_dispatcherless() {
        return Ok(run.without_dispatcher(config));
    }
    Ok(if config.dispatchers == 1 {
        run.alone(config, Domain::new(config, config.workers, 0))
    } else {
        run.among(config)
    })
}

/// The next request, and how many came before it.
struct Arrivals<I> {
    requests: I,
    next: Option<Request>,
    /// The key of its arrival.
    key: u64,
    warmup: Until,
    arrived: u64,
    offered: u64,
    /// When the first counted one came, and the last.
    first_ns: u64,
    last_ns: u64,
}

impl<I: Iterator<Item = Request>> Arrivals<I> {
    fn new(mut requests: I, warmup: Until) -> Self {
        let next = requests.next();
        let key = next.map_or(NEVER, |request| key(request.at_ns, ARRIVAL));
        let first_ns = match warmup {
            Until::Jobs(_) => 0,
            Until::Time(ns) => ns,
        };
        Self { requests, next, key, warmup, arrived: 0, offered: 0, first_ns, last_ns: 0 }
    }

    /// The request that arrives now.
    fn take(&mut self) -> Newcomer {
        let request = self.next.expect("the key says that there is one");
        let counted = match self.warmup {
            Until::Jobs(jobs) => self.arrived >= jobs,
            Until::Time(ns) => request.at_ns >= ns,
        };
        if counted {
            if self.offered == 0 && matches!(self.warmup, Until::Jobs(_)) {
                self.first_ns = request.at_ns;
            }
            self.offered += 1;
        }
        self.arrived += 1;
        self.last_ns = request.at_ns;
        self.next = self.requests.next();
        self.key = self.next.map_or(NEVER, |next| {
            assert!(next.at_ns >= request.at_ns, "requests arrive in the order of time");
            key(next.at_ns, ARRIVAL)
        });
        Newcomer { request, counted }
    }
}

struct Tally<O> {
    recorder: Recorder,
    dropped: Vec<u64>,
    completed: u64,
    refused: u64,
    last_finish_ns: u64,
    observer: O,
}

impl<O: Observer> Sink for Tally<O> {
    #[inline]
    fn completed(&mut self, done: &Done, counted: bool) {
        self.completed += 1;
        // The dispatcher's own jobs may be told of a moment late.
        self.last_finish_ns = self.last_finish_ns.max(done.finished_ns);
        if counted {
            let class = usize::from(done.class.0);
            self.recorder.record(class, done.sojourn_ns(), done.service_ns, false);
        }
        self.observer.completed(done);
    }

    #[cold]
    fn dropped(&mut self, class: ClassId, counted: bool) {
        self.refused += 1;
        let last = self.dropped.len() - 1;
        self.dropped[usize::from(class.0).min(last)] += u64::from(counted);
    }
}

struct Run<I, O> {
    arrivals: Arrivals<I>,
    tally: Tally<O>,
}

impl<I: Iterator<Item = Request>, O: Observer> Run<I, O> {
    #[inline]
    fn look(&mut self, now_ns: u64, domain: &Domain) {
        let observer = &mut self.tally.observer;
        while observer.wants_to_look_ns() <= now_ns {
            observer.look(domain.policy());
        }
    }

    fn alone(mut self, config: &Config, mut domain: Domain) -> Outcome {
        let mut most = 0;
        loop {
            let next = domain.next();
            if self.arrivals.key < next {
                let newcomer = self.arrivals.take();
                self.look(newcomer.request.at_ns, &domain);
                domain.arrive(newcomer, &mut self.tally);
                most = most.max(domain.len());
            } else if next == NEVER || domain.len() == 0 && self.arrivals.key == NEVER {
                // What a policy still wants to be woken for does not matter to anybody.
                break;
            } else {
                domain.step(&mut self.tally);
            }
        }
        self.dispatched(config, &[domain], most)
    }

    fn among(mut self, config: &Config) -> Outcome {
        let n = config.dispatchers;
        let share = |i: usize| config.workers * (i + 1) / n - config.workers * i / n;
        let mut domains: Vec<Domain> = (0..n).map(|i| Domain::new(config, share(i), i)).collect();
        let mut balancer = Balancer::new(config.balance, n, config.flows, numbers(config.seed))
            .with_hot(config.hot);
        let mut agenda = Agenda::new(n);
        domains.iter().enumerate().for_each(|(i, domain)| agenda.set(i, domain.next()));
        let (mut in_system, mut most) = (0, 0);
        loop {
            let (next, at) = agenda.next();
            let at = if self.arrivals.key < next {
                let newcomer = self.arrivals.take();
                self.look(newcomer.request.at_ns, &domains[0]);
                let to =
                    balancer.choose(None, |i| Share { jobs: domains[i].len(), workers: share(i) });
                in_system -= domains[to].len();
                domains[to].arrive(newcomer, &mut self.tally);
                to
            } else if next == NEVER || in_system == 0 && self.arrivals.key == NEVER {
                break;
            } else {
                in_system -= domains[at].len();
                domains[at].step(&mut self.tally);
                at
            };
            in_system += domains[at].len();
            most = most.max(in_system);
            agenda.set(at, domains[at].next());
        }
        self.dispatched(config, &domains, most)
    }

    fn dispatched(self, config: &Config, domains: &[Domain], most: usize) -> Outcome {
        let counts: Vec<_> = domains.iter().map(|domain| &domain.counts).collect();
        Outcome { decided: decided(config, domains), ..self.outcome(config, &counts, most) }
    }

    fn without_dispatcher(mut self, config: &Config) -> Outcome {
        let mut threads = Threads::new(config);
        let mut most = 0;
        loop {
            if self.arrivals.key < threads.next() {
                let Newcomer { request, counted } = self.arrivals.take();
                threads.arrive(request, counted, &mut self.tally);
                most = most.max(threads.len());
            } else if threads.len() == 0 && self.arrivals.key == NEVER {
                break;
            } else {
                threads.step(&mut self.tally);
            }
        }
        let (thefts, parkings) = (threads.thefts, threads.parkings);
        Outcome { thefts, parkings, ..self.outcome(config, &[&threads.counts], most) }
    }

    fn outcome(self, config: &Config, counts: &[&Counts], most_in_system: usize) -> Outcome {
        let Self { arrivals, tally } = self;
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(|it| of(it)).sum::<u64>();
        let end_ns = tally.last_finish_ns.max(arrivals.last_ns);
        let time = (end_ns * config.workers as u64).max(1) as f64;
        let app = sum(|counts| counts.app_ns) as f64 / time;
        let overhead = sum(|counts| counts.overhead_ns) as f64 / time;
        let lost = sum(|counts| counts.lost_ns) as f64 / time;
        let late = counts.iter().filter_map(|counts| counts.late.clone());
        Outcome {
            offered: arrivals.offered,
            arrived: arrivals.arrived,
            completed: tally.completed,
            refused: tally.refused,
            window_ns: arrivals.last_ns.saturating_sub(arrivals.first_ns),
            until_drained_ns: end_ns.saturating_sub(arrivals.first_ns),
            preemptions: sum(|counts| counts.preemptions),
            late: late.reduce(|mut all, more| {
                all.add(&more);
                all
            }),
            shares: Shares { app, overhead, lost, idle: (1.0 - app - overhead - lost).max(0.0) },
            events: sum(|counts| counts.events),
            recorder: tally.recorder,
            dropped: tally.dropped,
            most_in_system,
            thefts: 0,
            parkings: 0,
            decided: None,
        }
    }
}

fn decided(config: &Config, domains: &[Domain]) -> Option<String> {
    let name = |class: ClassId| match config.spec.plan(usize::from(class.0)).name {
        Some(name) => name,
        None if class == ClassId::UNKNOWN => "unknown".to_owned(),
        None => format!("class {}", class.0),
    };
    let lines: Vec<String> =
        domains.iter().filter_map(|domain| domain.policy().explain(name)).collect();
    (!lines.is_empty()).then(|| lines.join(" | "))
}
