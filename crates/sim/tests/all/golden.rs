//! Ideal runs whose figures are written down: a change of a policy, of the simulator or of a
//! workload shows here. To accept one: `CURTAIL_GOLDEN=write cargo test -p curtail-sim golden::`.

use crate::common;

use common::{mix, simulate, spec};
use curtail_alloc::{Machine, Nanos, Settings};
use curtail_sim::{
    Balance, Batch, Config, Cores, Costs, Critical, HandOvers, Outcome, Served, share,
};
use curtail_workload::{Arrivals, Requests, Service, Until};
use std::fmt::Write;
use std::path::Path;

const JOBS: u64 = 40_000;

fn line(out: &mut String, name: &str, outcome: &Outcome) {
    let (short, all) = (outcome.recorder.class(0), outcome.recorder.overall());
    writeln!(
        out,
        "{name:40} {:>9.0} {:>9.0} {:>9.2} {:>9.2} {:>9} {:>9}",
        short.sojourn.percentile(50.0),
        short.sojourn.percentile(99.0),
        all.slowdown.percentile(50.0),
        all.slowdown.percentile(99.9),
        outcome.preemptions,
        outcome.refused,
    )
    .unwrap();
}

fn head(out: &mut String, of: &str) {
    let heads = ["p50 ns", "p99 ns", "slow p50", "p99.9", "yields", "refused"];
    write!(out, "{of:40}").unwrap();
    heads.iter().for_each(|head| write!(out, " {head:>9}").unwrap());
    out.push('\n');
}

fn check(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/golden").join(name);
    if std::env::var_os("CURTAIL_GOLDEN").is_some_and(|it| it == "write") {
        return std::fs::write(&file, found).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    let differs = golden.lines().zip(found.lines()).find(|(was, is)| was != is);
    if let Some((was, is)) = differs {
        panic!("{name}\nwas {was}\nis  {is}\nall of it:\n{found}");
    }
    assert_eq!(golden, found);
}

#[test]
fn ideal() {
    let mut out = String::new();
    head(&mut out, "policy workload load, 4 workers");
    for policy in ["fcfs", "dfcfs", "jbsq", "ps", "shinjuku", "concord", "tq", "steal", "srpt"] {
        for (workload, load) in
            [("extreme-bimodal", 0.5), ("high-bimodal", 0.8), ("tpcc", 0.8), ("exp1", 0.9)]
        {
            let config = Config::ideal(spec(policy, None), 4, 1);
            let outcome = simulate(&config, &mix(workload), load, JOBS);
            line(&mut out, &format!("{policy} {workload} {load}"), &outcome);
        }
    }
    check("ideal.txt", &out);
}

/// Shenango's runtime beside those that it is compared with, in an ideal machine and in one where
/// everything costs something.
#[test]
fn without_a_dispatcher() {
    let costs = Costs {
        receive: 100,
        dispatch: 60,
        hear: 30,
        ring: 200,
        start: 20,
        switch: 60,
        finish: 20,
        steal: 150,
        park: 500,
        wake: 3_000,
        overshoot: Service::Uniform(0, 200),
        instrumentation: 0.02,
        ..Costs::IDEAL
    };
    let mut out = String::new();
    head(&mut out, "policy workload load, 16 workers");
    for (costs, how) in [(Costs::IDEAL, "ideal"), (costs, "costly")] {
        for policy in ["fcfs", "tq", "dfcfs", "shenango", "shenango-ps"] {
            for (workload, load) in [("extreme-bimodal", 0.7), ("exp1", 0.5), ("exp10", 0.9)] {
                let config = Config { costs, ..Config::ideal(spec(policy, None), 16, 1) };
                let outcome = simulate(&config, &mix(workload), load, JOBS);
                line(&mut out, &format!("{policy} {workload} {load} {how}"), &outcome);
            }
        }
    }
    let unlike = [
        ("pinned", Config { pinned: true, ..Config::ideal(spec("shenango-ps", None), 16, 1) }),
        (
            "by flow",
            Config {
                balance: Balance::Rss,
                flows: 24,
                ..Config::ideal(spec("shenango", None), 16, 1)
            },
        ),
        ("64 workers", Config::ideal(spec("shenango-ps", None), 64, 1)),
    ];
    for (what, config) in unlike {
        let outcome = simulate(&config, &mix("extreme-bimodal"), 0.7, JOBS);
        line(&mut out, &format!("{} {what}", config.spec.name), &outcome);
    }
    check("threads.txt", &out);
}

/// Programs that share cores: the tail of the slowest, time used over allocated, what is left.
#[test]
fn programs_that_share_cores() {
    let mut out = String::new();
    let heads = ["p50 ns", "p99.9 ns", "efficient", "left", "grants", "evicted"];
    write!(out, "{:40}", "programs cores load hand-over").unwrap();
    heads.iter().for_each(|head| write!(out, " {head:>9}").unwrap());
    out.push('\n');
    for (hand_over, costs) in
        [("switch", HandOvers::SWITCH), ("flag", HandOvers::FLAG), ("signal", HandOvers::SIGNAL)]
    {
        for (programs, cores, load) in [(1, 16, 0.5), (4, 8, 0.7), (8, 64, 0.9)] {
            let how = Cores {
                machine: Machine::of_siblings(cores),
                settings: Settings { grace: Nanos(20_000), ..Settings::default() },
                costs,
                batch: Batch::Looks,
                seed: 1,
            };
            let mix = mix("exp10");
            let rate = mix.rate_rps(load, cores as usize) / f64::from(programs);
            let program = |seed: u32| Critical {
                kthreads: cores,
                guaranteed: cores / programs,
                burstable: cores - cores / programs,
                search_ns: Some(2_000),
                pinned: true,
                requests: Box::new(Requests::new(
                    &mix,
                    Arrivals::Poisson,
                    rate,
                    u64::from(seed),
                    Until::Time(10_000_000),
                )),
            };
            let all = share(&how, (1..=programs).map(program).collect()).unwrap();
            let most =
                |of: &dyn Fn(&Served) -> f64| all.programs.iter().map(of).fold(0.0, f64::max);
            let sum = |of: fn(&Served) -> u64| all.programs.iter().map(of).sum::<u64>();
            let name = format!("{programs} {cores} {load} {hand_over}");
            writeln!(
                out,
                "{name:40} {:>9.0} {:>9.0} {:>9.3} {:>9.3} {:>9} {:>9}",
                most(&|it| it.sojourn.percentile(50.0)),
                most(&|it| it.sojourn.percentile(99.9)),
                all.efficiency(),
                all.left(),
                sum(|it| it.grants),
                sum(|it| it.evictions),
            )
            .unwrap();
        }
    }
    check("cores.txt", &out);
}

#[test]
fn with_costs_and_several_dispatchers() {
    let costs = Costs {
        receive: 30,
        dispatch: 50,
        hear: 20,
        signal: 15,
        ring: 200,
        notify: 300,
        start: 30,
        switch: 60,
        finish: 40,
        overshoot: Service::Uniform(0, 200),
        instrumentation: 0.02,
        ..Costs::IDEAL
    };
    let mut out = String::new();
    head(&mut out, "policy, 16 workers, high-bimodal 0.7");
    for policy in ["fcfs", "jbsq", "ps", "shinjuku", "concord", "tq"] {
        let config = Config { costs, pinned: true, ..Config::ideal(spec(policy, None), 16, 2) };
        line(&mut out, policy, &simulate(&config, &mix("high-bimodal"), 0.7, JOBS));
    }
    for balance in Balance::ALL {
        let config = Config {
            costs,
            dispatchers: 3,
            balance,
            flows: 32,
            capacity: 200,
            ..Config::ideal(spec("tq", None), 16, 2)
        };
        let outcome = simulate(&config, &mix("high-bimodal"), 0.7, JOBS);
        line(&mut out, &format!("tq, 3 dispatchers, {balance}"), &outcome);
    }
    check("costs.txt", &out);
}
