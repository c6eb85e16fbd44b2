//! What configuration says about a policy, as plain data. Policies are built from it in `build`;
//! what it says about single classes is in `plan`.

mod build;
mod error;
mod plan;

pub use error::SpecError;
pub use plan::{ClassPlan, DarcOptions};

use crate::{
    CoreKind, Dispatch, Nanos, Own, Policy, PreemptKind, Size, Ties, UnknownPolicy, Victim,
    WorkerId, catalogue,
};

/// A policy: what the dispatcher does × what each worker does × how jobs are pre-empted.
///
/// Start from [`Spec::preset`] and change it with the `with_…` methods. An option that every policy
/// may be offered (quantum, k, pre-emption, plans for classes) is accepted by each and has no effect
/// where it has no meaning; one that only fits some (ties, core, work conservation, whom to steal
/// from, reserved workers) is an error elsewhere.
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
    /// Whom an idle worker steals from; [`Dispatch::Steal`] and [`Dispatch::Kthreads`] only.
    pub victim: Victim,
    /// How long a job may run while others wait; `None`: to completion.
    pub quantum: Option<Nanos>,
    /// k of JBSQ(k): how many jobs a worker may hold under a central policy, the running one
    /// included; [`Spec::UNBOUNDED`] under a two-level one.
    pub jbsq: u16,
    /// How jobs are pre-empted, unless the user says otherwise.
    pub preempt: PreemptKind,
    /// Jobs run for a quantum at a time, or until the policy asks for their place, where
    /// [`Dispatch::may_preempt`] leaves that open.
    pub preemptive: bool,
    /// The dispatcher runs jobs itself when every inbox is full (Concord §3.3).
    pub work_conserving: bool,
    /// A plan for each class, by [`ClassId`](crate::ClassId). A class beyond them is unknown to the
    /// type-aware policies, and comes after those that are known. Empty: nothing is said about any
    /// class; see [`Spec::class_count`].
    pub classes: Vec<ClassPlan>,
    /// How many workers serve nothing but the first class; [`Dispatch::DarcStatic`] only.
    pub reserved: Option<u16>,
    /// [`Dispatch::Darc`] only.
    pub darc: DarcOptions,
    /// [`Dispatch::Own`] only, see [`Spec::own`].
    pub own: Option<Own>,
}

impl Spec {
    /// For [`Spec::jbsq`]: a worker may hold any number of jobs.
    pub const UNBOUNDED: u16 = u16::MAX;

    /// More workers than this have no ids; the last id is the dispatcher's.
    pub const MAX_WORKERS: usize = WorkerId::DISPATCHER.0 as usize;

    /// More classes than this get no plans: type-aware policies look at each class for a decision.
    pub const MAX_CLASSES: usize = 256;

    /// The quantum of a policy that is made to share processors and was given none.
    const DEFAULT_QUANTUM: Nanos = Nanos::from_micros(2);

    /// As many classes are known where nothing is said about any.
    const DEFAULT_CLASSES: usize = 16;

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

    /// A policy of the program's own, which `make` makes for each dispatcher: a central one, whose jobs
    /// run to completion; [`Spec::with_preemptive`] and [`Spec::with_quantum`] make it share. What else
    /// the specification says (k, plans for classes) is for `make` to read.
    ///
    /// ```
    /// use curtail_policy::*;
    ///
    /// /// Last come, first served.
    /// struct Lifo {
    ///     waiting: Vec<Job>,
    ///     free: Vec<bool>,
    /// }
    ///
    /// impl Lifo {
    ///     /// Where the job may run now.
    ///     fn place(&self, job: &Job) -> Option<WorkerId> {
    ///         match job.pinned {
    ///             Some(on) => self.free[on.index()].then_some(on),
    ///             None => self.free.iter().position(|free| *free).map(|it| WorkerId(it as u16)),
    ///         }
    ///     }
    /// }
    ///
    /// impl Policy for Lifo {
    ///     fn arrive(&mut self, _: Nanos, job: Job) -> Result<(), Refused> {
    ///         self.waiting.push(job);
    ///         Ok(())
    ///     }
    ///     fn decide(&mut self, _: Nanos) -> Decision {
    ///         let newest = self.waiting.iter().enumerate().rev();
    ///         match newest.filter_map(|(at, job)| Some((at, self.place(job)?))).next() {
    ///             Some((at, on)) => {
    ///                 self.free[on.index()] = false;
    ///                 Decision::Run { job: self.waiting.remove(at), on, quantum: None }
    ///             }
    ///             None => Decision::Idle,
    ///         }
    ///     }
    ///     fn completed(&mut self, _: Nanos, on: WorkerId, _: JobId, _: Nanos) {
    ///         self.free[on.index()] = true;
    ///     }
    ///     // … and what becomes of jobs that yield, block and wake.
    /// #   fn yielded(&mut self, _: Nanos, on: WorkerId, job: Job) { self.waiting.push(job); self.free[on.index()] = true; }
    /// #   fn blocked(&mut self, _: Nanos, on: WorkerId, _: JobId) { self.free[on.index()] = true; }
    /// #   fn woken(&mut self, _: Nanos, _: WorkerId, job: Job) { self.waiting.push(job); }
    /// #   fn resumed(&mut self, _: Nanos, on: WorkerId, _: JobId) { self.free[on.index()] = false; }
    /// #   fn wants_place(&self, _: Nanos, _: WorkerId) -> bool { false }
    /// #   fn waiting(&self) -> usize { self.waiting.len() }
    /// #   fn evict(&mut self) -> Option<Job> { (!self.waiting.is_empty()).then(|| self.waiting.remove(0)) }
    /// #   fn adopt(&mut self, _: Nanos, on: WorkerId, _: Job) { self.free[on.index()] = false; }
    /// }
    ///
    /// let spec = Spec::own("lifo", |_, size| {
    ///     let waiting = Vec::with_capacity(size.jobs);
    ///     Box::new(Lifo { waiting, free: vec![true; size.workers] })
    /// });
    /// let mut policy = spec.build(1, 16, 0);
    /// for id in 0..3 {
    ///     policy.arrive(Nanos(u64::from(id)), Job::new(JobId(id), ClassId(0), Nanos::ZERO)).unwrap();
    /// }
    /// let Decision::Run { job, .. } = policy.decide(Nanos(5)) else { panic!("a worker is free") };
    /// assert_eq!(job.id, JobId(2));
    /// ```
    #[must_use]
    pub fn own(
        name: &str,
        make: impl Fn(&Self, Size) -> Box<dyn Policy + Send> + Send + Sync + 'static,
    ) -> Self {
        let fcfs = Self::preset("fcfs").expect("it is in the catalogue");
        let own = Some(Own::new(make));
        Self { name: name.to_owned(), dispatch: Dispatch::Own, own, ..fcfs }
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
            Dispatch::Random | Dispatch::RoundRobin | Dispatch::Jsq | Dispatch::Kthreads => {
                self.core != CoreKind::Fcfs
            }
            central => central.may_preempt().unwrap_or(self.preemptive),
        }
    }

    /// Requests come to the workers themselves, see [`Dispatch::Kthreads`].
    #[must_use]
    pub fn is_dispatcherless(&self) -> bool {
        self.dispatch.is_dispatcherless()
    }

    /// A job may be asked for its place before its quantum is over
    /// ([`Decision::Preempt`](crate::Decision::Preempt)). Otherwise pre-emption only ends quanta.
    #[must_use]
    pub fn asks_midway(&self) -> bool {
        match self.dispatch {
            Dispatch::FixedPriority | Dispatch::Srpt | Dispatch::Edf | Dispatch::Auto => {
                self.shares() && self.jbsq == 1
            }
            Dispatch::Own => true,
            _ => false,
        }
    }

    /// A dispatcher ends quanta; otherwise the worker does.
    fn is_watched(&self) -> bool {
        matches!(self.preempt, PreemptKind::Flag | PreemptKind::Signal)
    }

    /// How many classes type-aware policies know: those with plans, and 16 where there are none.
    #[must_use]
    pub fn class_count(&self) -> usize {
        if self.classes.is_empty() { Self::DEFAULT_CLASSES } else { self.classes.len() }
    }

    /// The plan for class `class`; the default one where there is none.
    #[must_use]
    pub fn plan(&self, class: usize) -> ClassPlan {
        self.classes.get(class).cloned().unwrap_or_default()
    }

    /// The plan for class `class`, made if there is none.
    pub fn plan_mut(&mut self, class: usize) -> &mut ClassPlan {
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, ClassPlan::default);
        }
        &mut self.classes[class]
    }

    /// With these plans, by class.
    ///
    /// # Errors
    /// A plan that makes no sense, or too many.
    pub fn with_classes(mut self, classes: Vec<ClassPlan>) -> Result<Self, SpecError> {
        self.classes = classes;
        self.validate_plans()?;
        Ok(self)
    }

    /// Knows classes of these names and mean service times: fills in what its plans leave open, and
    /// adds plans where there are fewer. Classes beyond [`Spec::MAX_CLASSES`] stay unknown.
    #[must_use]
    pub fn knowing(mut self, classes: impl IntoIterator<Item = (String, Option<Nanos>)>) -> Self {
        for (class, (name, service)) in classes.into_iter().take(Self::MAX_CLASSES).enumerate() {
            let plan = self.plan_mut(class);
            plan.name.get_or_insert(name);
            plan.service = plan.service.or(service);
        }
        self
    }

    /// With that quantum, where jobs do not run to completion. Without a dispatcher they run to
    /// completion unless quanta are asked for, as they are by this.
    ///
    /// # Errors
    /// Where it is zero.
    pub fn with_quantum(mut self, quantum: Nanos) -> Result<Self, SpecError> {
        if quantum == Nanos::ZERO {
            return Err(SpecError::ZeroQuantum);
        }
        if self.is_dispatcherless() {
            self = self.with_core(CoreKind::Ps)?;
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

    /// With jobs that may be made to yield, and a quantum and pre-emption to match if it had none,
    /// or with jobs that run to completion.
    ///
    /// # Errors
    /// Where the policy is defined by the one or the other.
    pub fn with_preemptive(mut self, yes: bool) -> Result<Self, SpecError> {
        match self.dispatch.may_preempt() {
            None => self.preemptive = yes,
            Some(always) if always == yes => return Ok(self),
            Some(true) => return Err(self.not_for("preemptive", "it is by definition")),
            Some(false) => return Err(self.not_for("preemptive", "its jobs run to completion")),
        }
        if !yes {
            (self.quantum, self.preempt) = (None, PreemptKind::Never);
        } else if self.quantum.is_none() {
            (self.quantum, self.preempt) = (Some(Self::DEFAULT_QUANTUM), PreemptKind::Flag);
        }
        Ok(self)
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

    /// With that choice of whom to steal from.
    ///
    /// # Errors
    /// Where workers do not steal.
    pub fn with_victim(mut self, victim: Victim) -> Result<Self, SpecError> {
        if !matches!(self.dispatch, Dispatch::Steal | Dispatch::Kthreads) {
            return Err(self.not_for("victim", "nobody steals"));
        }
        self.victim = victim;
        Ok(self)
    }

    /// With so many workers that serve nothing but the first class.
    ///
    /// # Errors
    /// Where none are reserved by number.
    pub fn with_reserved(mut self, workers: u16) -> Result<Self, SpecError> {
        if self.dispatch != Dispatch::DarcStatic {
            return Err(self.not_for("reserved", "it reserves no given number of workers"));
        }
        self.reserved = Some(workers);
        Ok(self)
    }

    /// With that policy on each worker, and a quantum and pre-emption to match if it had none, or
    /// none if it runs to completion.
    ///
    /// # Errors
    /// Under a central policy, and for what is no queue where workers steal from each other.
    pub fn with_core(mut self, core: CoreKind) -> Result<Self, SpecError> {
        if self.dispatch.is_central() {
            return Err(self.not_for("core", "its workers keep the dispatcher's order"));
        }
        self.may_have_core(core)?;
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
    /// Under a two-level policy, whose inboxes are never full, and where there are several queues.
    pub fn with_work_conserving(mut self, yes: bool) -> Result<Self, SpecError> {
        if yes {
            self.may_conserve_work()?;
        }
        self.work_conserving = yes;
        Ok(self)
    }

    fn may_have_core(&self, core: CoreKind) -> Result<(), SpecError> {
        if self.dispatch.is_central() && core != CoreKind::Fcfs {
            return Err(self.not_for("core", "its workers keep the dispatcher's order"));
        }
        if self.is_dispatcherless() && core == CoreKind::Las {
            return Err(self.not_for("core las", "thieves take the oldest from a queue"));
        }
        Ok(())
    }

    fn may_conserve_work(&self) -> Result<(), SpecError> {
        match self.dispatch {
            Dispatch::CentralFcfs | Dispatch::CentralPs => Ok(()),
            central if central.is_central() => {
                Err(self.not_for("work conservation", "it has more than the one queue"))
            }
            _ => Err(self.not_for("work conservation", "its inboxes are never full")),
        }
    }

    fn not_for(&self, option: &'static str, why: &'static str) -> SpecError {
        SpecError::NotFor { option, policy: self.name.clone(), why }
    }
}
