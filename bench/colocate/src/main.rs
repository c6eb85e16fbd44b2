//! The command; `ci/bench.sh` builds what it needs and calls it.
#![forbid(unsafe_code)]

use colocate_bench::handover::{self, Options};
use colocate_bench::{Colocate, role};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: colocate-bench [handover] [--rounds N] [--looks 2us] [--out DIR]";

struct Args {
    out: Option<PathBuf>,
    options: Options,
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.first().is_some_and(|first| first == "role") {
        return match role::play(&given[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", given.join(" "));
                ExitCode::FAILURE
            }
        };
    }
    let args = match parse(given.into_iter()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("colocate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let measured = handover::measure(&itself, &args.options)?;
    println!("{}", handover::table(&measured));
    let found = Colocate::of(measured);
    match &args.out {
        Some(out) => write(out, &found),
        None => Ok(()),
    }
}

fn write(out: &Path, found: &Colocate) -> Result<(), String> {
    let path = out.join("colocate.json");
    let text = serde_json::to_string_pretty(found).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(mut given: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args { out: None, options: Options::default() };
    while let Some(option) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "handover" => {}
            "--out" => args.out = Some(value()?.into()),
            "--rounds" => {
                let text = value()?;
                let rounds = text.parse().ok().filter(|rounds| *rounds > 0);
                args.options.rounds = rounds.ok_or_else(|| format!("`{text}` is no number"))?;
            }
            "--looks" => args.options.looks = duration(&value()?)?,
            _ => return Err(format!("there is no `{option}`")),
        }
    }
    Ok(args)
}

/// `500ns` or `2us`.
fn duration(text: &str) -> Result<Duration, String> {
    let of = |unit, ns: u64| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_nanos(count.checked_mul(ns)?))
    };
    of("ns", 1)
        .or_else(|| of("us", 1_000))
        .filter(|looks| !looks.is_zero() && *looks < Duration::from_millis(1))
        .ok_or_else(|| format!("`{text}` is no duration of less than 1ms: write 500ns or 2us"))
}
