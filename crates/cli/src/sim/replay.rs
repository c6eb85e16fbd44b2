//! `curtail sim --replay`: a recorded run, decision by decision.

use crate::failure::Failure;
use crate::output;
use curtail_sim::{Replay, replay};
use curtail_workload::{format_duration, format_rate};
use serde_json::{Value, json};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Plays the file; a difference is a failure. What was found goes to the file `json`, too, or there
/// alone where that is `-`.
pub(crate) fn run(file: &Path, json: Option<&str>) -> Result<(), Failure> {
    let named =
        |what: &dyn std::fmt::Display| Failure::failed(format!("{}: {what}", file.display()));
    let opened = File::open(file)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
    let found = replay(BufReader::new(opened)).map_err(|error| named(&error))?;
    if let Some(json) = json {
        curtail_report::write_text(json, &format!("{:#}\n", value(&found)))?;
    }
    if let Some(difference) = &found.difference {
        return Err(named(&format!(
            "call {} (after {}) differs: recorded was `{}`, the policy now says `{}`",
            difference.call,
            format_duration(difference.at.0),
            difference.recorded,
            difference.replayed
        )));
    }
    if json == Some("-") {
        return Ok(());
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

fn value(found: &Replay) -> Value {
    let Replay { calls, decisions, policies, span, difference, cut_off } = found;
    let difference = difference.as_ref().map(|it| {
        json!({
            "call": it.call, "at_ns": it.at.0, "recorded": it.recorded, "replayed": it.replayed,
        })
    });
    json!({
        "schema": 1, "verb": "replay", "calls": calls, "decisions": decisions,
        "policies": policies, "span_ns": span.0, "cut_off": cut_off, "difference": difference,
    })
}
