//! How many cores an application needs that does not keep them: two models of core allocation,
//! after Shenango §2 and §4.1.1. Neither knows a policy: requests wait in one queue and are served
//! to the end in the order of arrival, by any core that the application has at the moment. One
//! thread's, deterministic; memory does not grow with the number of requests.
//!
//! [`by_intervals`] is the paper's bound on slow allocators: so many cores for each interval, which
//! begins with an empty queue and at whose end whatever is left is served at once. [`on_demand`]
//! gives a core away as soon as it finds no work, and another when a request was seen waiting
//! twice.

use curtail_workload::{Distribution, Request};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What requests went through, and what their application was given for them.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// From arrival to completion.
    pub sojourn: Distribution,
    /// Time spent in service, of all cores, in nanoseconds.
    pub used_ns: u64,
    /// Time for which cores were the application's.
    pub allocated_ns: u64,
    /// How often a core was given to it.
    pub grants: u64,
}

impl Allocation {
    fn new() -> Self {
        Self { sojourn: Distribution::sojourn(), used_ns: 0, allocated_ns: 0, grants: 0 }
    }

    /// Time used over time allocated.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.used_ns as f64 / (self.allocated_ns as f64).max(1.0)
    }

    fn served(&mut self, request: &Request, done_ns: u64) {
        self.sojourn.record(done_ns - request.at_ns);
        self.used_ns += request.service_ns;
    }
}

/// Serves requests on `cores` cores, by intervals of `interval_ns`: each begins with an empty queue,
/// and what is in the system at its end is served at that moment (Shenango §2: an upper bound on
/// what any allocator of that speed can do).
///
/// # Panics
/// Without a core or an interval, or where requests run backwards.
#[must_use]
pub fn by_intervals(
    requests: impl Iterator<Item = Request>,
    cores: usize,
    interval_ns: u64,
) -> Allocation {
    assert!(cores > 0 && interval_ns > 0, "no core, or no interval");
    let mut result = Allocation::new();
    // When each core is free; in the order of arrival, the first that is free takes a request.
    let mut free: BinaryHeap<Reverse<u64>> = BinaryHeap::with_capacity(cores + 1);
    let (mut end_ns, mut last_ns) = (0, 0);
    for request in requests {
        assert!(request.at_ns >= last_ns, "requests arrive in the order of time");
        last_ns = request.at_ns;
        if request.at_ns >= end_ns {
            end_ns = (request.at_ns / interval_ns + 1) * interval_ns;
            free.clear();
            free.extend((0..cores).map(|_| Reverse(0)));
        }
        let Reverse(at) = free.pop().expect("there are cores");
        let done_ns = at.max(request.at_ns) + request.service_ns;
        free.push(Reverse(done_ns));
        result.served(&request, done_ns.min(end_ns));
    }
    result.allocated_ns = end_ns * cores as u64;
    result.grants = cores as u64 * (end_ns / interval_ns);
    result
}

/// How [`on_demand`] allocates. All times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemand {
    /// As many cores as the application ever has.
    pub cores: usize,
    /// How often the allocator looks at the queue.
    pub interval_ns: u64,
    /// From a grant until the core can serve. It is the application's from the grant.
    pub wake_ns: u64,
    /// How long a core without work looks for some before it is given back.
    pub search_ns: u64,
    /// What it takes to give it back, in which it is nobody else's.
    pub park_ns: u64,
}

/// Serves requests on cores that come and go (Shenango §4.1.1). A request that arrives while the
/// application has no core is granted one at once. Each interval the allocator looks at the queue:
/// if what it saw first in it last time still waits, it grants one core more. A core that has found
/// no work for a while is given back.
///
/// # Panics
/// Without a core or an interval, or where requests run backwards.
#[must_use]
pub fn on_demand(requests: impl Iterator<Item = Request>, how: &OnDemand) -> Allocation {
    assert!(how.cores > 0 && how.interval_ns > 0, "no core, or no interval");
    let mut system = Elastic {
        how,
        cores: vec![Core::Parked; how.cores],
        queue: VecDeque::new(),
        next_look_ns: how.interval_ns,
        seen_ns: None,
        result: Allocation::new(),
    };
    let mut last_ns = 0;
    for request in requests {
        assert!(request.at_ns >= last_ns, "requests arrive in the order of time");
        last_ns = request.at_ns;
        system.advance(request.at_ns);
        system.arrive(request);
    }
    system.advance(u64::MAX);
    system.result
}

#[derive(Clone, Copy, PartialEq)]
enum Core {
    Parked,
    /// On its way, until then; granted at.
    Waking {
        until_ns: u64,
        since_ns: u64,
    },
    Serving {
        until_ns: u64,
        since_ns: u64,
    },
    /// Without work, gives up then.
    Searching {
        until_ns: u64,
        since_ns: u64,
    },
}

impl Core {
    fn event_ns(self) -> u64 {
        match self {
            Self::Parked => u64::MAX,
            Self::Waking { until_ns, .. }
            | Self::Serving { until_ns, .. }
            | Self::Searching { until_ns, .. } => until_ns,
        }
    }
}

struct Elastic<'a> {
    how: &'a OnDemand,
    cores: Vec<Core>,
    queue: VecDeque<Request>,
    next_look_ns: u64,
    /// When what the allocator saw first in the queue had arrived.
    seen_ns: Option<u64>,
    result: Allocation,
}

impl Elastic<'_> {
    /// Everything that happens before `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let events = self.cores.iter().map(|core| core.event_ns()).enumerate();
            let (core, at_ns) = events.min_by_key(|event| event.1).expect("there are cores");
            if at_ns == u64::MAX {
                // No core, so nobody waits: looks until then see nothing.
                self.seen_ns = None;
                let interval_ns = self.how.interval_ns;
                if now_ns != u64::MAX {
                    self.next_look_ns = self.next_look_ns.max(now_ns.next_multiple_of(interval_ns));
                }
                return;
            }
            if at_ns.min(self.next_look_ns) >= now_ns {
                return;
            }
            if self.next_look_ns <= at_ns {
                self.look();
            } else {
                self.happen(core, at_ns);
            }
        }
    }

    fn arrive(&mut self, request: Request) {
        let now_ns = request.at_ns;
        let searching = |core: &&mut Core| matches!(core, Core::Searching { .. });
        if let Some(core) = self.cores.iter_mut().find(searching) {
            let Core::Searching { since_ns, .. } = *core else { unreachable!("just found") };
            let until_ns = now_ns + request.service_ns;
            *core = Core::Serving { until_ns, since_ns };
            return self.result.served(&request, until_ns);
        }
        let none = self.cores.iter().all(|core| *core == Core::Parked);
        self.queue.push_back(request);
        if none {
            self.grant(now_ns);
        }
    }

    fn grant(&mut self, now_ns: u64) {
        if let Some(core) = self.cores.iter_mut().find(|core| **core == Core::Parked) {
            *core = Core::Waking { until_ns: now_ns + self.how.wake_ns, since_ns: now_ns };
            self.result.grants += 1;
        }
    }

    /// The allocator looks. What arrived no later than what it saw last has waited an interval.
    fn look(&mut self) {
        let first_ns = self.queue.front().map(|request| request.at_ns);
        if let (Some(first_ns), Some(seen_ns)) = (first_ns, self.seen_ns)
            && first_ns <= seen_ns
        {
            self.grant(self.next_look_ns);
        }
        // Anything that waits now counts, not the first alone.
        self.seen_ns = self.queue.back().map(|request| request.at_ns);
        self.next_look_ns += self.how.interval_ns;
    }

    fn happen(&mut self, core: usize, now_ns: u64) {
        self.cores[core] = match self.cores[core] {
            Core::Waking { since_ns, .. } | Core::Serving { since_ns, .. } => {
                match self.queue.pop_front() {
                    Some(request) => {
                        let until_ns = now_ns + request.service_ns;
                        self.result.served(&request, until_ns);
                        Core::Serving { until_ns, since_ns }
                    }
                    None => Core::Searching { until_ns: now_ns + self.how.search_ns, since_ns },
                }
            }
            Core::Searching { since_ns, .. } => {
                self.result.allocated_ns += now_ns - since_ns + self.how.park_ns;
                Core::Parked
            }
            Core::Parked => unreachable!("what is parked has no events"),
        };
    }
}
