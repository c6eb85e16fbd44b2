//! What the members of the family differ in.

use crate::classes::Classes;
use crate::{Job, Nanos, Spec};

/// What a policy of this family orders jobs by.
pub(crate) trait Rank {
    /// What keeps the order of running jobs is renewed when one goes on after the end of a quantum.
    const AGES: bool = false;

    /// All memory that it ever needs is allocated here.
    fn new(spec: &Spec, workers: usize) -> Self;

    /// The rank of a job that is queued: the lower, the sooner.
    fn rank(&self, classes: &Classes, job: &Job) -> u64;

    /// For a job of that rank that starts to run at `now`: what keeps its order among the running
    /// ones for as long as it runs. Its rank, unless that changes meanwhile.
    fn lasting(&self, rank: u64, _now: Nanos) -> u64 {
        rank
    }

    /// The rank at `now` of a running job, as it was placed, that has had `attained` in all.
    fn standing(&self, _job: &Job, lasting: u64, _attained: Nanos, _now: Nanos) -> u64 {
        lasting
    }

    /// Another number: what waits is to be ranked anew.
    fn epoch(&self) -> u64 {
        0
    }

    /// How long the job may run, the policy's quantum being `given`.
    fn quantum(&self, _job: &Job, given: Option<Nanos>) -> Option<Nanos> {
        given
    }

    /// The policy's quantum is set.
    fn set_quantum(&mut self, _quantum: Option<Nanos>) {}

    /// Whether a job that has run for so long since it was placed may be asked for its place.
    fn may_ask(&self, _ran: Nanos) -> bool {
        true
    }

    /// Whether the job, as it is queued, must leave reserved places to others.
    fn is_modest(&self, _job: &Job) -> bool {
        false
    }

    /// How many workers are reserved for the others.
    fn reserved(&self) -> usize {
        0
    }

    /// The job is new.
    fn arrived(&mut self, _job: &Job) {}

    /// A job that had a worker for itself has left it.
    fn left(&mut self, _visit: &Visit) {}

    /// The job, as it was placed last, has completed after so much service.
    fn completed(&mut self, _now: Nanos, _job: &Job, _attained: Nanos) {}
}

/// A job's stay on a worker that held nothing else.
pub(crate) struct Visit {
    /// From the decision until the dispatcher heard of its end.
    pub(crate) took: Nanos,
    /// Service in that time.
    pub(crate) served: Nanos,
    /// It did not complete.
    pub(crate) preempted: bool,
}

/// What is expected of a job in all: zero where its class is not known yet, without end where it
/// never will be.
pub(super) fn expected(classes: &Classes, job: &Job) -> Nanos {
    let class = classes.index(job.class);
    let nothing = if classes.is_known(class) { Nanos::ZERO } else { Nanos::MAX };
    let by_class = || classes.service(class).filter(|_| classes.is_known(class));
    job.hint.or_else(by_class).unwrap_or(nothing)
}
