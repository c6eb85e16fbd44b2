//! What the completions of a class say of the service that one of its requests is next likely to
//! complete at: a histogram that ages, and the stages that follow from it.
//!
//! A stage begins where the one before ends. Its aim is the least service at which requests that get
//! so far complete (all but a thousandth of the class, so that an outlier does not count), and it
//! ends at twice that: a request that is served further was not what it might have been. Service
//! times within a factor of two of each other make one stage; gaps between modes are skipped.
//! Beyond all that was seen, stages double.

/// Four to an octave, up to 2⁴¹ ns.
pub(super) const BUCKETS: usize = 160;

/// What a completion counts for, so that it can be halved a few times.
const WEIGHT: u32 = 16;

/// Fewer completions than this say nothing of a class.
const ENOUGH: u32 = 8;

/// After so many new completions, the older ones count for half.
const AGING: u32 = 64;

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

/// What a request may be that has had some service; see the module's head. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The least service it is likely to complete at.
    pub(super) aim: u64,
    /// With so much service it was not that.
    pub(super) end: u64,
}

/// See the module's head.
pub(super) struct Aims {
    seen: [u32; BUCKETS],
    /// Completions since the older ones were halved.
    fresh: u32,
    /// Completions since it was learnt last.
    news: u32,
    /// Some came in the last window.
    current: bool,
    /// Mean service, in which each completion counts for 1/64.
    mean_ns: f64,
    /// Requests that arrived since that was asked for last.
    arrived: u32,
    stages: [Stage; STAGES],
    count: usize,
}

impl Aims {
    pub(super) fn new() -> Self {
        // Until something is known: least attained service, in steps from a microsecond on.
        let first = Stage { aim: 1_000, end: 1_000 };
        Self {
            seen: [0; BUCKETS],
            fresh: 0,
            news: 0,
            current: false,
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

    /// Service times are within a factor of two of each other.
    pub(super) fn is_steady(&self) -> bool {
        self.count == 1
    }

    /// A request of it has arrived.
    pub(super) fn arrived(&mut self) {
        self.arrived += 1;
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

    /// New stages, if enough has been seen.
    pub(super) fn learn(&mut self) {
        self.current = self.news > 0;
        if self.fresh >= ENOUGH && self.news > 0 {
            self.find_stages();
        }
        self.news = 0;
        if self.fresh >= AGING {
            self.seen.iter_mut().for_each(|weight| *weight /= 2);
            self.fresh = 0;
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

    fn learnt(services: &[(u64, u32)]) -> Aims {
        let mut aims = Aims::new();
        for &(service, count) in services {
            (0..count).for_each(|_| aims.record(service));
        }
        aims.learn();
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
    fn stages_double_beyond_what_was_seen() {
        let aims = learnt(&[(1_000, 100)]);
        let end = aims.stage(0).end;
        assert_eq!(aims.stage(end), Stage { aim: end, end: 2 * end });
        assert_eq!(aims.stage(9 * end), Stage { aim: 8 * end, end: 16 * end });
        assert_eq!(Aims::new().stage(0), Stage { aim: 1_000, end: 1_000 });
        assert_eq!(Aims::new().stage(3_000), Stage { aim: 2_000, end: 4_000 });
        let last = aims.stage(u64::MAX);
        assert!(last.end >= last.aim && last.aim > u64::MAX / 4);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut aims = learnt(&[(1_000, 1_000)]);
        for _ in 0..20 {
            (0..1_000).for_each(|_| aims.record(64_000));
            aims.learn();
        }
        assert!(aims.is_steady());
        near(aims.stage(0), 64_000);
        aims.learn();
        assert!(aims.is_known() && !aims.is_current(), "nothing of it came");
    }
}
