//! What a scheduler is made from, and what follows from its policy's specification.

use curtail_policy::{Dispatch, Spec};

/// What a [`Scheduler`](crate::Scheduler) is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The policy.
    pub spec: Spec,
    /// For so many workers.
    pub workers: usize,
    /// For so many jobs at once.
    pub jobs: usize,
    /// Of what is random in the policy.
    pub seed: u64,
    /// A job that has started stays on its worker. (One that started on the dispatcher always does.)
    pub pins: bool,
    /// Each class has slots for itself, see [`Shares`](crate::Shares). Otherwise the class
    /// that comes first may have them all.
    pub keeps_room: bool,
}

/// What the scheduler must know of its policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Workers schedule by themselves what was sent to them.
    pub(crate) two_level: bool,
    /// The policy wants to know of the quanta that workers have completed.
    pub(crate) counts_quanta: bool,
    /// Whether a job that waits wants a certain place is a question to the policy. Otherwise it wants
    /// any.
    pub(crate) has_wishes: bool,
    pub(crate) pins: bool,
}

impl Rules {
    pub(crate) fn of(setup: &Setup) -> Self {
        let spec = &setup.spec;
        let two_level = spec.is_two_level();
        Self {
            two_level,
            counts_quanta: two_level && setup.workers > 1,
            has_wishes: spec.shares() && spec.dispatch != Dispatch::CentralPs,
            pins: setup.pins,
        }
    }
}
