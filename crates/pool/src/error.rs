//! Why a job brings no value.

use curtail_rt::cancel::{Cancelled, Cause};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why a job brings no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was not run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panic),
    /// It was cancelled, before it began or while it was in progress: its deadline has passed, or the
    /// program asked for it.
    #[error("class {class}: {cancelled}")]
    Cancelled {
        /// The job's class.
        class: Arc<str>,
        /// Why it ended.
        cancelled: Cancelled,
    },
    /// It was in progress when the pool's shutdown would wait no longer.
    #[error("class {class}: the pool ended while the job was in progress")]
    LeftBehind {
        /// The job's class.
        class: Arc<str>,
    },
}

impl Error {
    pub(super) fn cancelled(class: Arc<str>, cause: Cause) -> Self {
        Self::Cancelled { class, cancelled: Cancelled::by(cause) }
    }
}

/// A job was not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("class {class}: {why}")]
pub struct Refused {
    /// The job's class.
    pub class: Arc<str>,
    /// The reason.
    pub why: Why,
}

/// Why a job was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The class has as many jobs under way as it may have.
    #[error("it has {limit} jobs under way already, which is its limit")]
    Full {
        /// [`Class::limit`](super::Class::limit).
        limit: usize,
    },
    /// It had waited too long when its turn could have come.
    #[error("the job has waited for longer than {limit:?}, which is the limit")]
    TooOld {
        /// [`Class::max_age`](super::Class::max_age).
        limit: Duration,
    },
    /// The pool takes no more jobs.
    #[error("the pool is shut down")]
    ShutDown,
    /// The process is the child of a fork, and the pool's threads are its parent's.
    #[error(
        "the pool's threads are in the process that forked this one: make a pool after the fork"
    )]
    Forked,
    /// The pool has no such class.
    #[error("the pool has only {classes} classes")]
    NoSuchClass {
        /// How many it has.
        classes: usize,
    },
}

/// What a job panicked with.
pub struct Panic {
    class: Arc<str>,
    /// In a mutex so that errors can be shared, which payloads need not be.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    pub(super) fn new(class: Arc<str>, payload: Box<dyn Any + Send>) -> Self {
        Self { class, payload: Mutex::new(payload) }
    }

    /// For [`std::panic::resume_unwind`].
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job's class.
    #[must_use]
    pub fn class(&self) -> &str {
        &self.class
    }

    fn message(&self) -> String {
        let payload = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&str>().copied();
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("(not a text)")
            .to_owned()
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panic")
            .field("class", &self.class)
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}: the job panicked: {}", self.class, self.message())
    }
}

impl std::error::Error for Panic {}
