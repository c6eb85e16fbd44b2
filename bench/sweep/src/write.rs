//! The table and the JSON.

use crate::run::Verdict;
use curtail_sweep::catalogue::Entry;
use serde_json::{Value, json};
use std::path::Path;
use std::{fs, io};

/// A crate and what came out.
pub struct Row {
    /// The crate.
    pub entry: Entry,
    /// The version that was built.
    pub version: String,
    /// Whether it is right.
    pub verdict: Verdict,
    /// How much was tried, and what was wrong.
    pub detail: String,
}

/// A row of the table; what is wrong, and why one was skipped, in a line below.
pub fn line(row: &Row) -> String {
    let Entry { name, what, .. } = row.entry;
    let line = format!("{name:<19} {:<9} {:<8} {what}", row.version, row.verdict.name());
    match row.verdict {
        Verdict::Right if !row.detail.contains("NOTHING") => line,
        _ => format!("{line}\n    {}", row.detail),
    }
}

/// How many of which verdict.
pub fn summary(rows: &[Row]) -> String {
    let of = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let (right, wrong) = (of(Verdict::Right), of(Verdict::Wrong));
    format!("{} crates: {right} right, {wrong} wrong, {} skipped", rows.len(), of(Verdict::Skipped))
}

/// Writes `sweep.json`.
pub fn json(directory: &Path, rows: &[Row]) -> io::Result<()> {
    let crates = rows.iter().map(|row| {
        json!({
            "name": row.entry.name,
            "version": row.version,
            "what": row.entry.what,
            "verdict": row.verdict.name(),
            "detail": row.detail,
        })
    });
    let all = json!({ "machine": machine(), "crates": crates.collect::<Vec<_>>() });
    fs::create_dir_all(directory)?;
    let text = serde_json::to_string_pretty(&all).map_err(io::Error::other)?;
    fs::write(directory.join("sweep.json"), text + "\n")
}

fn machine() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "cpu": cpu.map(|(_, name)| name),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": kernel.trim(),
    })
}
