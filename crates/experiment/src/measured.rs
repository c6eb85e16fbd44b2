//! What one run gave, and how it stands against an objective: for every verb that measures.

use crate::Error;
use curtail_report::Run;
use curtail_workload::{Measurement, Mix, Recorder, Slo};

/// What one run gave.
pub struct Measured {
    /// The result.
    pub run: Run,
    /// What it was made from.
    pub recorder: Recorder,
    /// What the runtime wants the user to know.
    pub notes: Vec<String>,
}

impl Measured {
    /// The objective's figure. Refused requests count as endless ones: where there are more than
    /// the objective leaves out, or where it leaves out none, it is not met.
    #[must_use]
    pub fn against(&self, slo: &Slo, class: Option<usize>) -> Measurement {
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
///
/// # Errors
/// The workload has no such class.
pub fn class_of(slo: &Slo, workload: &str, mix: &Mix) -> Result<Option<usize>, Error> {
    let Some(name) = slo.class.as_deref() else { return Ok(None) };
    let names: Vec<&str> = mix.classes().iter().map(|c| c.name.as_str()).collect();
    match names.iter().position(|&other| other == name) {
        Some(class) => Ok(Some(class)),
        None => Err(Error::usage(format!(
            "--slo: workload {workload} has no class `{name}`, it has {}",
            names.join(", ")
        ))),
    }
}
