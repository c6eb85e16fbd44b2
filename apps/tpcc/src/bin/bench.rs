//! `tpcc-bench`: what the transactions take one at a time, and then how long they are there under a load,
//! by policy. The generator is in the process and is open-loop; the papers' figures are of such loads
//! (Perséphone §5.4.3, Tiny Quanta §5.3).
#![forbid(unsafe_code)]

use clap::Parser;
use curtail::{DispatcherMode, Preempt, Spec};
use curtail_experiment::runtime::{Bench, System};
use curtail_experiment::{Classifier, Measured, Point};
use curtail_load::Source;
use curtail_load::inside::{Message, Requests};
use curtail_net::Completion;
use curtail_policy::Nanos;
use curtail_report::Run;
use curtail_workload::{Arrivals, Class, Mix, Schedule, Service, numbers};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tpcc::protocol::Request;
use tpcc::{Draw, Scale, Store, Tpcc, Transaction};

/// TPC-C's transactions under several policies, in one process.
#[derive(Parser)]
struct Args {
    /// Warehouses
    #[arg(long, value_name = "N", default_value_t = 2)]
    warehouses: u32,
    /// Policies, with commas between; tq@10: with a quantum of 10 µs
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "fcfs,darc,tq,tq@10")]
    policies: Vec<String>,
    /// Loads, as parts of what the workers can do at most
    #[arg(long, value_name = "LOADS", value_delimiter = ',', default_value = "0.3,0.5,0.7,0.85")]
    loads: Vec<f64>,
    /// Workers [default: the cores less one]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Seconds of each run
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// How often all is run
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Where the JSON goes
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What a transaction takes by itself, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Takes {
    mean: f64,
    p50: u64,
    p99: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tpcc-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let store = Arc::new(Store::load(Scale::of(args.warehouses)));
    let takes = measure(&store);
    println!("| transaction | share | mean | p50 | p99 |\n|---|---:|---:|---:|---:|");
    for ((each, takes), share) in Transaction::ALL.iter().zip(&takes).zip(Transaction::SHARES) {
        let us = |ns: f64| format!("{:.2} µs", ns / 1e3);
        let (mean, p50, p99) = (us(takes.mean), us(takes.p50 as f64), us(takes.p99 as f64));
        println!("| {} | {share}% | {mean} | {p50} | {p99} |", each.name());
    }
    let mix = mix(&takes)?;
    let specs = specs(args)?;
    let mut runs: Vec<(f64, &str, Run)> = Vec::new();
    for _ in 0..args.rounds {
        for &load in &args.loads {
            for (name, spec) in &specs {
                runs.push((load, name, one(args, &mix, &takes, spec, load)?));
            }
        }
    }
    table(args, &runs);
    if let Some(file) = &args.json {
        let takes: Vec<_> = Transaction::ALL
            .iter()
            .zip(&takes)
            .map(|(each, takes)| {
                serde_json::json!({"name": each.name(), "mean_ns": takes.mean,
                                   "p50_ns": takes.p50, "p99_ns": takes.p99})
            })
            .collect();
        let runs: Vec<_> = runs.iter().map(|(_, _, run)| run).collect();
        let all =
            serde_json::json!({"warehouses": args.warehouses, "service": takes, "runs": runs});
        std::fs::write(file, serde_json::to_string_pretty(&all)? + "\n")?;
    }
    Ok(())
}

/// Transactions in the mix's shares, one after the other.
fn measure(store: &Store) -> [Takes; 5] {
    const EACH: usize = 4_000;
    let mut times: [Vec<u64>; 5] = Default::default();
    let (mut seed, mut draw) = (0, Draw::new(7));
    // Deliveries take what new orders bring, so all go on at once.
    while times.iter().any(|times| times.len() < EACH) {
        let chosen = which(&mut || draw.number(0, 99));
        seed += 1;
        let start = Instant::now();
        Transaction::ALL[chosen].run(store, &mut Draw::new(seed));
        times[chosen].push(start.elapsed().as_nanos() as u64);
    }
    times.map(|mut times| {
        times.sort_unstable();
        // The machine's own gaps are no part of a service time.
        let kept = &times[..times.len() * 999 / 1_000];
        Takes {
            mean: kept.iter().sum::<u64>() as f64 / kept.len() as f64,
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
        }
    })
}

/// A transaction by the shares; `percent` draws from 0 to 99.
fn which(percent: &mut dyn FnMut() -> u32) -> usize {
    let mut left = percent();
    for (at, share) in Transaction::SHARES.into_iter().enumerate() {
        match left.checked_sub(share) {
            Some(rest) => left = rest,
            None => return at,
        }
    }
    0
}

fn mix(takes: &[Takes; 5]) -> Result<Mix, Box<dyn Error>> {
    let class = |((each, share), takes): ((Transaction, u32), &Takes)| Class {
        name: each.name().to_owned(),
        share: f64::from(share),
        service: Service::Constant(takes.mean.round() as u64),
    };
    let classes = Transaction::ALL.into_iter().zip(Transaction::SHARES).zip(takes).map(class);
    Ok(Mix::new(classes.collect())?)
}

/// What they are called here, and what they are.
fn specs(args: &Args) -> Result<Vec<(String, Spec)>, Box<dyn Error>> {
    let spec = |given: &String| -> Result<(String, Spec), Box<dyn Error>> {
        let Some((name, quantum)) = given.split_once('@') else {
            return Ok((given.clone(), Spec::preset(given)?));
        };
        let quantum: u64 = quantum.parse().map_err(|_| format!("{given}: no quantum in µs"))?;
        Ok((given.clone(), Spec::preset(name)?.with_quantum(Nanos::from_micros(quantum))?))
    };
    args.policies.iter().map(spec).collect()
}

/// Transactions that arrive.
struct Transactions {
    schedule: Schedule,
    random: Box<dyn FnMut() -> u64 + Send>,
    takes: [u64; 5],
}

impl Source for Transactions {
    type Request = Message;

    fn draw(&mut self, next: &mut Message) -> Option<u64> {
        let random = &mut self.random;
        next.class = which(&mut || (random() % 100) as u32);
        let request = Request { tag: 0, transaction: Transaction::ALL[next.class], seed: random() };
        next.payload.clear();
        next.payload.extend_from_slice(&request.encode());
        Some(self.schedule.next_ns())
    }
}

impl Requests for Transactions {
    fn completed(&self, completion: &Completion) -> (usize, u64) {
        let class = usize::from(completion.class).min(self.takes.len() - 1);
        (class, self.takes[class])
    }
}

/// One policy at one load, on new tables; they must be whole afterwards.
fn one(
    args: &Args,
    mix: &Mix,
    takes: &[Takes; 5],
    spec: &Spec,
    load: f64,
) -> Result<Run, Box<dyn Error>> {
    let cores = std::thread::available_parallelism()?.get();
    let workers = args.workers.unwrap_or(cores.saturating_sub(1)).max(1);
    let duration_ns = Duration::from_secs_f64(args.seconds).as_nanos() as u64;
    let bench = Bench {
        workload: "tpcc".to_owned(),
        mix: mix.clone(),
        arrivals: Arrivals::Poisson,
        duration_ns,
        warmup_ns: duration_ns / 10,
        seed: 1,
        system: System {
            workers,
            dispatchers: 1,
            dispatcher: DispatcherMode::Busy,
            capacity: 16_384,
            cores: None,
            stack_bytes: None,
        },
        known: false,
        record: None,
        classifier: Classifier::Own,
    };
    let rate_rps = mix.rate_rps(load, workers);
    let requests = Transactions {
        schedule: bench.arrivals.schedule(rate_rps, bench.seed),
        random: Box::new(numbers(bench.seed)),
        takes: takes.map(|takes| takes.mean.round() as u64),
    };
    let store = Arc::new(Store::load(Scale::of(args.warehouses)));
    let at = Point { load: Some(load), rate_rps };
    let Measured { run, notes, .. } =
        bench.drive((spec, Preempt::Auto), at, Tpcc::new(store.clone()), requests)?;
    for note in notes {
        eprintln!("{}: {note}", spec.name);
    }
    match store.check().first() {
        None => Ok(run),
        Some(broken) => Err(format!("{}: the tables are broken: {broken:?}", spec.name).into()),
    }
}

/// Medians of the rounds; the machine's gaps are left out.
fn table(args: &Args, runs: &[(f64, &str, Run)]) {
    let names: Vec<_> = Transaction::ALL.iter().map(|each| each.name()).collect();
    println!("\np50 | p99 in µs of requests that no gap of the machine overlapped\n");
    println!("| load | policy | {} | dropped | valid |", names.join(" | "));
    println!("|---|---|{}---:|---|", "---:|".repeat(names.len()));
    for &load in &args.loads {
        for policy in &args.policies {
            let same = |(at, name, _): &&(f64, &str, Run)| *at == load && name == policy;
            let of: Vec<&Run> = runs.iter().filter(same).map(|(_, _, run)| run).collect();
            let class = |at: usize| {
                let sojourns = of.iter().filter_map(|run| {
                    let class = run.undisturbed.classes.get(at).filter(|class| class.count > 0);
                    class.and_then(|class| class.sojourn_ns.as_ref())
                });
                let (p50, p99): (Vec<_>, Vec<_>) =
                    sojourns.map(|all| (all.p50 as f64 / 1e3, all.p99 as f64 / 1e3)).unzip();
                match p50.is_empty() {
                    true => "–".to_owned(),
                    false => format!("{:.1} \\| {:.1}", median(p50), median(p99)),
                }
            };
            let classes: Vec<_> = (0..names.len()).map(class).collect();
            let dropped =
                median(of.iter().map(|run| run.dropped as f64 / run.offered.max(1) as f64));
            let valid = of.iter().filter(|run| run.valid).count();
            println!(
                "| {load} | `{policy}` | {} | {:.1}% | {valid} of {} |",
                classes.join(" | "),
                dropped * 100.0,
                of.len()
            );
        }
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
