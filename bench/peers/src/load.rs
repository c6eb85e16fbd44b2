//! What an open loop offers, and when.

use curtail_workload::{Arrivals, Request};
use std::time::Duration;

/// A message that goes out later than this was late, in nanoseconds.
pub const LATE_NS: u64 = 100_000;

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

impl Load {
    /// Messages that are due at the instants of a Poisson process.
    pub(crate) fn messages(&self) -> Vec<Request> {
        let mut schedule = Arrivals::Poisson.schedule(self.rate_rps, self.seed);
        let end_ns = self.span.as_nanos() as u64;
        let due = std::iter::repeat_with(|| schedule.next_ns()).take_while(|&ns| ns <= end_ns);
        due.map(|at_ns| Request { at_ns, ..Request::default() }).collect()
    }
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
    /// Messages that went out more than [`LATE_NS`] after they were due: the client's own share.
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

#[cfg(test)]
mod tests {
    use super::*;

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
