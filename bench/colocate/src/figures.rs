//! Quantiles of measurements that were all kept.

use serde::{Deserialize, Serialize};

/// Of one kind of measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// One in a hundred is larger.
    pub p99: f64,
    /// One in a thousand is larger.
    pub p99_9: f64,
}

impl Quantiles {
    /// Of times in nanoseconds, in units of so many.
    ///
    /// # Panics
    /// Where there are none.
    #[must_use]
    pub fn of(times_ns: &mut [u64], unit_ns: f64) -> Self {
        times_ns.sort_unstable();
        let at = |share: f64| {
            let rank = (share * times_ns.len() as f64) as usize;
            times_ns[rank.min(times_ns.len() - 1)] as f64 / unit_ns
        };
        Self { p50: at(0.5), p99: at(0.99), p99_9: at(0.999) }
    }
}

#[cfg(test)]
mod tests {
    use super::Quantiles;

    #[test]
    fn quantiles_are_of_all() {
        let mut times: Vec<u64> = (0..1_000).rev().map(|at| at * 1_000).collect();
        let found = Quantiles::of(&mut times, 1_000.0);
        assert_eq!((found.p50, found.p99, found.p99_9), (500.0, 990.0, 999.0));
        assert_eq!(Quantiles::of(&mut [7], 1.0).p99_9, 7.0);
    }
}
