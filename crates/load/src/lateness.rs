//! How late the generator itself was.

use curtail_workload::Distribution;

/// How long after its time each request was sent, and how many were later than a limit.
#[derive(Clone, Debug)]
pub struct Lateness {
    ns: Distribution,
    limit_ns: u64,
    over: u64,
}

impl Lateness {
    /// Of no request yet; what is later than `limit_ns` is counted.
    #[must_use]
    pub fn new(limit_ns: u64) -> Self {
        Self { ns: Distribution::sojourn(), limit_ns, over: 0 }
    }

    /// A request that was due then was sent now.
    #[inline]
    pub fn record(&mut self, due_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(due_ns);
        self.ns.record(late_ns);
        self.over += u64::from(late_ns > self.limit_ns);
    }

    /// How late `p` per cent of the requests were at most, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, p: f64) -> u64 {
        self.ns.percentile(p) as u64
    }

    /// How many requests were later than the limit.
    #[must_use]
    pub fn over(&self) -> u64 {
        self.over
    }

    /// The share of requests that were later than the limit.
    #[must_use]
    pub fn share_over(&self) -> f64 {
        self.over as f64 / self.ns.count().max(1) as f64
    }

    /// The limit, in nanoseconds.
    #[must_use]
    pub fn limit_ns(&self) -> u64 {
        self.limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_limit_is_counted_exactly() {
        let mut late = Lateness::new(100);
        assert_eq!((late.percentile_ns(99.0), late.share_over()), (0, 0.0));
        for (due_ns, now_ns) in [(0, 50), (1_000, 1_100), (2_000, 2_101), (5_000, 4_000)] {
            late.record(due_ns, now_ns);
        }
        assert_eq!((late.over(), late.share_over()), (1, 0.25));
        assert_eq!((late.percentile_ns(50.0), late.percentile_ns(100.0)), (50, 101));
    }
}
