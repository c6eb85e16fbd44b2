//! Pure scheduling policies: no clock, no thread, no I/O, no `unsafe`, no allocation in steady
//! state. The dispatcher of the runtime and the simulator drive the same code.
//!
//! Two levels, as in Tiny Quanta §3.2:
//!
//! * a [`Policy`] sits at the dispatcher: it holds what waits centrally and says which job goes to
//!   which worker ([`Decision`]);
//! * a [`CorePolicy`] sits on each worker and picks among the jobs that were sent there.
//!
//! A central policy (c-FCFS, Shinjuku, Concord, all that look at classes) leaves the workers FCFS inboxes of at most *k* jobs
//! and gets pre-empted jobs back; a two-level one (d-FCFS, TQ) sends a job once and forgets it.
//!
//! The protocol, per job: `arrive`, then `decide` answers [`Decision::Run`]; then, as often as it
//! happens, `yielded` (the job waits centrally again) or `blocked` … `woken`; at last `completed`.
//! Time is an argument and never goes back. An event that does not fit (a job that arrives twice,
//! completes where it is not, wakes without having blocked) is a bug of the caller, which would lose
//! or double a job; the policies panic on it, in every build.
//!
//! Conventions, so that figures can be compared with ideal curves: a job that ends exactly with its
//! quantum has completed; a job whose quantum ends while no other job waits goes on for another
//! whole one ([`Policy::renewed`]); a pre-empted job goes to the tail.
//!
//! A live switch: build the new policy; tell it of every job that the workers hold, ready, running
//! or on its way (`adopt`), and of every blocked one (`adopt`, then `blocked`); move what waits
//! (`evict` … `inherit`, oldest first); tell it the workers' quanta (`serviced`). A worker's
//! [`CorePolicy`] moves by `pick` … `ready`.
#![forbid(unsafe_code)]

mod any;
mod auto;
mod balance;
mod batch;
mod catalogue;
mod central;
mod classes;
mod darc;
mod fifo;
mod ids;
mod las;
mod mix;
mod names;
mod own;
mod per_worker;
mod places;
mod ranked;
mod rng;
mod set;
mod shape;
mod spec;
mod steal;
mod table;
mod thief;
mod tournament;
mod typed;

pub use any::{AnyCore, AnyPolicy};
pub use auto::Auto;
pub use balance::{Balance, Balancer, HotFlows, Share};
pub use batch::{BatchLook, BatchTurn, Call};
pub use catalogue::{Entry, catalogue, dispatched};
pub use central::Central;
pub use darc::{Darc, Reservation};
pub use fifo::Fifo;
pub use ids::{ClassId, JobId, Nanos, WorkerId};
pub use las::Las;
pub use mix::{Kind, Mix};
pub use names::{CoreKind, Dispatch, PreemptKind, Ties, UnknownName, UnknownPolicy, Victim};
pub use own::{Own, Size};
pub use per_worker::PerWorker;
pub use ranked::Ranked;
pub use ranked::{
    edf::EarliestDeadline, fp::FixedPriority, sjf::ShortestJob, srpt::ShortestRemaining,
};
pub use shape::{Shape, ShapeError};
pub use spec::{ClassPlan, DarcOptions, Spec, SpecError};
pub use steal::Steal;
pub use thief::{Load, Loot, Patience, Source, Theft, Thief};
pub use typed::Typed;
pub use typed::{
    cscq::CycleStealing, drr::DeficitRoundRobin, mq::MultiQueue, partition::StaticPartition,
    wrr::WeightedRoundRobin,
};

/// A job as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its slot.
    pub id: JobId,
    /// Its class.
    pub class: ClassId,
    /// When it arrived.
    pub arrived: Nanos,
    /// Service it has had so far.
    pub attained: Nanos,
    /// The only place where it may run: set once a job has started, unless the application declares
    /// itself migratable.
    pub pinned: Option<WorkerId>,
    /// Expected total service time, where it is known.
    pub hint: Option<Nanos>,
}

impl Job {
    /// A job that has just arrived and of which nothing else is known.
    #[must_use]
    pub const fn new(id: JobId, class: ClassId, arrived: Nanos) -> Self {
        Self { id, class, arrived, attained: Nanos::ZERO, pinned: None, hint: None }
    }

    /// It has not run yet.
    #[inline]
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.pinned.is_none() && self.attained == Nanos::ZERO
    }
}

/// What the dispatcher is to do next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Push the job into that worker's inbox. `quantum`: how long it may run before others get
    /// their turn; `None`: to completion. For [`WorkerId::DISPATCHER`]: run it here, now.
    Run {
        /// The job.
        job: Job,
        /// The worker whose inbox it is.
        on: WorkerId,
        /// For how long.
        quantum: Option<Nanos>,
    },
    /// Ask the worker to give up what it runs, before its quantum ends.
    Preempt {
        /// Which worker.
        on: WorkerId,
    },
    /// Nothing, until an event or [`Policy::next_wakeup`], whichever is first.
    Idle,
}

/// How long the dispatcher runs a job where the policy has no quantum: it must come back to its
/// queues soon, whatever the workers do.
const DISPATCHER_QUANTUM: Nanos = Nanos::from_micros(5);

/// The dispatcher runs `job` itself, for a quantum.
fn dispatcher_slice(job: Job, quantum: Option<Nanos>) -> Decision {
    let quantum = Some(quantum.unwrap_or(DISPATCHER_QUANTUM));
    Decision::Run { job, on: WorkerId::DISPATCHER, quantum }
}

/// The job that the policy has no slot for, given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Job);

/// A policy at the dispatcher.
pub trait Policy {
    /// A job has arrived. How many of its class may wait is not the policy's to count: its driver
    /// does that, for every policy alike.
    ///
    /// # Errors
    /// [`Refused`] where there is no slot for it; the job is not in the policy then.
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused>;

    /// A job of that class has arrived and was not let in, as there is no room for it: so that a policy
    /// that measures how much comes knows of it.
    fn refused(&mut self, now: Nanos, class: ClassId) {
        let _ = (now, class);
    }

    /// A job that waited under the policy before, around a live switch, or that [`Policy::evict`] took out
    /// in vain: as [`Policy::arrive`], except that it has not just arrived.
    ///
    /// # Panics
    /// Where there is no slot for it.
    fn inherit(&mut self, now: Nanos, job: Job) {
        let arrived = self.arrive(now, job);
        assert!(arrived.is_ok(), "there is a slot for every job of the policy before");
    }

    /// A pre-empted job came back from `on` and waits again; or one that has not started there, since
    /// `on` is down. `job.attained` includes what it just
    /// ran, and `job.pinned` says where it may go on. Central policies live by it. A two-level policy
    /// is told of quanta by [`Policy::serviced`] and hears this only around a live switch and of jobs
    /// on the dispatcher; it places the job once more.
    fn yielded(&mut self, now: Nanos, on: WorkerId, job: Job);

    /// The job has left for good, after `attained` of service in all.
    fn completed(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos);

    /// The job has left, or is the policy's affair no more, after `attained` of service, otherwise than
    /// by its own end: so that says nothing of how long such jobs take. By default as
    /// [`Policy::completed`].
    fn dropped(&mut self, now: Nanos, on: WorkerId, id: JobId, attained: Nanos) {
        self.completed(now, on, id, attained);
    }

    /// The job waits for something on `on` and does not occupy a place there any more.
    fn blocked(&mut self, now: Nanos, on: WorkerId, id: JobId);

    /// What the job waited for has come. A central policy queues it, and a later decision gives it
    /// a place. Under a two-level policy its worker has it already, so that this is the same as
    /// [`Policy::resumed`]; except on the dispatcher, where it is queued under every policy.
    fn woken(&mut self, now: Nanos, on: WorkerId, job: Job);

    /// A blocked job goes on where it blocked without having been queued here: its worker, which
    /// worked by a two-level policy then, made it ready by itself (only around a live switch does
    /// a central policy hear of this). How much service it had before it blocked is not told: by a
    /// policy that orders running jobs by that, it is taken to be what it was when it was placed.
    fn resumed(&mut self, now: Nanos, on: WorkerId, id: JobId);

    /// `on` has finished `quanta` whole quanta for jobs it still holds, in all its unfinished jobs
    /// together (Tiny Quanta §3.2, MSQ). Absolute, not a difference.
    fn serviced(&mut self, on: WorkerId, quanta: u64) {
        let _ = (on, quanta);
    }

    /// What to do now. Called until it answers [`Decision::Idle`], or [`Decision::Run`] for the
    /// dispatcher itself: then again once that job has stopped.
    fn decide(&mut self, now: Nanos) -> Decision;

    /// Whether another job wants the place of what runs on `on`, which is a worker: the quantum
    /// there ends, or would if it ended now. Yes, if a job waits here that may run there (under a
    /// policy that ranks jobs: one that ranks strictly before it), or if the worker holds another
    /// one that is not blocked; never, where jobs run to completion. A question, which may be asked
    /// at any time and changes nothing.
    fn wants_place(&self, now: Nanos, on: WorkerId) -> bool;

    /// A quantum has ended on `on` and no other job wanted the place: the job goes on for another
    /// whole quantum.
    fn renewed(&mut self, now: Nanos, on: WorkerId) {
        let _ = (now, on);
    }

    /// `on` takes jobs again. All do at first.
    fn worker_up(&mut self, now: Nanos, on: WorkerId) {
        let _ = (now, on);
    }

    /// `on` has no core, or is stuck: what it holds stays there and goes on when it is up again, and
    /// until then it is to get no more. A policy that does not care keeps sending jobs there, which
    /// wait.
    fn worker_down(&mut self, now: Nanos, on: WorkerId) {
        let _ = (now, on);
    }

    /// When `decide` is to be asked again although nothing happened. Binding: it will be asked then,
    /// or as soon after as its thread comes to it. `None`: not before something happens.
    fn next_wakeup(&self) -> Option<Nanos> {
        None
    }

    /// How many jobs wait here.
    fn waiting(&self) -> usize;

    /// From now on, quanta of this length; `None`: to completion. Of no effect on workers where jobs
    /// run to completion anyway.
    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        let _ = quantum;
    }

    /// Takes out one waiting job, oldest first: when the policy is being replaced, or for a spare worker,
    /// where it runs without the policy.
    fn evict(&mut self) -> Option<Job>;

    /// The job is on that worker already: told to a policy that replaces another, once for each
    /// job that the workers hold. They may hold more than the policy would have sent them.
    fn adopt(&mut self, now: Nanos, on: WorkerId, job: Job);
}

/// A policy on one worker: which of the jobs that were sent here runs next.
pub trait CorePolicy {
    /// A job is here and ready: new, woken, or at the end of a quantum (then `job.attained` has
    /// grown).
    fn ready(&mut self, now: Nanos, job: Job);

    /// A job gave its thread up by its own wish: it may wait for one that is ready. So it goes behind
    /// all that are.
    fn yielded(&mut self, now: Nanos, job: Job) {
        self.ready(now, job);
    }

    /// The next to run, and for how long (`None`: to completion); it is not in the policy then.
    fn pick(&mut self, now: Nanos) -> Option<(Job, Option<Nanos>)>;

    /// For how long each runs: what [`CorePolicy::pick`] says of it.
    fn quantum(&self) -> Option<Nanos>;

    /// How many are ready.
    fn len(&self) -> usize;

    /// None is ready.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a job that is ready goes before the one that runs, whose quantum ends after so much
    /// service in all. If not, the one that runs goes on for another whole quantum.
    fn wants_place(&self, attained: Nanos) -> bool {
        let _ = attained;
        !self.is_empty()
    }

    /// From now on, quanta of this length; `None`: to completion.
    fn set_quantum(&mut self, quantum: Option<Nanos>);
}
