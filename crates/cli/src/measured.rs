//! What one run gave, and how it stands against an objective: for every verb that measures.

use crate::failure::Failure;
pub(crate) use curtail_experiment::Measured;
use curtail_policy::Spec;
use curtail_workload::{Found, Mix, Slo, format_rate};

/// The index of the class that the objective is about, if it is about one.
pub(crate) fn slo_class(
    slo: Option<&Slo>,
    workload: &str,
    mix: &Mix,
) -> Result<Option<usize>, Failure> {
    Ok(slo.map_or(Ok(None), |slo| curtail_experiment::class_of(slo, workload, mix))?)
}

/// A policy with its quantum.
pub(crate) fn named(spec: &Spec) -> String {
    match spec.quantum {
        Some(quantum) => {
            format!("{} ({})", spec.name, curtail_workload::format_duration(quantum.0))
        }
        None => spec.name.clone(),
    }
}

pub(crate) fn verdict(slo: &Slo, class: Option<usize>, measured: &Measured) -> String {
    let run = &measured.run;
    let measurement = measured.against(slo, class);
    let meets = measurement.valid && measurement.value <= slo.limit;
    let word = if meets { "meets" } else { "does not meet" };
    format!("{} at {}/s {word} {slo}", run.policy, format_rate(run.offered_rps))
}

/// What was found of `name`, where a load of 1 is that rate.
pub(crate) fn found_line(name: &str, slo: &Slo, found: &Found, full_rps: f64) -> String {
    let at = |load: f64| format!("load {load:.3} ({}/s)", format_rate(load * full_rps));
    match (found.max_load, found.fails_at) {
        (Some(max), Some(fails)) => {
            format!("{name} meets {slo} up to {}, not at {}", at(max), at(fails))
        }
        (Some(max), None) => format!("{name} meets {slo} at every load up to {}", at(max)),
        (None, fails) => {
            format!("{name} does not meet {slo}, not even at {}", at(fails.unwrap_or(0.0)))
        }
    }
}
