//! What configuration says about a policy, as plain data, and the policies built from it.

use crate::central::{Central, Options};
use crate::per_worker::{Choice, PerWorker};
use crate::{
    AnyCore, AnyPolicy, CoreKind, Dispatch, Fifo, Las, Nanos, PreemptKind, Ties, UnknownPolicy,
    WorkerId, catalogue,
};
use std::fmt;

/// A policy: what the dispatcher does × what each worker does × how jobs are pre-empted.
///
/// Start from [`Spec::preset`] and change it with the `with_…` methods. An option that every policy
/// may be offered (quantum, k, pre-emption) is accepted by each and has no effect where it has no
/// meaning; one that only fits some (ties, core, work conservation) is an error elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The preset's name.
    pub name: String,
    /// What the dispatcher does.
    pub dispatch: Dispatch,
    /// What a worker does; [`CoreKind::Fcfs`] under a central policy.
    pub core: CoreKind,
    /// Which of equally short queues; [`Dispatch::Jsq`] only.
    pub ties: Ties,
    /// How long a job may run while others wait; `None`: to completion.
    pub quantum: Option<Nanos>,
    /// k of JBSQ(k): how many jobs a worker may hold under a central policy, the running one
    /// included; [`Spec::UNBOUNDED`] under a two-level one.
    pub jbsq: u16,
    /// How jobs are pre-empted, unless the user says otherwise.
    pub preempt: PreemptKind,
    /// The dispatcher runs jobs itself when every inbox is full (Concord §3.3).
    pub work_conserving: bool,
}

/// A [`Spec`] that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No worker, or more than worker ids can name.
    Workers(usize),
    /// Inboxes for no job.
    NoInbox,
    /// A quantum of zero.
    ZeroQuantum,
    /// This policy shares processors and has no quantum.
    NeedsQuantum(String),
    /// The option means nothing to this policy.
    NotFor {
        /// The option.
        option: &'static str,
        /// The policy.
        policy: String,
        /// Why.
        why: &'static str,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(0) => f.write_str("there must be at least one worker"),
            Self::Workers(n) => write!(f, "{n} workers are more than the {} possible", Spec::MAX_WORKERS),
            Self::NoInbox => f.write_str(
                "jbsq must be at least 1: it counts the jobs a worker may hold, the running one included",
            ),
            Self::ZeroQuantum => f.write_str("a quantum must be longer than 0"),
            Self::NeedsQuantum(policy) => write!(f, "policy `{policy}` needs a quantum"),
            Self::NotFor { option, policy, why } => {
                write!(f, "{option} is not an option of policy `{policy}`: {why}")
            }
        }
    }
}

impl std::error::Error for SpecError {}

impl Spec {
    /// For [`Spec::jbsq`]: a worker may hold any number of jobs.
    pub const UNBOUNDED: u16 = u16::MAX;

    /// More workers than this have no ids; the last id is the dispatcher's.
    pub const MAX_WORKERS: usize = WorkerId::DISPATCHER.0 as usize;

    /// The quantum of a policy that is made to share processors and was given none.
    const DEFAULT_QUANTUM: Nanos = Nanos::from_micros(2);

    /// The policy of that name in the [`catalogue`].
    ///
    /// # Errors
    /// [`UnknownPolicy`], with the names that there are and the nearest one.
    pub fn preset(name: &str) -> Result<Self, UnknownPolicy> {
        match catalogue().iter().find(|entry| entry.is_called(name)) {
            Some(entry) => Ok(entry.spec()),
            None => Err(UnknownPolicy {
                what: "policy",
                given: name.to_owned(),
                known: catalogue().iter().map(|entry| entry.name).collect(),
            }),
        }
    }

    /// Jobs are sent to a worker once and scheduled there; otherwise the dispatcher gets them back.
    #[must_use]
    pub fn is_two_level(&self) -> bool {
        !self.dispatch.is_central()
    }

    /// Jobs run for a quantum at a time; otherwise to completion, whatever quantum is set.
    #[must_use]
    pub fn shares(&self) -> bool {
        match self.dispatch {
            Dispatch::CentralFcfs => false,
            Dispatch::CentralPs => true,
            Dispatch::Random | Dispatch::RoundRobin | Dispatch::Jsq => self.core != CoreKind::Fcfs,
        }
    }

    /// With that quantum, where jobs do not run to completion.
    ///
    /// # Errors
    /// Where it is zero.
    pub fn with_quantum(mut self, quantum: Nanos) -> Result<Self, SpecError> {
        if quantum == Nanos::ZERO {
            return Err(SpecError::ZeroQuantum);
        }
        if self.shares() {
            self.quantum = Some(quantum);
        }
        Ok(self)
    }

    /// With inboxes of `k` jobs, the running one included, where there is a central queue.
    ///
    /// # Errors
    /// Where `k` is zero.
    pub fn with_jbsq(mut self, k: u16) -> Result<Self, SpecError> {
        if k == 0 {
            return Err(SpecError::NoInbox);
        }
        if self.dispatch.is_central() {
            self.jbsq = k;
        }
        Ok(self)
    }

    /// With that kind of pre-emption. Any goes with any policy; a policy that shares processors
    /// does not without it.
    #[must_use]
    pub fn with_preempt(mut self, preempt: PreemptKind) -> Self {
        self.preempt = preempt;
        self
    }

    /// With that choice among equally short queues.
    ///
    /// # Errors
    /// Where the policy does not join the shortest queue.
    pub fn with_ties(mut self, ties: Ties) -> Result<Self, SpecError> {
        if self.dispatch != Dispatch::Jsq {
            return Err(self.not_for("ties", "it does not join the shortest queue"));
        }
        self.ties = ties;
        Ok(self)
    }

    /// With that policy on each worker, and a quantum and pre-emption to match if it had none, or
    /// none if it runs to completion.
    ///
    /// # Errors
    /// Under a central policy.
    pub fn with_core(mut self, core: CoreKind) -> Result<Self, SpecError> {
        if self.dispatch.is_central() {
            return Err(self.not_for("core", "its workers keep the dispatcher's order"));
        }
        self.core = core;
        if core == CoreKind::Fcfs {
            (self.quantum, self.preempt) = (None, PreemptKind::Never);
        } else if self.quantum.is_none() {
            (self.quantum, self.preempt) = (Some(Self::DEFAULT_QUANTUM), PreemptKind::Clock);
        }
        Ok(self)
    }

    /// With a dispatcher that runs jobs itself when every inbox is full, or without.
    ///
    /// # Errors
    /// Under a two-level policy, whose inboxes are never full.
    pub fn with_work_conserving(mut self, yes: bool) -> Result<Self, SpecError> {
        if yes && !self.dispatch.is_central() {
            return Err(self.not_for("work conservation", "its inboxes are never full"));
        }
        self.work_conserving = yes;
        Ok(self)
    }

    fn not_for(&self, option: &'static str, why: &'static str) -> SpecError {
        SpecError::NotFor { option, policy: self.name.clone(), why }
    }

    /// Whether it makes sense, with that many workers. A preset changed by the `with_…` methods
    /// does; the fields are public, though.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn validate(&self, workers: usize) -> Result<(), SpecError> {
        if workers == 0 || workers > Self::MAX_WORKERS {
            return Err(SpecError::Workers(workers));
        }
        if self.jbsq == 0 {
            return Err(SpecError::NoInbox);
        }
        if self.quantum == Some(Nanos::ZERO) {
            return Err(SpecError::ZeroQuantum);
        }
        if self.shares() && self.quantum.is_none() {
            return Err(SpecError::NeedsQuantum(self.name.clone()));
        }
        if self.dispatch.is_central() && self.core != CoreKind::Fcfs {
            return Err(self.not_for("core", "its workers keep the dispatcher's order"));
        }
        if self.work_conserving && !self.dispatch.is_central() {
            return Err(self.not_for("work conservation", "its inboxes are never full"));
        }
        Ok(())
    }

    /// The dispatcher's part, for `workers` workers and job ids below `jobs`. What is random in it
    /// follows from `seed`. All memory that it ever needs is allocated here.
    ///
    /// # Panics
    /// Where [`Spec::validate`] has an objection, or with 2³² − 1 jobs or more.
    #[must_use]
    pub fn build(&self, workers: usize, jobs: usize, seed: u64) -> AnyPolicy {
        if let Err(error) = self.validate(workers) {
            panic!("policy `{}`: {error}", self.name);
        }
        let choice = match self.dispatch {
            Dispatch::CentralFcfs | Dispatch::CentralPs => {
                return AnyPolicy::Central(Central::new(self.central(), workers, jobs));
            }
            Dispatch::Random => Choice::Random,
            Dispatch::RoundRobin => Choice::RoundRobin,
            Dispatch::Jsq => Choice::Shortest(self.ties),
        };
        let size = (workers, jobs, seed);
        AnyPolicy::PerWorker(PerWorker::new(choice, self.shares(), self.quantum, size))
    }

    fn central(&self) -> Options {
        Options {
            bound: self.jbsq,
            shares: self.shares(),
            quantum: self.quantum,
            work_conserving: self.work_conserving,
        }
    }

    /// One worker's part, with room for `jobs` ready ones.
    #[must_use]
    pub fn build_core(&self, jobs: usize) -> AnyCore {
        match self.core {
            CoreKind::Las => AnyCore::Las(Las::new(jobs, self.quantum)),
            CoreKind::Fcfs | CoreKind::Ps if self.shares() => {
                AnyCore::Fifo(Fifo::round_robin(jobs, self.quantum))
            }
            CoreKind::Fcfs | CoreKind::Ps => AnyCore::Fifo(Fifo::run_to_completion(jobs)),
        }
    }
}
