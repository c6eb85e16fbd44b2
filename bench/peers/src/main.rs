//! The command; `bench/peers/build.sh` builds the peers, and `ci/bench.sh` calls it.
#![forbid(unsafe_code)]

use clap::Parser;
use peer_bench::{Size, echo, locks, pool, redis, skew, threads, wakeups};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const NAMES: [&str; 7] = ["threads", "echo", "wakeups", "pool", "locks", "redis", "skew"];

/// Measures programs of ours beside those of others
#[derive(Parser)]
#[command(name = "peer-bench", args_override_self = true)]
struct Args {
    /// Which benchmark
    #[arg(value_name = "NAME", value_parser = NAMES)]
    name: String,
    /// Where the programs are
    #[arg(long, value_name = "DIR")]
    programs: PathBuf,
    /// Where the JSON goes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How often each contestant has a turn
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// As little as a test needs: the figures mean nothing
    #[arg(long)]
    smoke: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", args.name);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let size = if args.smoke { Size::Smoke } else { Size::Full };
    let (programs, rounds) = (&args.programs, args.rounds.map(NonZeroUsize::get));
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
    if args.smoke {
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
