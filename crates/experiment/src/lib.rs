//! Simulated runs, from what was asked to what came of it: the command `curtail` and the Python
//! module `curtail_sim` ask in notations of their own, and get the same results here.
//!
//! A [`Setting`] is a system without its policy, under an [`Offer`] of requests; [`Shape`] makes the
//! policy; [`Setting::measure`] simulates one run, [`Setting::find_max`] searches the highest load
//! that meets an objective. A run is one thread's, a setting may be shared by many, and setting
//! its [`Setting::stop`] ends all of its runs early.
#![forbid(unsafe_code)]

mod catalogue;
mod changing;
mod classify;
mod costs;
pub mod figures;
mod measured;
mod offer;
#[cfg(feature = "runtime")]
pub mod runtime;
mod setting;

pub use catalogue::{policies, workloads};
pub use changing::Changing;
pub use classify::{Classifier, any_class, informed, reclassified};
pub use costs::{calibration_file, costs};
pub use curtail_policy::Shape;
pub use measured::{Measured, class_of};
pub use offer::{Asked, DEFAULT_DURATION_NS, Length, Offer, Point, Source, phases, warmup_ns};
pub use setting::Setting;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// It was ended early.
    #[error("it was stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::Usage(message.to_string())
    }

    pub(crate) fn failed(message: impl ToString) -> Self {
        Self::Failed(message.to_string())
    }
}

impl From<curtail_report::Error> for Error {
    fn from(error: curtail_report::Error) -> Self {
        Self::failed(error)
    }
}

impl From<curtail_policy::ShapeError> for Error {
    fn from(error: curtail_policy::ShapeError) -> Self {
        Self::usage(error)
    }
}
