//! What a slow core allocator can do at best (Shenango §2): so many cores for each interval, which
//! begins with an empty queue and at whose end whatever is left is served at once. Requests wait in
//! one queue and are served to the end in the order of arrival. One thread's, deterministic; memory
//! does not grow with the number of requests.

use curtail_workload::{Distribution, Request};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
