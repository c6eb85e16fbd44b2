//! Options that change a policy from what its name says.

use crate::{CoreKind, DarcOptions, Nanos, Spec, SpecError, Ties, UnknownPolicy, Victim};
use std::fmt;

/// What is said about a policy beside its name; what is left out is as the policy has it.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// How long a request may run while others wait.
    pub quantum_ns: Option<u64>,
    /// Requests that a worker may hold under a central policy, the running one included.
    pub jbsq: Option<u16>,
    /// Which of equally short queues.
    pub ties: Option<Ties>,
    /// What each worker does.
    pub core: Option<CoreKind>,
    /// Whom idle workers steal from.
    pub victim: Option<Victim>,
    /// The dispatcher runs requests itself when every worker is full.
    pub work_conserving: Option<bool>,
    /// Requests are made to yield.
    pub preemptive: Option<bool>,
    /// Workers for the shortest class alone.
    pub reserved: Option<u16>,
    /// Classes whose mean service times are within this factor share workers (DARC), in per cent.
    pub delta_percent: Option<u32>,
    /// Completions that a profile is made from at least (DARC).
    pub profile_window: Option<u32>,
    /// For how many of its mean service times a class may queue before reservations are reconsidered
    /// (DARC).
    pub profile_slowdown: Option<u32>,
    /// By how much of it a class's demand must have changed for new reservations (DARC), in per cent.
    pub profile_deviation_percent: Option<u32>,
    /// Workers that serve what has none of its own (DARC).
    pub spillway: Option<u16>,
    /// Each class's share.
    pub weights: Vec<u32>,
    /// Each class's priority, the lowest number first.
    pub priorities: Vec<u16>,
    /// Each class's deadline.
    pub deadlines_ns: Vec<u64>,
    /// How many requests of each class may wait.
    pub queue_bounds: Vec<u32>,
}

impl Shape {
    /// The policy of that name, in this shape, on so many workers.
    ///
    /// # Errors
    /// There is no such policy, or something does not fit it.
    pub fn spec(&self, name: &str, workers: usize) -> Result<Spec, ShapeError> {
        let preset = Spec::preset(name).map_err(ShapeError::Unknown)?;
        let spec = self.given_to(preset).map_err(ShapeError::Misfit)?;
        spec.validate(workers).map_err(ShapeError::Misfit)?;
        Ok(spec)
    }

    /// A policy in this shape. Whether it fits the workers is for [`Spec::validate`] to say.
    ///
    /// # Errors
    /// Something does not fit the policy.
    pub fn given_to(&self, mut spec: Spec) -> Result<Spec, SpecError> {
        if let Some(core) = self.core {
            spec = spec.with_core(core)?;
        }
        if let Some(ties) = self.ties {
            spec = spec.with_ties(ties)?;
        }
        if let Some(victim) = self.victim {
            spec = spec.with_victim(victim)?;
        }
        if let Some(k) = self.jbsq {
            spec = spec.with_jbsq(k)?;
        }
        if let Some(yes) = self.work_conserving {
            spec = spec.with_work_conserving(yes)?;
        }
        if let Some(yes) = self.preemptive {
            spec = spec.with_preemptive(yes)?;
        }
        if let Some(workers) = self.reserved {
            spec = spec.with_reserved(workers)?;
        }
        if let Some(ns) = self.quantum_ns {
            spec = spec.with_quantum(Nanos(ns))?;
        }
        self.profile(&mut spec.darc);
        self.plan(&mut spec);
        Ok(spec)
    }

    /// What is said about DARC.
    fn profile(&self, darc: &mut DarcOptions) {
        let Self { delta_percent, profile_window, spillway, .. } = self;
        darc.delta_percent = delta_percent.unwrap_or(darc.delta_percent);
        darc.window = profile_window.unwrap_or(darc.window);
        darc.slowdown = self.profile_slowdown.unwrap_or(darc.slowdown);
        darc.deviation_percent = self.profile_deviation_percent.unwrap_or(darc.deviation_percent);
        darc.spillway = spillway.unwrap_or(darc.spillway);
    }

    /// What is said about single classes.
    fn plan(&self, spec: &mut Spec) {
        fn each<T: Copy>(list: &[T], mut set: impl FnMut(usize, T)) {
            list.iter().enumerate().for_each(|(class, item)| set(class, *item));
        }
        each(&self.weights, |class, weight| spec.plan_mut(class).weight = weight);
        each(&self.priorities, |class, rank| spec.plan_mut(class).priority = Some(rank));
        each(&self.deadlines_ns, |class, ns| spec.plan_mut(class).deadline = Some(Nanos(ns)));
        each(&self.queue_bounds, |class, jobs| spec.plan_mut(class).bound = Some(jobs));
    }
}

/// Why there is no policy of that shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// There is no policy of that name.
    Unknown(UnknownPolicy),
    /// Something does not fit the policy, or the workers.
    Misfit(SpecError),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error) => error.fmt(f),
            Self::Misfit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ShapeError {}
