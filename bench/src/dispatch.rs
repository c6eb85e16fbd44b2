//! `dispatch`: requests from a generator on one core to a worker on another.
//!
//! Two questions, to the runtime and to each peer with the same requests: how many empty requests a
//! second go through, and how long the short class of `extreme-bimodal` takes (p99) under load.

use crate::Size;
use crate::board::Board;
use crate::figure::{Figure, Report};
use crate::machine::{Cores, Tsc};
use crate::openloop::{Plan, saturate};
use crate::peers::Peer;
use curtail_report::{Metric, Quantile, Run};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const WORKLOAD: &str = "extreme-bimodal";
const POLICIES: &str = "tq,fcfs";
/// Requests under way at most when a peer is asked for all it can do.
const WINDOW: usize = 1_024;

/// What to measure with.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much.
    pub size: Size,
    /// The Go program, where there is one.
    pub go: Option<PathBuf>,
    /// The command `curtail`, where it was built.
    pub curtail: Option<PathBuf>,
    /// Loads, as shares of the worker's capacity.
    pub loads: Vec<f64>,
    /// Length of a run.
    pub seconds: f64,
    /// How often each contestant has a turn.
    pub rounds: usize,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self {
            size,
            go: None,
            curtail: None,
            loads: size.pick(vec![0.3], vec![0.3, 0.5, 0.7]),
            seconds: size.pick(0.05, 2.0),
            rounds: size.pick(1, 5),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        let go = self.go.iter().cloned().map(Peer::Go);
        [Peer::Thread, Peer::Tokio].into_iter().chain(go).collect()
    }
}

/// Runs the benchmark.
#[must_use]
pub fn run(options: &Options) -> Report {
    let mut report = Report::new("dispatch", options.size);
    if Cores::pair().is_none() {
        report.notes.push("one core only: generator and worker share it".to_owned());
    }
    if options.curtail.is_none() {
        report.notes.push("curtail: skipped, the command is not built".to_owned());
    }
    if options.go.is_none() {
        report.notes.push("go: skipped, there is no Go toolchain here".to_owned());
    }
    throughput(options, &mut report);
    latency(options, &mut report);
    report
}

fn throughput(options: &Options, report: &mut Report) {
    let count = options.size.pick(2_000, 2_000_000);
    let peers = options.peers();
    let mut values: Vec<(String, Vec<f64>)> = Vec::new();
    let mut push = |name: &str, value: f64| match values.iter_mut().find(|(known, _)| known == name)
    {
        Some((_, rounds)) => rounds.push(value),
        None => values.push((name.to_owned(), vec![value])),
    };
    for _ in 0..options.rounds {
        if let Some(program) = &options.curtail {
            match most(program, options) {
                Ok(rate) => push("curtail", rate),
                Err(error) => note(report, "curtail", &error),
            }
        }
        push("the bare ring", 1e9 / crate::ring::raw(options.size));
        for peer in &peers {
            match peer_rate(peer, count) {
                Ok(rate) => push(peer.name(), rate),
                Err(error) => note(report, peer.name(), &error),
            }
        }
    }
    report.figures.push(Figure::of("empty requests through one worker", "/s", true, values));
}

fn note(report: &mut Report, who: &str, error: &str) {
    let text = format!("{who}: {error}");
    if !report.notes.contains(&text) {
        report.notes.push(text);
    }
}

fn peer_rate(peer: &Peer, count: usize) -> Result<f64, String> {
    let cores = Cores::pair();
    let board = Arc::new(Board::new((0..count).map(|_| 0)).map_err(|e| e.to_string())?);
    peer.serve(&board, cores, || saturate(&board, WINDOW, cores))?
}

/// The most empty requests a second that the runtime completes: the offered rate grows until less
/// than it comes back. By `tq`, which like the peers sends a request on without waiting for the one
/// before.
fn most(program: &Path, options: &Options) -> Result<f64, String> {
    let seconds = options.size.pick(0.05, 1.0);
    let mut best: f64 = 0.0;
    let mut offered = 1e6;
    while offered < 100e6 {
        let rate = format!("{offered}");
        let load = ["--policy", "tq", "--classes", "empty:0ns:100", "--rate", &rate];
        let run = curtail(program, &load, seconds)?.pop().ok_or("no result")?;
        best = best.max(run.achieved_rps);
        if run.achieved_rps < 0.9 * offered || options.size == Size::Smoke {
            break;
        }
        offered *= 1.25;
    }
    Ok(best)
}

/// Runs `curtail bench` with one worker and reads its results.
pub(crate) fn curtail(program: &Path, load: &[&str], seconds: f64) -> Result<Vec<Run>, String> {
    let duration = format!("{}ms", (seconds * 1e3).round());
    let out = Command::new(program)
        .args(["bench", "--workers", "1", "--duration", &duration, "--json", "-"])
        .args(load)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    // Without success, runs that are not valid say so in what was written.
    if !out.status.success() && out.stdout.is_empty() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!(
            "`curtail bench` failed: {}",
            said.lines().last().unwrap_or("").trim()
        ));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    curtail_report::parse("curtail bench", &text).map_err(|e| e.to_string())
}

fn latency(options: &Options, report: &mut Report) {
    let peers = options.peers();
    for round in 0..options.rounds {
        for &load in &options.loads {
            if let Some(program) = &options.curtail {
                let at = format!("{load}");
                let args = ["--policy", POLICIES, "--workload", WORKLOAD, "--load", &at];
                match curtail(program, &args, options.seconds) {
                    Ok(runs) => report.runs.extend(runs),
                    Err(error) => note(report, "curtail", &error),
                }
            }
            for peer in &peers {
                match one(peer, load, options.seconds, round as u64 + 1) {
                    Ok((run, remark)) => {
                        report.runs.push(run);
                        if let Some(remark) = remark {
                            note(report, peer.name(), &remark);
                        }
                    }
                    Err(error) => note(report, peer.name(), &error),
                }
            }
        }
    }
    for &load in &options.loads {
        summary(report, load);
    }
}

/// One run of a peer, and what the reader should know about it.
fn one(peer: &Peer, load: f64, seconds: f64, seed: u64) -> Result<(Run, Option<String>), String> {
    let cores = Cores::pair();
    let plan = Plan::new(WORKLOAD, load, seconds, seed)?;
    let board = Arc::new(plan.board().map_err(|e| e.to_string())?);
    let driven = peer.serve(&board, cores, || plan.drive(&board, cores))?;
    let mut run = plan.outcome(&board, &driven);
    let (preempt, quantum_ns) = peer.preemption();
    run.policy = peer.name().to_owned();
    run.preempt = preempt.to_owned();
    run.quantum_ns = quantum_ns;
    if cores.is_none() {
        run.invalidate("generator and worker shared one core");
    }
    // What is compared is scheduling: the same request must be the same work for all of them.
    let remark = board.spin_cycles().and_then(|cycles| {
        let (theirs, ours) = (Tsc::get().ns(cycles), Plan::step_ns() * 1_000.0);
        let off = (theirs / ours - 1.0) * 100.0;
        (off.abs() > 5.0).then(|| format!("its spin is {off:+.0}% as long as the others'"))
    });
    Ok((run, remark))
}

/// Short-class p99 at one load, all rounds of each; invalid runs count only where there is no other.
fn summary(report: &mut Report, load: f64) {
    let mut values: Vec<(String, Vec<f64>, bool)> = Vec::new();
    let here = |run: &&Run| run.load.is_some_and(|at| (at - load).abs() < 1e-6);
    for run in report.runs.iter().filter(here) {
        let Some(p99) = run.figure(Some("short"), Metric::Sojourn, Quantile::P99) else { continue };
        let at = values.iter().position(|(name, ..)| *name == run.policy).unwrap_or_else(|| {
            values.push((run.policy.clone(), Vec::new(), false));
            values.len() - 1
        });
        let (_, rounds, valid) = &mut values[at];
        if run.valid && !*valid {
            rounds.clear();
            *valid = true;
        }
        if run.valid == *valid {
            rounds.push(p99);
        }
    }
    let named = |(name, rounds, valid): (String, Vec<f64>, bool)| {
        (if valid { name } else { format!("{name} (not valid)") }, rounds)
    };
    let what = format!("{WORKLOAD} at load {load}: p99 sojourn time of the short class");
    let values = values.into_iter().map(named).collect();
    report.figures.push(Figure::of(&what, "ns", false, values));
}
