//! What the simulator keeps of a job, in its slot in the scheduler.

use curtail_workload::Request;

/// A request that has arrived and that the dispatcher has not taken in yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) request: Request,
    /// It arrived after the warm-up.
    pub(crate) counted: bool,
}

/// A job in the system.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    /// What it still has to run, inflated by instrumentation, in nanoseconds.
    pub(crate) remaining: u64,
    /// What it has run.
    pub(crate) attained: u64,
    /// What it will have left when it blocks; 0: it will not.
    pub(crate) blocks_at: u64,
    /// Its un-inflated service time in nanoseconds.
    pub(crate) service: u64,
    /// How long the dispatcher lets it run at a time, in nanoseconds; 0: as its worker says.
    pub(crate) quantum: u64,
    /// Quanta it has completed.
    pub(crate) quanta: u32,
    /// It has been on a core.
    pub(crate) started: bool,
    /// It arrived after the warm-up.
    pub(crate) counted: bool,
}

impl Progress {
    /// How long it can run until it ends or blocks.
    #[inline]
    pub(crate) fn stretch(&self) -> u64 {
        self.remaining - self.blocks_at
    }

    /// So much of it has been done now.
    #[inline]
    pub(crate) fn ran(&mut self, ns: u64) {
        self.remaining -= ns;
        self.attained += ns;
    }
}
