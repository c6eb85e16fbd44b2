//! `curtail sim --replay`: a recorded run, decision by decision.

use crate::failure::Failure;
use crate::output;
use curtail_sim::replay;
use curtail_workload::{format_duration, format_rate};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Plays the file; a difference is a failure.
pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    let named =
        |what: &dyn std::fmt::Display| Failure::failed(format!("{}: {what}", file.display()));
    let opened = File::open(file)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
    let found = replay(BufReader::new(opened)).map_err(|error| named(&error))?;
    if let Some(difference) = &found.difference {
        return Err(named(&format!(
            "call {} (after {}) differs: recorded was `{}`, the policy now says `{}`",
            difference.call,
            format_duration(difference.at.0),
            difference.recorded,
            difference.replayed
        )));
    }
    let cut = if found.cut_off { "; it ends in the middle of a call" } else { "" };
    output::text(&format!(
        "{} calls of {}, {} decisions over {}: all the same{cut}\n",
        format_rate(found.calls as f64),
        found.policies.join(", then "),
        format_rate(found.decisions as f64),
        format_duration(found.span.0),
    ))
}
