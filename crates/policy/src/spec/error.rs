//! What is wrong with a [`Spec`].

use super::Spec;
use crate::PreemptKind;
use std::fmt;

/// A [`Spec`] that makes no sense.
#[derive(Clone, PartialEq, Eq)]
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
        /// The reason, for people.
        why: &'static str,
    },
    /// There is a dispatcher, and the policy is for workers without one.
    Dispatcherless(String),
    /// The dispatcher is to end the quanta, and there is none.
    Unwatched {
        /// The policy.
        policy: String,
        /// How they were to end.
        preempt: PreemptKind,
    },
    /// More classes than [`Spec::MAX_CLASSES`].
    Classes(usize),
    /// A class's plan that no policy can follow.
    Plan {
        /// The class.
        class: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// [`Dispatch::Own`](crate::Dispatch::Own) without a policy, or one where another is asked for.
    Own(String),
    /// As many workers reserved as there are, or more: none would be left for the other classes.
    Reserved {
        /// How many are to be reserved.
        reserved: u16,
        /// How many there are.
        workers: usize,
    },
    /// An option of DARC out of its range.
    Darc(&'static str),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(0) => f.write_str("there must be at least one worker"),
            Self::Workers(n) => {
                write!(f, "{n} workers are more than the {} possible", Spec::MAX_WORKERS)
            }
            Self::NoInbox => f.write_str(
                "jbsq must be at least 1: it counts the jobs a worker may hold, the running one included",
            ),
            Self::ZeroQuantum => f.write_str("a quantum must be longer than 0"),
            Self::NeedsQuantum(policy) => write!(f, "policy `{policy}` needs a quantum"),
            Self::NotFor { option, policy, why } => {
                write!(f, "{option} is not an option of policy `{policy}`: {why}")
            }
            Self::Own(policy) => {
                write!(f, "policy `{policy}` is a program's own, which `Spec::own` makes, or it is not")
            }
            Self::Dispatcherless(policy) => {
                write!(
                    f,
                    "`{policy}` is dispatcherless: while a server runs, it changes from such a policy \
                     to another such only, or from one with a dispatcher to another with one"
                )
            }
            Self::Unwatched { policy, preempt } => write!(
                f,
                "policy `{policy}` has no dispatcher to pre-empt by {preempt}: clock, or never"
            ),
            Self::Classes(n) => {
                write!(f, "{n} classes are more than the {} possible", Spec::MAX_CLASSES)
            }
            Self::Plan { class, why } => write!(f, "class {class}: {why}"),
            Self::Reserved { reserved, workers } => {
                write!(f, "{reserved} of {workers} workers reserved: none is left for the other classes")
            }
            Self::Darc(why) => write!(f, "darc: {why}"),
        }
    }
}

impl std::error::Error for SpecError {}

/// What `main` prints of an error that it returns.
impl fmt::Debug for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
