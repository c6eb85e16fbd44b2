//! The scheduler around a policy: which jobs there are, where each of them is, what goes to which
//! worker next. A state machine without clock, thread or I/O. Time is an argument that never goes back.
//!
//! [`Scheduler`] is driven by the dispatcher of the runtime, which has sockets and rings around it,
//! and by the simulator, which has a virtual clock, costs and modelled workers around it. Both do
//! the same: tell it what happened (`handle_…`), ask it what to do until it has nothing more to say
//! ([`Scheduler::poll_action`]), and come back when something happens or at the time that
//! [`Scheduler::poll_timeout`] names, whichever is first.
//!
//! The crate's README states the order of what happens at one instant, and who decides what.
//!
//! It belongs to one thread. It has its memory from the start, and allocates nothing after that, but
//! for a live switch of the policy.
#![forbid(unsafe_code)]

mod jobs;
mod last;
mod look;
pub mod record;
mod room;
mod rules;
mod scheduler;
mod up;
mod watch;

pub use jobs::Where;
pub use look::{PATIENCE, PAUSE};
pub use room::{Room, Shares};
pub use rules::Setup;
pub use scheduler::Scheduler;
pub use watch::Watch;

/// So many spare workers a record may name at most.
pub const MOST_SPARES: usize = 4;

use curtail_policy::{ClassId, JobId, Nanos, Spec, WorkerId};

/// What is known of a job when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its class.
    pub class: ClassId,
    /// When it arrived, which may be before it is told of.
    pub at: Nanos,
    /// Its expected service time, where it is known.
    pub hint: Option<Nanos>,
}

/// There is no room for a job: no slot is free for its class, or as many of that wait as may.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What has happened to a job on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which job.
    pub job: JobId,
    /// Service that it has had so far.
    pub attained: Nanos,
    /// What has happened to it.
    pub what: EventKind,
}

/// See [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It has left for good.
    Ended,
    /// It gave up its place at the end of a quantum or because it was asked to, and waits again.
    Preempted,
    /// It gave up its place because it waits for something without blocking, and is to look again
    /// soon.
    Yielded,
    /// It blocks on the worker, without a place there.
    Blocked,
    /// What it waited for has come: it wants a place on that worker again.
    Woken,
    /// What it waited for has come, and the worker made it ready by itself.
    Resumed,
    /// It was taken back from a worker, where it has not started: it waits again.
    Returned,
}

impl EventKind {
    /// Whether, of what happens at one instant, this comes before the arrivals: jobs that leave their
    /// places do, those that come back to wait do not. See the README.
    #[must_use]
    pub const fn is_before_arrivals(self) -> bool {
        matches!(self, Self::Ended | Self::Blocked | Self::Resumed)
    }
}

/// A change of how the scheduler works.
#[derive(Clone, Debug)]
pub enum Command {
    /// Quanta of this length from now on; `None`: to completion.
    Quantum(Option<Nanos>),
    /// Another policy from now on. What waits moves over in order.
    Policy {
        /// The new policy, with its settings.
        spec: Box<Spec>,
        /// From now on, a job that has started stays on its worker.
        pins: bool,
    },
}

/// What is to be done next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The job goes into the worker's inbox. For [`WorkerId::DISPATCHER`]: it runs here, now, and
    /// until it stops there are no more such actions.
    Run {
        /// The job.
        job: JobId,
        /// The worker whose inbox it is.
        on: WorkerId,
        /// For how long; `None`: as the worker's own policy says, or to completion.
        quantum: Option<Nanos>,
    },
    /// The worker is asked to give up what it runs, before its quantum ends.
    Preempt {
        /// Which worker.
        on: WorkerId,
    },
    /// The job was cancelled and has not begun: it has left. What its driver kept of it can be read
    /// until the next arrival.
    Drop {
        /// The job.
        job: JobId,
    },
}

/// What becomes of a job whose quantum has ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// No other job waits for its place: another whole quantum.
    Continue,
    /// It yields.
    Yield,
}
