//! Experiments that run the runtime: what things cost on this machine, runs under a load that is made
//! in the process, and such runs beside simulated ones.

mod bench;
mod calibrate;
pub mod compare;
mod result;

pub use bench::{Bench, Launch, System, judge, launch, misclassify};
pub use calibrate::{Calibrated, Figure, QUANTA_NS, Trials, calibrate};
pub use compare::Comparison;
pub use result::{fill_runtime, histogram_quantiles};
