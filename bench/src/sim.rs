//! `sim`: the simulator beside published ones: the same M/G/16 queue under processor sharing, the
//! same requests one by one, jobs and events a second; and what a job in flight takes of memory.
//!
//! How each shares processors:
//! * ours, under `ps`: a queue from which workers take requests for a quantum each;
//! * SimPy has no such thing, but processes and events: it gets that very model, in Python;
//! * Ciw's `PSNode` shares exactly, without quanta: each of n requests runs at min(1, 16 / n).
//!
//! So that the last is the same system, too, the quantum is a fortieth of the mean service time;
//! what is left of the difference must be below [`TOLERANCE`]. The peers are programs of their own
//! (`bench/sim/peers.py`), one thread each like ours. Time is the thread's or process's own on a
//! core; neither drawing nor reading requests is in it.

use crate::Size;
use crate::figure::{Figure, Report, median};
use curtail_policy::{Nanos, Spec};
use curtail_report::{duration, rate, ratio};
use curtail_sim::{Config, Outcome};
use curtail_workload::{Arrivals, Mix, Request, Requests, Until, named};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WORKLOAD: &str = "bimodal-90-10";
const WORKERS: usize = 16;
const LOAD: f64 = 0.9;
const QUANTUM_NS: u64 = 250;
const PEERS: [&str; 2] = ["ciw", "simpy"];
const PROGRAM: &str = include_str!("../sim/peers.py");

/// By how much the mean and the 99th percentile of sojourn times may differ from ours. Ciw's exact
/// sharing and a quantum of 250 ns are 0.1% to 0.3% apart; first come, first served is 15% and 35%
/// off.
pub const TOLERANCE: f64 = 0.01;

/// What is measured, and by what means.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much.
    pub size: Size,
    /// A Python that has the peers; without one they are skipped.
    pub python: Option<PathBuf>,
    /// The command `curtail-bench`, which is started anew for each measurement of memory.
    pub itself: PathBuf,
}

/// What came out of one simulation of one round's requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// The simulator's name.
    pub name: String,
    /// Which requests.
    pub seed: u64,
    /// Processor time of the simulation.
    pub seconds: f64,
    /// Jobs simulated.
    pub jobs: u64,
    /// Arrivals, ends of quanta, completions.
    pub events: u64,
    /// Mean sojourn time, without the first tenth of the requests.
    pub mean_ns: f64,
    /// Its 99th percentile.
    pub p99_ns: f64,
    /// The mean over ours, less 1.
    pub mean_off: f64,
    /// The 99th percentile over ours, less 1.
    pub p99_off: f64,
}

impl Simulated {
    /// Whether it has found what we have.
    #[must_use]
    pub fn agrees(&self) -> bool {
        // Written so that NaN does not.
        self.mean_off.abs() <= TOLERANCE && self.p99_off.abs() <= TOLERANCE
    }

    /// A second of processor time.
    fn jobs_rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    fn events_rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }
}

/// A peer's answer.
#[derive(Debug, Deserialize)]
struct Answer {
    seconds: f64,
    events: u64,
    mean_ns: f64,
    p99_ns: f64,
}

/// What a run took of memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// The most jobs in flight at once.
    pub jobs: u64,
    /// The most memory the process had, in bytes.
    pub peak_bytes: u64,
}

/// A system with room for so many jobs at once.
fn config(capacity: usize) -> Config {
    let mut spec = Spec::preset("ps").expect("it is in the catalogue");
    spec.quantum = Some(Nanos(QUANTUM_NS));
    Config { capacity, ..Config::ideal(spec, WORKERS, 1) }
}

fn mix() -> Mix {
    named(WORKLOAD).expect("it is in the list").mix()
}

fn requests(load: f64, jobs: u64, seed: u64) -> Requests {
    let mix = mix();
    Requests::new(&mix, Arrivals::Poisson, mix.rate_rps(load, WORKERS), seed, Until::Jobs(jobs))
}

fn simulate(config: &Config, requests: impl Iterator<Item = Request>, jobs: u64) -> Outcome {
    let classes = mix().classes().len();
    curtail_sim::run(config, requests, classes, Until::Jobs(jobs / 10)).expect("it makes sense")
}

fn on_core_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Ours, several times over, so that the time is long enough to be told.
fn ours(requests: &[Request], times: u32) -> Answer {
    let config = config(Config::DEFAULT_CAPACITY);
    let one = || simulate(&config, requests.iter().copied(), requests.len() as u64);
    let start = on_core_ns();
    let mut outcome = one();
    for _ in 1..times {
        outcome = one();
    }
    let sojourn = outcome.recorder.overall().sojourn;
    Answer {
        seconds: (on_core_ns() - start) / f64::from(times) / 1e9,
        events: outcome.events,
        mean_ns: sojourn.mean(),
        p99_ns: sojourn.percentile(99.0),
    }
}

fn peer(python: &Path, name: &str, requests: &[Request]) -> Result<Answer, String> {
    let trouble = |what: String| format!("{name}: {what}");
    let mut child = Command::new(python)
        .args(["-c", PROGRAM, name, &WORKERS.to_string(), &QUANTUM_NS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| trouble(format!("cannot run {}: {e}", python.display())))?;
    let pairs = requests.iter().flat_map(|request| [request.at_ns, request.service_ns]);
    let bytes: Vec<u8> = pairs.flat_map(u64::to_ne_bytes).collect();
    // It reads everything before it writes anything. Where it ended early, its status says more
    // than the pipe's error.
    let _ = child.stdin.take().expect("piped").write_all(&bytes);
    let out = child.wait_with_output().map_err(|e| trouble(e.to_string()))?;
    if !out.status.success() {
        return Err(trouble(format!("ended with {}", out.status)));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| trouble(format!("its answer: {e}")))
}

/// One simulation of `jobs` jobs at that load in a process of its own: what it took of memory.
fn memory(itself: &Path, load: f64, jobs: u64) -> Result<Memory, String> {
    let out = Command::new(itself)
        .args(["simulate", &load.to_string(), &jobs.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run {}: {e}", itself.display()))?;
    serde_json::from_slice(&out.stdout).map_err(|e| format!("`simulate`: {e}"))
}

/// What that process does.
///
/// # Errors
/// Where the kernel does not say how much memory a process had.
pub fn in_memory(load: f64, jobs: u64) -> Result<Memory, String> {
    // Policies make room for as many jobs as there may be at the start.
    let capacity = if load < 1.0 { Config::DEFAULT_CAPACITY } else { jobs as usize };
    let config = config(capacity.clamp(1, Config::MAX_CAPACITY));
    let outcome = simulate(&config, requests(load, jobs, 1), jobs);
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    let kib = kib.ok_or("no VmHWM in /proc/self/status")?;
    Ok(Memory { jobs: outcome.most_in_system as u64, peak_bytes: kib * 1_024 })
}

/// Runs the benchmark.
#[must_use]
pub fn run(options: &Options) -> Report {
    let mut report = Report::new("sim", options.size);
    let size = options.size;
    let (rounds, jobs, times) = (3, size.pick(20_000, 200_000), size.pick(1, 10));
    let mut names = vec!["curtail"];
    match options.python {
        Some(_) => names.extend(PEERS),
        None => report.notes.push("ciw, simpy: skipped, there is no Python with them".to_owned()),
    }
    for seed in 1..=rounds {
        let requests: Vec<Request> = requests(LOAD, jobs, seed).collect();
        let mut answers: Vec<Option<Answer>> = names.iter().map(|_| None).collect();
        for turn in 0..names.len() {
            let at = (seed as usize + turn) % names.len();
            answers[at] = match (&options.python, at) {
                (Some(python), 1..) => peer(python, names[at], &requests)
                    .map_err(|error| report.notes.push(error))
                    .ok(),
                _ => Some(ours(&requests, times)),
            };
        }
        report.simulated.extend(compared(seed, jobs, &names, answers));
    }
    let time = |what: &str, of: &dyn Fn(&Simulated) -> f64| {
        let values = |name: &&str| {
            let theirs = report.simulated.iter().filter(|one| one.name == *name);
            ((*name).to_owned(), theirs.map(|one| 1e9 / of(one)).collect::<Vec<_>>())
        };
        let values = names.iter().map(values).filter(|(_, rounds)| !rounds.is_empty());
        Figure::of(what, "ns", false, values.collect())
    };
    let figures = [time("a job", &Simulated::jobs_rate), time("an event", &Simulated::events_rate)];
    report.figures.extend(figures);
    measure_memory(options, &mut report);
    report
}

/// All answers of a round beside ours, which is the first.
fn compared(seed: u64, jobs: u64, names: &[&str], answers: Vec<Option<Answer>>) -> Vec<Simulated> {
    let ours = answers[0].as_ref().map_or((f64::NAN, f64::NAN), |a| (a.mean_ns, a.p99_ns));
    let one = |(name, answer): (&&str, Option<Answer>)| {
        let Answer { seconds, events, mean_ns, p99_ns } = answer?;
        let (mean_off, p99_off) = (mean_ns / ours.0 - 1.0, p99_ns / ours.1 - 1.0);
        let name = (*name).to_owned();
        Some(Simulated { name, seed, seconds, jobs, events, mean_ns, p99_ns, mean_off, p99_off })
    };
    names.iter().zip(answers).filter_map(one).collect()
}

/// Memory of two runs in which all jobs are in flight at once, and of two at the usual load of which
/// one is ten times longer.
fn measure_memory(options: &Options, report: &mut Report) {
    let mut measure = || -> Result<(), String> {
        let size = options.size;
        let (few, many) = size.pick((1 << 13, 1 << 15), (1 << 18, 1 << 20));
        let flood = 1_000.0;
        let mut bytes = Vec::new();
        for _ in 0..3 {
            let few = memory(&options.itself, flood, few)?;
            let many = memory(&options.itself, flood, many)?;
            let more = many.peak_bytes.saturating_sub(few.peak_bytes);
            bytes.push(more as f64 / (many.jobs - few.jobs) as f64);
        }
        let jobs = size.pick(20_000, 500_000);
        let short = memory(&options.itself, LOAD, jobs)?;
        let long = memory(&options.itself, LOAD, 10 * jobs)?;
        let mib = |memory: Memory| memory.peak_bytes as f64 / f64::from(1 << 20);
        report.notes.push(format!(
            "a job in flight takes {} bytes; a run of {jobs} jobs at {:.0}% load has at most {} in \
             flight and {:.1} MiB in all, one of {} has {} and {:.1} MiB",
            ratio(median(&bytes)),
            LOAD * 100.0,
            short.jobs,
            mib(short),
            10 * jobs,
            long.jobs,
            mib(long),
        ));
        let values = vec![("curtail".to_owned(), bytes)];
        report.figures.push(Figure::of("memory of a job in flight", "B", false, values));
        Ok(())
    };
    if let Err(error) = measure() {
        report.notes.push(format!("memory: {error}"));
    }
}

/// Mean sojourn time of M/G/c under processor sharing, which depends on the mean service time alone:
/// that of M/M/c (Erlang C).
#[must_use]
pub fn exact_mean_ns() -> f64 {
    let offered = LOAD * WORKERS as f64;
    let blocking = (1..=WORKERS).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocking / (1.0 - LOAD * (1.0 - blocking));
    mix().mean_ns() * (1.0 + waits / (WORKERS as f64 * (1.0 - LOAD)))
}

/// What each simulator found, as people read it.
#[must_use]
pub fn table(simulated: &[Simulated]) -> String {
    let mut out = format!(
        "\nsojourn times, {WORKLOAD} on {WORKERS} workers at {:.0}% load, quanta of {}; in theory a \
         mean of {:.0} ns\n",
        LOAD * 100.0,
        duration(QUANTUM_NS as f64),
        exact_mean_ns(),
    );
    for one in simulated {
        let _ = writeln!(
            out,
            "  seed {}  {:8}  mean {:>7.0} ns ({:+.2}%)  p99 {:>7.0} ns ({:+.2}%)  {:>9} jobs  {:>9} \
             events{}",
            one.seed,
            one.name,
            one.mean_ns,
            one.mean_off * 100.0,
            one.p99_ns,
            one.p99_off * 100.0,
            rate(one.jobs_rate()),
            rate(one.events_rate()),
            if one.agrees() { "" } else { "  DISAGREES" },
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(mean_ns: f64, p99_ns: f64) -> Option<Answer> {
        Some(Answer { seconds: 1.0, events: 1, mean_ns, p99_ns })
    }

    #[test]
    fn who_finds_something_else_disagrees() {
        let names = ["curtail", "near", "mean", "tail", "nothing", "gone"];
        let found = [
            answer(100.0, 1_000.0),
            answer(100.9, 991.0),
            answer(101.1, 1_000.0),
            answer(100.0, 980.0),
            answer(f64::NAN, 1_000.0),
            None,
        ];
        let all = compared(1, 1, &names, found.into());
        let agree: Vec<bool> = all.iter().map(Simulated::agrees).collect();
        assert_eq!(agree, [true, true, false, false, false]);
        assert_eq!(table(&all).matches("DISAGREES").count(), 3);
    }

    #[test]
    fn first_come_first_served_would_be_seen() {
        let requests: Vec<Request> = requests(LOAD, 20_000, 1).collect();
        let ours = ours(&requests, 1);
        let mut config = config(Config::DEFAULT_CAPACITY);
        config.spec = Spec::preset("fcfs").unwrap();
        let classes = mix().classes().len();
        let fcfs = curtail_sim::run(&config, requests.iter().copied(), classes, Until::Jobs(2_000))
            .unwrap();
        let sojourn = fcfs.recorder.overall().sojourn;
        let fcfs = answer(sojourn.mean(), sojourn.percentile(99.0));
        let all = compared(1, 1, &["curtail", "fcfs"], vec![Some(ours), fcfs]);
        assert!(all[1].mean_off > 0.05 && all[1].p99_off < -0.1, "{all:?}");
    }
}
