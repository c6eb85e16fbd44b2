//! What one run gave, and how it stands against an objective: for every verb that measures.

use crate::failure::Failure;
use curtail_policy::Spec;
use curtail_report::Run;
use curtail_workload::{Found, Measurement, Mix, Recorder, Slo, format_rate};

/// What one run gave.
pub(crate) struct Measured {
    pub(crate) run: Run,
    pub(crate) recorder: Recorder,
    /// What the runtime wants the user to know.
    pub(crate) notes: Vec<String>,
}

impl Measured {
    /// The objective's figure. Refused requests count as endless ones: where there are more than
    /// the objective leaves out, or where it leaves out none, it is not met.
    pub(crate) fn against(&self, slo: &Slo, class: Option<usize>) -> Measurement {
        let record = class.map_or_else(|| self.recorder.overall(), |i| self.recorder.class(i));
        let dropped = match class {
            Some(i) => self.run.classes[i].dropped.unwrap_or(0),
            None => self.run.dropped,
        };
        let value = slo.value_with_endless(&record, dropped);
        Measurement { value, valid: self.run.valid }
    }
}

/// The index of the class that the objective is about, if it is about one.
pub(crate) fn slo_class(
    slo: Option<&Slo>,
    workload: &str,
    mix: &Mix,
) -> Result<Option<usize>, Failure> {
    let Some(name) = slo.and_then(|slo| slo.class.as_deref()) else {
        return Ok(None);
    };
    let names: Vec<&str> = mix.classes().iter().map(|c| c.name.as_str()).collect();
    match names.iter().position(|&other| other == name) {
        Some(class) => Ok(Some(class)),
        None => Err(Failure::usage(format!(
            "--slo: workload {workload} has no class `{name}`, it has {}",
            names.join(", ")
        ))),
    }
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

pub(crate) fn found_line(spec: &Spec, slo: &Slo, found: &Found, full_rps: f64) -> String {
    let name = named(spec);
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
