//! What configuration says about the classes, and about DARC, as plain data.

use super::SpecError;
use crate::Nanos;

/// What a type-aware policy is to do with one class. [`ClassPlan::default`] says nothing: the
/// class is like every other, and what a policy must know of it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// For people.
    pub name: Option<String>,
    /// Its share of the service (`wrr`, `drr`) or of the workers (`static-partition`, `cscq`),
    /// relative to the other classes'. At least 1.
    pub weight: u32,
    /// `fp`: the lower the sooner. `None`: its number.
    pub priority: Option<u16>,
    /// The sojourn time aimed at: the relative deadline of `edf`, the objective of `shinjuku-mq`.
    /// `None`: [`ClassPlan::DEADLINE_FACTOR`] mean service times, as measured.
    pub deadline: Option<Nanos>,
    /// Its mean service time, where it is known. A job's own hint counts for more, what is measured
    /// for less.
    pub service: Option<Nanos>,
    /// How often it comes, relative to the other classes that say so. Where `service` is known too,
    /// DARC has its first reservations from the start; what it measures corrects both.
    pub occurrence: Option<u32>,
    /// How many of its jobs may wait, whether they have started or not; another one is not let in (flow
    /// control for each type, Perséphone §4.3.3). Under a two-level policy, whose jobs wait on workers:
    /// how many there may be in all. The driver of the policy sees to it. `None`: as many as there
    /// is room for.
    pub bound: Option<u32>,
}

impl Default for ClassPlan {
    fn default() -> Self {
        Self {
            name: None,
            weight: 1,
            priority: None,
            deadline: None,
            service: None,
            occurrence: None,
            bound: None,
        }
    }
}

impl ClassPlan {
    /// A class without a deadline is due after so many mean service times.
    pub const DEADLINE_FACTOR: u32 = 10;

    /// A class of that name; everything else is measured or alike.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    pub(super) fn validate(&self, class: usize) -> Result<(), SpecError> {
        let why = match self {
            Self { weight: 0, .. } => "a weight must be at least 1",
            Self { deadline: Some(Nanos::ZERO), .. } => "a deadline must be longer than 0",
            Self { bound: Some(0), .. } => "a queue for no job serves none",
            _ => return Ok(()),
        };
        Err(SpecError::Plan { class, why })
    }
}

/// The options of DARC (Perséphone §3 and §4.3). The defaults are those of the paper's experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DarcOptions {
    /// δ in percent: classes whose mean service times are within that factor share a group.
    pub delta_percent: u32,
    /// A profiling window has at least so many completions.
    pub window: u32,
    /// A class that queued for so many of its mean service times asks for new reservations.
    pub slowdown: u32,
    /// Reservations are made anew if the CPU demand of a class differs from what it was by so many
    /// percent of it.
    pub deviation_percent: u32,
    /// Workers that serve what has none of its own, and unknown classes.
    pub spillway: u16,
}

impl Default for DarcOptions {
    fn default() -> Self {
        Self {
            delta_percent: 200,
            window: 50_000,
            slowdown: 10,
            deviation_percent: 10,
            spillway: 1,
        }
    }
}

impl DarcOptions {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        let why = match self {
            Self { delta_percent: ..100, .. } => "delta is a factor of at least 1 (100 %)",
            Self { window: 0, .. } => "a profiling window of no completions says nothing",
            Self { slowdown: 0, .. } => "the slowdown aimed at must be at least 1",
            Self { spillway: 0, .. } => "unknown classes need a spillway worker",
            _ => return Ok(()),
        };
        Err(SpecError::Darc(why))
    }
}
