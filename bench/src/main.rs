//! The benchmarks' command; `bench/run.sh` builds what it needs and calls it.

use clap::{Parser, Subcommand};
use curtail_bench::figure::Report;
use curtail_bench::{Size, dispatch, preempt, ring, sim, switch};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const NAMES: [&str; 5] = ["ring", "switch", "dispatch", "preempt", "sim"];

/// Measures Curtail's own parts; what is named here, or all of it
#[derive(Parser)]
#[command(
    name = "curtail-bench",
    args_override_self = true,
    args_conflicts_with_subcommands = true
)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// What to measure
    #[arg(value_name = "NAME", value_parser = NAMES)]
    names: Vec<String>,
    /// As little as a test needs: the figures mean nothing
    #[arg(long)]
    smoke: bool,
    /// Where the JSON goes, and pages
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The program in Go
    #[arg(long, value_name = "PROGRAM")]
    go: Option<PathBuf>,
    /// The command `curtail`
    #[arg(long, value_name = "PROGRAM")]
    curtail: Option<PathBuf>,
    /// Python, with SimPy
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Loads, as shares of the worker's capacity: 0.3,0.5
    #[arg(long, value_name = "LOADS", value_delimiter = ',', overrides_with = "loads", value_parser = positive)]
    loads: Option<Vec<f64>>,
    /// Length of a run
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,
    /// How often each contestant has a turn
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
}

#[derive(Subcommand)]
enum Part {
    /// Simulates once, for its memory: what `sim` measures
    Simulate {
        #[arg(value_parser = positive)]
        load: f64,
        jobs: u64,
    },
}

impl Args {
    fn options(&self) -> dispatch::Options {
        let size = if self.smoke { Size::Smoke } else { Size::Full };
        let usual = dispatch::Options::new(size);
        dispatch::Options {
            size,
            go: self.go.clone(),
            curtail: self.curtail.clone(),
            loads: self.loads.clone().unwrap_or(usual.loads),
            seconds: self.seconds.unwrap_or(usual.seconds),
            rounds: self.rounds.map_or(usual.rounds, NonZeroUsize::get),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Part::Simulate { load, jobs }) = args.part {
        return simulate(load, jobs);
    }
    let options = &args.options();
    let all = NAMES.map(String::from).to_vec();
    for name in if args.names.is_empty() { &all } else { &args.names } {
        let report = match name.as_str() {
            "ring" => ring::run(options.size),
            "switch" => switch::run(options.size, options.go.as_deref()),
            "preempt" => preempt::run(options),
            "sim" => sim::run(&sim::Options {
                size: options.size,
                python: args.python.clone(),
                itself: std::env::current_exe().expect("this program has a path"),
            }),
            _ => dispatch::run(options),
        };
        println!("{}", report.text());
        if let Some(Err(error)) = args.out.as_deref().map(|out| write(out, &report)) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        if !report.simulated.iter().all(sim::Simulated::agrees) {
            eprintln!("the simulators disagree by more than {}%", sim::TOLERANCE * 100.0);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// One simulation, for its memory.
fn simulate(load: f64, jobs: u64) -> ExitCode {
    match sim::in_memory(load, jobs) {
        Ok(memory) => {
            println!("{}", serde_json::to_string(&memory).expect("two numbers"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// `NAME.json`, and for runs also a page to look at.
fn write(out: &Path, report: &Report) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let file = |extension: &str| {
        out.join(&report.benchmark).with_extension(extension).display().to_string()
    };
    let json = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
    curtail_report::write_text(&file("json"), &(json + "\n")).map_err(|e| e.to_string())?;
    if !report.runs.is_empty() {
        let options = curtail_report::HtmlOptions { ideal: true, ..Default::default() };
        let page = curtail_report::html(&report.runs, &options);
        curtail_report::write_text(&file("html"), &page).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| format!("`{text}` is no number above zero"))
}
