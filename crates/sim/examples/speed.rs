//! How many events a second one core simulates, policy by policy:
//! `cargo run --release -p curtail-sim --example speed [JOBS [POLICY [WORKLOAD [WORKERS]]]]`.
//!
//! Time is the thread's own on a core, so that other programs on the machine disturb the figures
//! less, and of three runs the fastest counts.

use curtail_policy::{Spec, catalogue};
use curtail_sim::{Config, Outcome, run};
use curtail_workload::{Arrivals, Requests, Until, named};
use std::time::Instant;

/// On a core so far, in nanoseconds; `None` where the kernel does not count.
fn on_core_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn simulate(policy: &str, workload: &str, workers: usize, jobs: u64) -> (Outcome, f64) {
    let mix = named(workload).expect("it is in the list").mix();
    let config = Config::ideal(Spec::preset(policy).expect("it is in the catalogue"), workers, 1);
    let rate = mix.rate_rps(0.7, workers);
    let requests = Requests::new(&mix, Arrivals::Poisson, rate, 1, Until::Jobs(jobs));
    let (start, before) = (Instant::now(), on_core_ns());
    let outcome = run(&config, requests, mix.classes().len(), Until::Jobs(jobs / 10));
    let ns = match (before, on_core_ns()) {
        (Some(before), Some(after)) => (after - before) as f64,
        _ => start.elapsed().as_nanos() as f64,
    };
    (outcome.expect("presets are valid"), ns)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |i: usize| arguments.get(i).map(String::as_str);
    let jobs: u64 = given(0).map_or(1_000_000, |n| n.parse().expect("a number of jobs"));
    println!(
        "{:16} {:18} {:>7} {:>9} {:>9} {:>9} {:>10}",
        "policy", "workload", "workers", "events/s", "jobs/s", "ns/event", "events/job"
    );
    let points = [("extreme-bimodal", 1), ("extreme-bimodal", 16), ("exp1", 16), ("exp1", 1_024)];
    for (workload, workers) in points {
        if given(2).is_some_and(|it| it != workload)
            || given(3).is_some_and(|it| it != workers.to_string())
        {
            continue;
        }
        let names = catalogue().iter().map(|entry| entry.name);
        for policy in names.filter(|name| given(1).is_none_or(|it| it == *name)) {
            let runs: Vec<_> = (0..3).map(|_| simulate(policy, workload, workers, jobs)).collect();
            let ns = runs.iter().map(|run| run.1).fold(f64::INFINITY, f64::min);
            let (events, arrived) = (runs[0].0.events as f64, runs[0].0.arrived as f64);
            println!(
                "{policy:16} {workload:18} {workers:>7} {:>8.1}M {:>8.1}M {:>9.1} {:>10.1}",
                events / ns * 1e3,
                arrived / ns * 1e3,
                ns / events,
                events / arrived,
            );
        }
    }
}
