//! `curtail doctor`: what this machine offers, what Curtail makes of it, and what would be better.
//!
//! It looks and tries, and changes nothing.

mod cores;
mod noise;
mod probe;

use crate::args::Json;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use serde_json::{Value, json};

/// `curtail doctor`.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Do not measure what the machine takes away (a tenth of a second for each core)
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    json: Json,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    /// A short name; scripts know it.
    what: &'static str,
    /// Nothing better to be had.
    good: bool,
    /// What there is.
    here: String,
    /// What Curtail does about it.
    used: String,
    /// What would be better; empty: nothing.
    better: String,
}

impl Finding {
    fn good(what: &'static str, here: impl Into<String>, used: impl Into<String>) -> Self {
        Self { what, good: true, here: here.into(), used: used.into(), better: String::new() }
    }

    fn poor(
        what: &'static str,
        here: impl Into<String>,
        used: impl Into<String>,
        better: impl Into<String>,
    ) -> Self {
        let (here, used, better) = (here.into(), used.into(), better.into());
        Self { what, good: false, here, used, better }
    }
}

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut findings = probe::all();
        findings.extend(cores::all());
        if !self.quick {
            findings.push(noise::measure());
        }
        let row = |finding: &Finding| {
            let mark = if finding.good { "ok" } else { "!" };
            let cells = [finding.what, mark, &finding.here, &finding.used, &finding.better];
            cells.map(str::to_owned).to_vec()
        };
        let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
        let value = |finding: &Finding| {
            json!({
                "what": finding.what, "good": finding.good, "here": finding.here,
                "used": finding.used, "better": finding.better,
            })
        };
        let values: Vec<Value> = findings.iter().map(value).collect();
        let heads = ["what", "", "here", "Curtail", "better"];
        output::listing(&heads, &rows, &Value::from(values), self.json.json.as_deref())
    }
}
