//! The command; `bench/peers/build.sh` builds the peers, and `ci/bench.sh` calls it.
#![forbid(unsafe_code)]

use peer_bench::{Size, echo, locks, pool, redis, skew, threads, wakeups};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: peer-bench threads|echo|wakeups|pool|locks|redis|skew --programs DIR [--out DIR] \
                     [--rounds N] [--smoke]";

struct Args {
    name: String,
    programs: PathBuf,
    out: Option<PathBuf>,
    rounds: Option<usize>,
    size: Size,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", args.name);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let (programs, size, rounds) = (&args.programs, args.size, args.rounds);
    match args.name.as_str() {
        "threads" => {
            let found = threads::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
        "echo" => {
            let found = echo::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
        "pool" => {
            let found = pool::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
        "locks" => {
            let found = locks::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
        "redis" => {
            let found = redis::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
        "skew" => {
            let found = skew::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
        _ => {
            let found = wakeups::run(programs, size, rounds)?;
            tell(args, &found.text(), &found.notes, &found)
        }
    }
}

fn tell(args: &Args, text: &str, notes: &[String], found: &impl Serialize) -> Result<(), String> {
    println!("{text}");
    if args.size == Size::Smoke {
        println!("smoke run: the figures mean nothing");
    }
    for note in notes {
        println!("note: {note}");
    }
    args.out.as_deref().map_or(Ok(()), |out| write(out, &args.name, found))
}

fn write(out: &Path, name: &str, found: &impl Serialize) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let json = serde_json::to_string_pretty(found).map_err(|e| e.to_string())?;
    let path = out.join(name).with_extension("json").display().to_string();
    curtail_report::write_text(&path, &(json + "\n")).map_err(|e| e.to_string())
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let (mut name, mut programs, mut out, mut rounds) = (None, None, None, None);
    let mut size = Size::Full;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--smoke" => size = Size::Smoke,
            "--programs" => programs = Some(PathBuf::from(value()?)),
            "--out" => out = Some(PathBuf::from(value()?)),
            "--rounds" => {
                let text = value()?;
                let number = text.parse().ok().filter(|n| *n > 0);
                rounds = Some(number.ok_or_else(|| format!("`{text}` is no number of rounds"))?);
            }
            "threads" | "echo" | "wakeups" | "pool" | "locks" | "redis" | "skew"
                if name.is_none() =>
            {
                name = Some(arg);
            }
            other => return Err(format!("there is no benchmark or option `{other}`")),
        }
    }
    let name = name.ok_or("which benchmark?")?;
    Ok(Args { name, programs: programs.ok_or("--programs is missing")?, out, rounds, size })
}
