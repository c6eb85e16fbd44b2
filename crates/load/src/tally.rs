//! What became of the requests of one stretch of time.

use crate::{Slowdowns, fill};
use curtail_report::Run;
use curtail_workload::Recorder;
use std::ops::Range;

/// What became of the requests that were due in one stretch of time.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Sojourn times and slowdowns of those that were served.
    pub recorder: Recorder,
    /// How many were to arrive.
    pub offered: u64,
    /// Refused for want of room, by class.
    pub refused: Vec<u64>,
    /// Never sent, or never answered, by class.
    pub lost: Vec<u64>,
    /// Failed where they were served.
    pub failed: u64,
    /// When the last of those that were served ended, in nanoseconds since the start.
    pub last_ns: u64,
}

impl Tally {
    /// Of no request yet.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        let none = || vec![0; classes];
        let recorder = Recorder::new(classes);
        Self { recorder, offered: 0, refused: none(), lost: none(), failed: 0, last_ns: 0 }
    }

    /// How many were never sent, or never answered.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Puts it into `run`. What was refused and what was lost are one thing there, and a system that
    /// was overloaded went on for a while after the `window`.
    pub fn fill(&self, run: &mut Run, names: &[String], window: &Range<u64>, known: Slowdowns) {
        let gone: Vec<u64> = self.refused.iter().zip(&self.lost).map(|(a, b)| a + b).collect();
        fill(run, &self.recorder, names, &gone, known);
        let window_ns = window.end - window.start;
        let took_ns = window_ns.max(self.last_ns.saturating_sub(window.start));
        run.offered = self.offered;
        run.duration_s = window_ns as f64 / 1e9;
        run.achieved_rps = run.completed as f64 * 1e9 / took_ns as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_system_is_measured_to_its_end() {
        let mut tally = Tally::new(1);
        tally.recorder.record(0, 1_000, 500, false);
        (tally.offered, tally.refused[0], tally.lost[0], tally.last_ns) = (4, 1, 2, 3_000_000_000);
        let run = |window: Range<u64>| {
            let mut run = Run::default();
            tally.fill(&mut run, &["a".to_owned()], &window, Slowdowns::Known);
            (run.offered, run.completed, run.dropped, run.duration_s, run.achieved_rps)
        };
        assert_eq!(run(1_000_000_000..2_000_000_000), (4, 1, 3, 1.0, 0.5));
        assert_eq!(run(1_000_000_000..5_000_000_000), (4, 1, 3, 4.0, 0.25));
    }
}
