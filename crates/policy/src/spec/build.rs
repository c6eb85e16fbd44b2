//! Policies made from a [`Spec`], and the checks before that.

use super::{Spec, SpecError};
use crate::central::{Central, Options};
use crate::per_worker::{Choice, PerWorker};
use crate::{
    AnyCore, AnyPolicy, CoreKind, Darc, Dispatch, Fifo, Las, Nanos, Ranked, Size, Steal, Typed,
};

impl Spec {
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
        self.may_have_core(self.core)?;
        if self.is_dispatcherless() && self.is_watched() {
            return Err(SpecError::Unwatched { policy: self.name.clone(), preempt: self.preempt });
        }
        if self.work_conserving {
            self.may_conserve_work()?;
        }
        if (self.dispatch == Dispatch::Own) != self.own.is_some() {
            return Err(SpecError::Own(self.name.clone()));
        }
        self.validate_plans()?;
        self.validate_reservations(workers)
    }

    pub(super) fn validate_plans(&self) -> Result<(), SpecError> {
        if self.classes.len() > Self::MAX_CLASSES {
            return Err(SpecError::Classes(self.classes.len()));
        }
        self.classes.iter().enumerate().try_for_each(|(class, plan)| plan.validate(class))
    }

    fn validate_reservations(&self, workers: usize) -> Result<(), SpecError> {
        match (self.dispatch, self.reserved) {
            (Dispatch::DarcStatic, Some(reserved)) if usize::from(reserved) >= workers => {
                Err(SpecError::Reserved { reserved, workers })
            }
            (Dispatch::Darc | Dispatch::DarcStatic, _) => self.darc.validate(),
            _ => Ok(()),
        }
    }

    /// The dispatcher's part, for `workers` workers and job ids below `jobs`. What is random in it
    /// follows from `seed`. All memory that it ever needs is allocated here.
    ///
    /// # Panics
    /// Where [`Spec::validate`] has an objection, with 2³² − 1 jobs or more, or where there is no
    /// dispatcher ([`Spec::is_dispatcherless`]).
    #[must_use]
    pub fn build(&self, workers: usize, jobs: usize, seed: u64) -> AnyPolicy {
        if let Err(error) = self.validate(workers) {
            panic!("policy `{}`: {error}", self.name);
        }
        match self.dispatch {
            Dispatch::CentralFcfs | Dispatch::CentralPs => {
                AnyPolicy::Central(Central::new(self.central(), workers, jobs))
            }
            Dispatch::Random => self.per_worker(Choice::Random, workers, jobs, seed),
            Dispatch::RoundRobin => self.per_worker(Choice::RoundRobin, workers, jobs, seed),
            Dispatch::Jsq => self.per_worker(Choice::Shortest(self.ties), workers, jobs, seed),
            Dispatch::Steal => AnyPolicy::Steal(Steal::new(self, workers, jobs, seed)),
            Dispatch::Kthreads => panic!("policy `{}` has no dispatcher to build for", self.name),
            Dispatch::FixedPriority => AnyPolicy::FixedPriority(Ranked::new(self, workers, jobs)),
            Dispatch::Sjf => AnyPolicy::Sjf(Ranked::new(self, workers, jobs)),
            Dispatch::Srpt => AnyPolicy::Srpt(Ranked::new(self, workers, jobs)),
            Dispatch::Edf => AnyPolicy::Edf(Ranked::new(self, workers, jobs)),
            Dispatch::Wrr => AnyPolicy::Wrr(Typed::new(self, workers, jobs)),
            Dispatch::Drr => AnyPolicy::Drr(Typed::new(self, workers, jobs)),
            Dispatch::MultiQueue => AnyPolicy::MultiQueue(Typed::new(self, workers, jobs)),
            Dispatch::StaticPartition => {
                AnyPolicy::StaticPartition(Typed::new(self, workers, jobs))
            }
            Dispatch::Cscq => AnyPolicy::Cscq(Typed::new(self, workers, jobs)),
            Dispatch::Darc | Dispatch::DarcStatic => {
                AnyPolicy::Darc(Darc::new(self, workers, jobs))
            }
            Dispatch::Own => {
                let own = self.own.as_ref().expect("validated above");
                AnyPolicy::Own(own.make(self, Size { workers, jobs, seed }))
            }
            Dispatch::Auto => AnyPolicy::Auto(Ranked::new(self, workers, jobs)),
        }
    }

    fn per_worker(&self, choice: Choice, workers: usize, jobs: usize, seed: u64) -> AnyPolicy {
        let size = (workers, jobs, seed);
        AnyPolicy::PerWorker(PerWorker::new(choice, self.shares(), self.quantum, size))
    }

    fn central(&self) -> Options {
        Options {
            k: self.jbsq,
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
