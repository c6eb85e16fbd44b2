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
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            run_cycles: 0,
            runs: 0,
            overhead_cycles: 0,
            preemptions: 0,
            late_ns: crate::stats::histogram(3),
        }
    }
}
