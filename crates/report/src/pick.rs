//! Which of a run's figures is meant: metric × quantile × class × samples.

use crate::{Quantiles, Run, Slowdown};

/// What is measured of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metric {
    /// From its scheduled arrival to its end, in nanoseconds.
    #[default]
    Sojourn,
    /// Sojourn time over its own service time.
    Slowdown,
}

impl Metric {
    /// `sojourn time` or `slowdown`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sojourn => "sojourn time",
            Self::Slowdown => "slowdown",
        }
    }

    /// A figure of this metric with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Sojourn => crate::duration(value),
            Self::Slowdown => crate::ratio(value),
        }
    }
}

/// Which statistic of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quantile {
    /// Median.
    P50,
    /// 90th percentile (of sojourn times only).
    P90,
    /// 99th percentile.
    #[default]
    P99,
    /// 99.9th percentile.
    P99_9,
    /// The largest.
    Max,
    /// Arithmetic mean.
    Mean,
}

impl Quantile {
    /// All of them, in order.
    pub const ALL: [Self; 6] =
        [Self::P50, Self::P90, Self::P99, Self::P99_9, Self::Max, Self::Mean];

    /// `p50` … `p99.9`, `max`, `mean`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::Max => "max",
            Self::Mean => "mean",
        }
    }

    /// By its name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quantile| quantile.name() == name)
    }
}

impl Quantiles {
    /// One of them, in nanoseconds.
    #[must_use]
    pub fn get(&self, which: Quantile) -> f64 {
        match which {
            Quantile::P50 => self.p50 as f64,
            Quantile::P90 => self.p90 as f64,
            Quantile::P99 => self.p99 as f64,
            Quantile::P99_9 => self.p99_9 as f64,
            Quantile::Max => self.max as f64,
            Quantile::Mean => self.mean,
        }
    }
}

impl Slowdown {
    /// One of them; there is no 90th percentile.
    #[must_use]
    pub const fn get(&self, which: Quantile) -> Option<f64> {
        match which {
            Quantile::P50 => Some(self.p50),
            Quantile::P90 => None,
            Quantile::P99 => Some(self.p99),
            Quantile::P99_9 => Some(self.p99_9),
            Quantile::Max => Some(self.max),
            Quantile::Mean => Some(self.mean),
        }
    }
}

impl Run {
    /// One figure over all requests of a class (`None`: of all classes); `None` where the run has
    /// no such class or statistic. Sojourn times in nanoseconds.
    #[must_use]
    pub fn figure(&self, class: Option<&str>, metric: Metric, which: Quantile) -> Option<f64> {
        let (sojourn, slowdown) = match class {
            None => (self.sojourn_ns, self.slowdown),
            Some(name) => {
                let class = self.classes.iter().find(|class| class.name == name)?;
                (class.sojourn_ns, class.slowdown)
            }
        };
        one(sojourn, slowdown, metric, which)
    }

    /// A figure over the requests that no gap of the machine overlapped.
    #[must_use]
    pub fn undisturbed_figure(
        &self,
        class: Option<&str>,
        metric: Metric,
        which: Quantile,
    ) -> Option<f64> {
        let (sojourn, slowdown) = match class {
            None => (self.undisturbed.sojourn_ns, self.undisturbed.slowdown),
            Some(name) => {
                let class = self.undisturbed.classes.iter().find(|class| class.name == name)?;
                (class.sojourn_ns, class.slowdown)
            }
        };
        one(sojourn, slowdown, metric, which)
    }
}

fn one(
    sojourn: Option<Quantiles>,
    slowdown: Option<Slowdown>,
    metric: Metric,
    which: Quantile,
) -> Option<f64> {
    match metric {
        Metric::Sojourn => sojourn.map(|quantiles| quantiles.get(which)),
        Metric::Slowdown => slowdown.and_then(|quantiles| quantiles.get(which)),
    }
    .filter(|value| value.is_finite())
}
