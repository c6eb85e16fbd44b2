//! A job in the machine's books, and what can happen to it.

use curtail_policy::*;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Its slot is free.
    Out,
    /// In the policy.
    Waiting,
    /// With a worker, in its core policy.
    Ready(WorkerId),
    Running(WorkerId),
    Blocked(WorkerId),
}

/// How a job stops running.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Complete,
    QuantumEnd,
    Block,
    /// The worker hands it to the dispatcher, whatever the policy (as after a live switch).
    GiveBack,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Arrive,
    Stop(usize, How),
    StopDispatcher(How),
    Wake(usize),
    Quantum(Option<u64>),
    Switch(usize),
}

/// A job as the machine knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) job: Job,
    pub(crate) at: At,
    pub(crate) started: bool,
    /// Whole quanta it has had.
    pub(crate) quanta: u64,
    /// The service it had had when the policy was last told, which is when it was queued or adopted.
    pub(crate) told: Nanos,
    /// Its rank, as it was queued last, and its place in the order of arrival.
    pub(crate) rank: u64,
    pub(crate) ticket: u64,
}
