//! `sweep --build SCRIPT --out DIRECTORY [NAME…]`: builds the programs of the groups, runs each crate in
//! each setting, in a process of its own, prints a table and writes `sweep.json` after each crate.
#![forbid(unsafe_code)]

mod run;
mod write;

use curtail_sweep::catalogue::{ALL, Entry, version};
use run::{Verdict, verdict};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use write::Row;

struct Options {
    build: PathBuf,
    out: PathBuf,
    entries: Vec<Entry>,
}

fn options() -> Result<Options, String> {
    let (mut build, mut out, mut names) = (None, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--build" => build = arguments.next(),
            "--out" => out = arguments.next(),
            name if ALL.iter().any(|entry| entry.name == name) => names.push(argument),
            other => {
                let all: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
                return Err(format!("no crate {other}: {}", all.join(", ")));
            }
        }
    }
    let is_wanted = |entry: &&Entry| names.is_empty() || names.iter().any(|it| it == entry.name);
    Ok(Options {
        build: build.ok_or("--build SCRIPT is missing")?.into(),
        out: out.ok_or("--out DIRECTORY is missing")?.into(),
        entries: ALL.iter().filter(is_wanted).copied().collect(),
    })
}

/// The program of a group, or why there is none.
fn build(script: &Path, group: &str) -> Result<PathBuf, String> {
    eprintln!("sweep: building {group}");
    let output = Command::new(script).arg(group).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{}: {error}", script.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(text.into()) } else { Err(text) }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("sweep: {error}");
            return ExitCode::from(2);
        }
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut program = ("", Err(String::new()));
    for entry in &options.entries {
        if program.0 != entry.group {
            program = (entry.group, build(&options.build, entry.group));
        }
        let (verdict, detail) = match &program.1 {
            Ok(program) => verdict(program, entry.name),
            Err(why) => (Verdict::Skipped, why.clone()),
        };
        let version = version(entry.package).unwrap_or_default();
        rows.push(Row { entry: *entry, version, verdict, detail });
        println!("{}", write::line(rows.last().expect("just pushed")));
        if let Err(error) = write::json(&options.out, &rows) {
            eprintln!("sweep: {}: {error}", options.out.display());
            return ExitCode::FAILURE;
        }
    }
    println!("{}", write::summary(&rows));
    println!("{}", options.out.join("sweep.json").display());
    ExitCode::SUCCESS
}
