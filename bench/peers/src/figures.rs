//! Medians, percentiles and tables.

use serde::{Deserialize, Serialize};

/// The middle value, or the mean of the two; `None` of none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

/// The least value.
#[must_use]
pub fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

/// The greatest value.
#[must_use]
pub fn greatest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// Of `sorted`, the value that `share` of all do not exceed (nearest rank).
///
/// # Panics
/// Where there is none.
#[must_use]
pub fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// A distribution of durations, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of all took no longer.
    pub p50_us: f64,
    /// 90% took no longer.
    pub p90_us: f64,
    /// 99% took no longer.
    pub p99_us: f64,
    /// 99.9% took no longer.
    pub p99_9_us: f64,
    /// The longest.
    pub max_us: f64,
    /// How many there are.
    pub samples: usize,
}

impl Spread {
    /// Of nanoseconds, in any order; `None` of none.
    #[must_use]
    pub fn of(mut ns: Vec<u64>) -> Option<Self> {
        ns.sort_unstable();
        let us = |share| percentile(&ns, share) as f64 / 1e3;
        (!ns.is_empty()).then(|| Self {
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p99_9_us: us(0.999),
            max_us: us(1.0),
            samples: ns.len(),
        })
    }
}

/// A number with three digits that count; `–` for none.
#[must_use]
pub fn show(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), curtail_report::ratio)
}

/// Rows of cells below a head, the first column flush left, the others right.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    curtail_report::figures(rows).lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!((least(&[2.0, 1.0]), greatest(&[2.0, 1.0])), (Some(1.0), Some(2.0)));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&sorted, 0.5), 50);
        assert_eq!(percentile(&sorted, 0.99), 99);
        assert_eq!(percentile(&sorted, 1.0), 100);
        assert_eq!(percentile(&[7], 0.0), 7);
        let spread = Spread::of((1..=1_000).rev().map(|at| at * 1_000).collect()).unwrap();
        assert_eq!((spread.p50_us, spread.p99_9_us, spread.max_us), (500.0, 999.0, 1_000.0));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn numbers_as_people_read_them() {
        let shown = [0.126, 12.34, 123.4, 12_345.6, 1_234_567.0].map(|value| show(Some(value)));
        assert_eq!(shown, ["0.13", "12.3", "123", "12,346", "1,234,567"]);
        assert_eq!(show(None), "–");
    }
}
