//! What an open loop offers, and when.

use crate::Size;
use std::time::Duration;

/// What an open loop offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Messages a second.
    pub rate_rps: f64,
    /// For how long.
    pub span: Duration,
    /// When a message that is not back is late.
    pub limit: Duration,
    /// The share of messages that may be late.
    pub allowed: f64,
    /// Of the random numbers.
    pub seed: u64,
}

impl Load {
    /// At most 1% of the messages may take longer than a millisecond.
    #[must_use]
    pub fn at(rate_rps: f64, size: Size, seed: u64) -> Self {
        let span = size.pick(Duration::from_millis(20), Duration::from_millis(60));
        Self { rate_rps, span, limit: Duration::from_millis(1), allowed: 0.01, seed }
    }
}

/// The instants of a Poisson process, in nanoseconds.
pub(crate) fn arrivals(rate_rps: f64, span: Duration, seed: u64) -> Vec<u64> {
    let (mut state, mut at) = (seed, 0.0);
    let end = span.as_nanos() as f64;
    let mut due = Vec::with_capacity((rate_rps * span.as_secs_f64() * 1.2) as usize + 16);
    loop {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        at -= (1.0 - uniform).ln() * 1e9 / rate_rps;
        if at > end {
            return due;
        }
        due.push(at as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_those_of_a_poisson_process() {
        let due = arrivals(100_000.0, Duration::from_secs(1), 7);
        assert!((98_500..101_500).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted());
        // Of exponential gaps, 1/e are longer than their mean.
        let long = due.windows(2).filter(|pair| pair[1] - pair[0] > 10_000).count();
        let share = long as f64 / due.len() as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 0.01, "{share}");
        assert_ne!(due, arrivals(100_000.0, Duration::from_secs(1), 8));
    }
}
