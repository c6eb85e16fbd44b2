//! Where results and tables go, and how far a run is.

use crate::failure::Failure;
use curtail_report::{Partial, Run};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// Shows results as a table and writes them as JSON where that was asked for. JSON on standard
/// output stands there alone.
pub(crate) fn results(runs: &[Run], sweep: bool, json: Option<&str>) -> Result<(), Failure> {
    if json != Some("-") {
        text(&curtail_report::table(runs))?;
    }
    match (json, runs) {
        (None, _) => Ok(()),
        (Some(file), [run]) if !sweep => Ok(curtail_report::write_run(file, run)?),
        (Some(file), runs) => Ok(curtail_report::write_runs(file, runs)?),
    }
}

/// A run whose figures may not be trusted is a failure, when all has been shown and written.
pub(crate) fn all_valid(runs: &[Run]) -> Result<(), Failure> {
    let mut invalid = runs.iter().filter(|run| !run.valid);
    let Some(first) = invalid.next() else { return Ok(()) };
    let count = 1 + invalid.count();
    let which = match runs.len() {
        1 => "the run is".to_owned(),
        all => format!("{count} of {all} runs {}", if count == 1 { "is" } else { "are" }),
    };
    let reason = first.invalid_reason.as_deref().unwrap_or("no reason was given");
    let rate = curtail_workload::format_rate(first.offered_rps);
    // Of a server of others the policy is not known.
    let known = first.policy != "unknown";
    let name = if known { &first.policy } else { &first.workload };
    Err(Failure::failed(format!("{which} not valid: {name} at {rate}/s: {reason}")))
}

/// For the runs that [`results`] will write: each is in the file when it has ended.
pub(crate) fn partial(json: Option<&str>) -> Result<Partial, Failure> {
    Ok(Partial::begin(json)?)
}

/// Shows a table, or writes the same as JSON.
pub(crate) fn listing(
    heads: &[&str],
    rows: &[Vec<String>],
    value: &Value,
    json: Option<&str>,
) -> Result<(), Failure> {
    if json != Some("-") {
        text(&curtail_report::columns(heads, rows))?;
    }
    match json {
        None => Ok(()),
        Some(file) => Ok(curtail_report::write_text(file, &format!("{value:#}\n"))?),
    }
}

/// Lines beside a table; on standard error where JSON has standard output.
pub(crate) fn beside(lines: &[String], json: Option<&str>) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    let said = format!("{}\n", lines.join("\n"));
    if json == Some("-") {
        say!("{}", lines.join("\n"));
        return Ok(());
    }
    text(&said)
}

/// Text on standard output.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    Ok(curtail_report::write_text("-", text)?)
}

/// How a [`bar`] shows so many runs of so many.
pub(crate) const RUNS: &str = "{bar:20} {pos}/{len} {msg}";

/// Progress on standard error, if that is a terminal. Without a length where it is unknown.
pub(crate) fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
