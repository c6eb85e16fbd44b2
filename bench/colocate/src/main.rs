//! The command; `ci/bench.sh` builds what it needs and calls it.
#![forbid(unsafe_code)]

use clap::Parser;
use colocate_bench::{
    Colocate, How, Programs, become_batch, burst, dispatched, handover, interval, orders, realloc,
    role, service, share,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What can be measured.
const EXPERIMENTS: [&str; 6] = ["handover", "share", "burst", "interval", "realloc", "orders"];

/// The kinds of work that a service does.
const WORKS: [(&str, &str); 3] =
    [("exp10", "exp10"), ("exp100", "work:exp(100us):1"), ("bimodal", "bimodal-90-10")];

/// How long orders are counted.
const ORDERS_FOR: Duration = Duration::from_secs(2);

/// Measures latency-critical and batch programs on the same cores
#[derive(Parser)]
#[command(name = "colocate-bench", args_override_self = true)]
struct Args {
    /// What to measure; all where nothing is named
    #[arg(value_name = "EXPERIMENT", value_parser = EXPERIMENTS)]
    parts: Vec<String>,
    /// Where the JSON goes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// handover: hand-overs of each way; realloc has a quarter of them
    #[arg(long, value_name = "N", value_parser = positive::<usize>)]
    rounds: Option<usize>,
    /// handover: how often the holder of the core looks
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    looks: Option<Duration>,
    /// share: what the service does [default: exp10,exp100,bimodal]
    #[arg(long, value_name = "LIST", value_delimiter = ',', overrides_with = "works")]
    works: Option<Vec<String>>,
    /// share: loads [default: 0.2,0.5,0.8]
    #[arg(long, value_name = "LIST", value_delimiter = ',', overrides_with = "loads", value_parser = positive::<f64>)]
    loads: Option<Vec<f64>>,
    /// share: process, process_plain, dispatched, inside, inside_plain, linux, linux_nice [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', overrides_with = "ways", value_parser = way)]
    ways: Option<Vec<How>>,
    /// share: how often the core allocator looks
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    interval: Option<Duration>,
    /// share and interval: length of a run
    #[arg(long, value_name = "S", value_parser = positive::<f64>)]
    seconds: Option<f64>,
    /// share and interval: runs of each kind
    #[arg(long, value_name = "N", value_parser = positive::<usize>)]
    times: Option<usize>,
    /// burst: steps of the load
    #[arg(long, value_name = "N", value_parser = positive::<u64>)]
    cycles: Option<u64>,
    /// burst: windows of 10 ms of each step
    #[arg(long, value_name = "N", value_parser = positive::<u64>)]
    windows: Option<u64>,
    /// The command `curtail`
    #[arg(long, value_name = "PROGRAM")]
    curtail: Option<PathBuf>,
    /// Batch work with safepoints
    #[arg(long, value_name = "PROGRAM")]
    batch: Option<PathBuf>,
    /// Batch work without safepoints
    #[arg(long, value_name = "PROGRAM")]
    batch_plain: Option<PathBuf>,
    /// This program with safepoints, for batch work inside the service
    #[arg(long, value_name = "PROGRAM")]
    inside: Option<PathBuf>,
}

impl Args {
    fn programs(&self) -> Programs {
        let built = |program: &Option<PathBuf>| program.clone().unwrap_or_default();
        Programs {
            curtail: built(&self.curtail),
            batch: built(&self.batch),
            batch_plain: built(&self.batch_plain),
            inside: self.inside.clone(),
        }
    }

    fn handover(&self) -> handover::Options {
        let usual = handover::Options::default();
        let (rounds, looks) =
            (self.rounds.unwrap_or(usual.rounds), self.looks.unwrap_or(usual.looks));
        handover::Options { rounds, looks }
    }

    fn share(&self) -> share::Options {
        let usual = share::Options::default();
        let mix = |name: &String| {
            let known = WORKS.iter().find(|(known, _)| known == name);
            (name.clone(), known.map_or(name.as_str(), |(_, mix)| mix).to_owned())
        };
        let named = WORKS.map(|(name, _)| name.to_owned()).to_vec();
        share::Options {
            works: self.works.as_ref().unwrap_or(&named).iter().map(mix).collect(),
            loads: self.loads.clone().unwrap_or(usual.loads),
            ways: self.ways.clone().unwrap_or(usual.ways),
            seconds: self.seconds.unwrap_or(usual.seconds),
            rounds: self.times.unwrap_or(usual.rounds),
            programs: self.programs(),
            interval: self.interval.unwrap_or(usual.interval),
        }
    }

    fn burst(&self) -> burst::Options {
        let usual = burst::Options::default();
        burst::Options {
            cycles: self.cycles.unwrap_or(usual.cycles),
            windows: self.windows.unwrap_or(usual.windows),
            programs: self.programs(),
            ..usual
        }
    }

    fn intervals(&self) -> interval::Options {
        let usual = interval::Options::default();
        interval::Options {
            seconds: self.seconds.unwrap_or(usual.seconds),
            rounds: self.times.unwrap_or(usual.rounds),
            programs: self.programs(),
            ..usual
        }
    }
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let played = match given.split_first() {
        Some((first, rest)) if first == "role" => Some(role::play(rest)),
        Some((first, rest)) if first == "batch" => Some(become_batch(rest)),
        Some((first, rest)) if first == "service" => Some(play(rest, serve)),
        Some((first, rest)) if first == "echo" => Some(play(rest, realloc::play)),
        _ => None,
    };
    match played {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("{}: {error}", given.join(" "));
            return ExitCode::FAILURE;
        }
        None => {}
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("colocate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A service of either kind.
fn serve(offer: &service::Offer) -> Result<(), String> {
    if offer.dispatcher { dispatched::serve(offer) } else { service::serve(offer) }
}

/// A process of an experiment: what it is to do is its argument.
fn play<T: serde::de::DeserializeOwned>(
    args: &[String],
    f: impl FnOnce(&T) -> Result<(), String>,
) -> Result<(), String> {
    let [text] = args else { return Err("needs one argument".to_owned()) };
    f(&serde_json::from_str(text).map_err(|error| error.to_string())?)
}

fn run(args: &Args) -> Result<(), String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let wants = |part: &str| args.parts.is_empty() || args.parts.iter().any(|it| it == part);
    let handover = args.handover();
    let mut found = Colocate::here();
    if wants("handover") {
        let measured = handover::measure(&itself, &handover)?;
        println!("{}", handover::table(&measured));
        found = Colocate::of(measured);
    }
    if wants("orders") {
        found.orders_per_s = orders::per_second(ORDERS_FOR)?;
        println!("orders a second, in a closed loop: {:.2} M\n", found.orders_per_s / 1e6);
    }
    if wants("realloc") {
        found.realloc_us = realloc::measure(&itself, &args.programs(), handover.rounds / 4 + 1)?;
        println!("{}", realloc::table(&found.realloc_us));
    }
    if wants("share") {
        found.share = share::measure(&itself, &args.share())?;
        println!("{}", share::table(&found.share));
    }
    if wants("burst") {
        found.burst = burst::measure(&itself, &args.burst())?;
        println!("{}", burst::table(&found.burst));
    }
    if wants("interval") {
        found.interval = interval::measure(&itself, &args.intervals())?;
        println!("{}", interval::table(&found.interval));
    }
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

fn way(name: &str) -> Result<How, String> {
    let known = How::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, how)| *how).ok_or_else(|| format!("there is no way `{name}`"))
}

fn positive<T: std::str::FromStr + PartialOrd + Default>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| format!("`{text}` is no number above zero"))
}

/// `500ns` or `2us`.
fn duration(text: &str) -> Result<Duration, String> {
    let ns = curtail_notation::duration_ns(text).ok().filter(|ns| (1..=1_000_000).contains(ns));
    ns.map(Duration::from_nanos)
        .ok_or_else(|| format!("`{text}` is no duration up to 1000us: write 500ns or 2us"))
}
