//! What an open loop offers, and when.

use std::time::Duration;

/// What an open loop offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Messages a second.
    pub rate_rps: f64,
    /// For how long.
    pub span: Duration,
    /// How long the last message may take; what is not back then is lost.
    pub patience: Duration,
    /// Of the random numbers.
    pub seed: u64,
}

/// What an open loop found.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// When each message was due, in nanoseconds from the beginning.
    pub due_ns: Vec<u64>,
    /// From due to back, in nanoseconds; `None` of what was lost.
    pub sojourn_ns: Vec<Option<u64>>,
    /// Spans of time in which a neighbour had a core, and as much again twice, in which what had
    /// queued up may have drained.
    pub gaps_ns: Vec<(u64, u64)>,
    /// Messages that went out more than 100 µs after they were due: the client's own share.
    pub sent_late: usize,
}

/// How many messages were due outside of gaps, and how many of these were back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTime {
    /// Messages due outside of gaps.
    pub undisturbed: usize,
    /// Of these, the ones that came back within the limit.
    pub in_time: usize,
}

impl Offered {
    /// All sojourn times of messages that came back.
    pub fn sojourns(&self) -> impl Iterator<Item = u64> {
        self.sojourn_ns.iter().copied().flatten()
    }

    /// What was back within `limit` of what no gap touched.
    #[must_use]
    pub fn in_time(&self, limit: Duration) -> InTime {
        let limit = limit.as_nanos() as u64;
        let touched =
            |due: u64| self.gaps_ns.iter().any(|(start, end)| due + limit >= *start && due <= *end);
        let mut found = InTime { undisturbed: 0, in_time: 0 };
        for (due, sojourn) in self.due_ns.iter().zip(&self.sojourn_ns) {
            if !touched(*due) {
                found.undisturbed += 1;
                found.in_time += usize::from(sojourn.is_some_and(|ns| ns <= limit));
            }
        }
        found
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

    #[test]
    fn what_a_gap_touched_does_not_count() {
        let ms = 1_000_000;
        let offered = Offered {
            due_ns: vec![0, 10 * ms, 19 * ms, 25 * ms, 31 * ms, 40 * ms],
            sojourn_ns: vec![Some(1), Some(2 * ms), None, None, Some(1), None],
            gaps_ns: vec![(20 * ms, 30 * ms)],
            sent_late: 0,
        };
        let found = offered.in_time(Duration::from_millis(1));
        assert_eq!(found, InTime { undisturbed: 4, in_time: 2 });
        assert_eq!(offered.sojourns().count(), 3);
    }
}
