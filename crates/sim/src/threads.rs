//! A system without a dispatcher, as Shenango's runtime (§5): each worker is a kthread that polls its
//! own ingress queue, makes a thread of each request, runs its queue, steals where the very
//! [`Thief`] of the real runtime sends it, and parks when it has found nothing for a while.
//!
//! * A request comes to the ingress queue of one kthread: that of its flow ([`Balance::Rss`]), else
//!   any, all equally likely. A network card knows no queue lengths.
//! * A kthread without work runs its own queue; when that is empty, or a quantum has ended, it takes
//!   in what is in its ingress queue, [`BATCH`] requests at most; then it steals: half of a queue, or
//!   half of what another has not taken in.
//! * Work that others may take is seen at once by one of the kthreads that search; where none does,
//!   one that is parked is woken, the one that the request came to or else the last that parked.
//! * Under quanta, a thread yields at the end of its own if its kthread has another or something to
//!   take in; what others have waiting is the thieves' business. It goes to the tail, after what was
//!   taken in meanwhile.
//!
//! Every kthread has at most one pending event. The invariant between events: a kthread searches only
//! while nothing can be stolen, and `loads` say what the queues hold.

mod jobs;
mod kthread;
mod queue;

use crate::agenda::{Agenda, COMPLETION, DISPATCH, Key, NEVER, QUANTUM, key, time};
use crate::config::Config;
use crate::costs::Costs;
use crate::domain::{Counts, Sink};
use curtail_policy::{
    Balance, Balancer, ClassId, Job, JobId, Load, Nanos, PreemptKind, Share, Thief, WorkerId,
};
use curtail_sched::Room;
use curtail_workload::{Distribution, Request, Service, ServiceSampler, numbers};
use jobs::{Jobs, Slot};
use kthread::{Kthread, Next};
use queue::Pool;

/// As many requests are taken in before the queue is looked at again.
const BATCH: u32 = 16;

/// What kthreads do beside what their policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kthreads {
    /// How long one without work searches before it parks, in nanoseconds.
    pub spin_ns: u64,
    /// Neighbours (0 and 1, 2 and 3, …) are hyper-threads of one core. Of effect on the order of
    /// stealing alone: they do not slow each other down.
    pub siblings: bool,
    /// A theft takes half a queue; otherwise one thread.
    pub half: bool,
}

impl Default for Kthreads {
    /// As in the paper: 2 µs, hyper-threads, halves.
    fn default() -> Self {
        Self { spin_ns: 2_000, siblings: true, half: true }
    }
}

/// A system without a dispatcher.
pub(crate) struct Threads {
    pinned: bool,
    costs: Costs,
    /// In nanoseconds; 0: to completion.
    quantum: u64,
    overshoot: Option<ServiceSampler>,
    /// False: parking and waking take no time, so no kthread needs to park.
    parks: bool,
    jobs: Jobs,
    kthreads: Vec<Kthread>,
    thieves: Vec<Thief>,
    /// What each publishes.
    loads: Vec<Load>,
    /// The sum of these: what can be stolen, if not by everybody.
    on_offer: usize,
    searching: Pool,
    parked: Pool,
    /// On their way out of the park.
    waking: usize,
    balancer: Balancer,
    random: Box<dyn FnMut() -> u64>,
    agenda: Agenda,
    pub(crate) counts: Counts,
    /// How many thefts there were, and how often a kthread parked.
    pub(crate) thefts: u64,
    pub(crate) parkings: u64,
}

impl Threads {
    pub(crate) fn new(config: &Config) -> Self {
        let Config { workers, costs, seed, kthreads, .. } = *config;
        let spec = &config.spec;
        let quantum = spec.quantum.filter(|_| spec.shares() && spec.preempt != PreemptKind::Never);
        let overshoots = costs.overshoot != Service::Constant(0);
        let by_flow = if config.balance == Balance::Rss { Balance::Rss } else { Balance::Random };
        let thief = |me: usize| {
            let sibling = (kthreads.siblings && me ^ 1 < workers).then(|| id(me ^ 1));
            let thief = Thief::new(id(me), workers, sibling, seed).with_order(spec.victim);
            if kthreads.half { thief } else { thief.sparing() }
        };
        let parks = costs.park > 0 || costs.wake > 0;
        let (mut searching, mut parked) = (Pool::new(workers), Pool::new(workers));
        let idle = if parks { &mut parked } else { &mut searching };
        (0..workers).for_each(|kthread| idle.insert(kthread));
        Self {
            pinned: config.pinned,
            costs,
            quantum: quantum.map_or(0, |quantum| quantum.0),
            overshoot: overshoots.then(|| costs.overshoot.sampler(seed)),
            parks,
            jobs: Jobs::new(config.capacity, Room::new(spec, config.capacity, config.keeps_room)),
            kthreads: (0..workers).map(|_| Kthread::new(kthreads.spin_ns)).collect(),
            thieves: (0..workers).map(thief).collect(),
            loads: vec![Load::default(); workers],
            on_offer: 0,
            searching,
            parked,
            waking: 0,
            balancer: Balancer::new(by_flow, workers, config.flows, numbers(seed))
                .with_hot(config.hot),
            random: Box::new(numbers(!seed)),
            agenda: Agenda::new(workers),
            counts: Counts {
                events: 0,
                preemptions: 0,
                app_ns: 0,
                overhead_ns: 0,
                lost_ns: 0,
                late: overshoots.then(Distribution::sojourn),
            },
            thefts: 0,
            parkings: 0,
        }
    }

    /// When the next event is.
    #[inline]
    pub(crate) fn next(&self) -> Key {
        self.agenda.next().0
    }

    /// Jobs in the system.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// A request arrives.
    #[inline]
    pub(crate) fn arrive(&mut self, request: Request, counted: bool, sink: &mut impl Sink) {
        self.counts.events += 1;
        let (class, now) = (ClassId(request.class), request.at_ns);
        let job = Job::new(JobId(0), class, Nanos(now));
        let service = request.service_ns;
        let remaining = self.costs.inflated(service);
        let slot = Slot { job, remaining, service, quanta: 0, started: false, counted };
        let Some(job) = self.jobs.insert(slot) else { return sink.dropped(class, counted) };
        let home = self.balancer.choose(None, |_| Share { jobs: 0, workers: 1 });
        self.kthreads[home].ingress.push_back((job, now));
        self.publish(home);
        if self.searching.has(home) {
            self.look(home, now);
        }
        self.rouse(Some(home), now);
    }

    /// Does what comes next; there is something.
    #[inline]
    pub(crate) fn step(&mut self, sink: &mut impl Sink) {
        self.counts.events += 1;
        let (at, kthread) = self.agenda.next();
        let now = time(at);
        self.event(kthread, now, sink);
        self.rouse(None, now);
    }

    /// A kthread's load has changed.
    #[inline]
    fn publish(&mut self, kthread: usize) {
        let at = &self.kthreads[kthread];
        let load = &mut self.loads[kthread];
        self.on_offer -= load.ready as usize + load.incoming as usize;
        let incoming = at.ingress.front().map_or(u64::MAX, |it| it.1);
        *load = Load {
            ready: at.queue.stealable(self.pinned) as u32,
            incoming: at.ingress.len() as u32,
            since: Nanos(incoming.min(at.queue.oldest(self.pinned))),
            ..Load::default()
        };
        self.on_offer += load.ready as usize + load.incoming as usize;
    }

    /// Kthreads that search see what there is; for the rest, parked ones are woken, `home` first.
    #[inline]
    fn rouse(&mut self, home: Option<usize>, now: u64) {
        while self.on_offer > 0 && !self.searching.members().is_empty() {
            let members = self.searching.members();
            let drawn = (u128::from((self.random)()) * members.len() as u128) >> 64;
            self.look(usize::from(members[drawn as usize]), now);
        }
        while self.on_offer > self.waking {
            let Some(&last) = self.parked.members().last() else { break };
            let woken = home.filter(|&home| self.parked.has(home)).unwrap_or(usize::from(last));
            self.parked.remove(woken);
            self.waking += 1;
            self.counts.overhead_ns += self.costs.wake;
            self.schedule(woken, Next::Woken, now + self.costs.wake);
        }
    }

    fn schedule(&mut self, kthread: usize, next: Next, at: u64) {
        self.kthreads[kthread].next = next;
        let rank = match next {
            Next::Nothing => return self.agenda.set(kthread, NEVER),
            Next::Complete | Next::Finished => COMPLETION,
            Next::TakenIn | Next::Stolen | Next::Woken | Next::Parked => DISPATCH,
            Next::QuantumEnd | Next::Switched | Next::OutOfPatience => QUANTUM,
        };
        self.agenda.set(kthread, key(at, rank));
    }
}

fn id(kthread: usize) -> WorkerId {
    WorkerId(kthread as u16)
}
