//! What the completions of a class say of the service that one of its requests is next likely to
//! complete at: a histogram that ages, and what follows from it.
//!
//! **The aim** of a request that has had some service: the least at which requests that get so far
//! complete, outliers not counted; times the cube root of the part of its service that is still to
//! come, on average, for those. The first is the optimist's service time. It grows while the
//! request is served, so other requests come before it.
//!
//! The second lets what is nearly done finish: a deadline is *arrival + S × service*, and the rule
//! that is good for all slowdowns together is the least *service × what remains of it* first, the
//! square root of which is a time with an exponent of a half (RS: A. Wierman, M. Harchol-Balter,
//! T. Osogami, *Nearly Insensitive Bounds on SMART Scheduling*, 2005).
//!
//! An exponent of nought is the
//! deadline alone; a third is between the two. So requests whose service times hardly vary, or are
//! the more likely to end the longer they took, are never pre-empted for new ones of their class.
//!
//! **Outliers** are a thousandth of all requests, as it is the 99.9th percentile of all that counts,
//! and at most a tenth of a class.
//!
//! All arithmetic is such as every machine does alike (IEEE 754's own operations, no library's), so
//! that a record that is played elsewhere comes out the same.
//!
//! **A stage** is what is alike within a class: it begins with the least of its service times and
//! ends at twice that. Gaps between stages tell modes apart.

use super::root::cube_root;

/// Four to an octave, up to 2⁴¹ ns.
pub(super) const BUCKETS: usize = 160;

/// What a completion counts for, so that it can be halved a few times.
const WEIGHT: u32 = 16;

/// Fewer completions than this say nothing of a class.
const ENOUGH: u32 = 8;

/// After so many new completions, the older ones count for half.
const AGING: u32 = 64;

/// The share of requests that need not be thought of, of all and at most of a class.
const OUTLIERS: f64 = 0.001;
const MOST_OUTLIERS: f64 = 0.1;

/// More stages than these are not told apart.
const STAGES: usize = 24;

/// The bucket of a number: exact below 8, within a quarter above.
pub(super) fn bucket(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let octave = value.ilog2() as usize;
    let quarter = (value >> (octave - 2)) as usize & 3;
    (4 * (octave - 1) + quarter).min(BUCKETS - 1)
}

/// The least number in a bucket.
pub(super) fn floor(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    ((4 + bucket % 4) as u64) << (bucket / 4 - 1)
}

/// What is in it, on average.
fn middle(bucket: usize) -> f64 {
    if bucket < 4 { bucket as f64 } else { (floor(bucket) + floor(bucket + 1) - 1) as f64 / 2.0 }
}

/// Whether `aim` is not after `other`, or in the next bucket at most: that is as well as they are
/// known.
pub(super) fn is_alike(aim: u64, other: u64) -> bool {
    aim <= other + other / 4 + 1
}

/// Service times, in nanoseconds, within a factor of two; see the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The least of them.
    pub(super) aim: u64,
    /// Beyond the greatest.
    pub(super) end: u64,
}

/// An estimate, from a class's completions, of the service that a request is likely to complete at.
pub(super) struct ServiceEstimate {
    seen: [u32; BUCKETS],
    /// Completions since the older ones were halved.
    fresh: u32,
    /// Completions since it was learnt last.
    news: u32,
    /// Some came in the last window.
    current: bool,
    /// Of all requests, a moving average.
    share: f64,
    /// By service had, in buckets.
    aims: [u64; BUCKETS],
    /// Mean service, in which each completion counts for 1/64.
    mean_ns: f64,
    /// Requests that arrived since that was asked for last.
    arrived: u32,
    stages: [Stage; STAGES],
    count: usize,
}

impl ServiceEstimate {
    pub(super) fn new() -> Self {
        // Until something is known: least attained service, in steps from a microsecond on.
        let first = Stage { aim: 1_000, end: 1_000 };
        Self {
            seen: [0; BUCKETS],
            fresh: 0,
            news: 0,
            current: false,
            share: 0.0,
            aims: [first.aim; BUCKETS],
            mean_ns: 0.0,
            arrived: 0,
            stages: [first; STAGES],
            count: 0,
        }
    }

    pub(super) fn record(&mut self, service_ns: u64) {
        self.seen[bucket(service_ns)] += WEIGHT;
        let new = if self.mean_ns == 0.0 { 1.0 } else { 1.0 / 64.0 };
        self.mean_ns += new * (service_ns as f64 - self.mean_ns);
        self.fresh += 1;
        self.news += 1;
    }

    /// There are stages of its own.
    pub(super) fn is_known(&self) -> bool {
        self.count > 0
    }

    /// It is known and requests of it still come.
    pub(super) fn is_current(&self) -> bool {
        self.is_known() && self.current
    }

    /// No request that has had service is pre-empted for a new one.
    pub(super) fn is_steady(&self) -> bool {
        let longest = self.seen.iter().rposition(|&weight| weight > 0).unwrap_or(0);
        self.aims[..=longest].iter().all(|&aim| is_alike(aim, self.aims[0]))
    }

    /// What a request is taken for that has had so much service.
    pub(super) fn aim(&self, attained: u64) -> u64 {
        if self.is_known() { self.aims[bucket(attained)] } else { self.stage(attained).aim }
    }

    /// With so much service it is taken for more; `u64::MAX`: never.
    pub(super) fn until(&self, attained: u64) -> u64 {
        if !self.is_known() {
            return self.stage(attained).end;
        }
        let now = bucket(attained);
        let mut later = now + 1..BUCKETS;
        later.find(|&at| self.aims[at] > self.aims[now]).map_or(u64::MAX, floor)
    }

    /// A request of it has arrived.
    pub(super) fn arrived(&mut self) {
        // Where requests are pre-empted, this count is not asked for.
        self.arrived = self.arrived.saturating_add(1);
    }

    /// The service that requests need which arrived since this was asked for last.
    pub(super) fn take_demand_ns(&mut self) -> f64 {
        f64::from(std::mem::take(&mut self.arrived)) * self.mean_ns
    }

    /// The widest gap between stages: the end of the one before, and by what factor the aim of the
    /// one after is greater.
    pub(super) fn widest_gap(&self) -> Option<(u64, u64)> {
        let known = &self.stages[..self.count];
        let gaps = known.windows(2).map(|pair| (pair[0].end, pair[1].aim / pair[0].aim));
        gaps.max_by_key(|&(_, factor)| factor)
    }

    /// The greatest aim of its requests.
    pub(super) fn last(&self) -> u64 {
        self.stages[self.count.max(1) - 1].aim
    }

    /// How many stages its requests go through.
    pub(super) fn stages(&self) -> usize {
        self.count
    }

    /// Where a request is that has had so much service.
    pub(super) fn stage(&self, attained: u64) -> Stage {
        let known = &self.stages[..self.count.max(1)];
        let at = known.partition_point(|stage| stage.end <= attained);
        if let Some(&stage) = known.get(at) {
            return stage;
        }
        let last = known[known.len() - 1].end;
        let aim = last << (attained / last).ilog2();
        Stage { aim, end: aim.saturating_mul(2) }
    }

    /// New aims and stages, if enough has been seen since a window of so many completions ago.
    pub(super) fn learn(&mut self, window: u32) {
        self.current = self.news > 0;
        let share = f64::from(self.news) / f64::from(window);
        self.share += if self.share == 0.0 { share } else { (share - self.share) / 8.0 };
        if self.fresh >= ENOUGH && self.news > 0 {
            self.find_stages();
            self.find_aims();
        }
        self.news = 0;
        if self.fresh >= AGING {
            self.seen.iter_mut().for_each(|weight| *weight /= 2);
            self.fresh = 0;
        }
    }

    /// From the longest to the shortest: `least` is the bucket of the least service at which requests
    /// complete that get so far, outliers not counted.
    fn find_aims(&mut self) {
        let total: u32 = self.seen.iter().sum();
        let outliers = (OUTLIERS / self.share).clamp(OUTLIERS, MOST_OUTLIERS);
        let outliers = ((f64::from(total) * outliers) as u32).max(1);
        let (mut least, mut between) = (BUCKETS - 1, 0);
        let (mut further, mut service) = (0, 0.0);
        for bucket in (0..BUCKETS).rev() {
            between += self.seen[bucket];
            while least > bucket && between - self.seen[least] >= outliers {
                between -= self.seen[least];
                least -= 1;
            }
            further += self.seen[bucket];
            service += f64::from(self.seen[bucket]) * middle(bucket);
            let had = floor(bucket);
            self.aims[bucket] = if between < outliers {
                had.max(1)
            } else {
                let part = (1.0 - had as f64 * f64::from(further) / service).max(0.0);
                ((floor(least) as f64 * cube_root(part)) as u64).max(1)
            };
        }
    }

    fn find_stages(&mut self) {
        let total: u32 = self.seen.iter().sum();
        let enough = (total / 1_000).max(1);
        self.count = 0;
        let (mut weight, mut bucket) = (0, 0);
        while bucket < BUCKETS && self.count < STAGES {
            weight += self.seen[bucket];
            if weight < enough {
                bucket += 1;
                continue;
            }
            let aim = floor(bucket).max(1);
            self.stages[self.count] = Stage { aim, end: 2 * aim };
            self.count += 1;
            // An octave is four buckets, except near zero.
            bucket = self::bucket(2 * aim);
            weight = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_within_a_quarter() {
        for bucket_ in 0..BUCKETS - 1 {
            let (least, next) = (floor(bucket_), floor(bucket_ + 1));
            assert!(least < next && next <= (least + least / 4).max(least + 1), "{bucket_}");
            assert_eq!((bucket(least), bucket(next - 1)), (bucket_, bucket_));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    fn learnt(services: &[(u64, u32)]) -> ServiceEstimate {
        let mut aims = ServiceEstimate::new();
        for &(service, count) in services {
            (0..count).for_each(|_| aims.record(service));
        }
        aims.learn(services.iter().map(|it| it.1).sum());
        aims
    }

    fn near(stage: Stage, aim: u64) {
        assert!(stage.aim <= aim && aim < stage.end, "{stage:?} is for {aim}");
        assert!(aim - stage.aim <= aim / 4, "{stage:?} is for {aim}");
    }

    #[test]
    fn what_hardly_varies_is_one_stage() {
        for spread in [0, 10, 40] {
            let aims = learnt(&[(100_000, 50), (100_000 + spread * 1_000, 50)]);
            assert!(aims.is_steady(), "{spread}%");
            near(aims.stage(0), 100_000);
            assert_eq!(aims.stage(99_000), aims.stage(0));
        }
    }

    #[test]
    fn modes_are_stages_and_gaps_are_skipped() {
        let aims = learnt(&[(1_000, 500), (100_000, 500)]);
        assert_eq!(aims.stages(), 2);
        near(aims.stage(0), 1_000);
        near(aims.stage(5_000), 100_000);
        near(aims.stage(90_000), 100_000);
    }

    #[test]
    fn an_outlier_does_not_count_and_a_hundredth_does() {
        let aims = learnt(&[(1, 1), (10_000, 3_000)]);
        near(aims.stage(0), 10_000);
        let aims = learnt(&[(1_000, 30), (10_000, 2_970)]);
        near(aims.stage(0), 1_000);
    }

    #[test]
    fn aims_grow_with_service_as_far_as_that_is_news() {
        // Exponential, mean 64 us: the longer it took, the longer it is likely to take.
        let quantile = |at: u64| (64_000.0 * (1_000.0 / (at as f64 + 0.5)).ln()) as u64;
        let times: Vec<_> = (0..1_000).map(|at| (quantile(at), 1)).collect();
        let aims = learnt(&times);
        let had = [0, 1_000, 10_000, 60_000, 200_000].map(|had| aims.aim(had));
        assert!(had.is_sorted() && had[0] < 200 && had[4] > 50_000, "{had:?}");
        assert!(!aims.is_steady() && aims.until(10_000) <= 12_288);
        // Uniform: the longer it took, the sooner it ends.
        let times: Vec<_> = (50..100).map(|us| (us * 1_000, 10)).collect();
        let aims = learnt(&times);
        let had = [0, 30_000, 60_000, 90_000].map(|had| aims.aim(had));
        assert!(had[1..].iter().all(|&aim| aim < had[0]), "{had:?}");
        assert!(aims.is_steady());
        // Two modes: after the first it is the second.
        let aims = learnt(&[(1_000, 500), (100_000, 500)]);
        assert!(aims.aim(500) <= 1_000 && aims.aim(1_100) > 90_000 && aims.until(0) <= 1_024);
    }

    #[test]
    fn outliers_are_few_of_all_and_of_a_class() {
        let aim = |window| {
            let mut aims = ServiceEstimate::new();
            (0..20).for_each(|_| aims.record(1_000));
            (0..980).for_each(|_| aims.record(64_000));
            aims.learn(window);
            aims.aim(0)
        };
        assert!(aim(1_000) <= 1_000 && aim(10_000) <= 1_000, "two in a thousand of all");
        assert!(aim(40_000) > 50_000, "one in two thousand of all");
        let mut aims = ServiceEstimate::new();
        (0..200).for_each(|_| aims.record(1_000));
        (0..800).for_each(|_| aims.record(64_000));
        aims.learn(10_000_000);
        assert!(aims.aim(0) <= 1_000, "a fifth of the class");
    }

    #[test]
    fn stages_double_beyond_what_was_seen() {
        let aims = learnt(&[(1_000, 100)]);
        let end = aims.stage(0).end;
        assert_eq!(aims.stage(end), Stage { aim: end, end: 2 * end });
        assert_eq!(aims.stage(9 * end), Stage { aim: 8 * end, end: 16 * end });
        assert_eq!(ServiceEstimate::new().stage(0), Stage { aim: 1_000, end: 1_000 });
        assert_eq!(ServiceEstimate::new().stage(3_000), Stage { aim: 2_000, end: 4_000 });
        let last = aims.stage(u64::MAX);
        assert!(last.end >= last.aim && last.aim > u64::MAX / 4);
    }

    #[test]
    fn arrivals_that_nobody_asks_for_do_no_harm() {
        let mut aims =
            ServiceEstimate { arrived: u32::MAX, mean_ns: 2.0, ..ServiceEstimate::new() };
        aims.arrived();
        assert_eq!(aims.take_demand_ns(), 2.0 * f64::from(u32::MAX));
        aims.arrived();
        assert_eq!(aims.take_demand_ns(), 2.0);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut aims = learnt(&[(1_000, 1_000)]);
        for _ in 0..20 {
            (0..1_000).for_each(|_| aims.record(64_000));
            aims.learn(1_000);
        }
        assert!(aims.is_steady());
        near(aims.stage(0), 64_000);
        aims.learn(1_000);
        assert!(aims.is_known() && !aims.is_current(), "nothing of it came");
    }
}
