//! Histograms of what requests went through: sojourn time and slowdown, per class, with the
//! requests that a gap of the machine overlapped kept apart.
//!
//! One thread records; recording is two counter increments and a division, nothing allocates.

use crate::Quantile;
use hdrhistogram::Histogram;

/// A slowdown of 1 as it is recorded: slowdowns are kept in thousandths.
pub const SLOWDOWN_ONE: u64 = 1_000;

/// Longest sojourn told apart from longer ones: 1,000 s.
const MAX_SOJOURN_NS: u64 = 1_000_000_000_000;
/// Largest slowdown told apart from larger ones: 10^9.
const MAX_SLOWDOWN: u64 = 1_000_000_000 * SLOWDOWN_ONE;

/// A distribution of values to three significant digits. `unit` raw steps are 1: a slowdown is kept
/// in thousandths and read as a number; nanoseconds are read as they are kept.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    unit: f64,
}

impl Distribution {
    fn new(max: u64, unit: u64) -> Self {
        let histogram = Histogram::new_with_bounds(1, max, 3);
        Self { histogram: histogram.expect("the bounds are constants"), unit: unit as f64 }
    }

    /// Of sojourn times in nanoseconds.
    #[must_use]
    pub fn sojourn() -> Self {
        Self::new(MAX_SOJOURN_NS, 1)
    }

    /// Of slowdowns.
    #[must_use]
    pub fn slowdown() -> Self {
        Self::new(MAX_SLOWDOWN, SLOWDOWN_ONE)
    }

    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value that a share `p` of 100 does not exceed; 0 where there is none.
    #[must_use]
    pub fn percentile(&self, p: f64) -> f64 {
        self.histogram.value_at_percentile(p) as f64 / self.unit
    }

    /// The largest; 0 where there is none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.histogram.max() as f64 / self.unit
    }

    /// The mean; 0 where there is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.histogram.mean() / self.unit
    }

    /// What an objective asks for.
    #[must_use]
    pub fn at(&self, quantile: Quantile) -> f64 {
        match quantile {
            Quantile::Percentile(p) => self.percentile(p),
            Quantile::Mean => self.mean(),
            Quantile::Max => self.max(),
        }
    }

    /// Adds the values of `other`, which is of the same kind.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
    }

    /// One more value: nanoseconds, or a slowdown in units of [`SLOWDOWN_ONE`]. Those beyond the
    /// bounds count as the bound.
    #[inline]
    pub fn record(&mut self, raw: u64) {
        self.histogram.saturating_record(raw.max(1));
    }
}

/// What was recorded of some requests.
#[derive(Clone, Debug)]
pub struct ClassRecord {
    /// Sojourn times, ns.
    pub sojourn: Distribution,
    /// Sojourn time over un-instrumented service time.
    pub slowdown: Distribution,
    /// Sum of the service times, ns.
    pub service_sum_ns: u128,
}

impl ClassRecord {
    fn new() -> Self {
        let (sojourn, slowdown) = (Distribution::sojourn(), Distribution::slowdown());
        Self { sojourn, slowdown, service_sum_ns: 0 }
    }

    /// How many requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sojourn.count()
    }

    /// Mean service time in ns; 0 where there was no request.
    #[must_use]
    pub fn service_mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.service_sum_ns as f64 / self.count() as f64 }
    }

    /// These requests and those.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.sojourn.add(&other.sojourn);
        self.slowdown.add(&other.slowdown);
        self.service_sum_ns += other.service_sum_ns;
        self
    }
}

/// Everything recorded of one run.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Per class: undisturbed requests, disturbed ones.
    classes: Vec<[ClassRecord; 2]>,
}

impl Recorder {
    /// For this many classes, at least one.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        let class = || [ClassRecord::new(), ClassRecord::new()];
        Self { classes: (0..classes.max(1)).map(|_| class()).collect() }
    }

    /// One request. A class beyond the last counts as the last. A service time of 0 (an empty
    /// handler) counts as 1 ns in the slowdown, so that one is always defined.
    #[inline]
    pub fn record(&mut self, class: usize, sojourn_ns: u64, service_ns: u64, disturbed: bool) {
        let class = class.min(self.classes.len() - 1);
        let into = &mut self.classes[class][usize::from(disturbed)];
        into.sojourn.record(sojourn_ns);
        let slowdown = sojourn_ns.saturating_mul(SLOWDOWN_ONE) / service_ns.max(1);
        into.slowdown.record(slowdown);
        into.service_sum_ns += u128::from(service_ns);
    }

    /// How many classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// All requests of a class.
    ///
    /// # Panics
    /// Where there is no such class.
    #[must_use]
    pub fn class(&self, class: usize) -> ClassRecord {
        let [undisturbed, disturbed] = &self.classes[class];
        undisturbed.clone().with(disturbed)
    }

    /// The requests of a class that no gap overlapped.
    ///
    /// # Panics
    /// Where there is no such class.
    #[must_use]
    pub fn undisturbed_class(&self, class: usize) -> &ClassRecord {
        &self.classes[class][0]
    }

    /// All requests.
    #[must_use]
    pub fn overall(&self) -> ClassRecord {
        self.classes.iter().flatten().fold(ClassRecord::new(), ClassRecord::with)
    }

    /// All requests that no gap overlapped.
    #[must_use]
    pub fn undisturbed(&self) -> ClassRecord {
        self.classes.iter().fold(ClassRecord::new(), |sum, class| sum.with(&class[0]))
    }

    /// The share of requests that a gap overlapped; 0 where there was no request.
    #[must_use]
    pub fn disturbed_share(&self) -> f64 {
        let count = |i: usize| self.classes.iter().map(|class| class[i].count()).sum::<u64>();
        let (clean, disturbed) = (count(0), count(1));
        if disturbed == 0 { 0.0 } else { disturbed as f64 / (clean + disturbed) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_three_digits_per_class() {
        let mut recorder = Recorder::new(2);
        for i in 1..=1_000u64 {
            recorder.record(0, i * 1_000, 500, false);
            recorder.record(1, i * 1_000_000, 500_000, i > 900);
        }
        let short = recorder.class(0);
        assert_eq!(short.count(), 1_000);
        assert!((short.sojourn.percentile(50.0) / 500_000.0 - 1.0).abs() < 2e-3);
        assert!((short.slowdown.percentile(99.0) / 1_980.0 - 1.0).abs() < 2e-3);
        assert!((short.slowdown.max() / 2_000.0 - 1.0).abs() < 2e-3);
        assert!((short.service_mean_ns() - 500.0).abs() < 1e-9);
        assert_eq!(recorder.undisturbed_class(1).count(), 900);
        assert_eq!((recorder.overall().count(), recorder.undisturbed().count()), (2_000, 1_900));
        assert!((recorder.disturbed_share() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn extremes_saturate() {
        let mut recorder = Recorder::new(1);
        recorder.record(0, 0, 0, false);
        recorder.record(7, u64::MAX, 0, false);
        let all = recorder.overall();
        assert_eq!(all.count(), 2);
        assert!(all.sojourn.max() >= MAX_SOJOURN_NS as f64 && all.slowdown.max() >= 1e9);
    }

    #[test]
    fn empty_is_zero() {
        let all = Recorder::new(3).overall();
        assert_eq!((all.count(), all.sojourn.max(), all.slowdown.percentile(99.9)), (0, 0.0, 0.0));
        assert_eq!(all.service_mean_ns(), 0.0);
    }
}
