//! What an engine counts.

use hdrhistogram::Histogram;

/// Counts of one engine.
pub(crate) struct Counts {
    /// From each pick to the return from the fiber.
    pub run_cycles: u64,
    pub runs: u64,
    /// Of `run_cycles`, what was not in handlers: estimated from samples.
    pub overhead_cycles: u64,
    pub preemptions: u64,
    pub late_ns: Histogram<u64>,
    pub gaps: u64,
    pub gap_cycles: u64,
    pub last_gap_tsc: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            run_cycles: 0,
            runs: 0,
            overhead_cycles: 0,
            preemptions: 0,
            late_ns: crate::stats::histogram(3),
            gaps: 0,
            gap_cycles: 0,
            last_gap_tsc: 0,
        }
    }
}

impl Counts {
    pub(crate) fn gap(&mut self, cycles: u64, end_tsc: u64) {
        self.gaps += 1;
        self.gap_cycles += cycles;
        self.last_gap_tsc = end_tsc;
    }
}
