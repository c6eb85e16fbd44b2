//! Every policy behind one type, chosen by configuration and dispatched by enum, so that a hot loop
//! holds it by value and no generic parameter spreads through the runtime.

use crate::{
    Auto, Central, ClassId, CorePolicy, CycleStealing, Darc, Decision, DeficitRoundRobin,
    EarliestDeadline, Fifo, FixedPriority, Job, JobId, Las, MultiQueue, Nanos, PerWorker, Policy,
    Ranked, Refused, ShortestJob, ShortestRemaining, StaticPartition, Steal, Typed,
    WeightedRoundRobin, WorkerId,
};

/// Any policy at the dispatcher; made by [`Spec::build`](crate::Spec::build).
#[allow(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub enum AnyPolicy {
    /// One queue for all workers.
    Central(Central),
    /// Each job is sent to a worker once.
    PerWorker(PerWorker),
    /// A queue for each worker, and thieves.
    Steal(Steal),
    /// By the priority of the class.
    FixedPriority(Ranked<FixedPriority>),
    /// By the expected service time.
    Sjf(Ranked<ShortestJob>),
    /// By the expected remaining service time.
    Srpt(Ranked<ShortestRemaining>),
    /// By the deadline.
    Edf(Ranked<EarliestDeadline>),
    /// Classes in turn, by jobs.
    Wrr(Typed<WeightedRoundRobin>),
    /// Classes in turn, by service.
    Drr(Typed<DeficitRoundRobin>),
    /// By how long each class's oldest job has waited.
    MultiQueue(Typed<MultiQueue>),
    /// Each class its own workers.
    StaticPartition(Typed<StaticPartition>),
    /// Each class its share, and what longer ones leave.
    Cscq(Typed<CycleStealing>),
    /// Workers reserved for classes.
    Darc(Darc),
    /// By deadlines that follow from what is measured.
    Auto(Ranked<Auto>),
    /// A program's own; made by [`Spec::own`](crate::Spec::own).
    Own(Box<dyn Policy + Send>),
}

/// Any policy on a worker; made by [`Spec::build_core`](crate::Spec::build_core).
pub enum AnyCore {
    /// In the order of readiness.
    Fifo(Fifo),
    /// Least attained service first.
    Las(Las),
}

macro_rules! forward {
    ($any:ident: $self:ident, $inner:ident => $call:expr; $($variant:ident),+) => {
        match $self { $($any::$variant($inner) => $call),+ }
    };
}

macro_rules! to_policy {
    ($self:ident, $inner:ident => $call:expr) => {
        forward!(AnyPolicy: $self, $inner => $call;
            Central, PerWorker, Steal, FixedPriority, Sjf, Srpt, Edf,
            Wrr, Drr, MultiQueue, StaticPartition, Cscq, Darc, Auto, Own)
    };
}

macro_rules! to_core {
    ($self:ident, $inner:ident => $call:expr) => {
        forward!(AnyCore: $self, $inner => $call; Fifo, Las)
    };
}

impl Policy for AnyPolicy {
    #[inline]
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        to_policy!(self, policy => policy.arrive(now, job))
    }

    fn refused(&mut self, now: Nanos, class: ClassId) {
        to_policy!(self, policy => policy.refused(now, class));
    }

    fn inherit(&mut self, now: Nanos, job: Job) {
        to_policy!(self, policy => policy.inherit(now, job));
    }

    #[inline]
    fn yielded(&mut self, now: Nanos, on: WorkerId, job: Job) {
        to_policy!(self, policy => policy.yielded(now, on, job));
    }

    #[inline]
    fn completed(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        to_policy!(self, policy => policy.completed(now, on, id, attained));
    }

    fn dropped(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        to_policy!(self, policy => policy.dropped(now, on, id, attained));
    }

    fn blocked(&mut self, now: Nanos, on: WorkerId, id: JobId) {
        to_policy!(self, policy => policy.blocked(now, on, id));
    }

    fn woken(&mut self, now: Nanos, on: WorkerId, job: Job) {
        to_policy!(self, policy => policy.woken(now, on, job));
    }

    fn resumed(&mut self, now: Nanos, on: WorkerId, id: JobId) {
        to_policy!(self, policy => policy.resumed(now, on, id));
    }

    fn serviced(&mut self, on: WorkerId, quanta: u64) {
        to_policy!(self, policy => policy.serviced(on, quanta));
    }

    #[inline]
    fn decide(&mut self, now: Nanos) -> Decision {
        to_policy!(self, policy => policy.decide(now))
    }

    #[inline]
    fn wants_place(&self, now: Nanos, on: WorkerId) -> bool {
        to_policy!(self, policy => policy.wants_place(now, on))
    }

    #[inline]
    fn renewed(&mut self, now: Nanos, on: WorkerId) {
        to_policy!(self, policy => policy.renewed(now, on));
    }

    fn worker_up(&mut self, now: Nanos, on: WorkerId) {
        to_policy!(self, policy => policy.worker_up(now, on));
    }

    fn worker_down(&mut self, now: Nanos, on: WorkerId) {
        to_policy!(self, policy => policy.worker_down(now, on));
    }

    #[inline]
    fn next_wakeup(&self) -> Option<Nanos> {
        to_policy!(self, policy => policy.next_wakeup())
    }

    #[inline]
    fn waiting(&self) -> usize {
        to_policy!(self, policy => policy.waiting())
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        to_policy!(self, policy => policy.set_quantum(quantum));
    }

    fn evict(&mut self) -> Option<Job> {
        to_policy!(self, policy => policy.evict())
    }

    fn adopt(&mut self, now: Nanos, on: WorkerId, job: Job) {
        to_policy!(self, policy => policy.adopt(now, on, job));
    }
}

impl AnyPolicy {
    /// What `auto` has chosen; `None` for all others.
    #[must_use]
    pub fn auto(&self) -> Option<&Auto> {
        match self {
            Self::Auto(auto) => Some(&auto.order),
            _ => None,
        }
    }

    /// What the policy has decided for itself, such as workers reserved for classes, in one line;
    /// `None` where it decides nothing of that kind. `name` knows the classes' names.
    #[must_use]
    pub fn explain(&self, name: impl Fn(ClassId) -> String) -> Option<String> {
        match self {
            Self::Darc(darc) => Some(darc.explain(name)),
            Self::Auto(auto) => Some(auto.order.explain(name)),
            _ => None,
        }
    }

    /// How often the policy has decided something else than before, of what [`AnyPolicy::explain`]
    /// tells; the figures in that line may be others without. `None` where it decides nothing.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        match self {
            Self::Darc(darc) => Some(darc.updates()),
            Self::Auto(auto) => Some(auto.order.revision()),
            _ => None,
        }
    }
}

impl CorePolicy for AnyCore {
    #[inline]
    fn quantum(&self) -> Option<Nanos> {
        to_core!(self, core => core.quantum())
    }

    #[inline(always)]
    fn ready(&mut self, now: Nanos, job: Job) {
        to_core!(self, core => core.ready(now, job));
    }

    #[inline]
    fn yielded(&mut self, now: Nanos, job: Job) {
        to_core!(self, core => core.yielded(now, job));
    }

    #[inline(always)]
    fn pick(&mut self, now: Nanos) -> Option<(Job, Option<Nanos>)> {
        to_core!(self, core => core.pick(now))
    }

    #[inline]
    fn len(&self) -> usize {
        to_core!(self, core => core.len())
    }

    #[inline]
    fn wants_place(&self, attained: Nanos) -> bool {
        to_core!(self, core => core.wants_place(attained))
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        to_core!(self, core => core.set_quantum(quantum));
    }
}
