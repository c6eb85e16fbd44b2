//! What the simulator's tests have in common.
#![allow(dead_code, reason = "each test uses its part")]

use curtail_policy::{Nanos, Spec};
use curtail_sim::{Config, Outcome, run};
use curtail_workload::{Arrivals, Mix, Requests, Until, named};

/// The policy of that name, with that quantum where one is given.
pub(crate) fn spec(name: &str, quantum_ns: Option<u64>) -> Spec {
    let spec = Spec::preset(name).unwrap();
    match quantum_ns {
        Some(ns) => spec.with_quantum(Nanos(ns)).unwrap(),
        None => spec,
    }
}

/// The workload of that name, or with those classes.
pub(crate) fn mix(text: &str) -> Mix {
    named(text).map_or_else(|_| Mix::parse(text).unwrap(), |named| named.mix())
}

/// So many requests of a mix at a load, as the conventions want them counted.
pub(crate) fn simulate(config: &Config, mix: &Mix, load: f64, jobs: u64) -> Outcome {
    let rate_rps = mix.rate_rps(load, config.workers);
    let requests = Requests::new(mix, Arrivals::Poisson, rate_rps, config.seed, Until::Jobs(jobs));
    run(config, requests, mix.classes().len(), Until::Jobs(jobs / 10)).unwrap()
}

/// Runs of several seeds.
pub(crate) fn seeds(config: &Config, mix: &Mix, load: f64, jobs: u64, seeds: u64) -> Vec<Outcome> {
    let configs: Vec<Config> = (1..=seeds).map(|seed| Config { seed, ..config.clone() }).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let one = |config: &Config| Ok::<_, ()>(simulate(config, mix, load, jobs));
    curtail_sim::sweep(&configs, threads, one).unwrap()
}

/// The mean over runs.
pub(crate) fn mean(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

/// Asserts that `is` is within 1% of `should`.
#[track_caller]
pub(crate) fn close(what: &str, is: f64, should: f64) {
    let off = is / should - 1.0;
    println!("{what}: {is:.1}, exactly {should:.1} ({:+.2}%)", off * 100.0);
    assert!(off.abs() < 0.01, "{what}: {is} instead of {should}, off by {:.2}%", off * 100.0);
}
