//! Jobs that block and workers that lose their cores: single cases to the nanosecond, and nothing lost
//! under any policy.

use crate::common;

use common::{mix, simulate, spec};
use curtail_policy::{Spec, dispatched};
use curtail_sim::{Blocking, Config, Costs, Done, Outages, run_observed};
use curtail_workload::{Request, Service, Until};

/// Arrival and service: when each completed, in the order of completion, in nanoseconds.
fn play(config: &Config, requests: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let requests =
        requests.iter().map(|&(at_ns, service_ns)| Request { at_ns, class: 0, service_ns });
    let mut done = Vec::new();
    let note = |it: &Done| done.push((it.arrived_ns, it.finished_ns));
    run_observed(config, requests, 1, Until::Jobs(0), note).unwrap();
    done
}

fn one_worker(policy: &str) -> Config {
    Config::ideal(spec(policy, Some(1_000)), 1, 0)
}

fn blocking(after: f64, wait: u64) -> Option<Blocking> {
    Some(Blocking { chance: 1.0, after, wait: Service::Constant(wait) })
}

#[test]
fn a_job_that_blocks_gives_its_place_to_another() {
    for policy in ["fcfs", "jbsq", "ps", "steal", "tq", "dfcfs", "shinjuku"] {
        let config = Config { blocking: blocking(0.5, 30), ..one_worker(policy) };
        assert_eq!(play(&config, &[(0, 100)]), [(0, 130)], "{policy}: alone");
        // 0 to 50 and, when it is woken at 80, behind the other's first half: that ends at 90, waits
        // until 120, and comes after the first one's second half.
        let done = play(&config, &[(0, 100), (1, 80)]);
        assert_eq!(done, [(0, 140), (1, 180)], "{policy}");
    }
}

/// Going away from a job that blocks costs a switch, and it sleeps only then.
#[test]
fn a_context_switch_costs_what_a_pre_emption_does() {
    let costs = Costs { switch: 7, ..Costs::IDEAL };
    for policy in ["fcfs", "tq"] {
        let config = Config { blocking: blocking(0.5, 30), costs, ..one_worker(policy) };
        assert_eq!(play(&config, &[(0, 100)]), [(0, 137)], "{policy}");
        let shares = simulate(&config, &mix("a:100ns:1"), 0.2, 1_000).shares;
        assert!((shares.overhead / shares.app - 0.07).abs() < 1e-9, "{policy}: {shares:?}");
    }
}

/// A dispatcher that is conserving work goes on with others, and only it with the job.
#[test]
fn a_job_blocks_on_the_dispatcher_too() {
    let config = Config { blocking: blocking(0.5, 10_000), ..one_worker("concord") };
    // Two go to the inbox; the third runs here from 2 to 52 and from 10,052 on.
    let done = play(&config, &[(0, 50_000), (1, 50_000), (2, 100)]);
    assert_eq!(done[0], (2, 10_102));
}

#[test]
fn a_worker_without_a_core_stands_still() {
    let outages =
        |told| Some(Outages { every: Service::Constant(100), lasts: Service::Constant(40), told });
    for policy in ["fcfs", "ps", "tq", "shinjuku"] {
        for told in [false, true] {
            let config = Config { outages: outages(told), ..one_worker(policy) };
            assert_eq!(play(&config, &[(0, 150)]), [(0, 190)], "{policy}");
            // It comes while there is no core, or before and stands still once more.
            assert_eq!(play(&config, &[(110, 30)]), [(110, 170)], "{policy}");
            assert_eq!(play(&config, &[(90, 130)]), [(90, 300)], "{policy}");
        }
    }
}

/// A work-conserving dispatcher that is told of it runs the job itself.
#[test]
fn work_is_conserved_while_a_worker_has_no_core() {
    for (told, finished) in [(true, 140), (false, 170)] {
        let outages =
            Some(Outages { every: Service::Constant(100), lasts: Service::Constant(40), told });
        let config = Config { outages, ..one_worker("concord") };
        assert_eq!(play(&config, &[(110, 30)]), [(110, finished)]);
    }
}

/// A quantum that ends while its worker has no core, or that is to end then, ends when that is back.
#[test]
fn what_a_worker_owes_it_does_when_it_is_back() {
    let outages =
        Some(Outages { every: Service::Constant(95), lasts: Service::Constant(50), told: false });
    for (policy, notify, finished) in [("ps", 0, 170), ("shinjuku", 0, 170), ("shinjuku", 10, 180)]
    {
        let costs = Costs { notify, ..Costs::IDEAL };
        let spec = spec(policy, Some(100));
        let config = Config { outages, costs, ..Config::ideal(spec, 1, 0) };
        // The first runs from 0 to 95 and from 145 on; its quantum ends at 150 or a little later.
        let done = play(&config, &[(0, 200), (10, 20)]);
        assert_eq!(done[0], (10, finished), "{policy}");
    }
}

#[test]
fn a_scheduler_that_is_told_sends_jobs_elsewhere() {
    for policy in ["fcfs", "jbsq", "tq", "dfcfs", "steal", "srpt", "darc", "wrr"] {
        let config = |told| {
            let (every, lasts) = (Service::Exponential(400_000), Service::Exponential(100_000));
            let outages = Some(Outages { every, lasts, told });
            Config { outages, ..Config::ideal(spec(policy, None), 8, 3) }
        };
        let mean = |told| {
            let out = simulate(&config(told), &mix("exp1"), 0.4, 40_000);
            let lost = out.shares.lost;
            assert!((lost - 0.2).abs() < 0.05, "{policy}: {lost} of the time");
            out.recorder.overall().sojourn.mean() - 1_000.0
        };
        let (told, untold) = (mean(true), mean(false));
        assert!(told < untold * 0.8, "{policy}: waits {told} ns, and {untold} untold");
    }
}

/// Costs of which each is felt.
const COSTLY: Costs = Costs {
    receive: 20,
    dispatch: 60,
    hear: 15,
    signal: 10,
    ring: 150,
    notify: 120,
    start: 40,
    switch: 70,
    finish: 50,
    overshoot: Service::Exponential(90),
    instrumentation: 0.03,
    ..Costs::IDEAL
};

#[test]
fn nothing_is_lost() {
    let specs: Vec<Spec> = dispatched().map(|entry| spec(entry.name, None)).collect();
    let blocking = Some(Blocking { chance: 0.3, after: 0.4, wait: Service::Exponential(5_000) });
    let outage = |told| Outages {
        every: Service::Exponential(60_000),
        lasts: Service::Uniform(100, 20_000),
        told,
    };
    for spec in specs.into_iter().filter(|spec| spec.validate(2).is_ok()) {
        for (costs, pinned, told) in
            [(Costs::IDEAL, false, true), (COSTLY, true, true), (COSTLY, false, false)]
        {
            for dispatchers in [1, 2] {
                let outages = Some(outage(told));
                let ideal = Config::ideal(spec.clone(), 4, 3);
                let config = Config {
                    costs,
                    pinned,
                    dispatchers,
                    blocking,
                    outages,
                    capacity: 500,
                    ..ideal
                };
                let out = simulate(&config, &mix("short:1us:9,long:exp(40us):1"), 0.5, 8_000);
                let name = format!("{} {costs:?} pinned {pinned}", spec.name);
                assert_eq!((out.arrived, out.completed + out.refused), (8_000, 8_000), "{name}");
                assert!(out.refused < 800, "{name}: {} refused", out.refused);
                let shares = out.shares;
                let sum = shares.app + shares.overhead + shares.lost;
                assert!(sum <= 1.0 + 1e-9, "{name}: {shares:?}");
                let again = simulate(&config, &mix("short:1us:9,long:exp(40us):1"), 0.5, 8_000);
                let mean = |out: &curtail_sim::Outcome| out.recorder.overall().sojourn.mean();
                assert_eq!((mean(&out), out.events), (mean(&again), again.events), "{name}");
            }
        }
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let says = |config: Config, what: &str| {
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let wrong = Some(Blocking { chance: 1.5, after: 0.5, wait: Service::Constant(1) });
    says(Config { blocking: wrong, ..one_worker("fcfs") }, "from 0 to 1");
    says(Config { blocking: blocking(0.5, 1), ..one_worker("shenango") }, "no dispatcher");
}
