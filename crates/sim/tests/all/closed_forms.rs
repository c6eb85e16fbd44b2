//! What queueing theory knows exactly, the simulator must find within 1%.

use crate::common;

use common::{close, mean, mix, seeds, spec};
use curtail_sim::{Config, Outcome};
use curtail_workload::Mix;

const JOBS: u64 = 500_000;
const SEEDS: u64 = 4;

fn runs(
    policy: &str,
    quantum_ns: Option<u64>,
    workers: usize,
    mix: &Mix,
    load: f64,
) -> Vec<Outcome> {
    seeds(&Config::ideal(spec(policy, quantum_ns), workers, 0), mix, load, JOBS, SEEDS)
}

fn mean_sojourn(outcome: &Outcome) -> f64 {
    outcome.recorder.overall().sojourn.mean()
}

/// M/M/1: T = x / (1 − ρ), under every order that does not look at service times.
#[test]
fn m_m_1() {
    let mix = mix("a:exp(100us):1");
    for (policy, load) in [("fcfs", 0.5), ("fcfs", 0.7), ("jbsq", 0.7), ("dfcfs", 0.5)] {
        let found = mean(&runs(policy, None, 1, &mix, load), mean_sojourn);
        close(&format!("M/M/1 {policy} at {load}"), found, 100_000.0 / (1.0 - load));
    }
}

/// The probability that a job waits in M/M/c (Erlang C), from Erlang B's recursion.
fn erlang_c(servers: usize, load: f64) -> f64 {
    let offered = load * servers as f64;
    let blocking = (1..=servers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    blocking / (1.0 - load * (1.0 - blocking))
}

/// M/M/c: the mean wait follows from Erlang C.
#[test]
fn m_m_c() {
    let mix = mix("a:exp(100us):1");
    for (workers, load) in [(2, 0.7), (8, 0.8), (16, 0.9)] {
        let found = mean(&runs("fcfs", None, workers, &mix, load), mean_sojourn);
        let rest = workers as f64 * (1.0 - load);
        let exact = 100_000.0 * (1.0 + erlang_c(workers, load) / rest);
        close(&format!("M/M/{workers} sojourn at {load}"), found, exact);
    }
}

/// M/M/c: a job that waits has a sojourn time above its service time.
#[test]
fn erlang_c_is_how_many_wait() {
    let mix = mix("a:exp(100us):1");
    for (workers, load) in [(4, 0.7), (16, 0.85)] {
        let config = Config::ideal(spec("fcfs", None), workers, 5);
        let rate = mix.rate_rps(load, workers);
        let (mut waited, mut all) = (0u64, 0u64);
        let requests = curtail_workload::Requests::new(
            &mix,
            curtail_workload::Arrivals::Poisson,
            rate,
            5,
            curtail_workload::Until::Jobs(2_000_000),
        );
        let count = |done: &curtail_sim::Done| {
            all += 1;
            waited += u64::from(done.sojourn_ns() > done.service_ns);
        };
        let none = curtail_workload::Until::Jobs(0);
        curtail_sim::run_observed(&config, requests, 1, none, count).unwrap();
        let found = waited as f64 / all as f64;
        close(
            &format!("Erlang C, {workers} at {load}, %"),
            found * 100.0,
            erlang_c(workers, load) * 100.0,
        );
    }
}

/// M/G/1 FCFS: the wait is λ E[S²] / 2 (1 − ρ) (Pollaczek–Khinchine).
#[test]
fn pollaczek_khinchine() {
    let uniform = mix("a:uniform(10us..190us):1");
    let bimodal = mix("short:10us:9,long:100us:1");
    let fixed = mix("a:100us:1");
    // E[S²]: of a uniform one, (a² + ab + b²) / 3.
    for (name, mix, second_moment) in [
        ("uniform", uniform, (10.0 * 10.0 + 10.0 * 190.0 + 190.0 * 190.0) / 3.0 * 1e6),
        ("bimodal", bimodal, (0.9 * 100.0 + 0.1 * 10_000.0) * 1e6),
        ("fixed", fixed, 10_000.0 * 1e6),
    ] {
        for load in [0.5, 0.7] {
            let found = mean(&runs("fcfs", None, 1, &mix, load), mean_sojourn);
            let lambda = load / mix.mean_ns();
            let exact = mix.mean_ns() + lambda * second_moment / 2.0 / (1.0 - load);
            close(&format!("M/G/1 {name} at {load}"), found, exact);
        }
    }
}

/// M/G/1 processor sharing: a job of service time x has a mean sojourn of x / (1 − ρ), whatever the
/// others are. Quanta are small against every service time; under both kinds of policies.
#[test]
fn m_g_1_ps() {
    let mix = mix("short:10us:8,middle:30us:1,long:90us:1");
    for (policy, load) in [("ps", 0.5), ("tq", 0.7)] {
        let runs = runs(policy, Some(200), 1, &mix, load);
        for (class, service) in [10_000.0, 30_000.0, 90_000.0].into_iter().enumerate() {
            let found = mean(&runs, |run| run.recorder.class(class).sojourn.mean());
            let exact = service / (1.0 - load);
            close(&format!("M/G/1-PS by {policy} at {load}, class {class}"), found, exact);
        }
    }
}

/// The short class's p99 on one worker, in microseconds, as another simulator found it from 5 s of
/// arrivals: figures that scatter by a tenth from seed to seed.
#[test]
fn extreme_bimodal_on_one_worker() {
    let mix = mix("extreme-bimodal");
    for (load, fcfs, ps) in [(0.5, 1_457.0, 11.0), (0.7, 2_553.0, 21.0), (0.8, 4_387.0, 39.0)] {
        let runs = |policy, quantum| {
            let config = Config::ideal(spec(policy, quantum), 1, 0);
            seeds(&config, &mix, load, 8 * JOBS, 2)
        };
        let p99 = |runs: &[Outcome]| {
            mean(runs, |run| run.recorder.class(0).sojourn.percentile(99.0) / 1e3)
        };
        let found = p99(&runs("fcfs", None));
        println!("FCFS at {load}: {found:.0} us ({fcfs})");
        assert!((found / fcfs - 1.0).abs() < 0.2, "FCFS at {load}: {found}");
        for policy in ["ps", "tq"] {
            let found = p99(&runs(policy, Some(2_000)));
            println!("{policy} at {load}: {found:.1} us ({ps})");
            assert!((found / ps - 1.0).abs() < 0.2, "{policy} at {load}: {found}");
        }
    }
}
