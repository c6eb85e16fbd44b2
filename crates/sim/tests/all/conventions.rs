//! What must hold of every run, whatever the policy and the costs: no job is lost, the same seed
//! gives the same result, and single cases come out as the conventions say.

use crate::common;

use common::{mix, simulate, spec};
use curtail_policy::{CoreKind, Spec, catalogue};
use curtail_sim::{Balance, Config, Costs, Done, run_observed};
use curtail_workload::{Request, Service, Until};

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
    steal: 60,
    park: 30,
    wake: 400,
    overshoot: Service::Exponential(90),
    instrumentation: 0.03,
};

/// Every policy, and those of two points that differ most with costs.
fn policies() -> Vec<Spec> {
    let valid = |spec: &Spec| spec.validate(4).is_ok();
    catalogue().iter().map(|entry| spec(entry.name, None)).filter(valid).collect()
}

#[test]
fn nothing_is_lost() {
    let mix = mix("short:1us:9,long:exp(40us):1");
    for spec in policies() {
        for costs in [Costs::IDEAL, COSTLY] {
            for (pinned, load) in [(false, 0.4), (true, 0.7), (true, 1.5)] {
                let ideal = Config::ideal(spec.clone(), 4, 3);
                let config = Config { costs, pinned, capacity: 500, ..ideal };
                let out = simulate(&config, &mix, load, 20_000);
                let name = format!("{} {costs:?} pinned {pinned} at {load}", spec.name);
                assert_eq!(out.arrived, 20_000, "{name}");
                assert_eq!(out.completed + out.refused, out.arrived, "{name}");
                let (served, dropped) =
                    (out.recorder.overall().count(), out.dropped.iter().sum::<u64>());
                assert_eq!((out.offered, served + dropped), (18_000, 18_000), "{name}");
                assert!(load > 1.0 || out.refused == 0, "{name}: {} refused", out.refused);
                let shares = out.shares.app + out.shares.overhead;
                assert!(shares <= 1.0 + 1e-9, "{name}: {:?}", out.shares);
            }
        }
    }
}

/// Every job as it completed: the finest result there is.
fn history(config: &Config, seed: u64) -> Vec<Done> {
    let mix = mix("short:1us:9,long:exp(40us):1");
    let rate = mix.rate_rps(0.7, config.workers);
    let arrivals = curtail_workload::Arrivals::Poisson;
    let requests = curtail_workload::Requests::new(&mix, arrivals, rate, seed, Until::Jobs(5_000));
    let mut done = Vec::new();
    let config = Config { seed, ..config.clone() };
    run_observed(&config, requests, 2, Until::Jobs(0), |it: &Done| done.push(*it)).unwrap();
    done
}

#[test]
fn a_seed_decides_everything() {
    for spec in policies() {
        for (dispatchers, costs) in [(1, Costs::IDEAL), (1, COSTLY), (2, COSTLY)] {
            let dispatchers = if spec.is_dispatcherless() { 1 } else { dispatchers };
            let config = Config { costs, dispatchers, ..Config::ideal(spec.clone(), 4, 0) };
            assert_eq!(history(&config, 1), history(&config, 1), "{}", spec.name);
            assert_ne!(history(&config, 1), history(&config, 2), "{}", spec.name);
        }
    }
}

#[test]
fn threads_do_not_show() {
    let mix = mix("high-bimodal");
    let configs: Vec<Config> =
        (0..6).map(|seed| Config::ideal(spec("tq", None), 3, seed)).collect();
    let figures = |threads| {
        let one = |config: &Config| {
            let out = simulate(config, &mix, 0.8, 20_000);
            let all = out.recorder.overall();
            Ok::<_, ()>((all.sojourn.mean(), all.slowdown.percentile(99.9), out.preemptions))
        };
        curtail_sim::sweep(&configs, threads, one).unwrap()
    };
    assert_eq!(figures(1), figures(4));
}

/// Arrival, class, service: when each completed, in the order of completion, in nanoseconds.
fn play(config: &Config, requests: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let requests =
        requests.iter().map(|&(at_ns, service_ns)| Request { at_ns, class: 0, service_ns });
    let mut done = Vec::new();
    let note = |it: &Done| done.push((it.arrived_ns, it.finished_ns));
    run_observed(config, requests, 1, Until::Jobs(0), note).unwrap();
    done
}

fn one_worker(policy: &str, costs: Costs) -> Config {
    Config { costs, ..Config::ideal(spec(policy, Some(100)), 1, 0) }
}

/// A quantum of 100 that ends with its job is a completion; the other goes on without a switch.
#[test]
fn a_quantum_that_ends_with_its_job_is_a_completion() {
    let costs = Costs { switch: 7, ..Costs::IDEAL };
    for policy in ["ps", "tq"] {
        let done = play(&one_worker(policy, costs), &[(0, 100), (10, 100)]);
        assert_eq!(done, [(0, 100), (10, 200)], "{policy}");
    }
}

/// A job alone goes on for a whole quantum: one that comes at 150 waits until 200, not until 151.
#[test]
fn a_job_alone_gets_another_whole_quantum() {
    for policy in ["ps", "tq"] {
        let done = play(&one_worker(policy, Costs::IDEAL), &[(0, 300), (150, 20)]);
        assert_eq!(done, [(150, 220), (0, 320)], "{policy}");
    }
}

/// The second job takes over at 400 and, having run less, keeps the worker without a switch at the
/// ends of its quanta.
#[test]
fn who_has_run_least_goes_on_without_a_switch() {
    let config =
        Config { costs: Costs { switch: 7, ..Costs::IDEAL }, ..one_worker("tq", Costs::IDEAL) };
    let spec = config.spec.clone().with_core(CoreKind::Las).unwrap();
    let done = play(&Config { spec, ..config }, &[(0, 1000), (310, 300)]);
    assert_eq!(done, [(310, 707), (0, 1307)]);
}

/// The overhead of a pre-emption is the worker's, and the job joins the tail after it: one that
/// arrives during the overhead is ahead.
#[test]
fn a_pre_empted_job_goes_to_the_tail_after_its_overhead() {
    let costs = Costs { switch: 10, ..Costs::IDEAL };
    // At 100 the first is pre-empted for the second; the third comes at 105, before the first is
    // back in the queue at 110.
    let requests = [(0, 150), (50, 30), (105, 30)];
    let done = play(&one_worker("ps", costs), &requests);
    assert_eq!(done, [(50, 140), (105, 170), (0, 220)]);
}

/// A job that arrives at the very end of a quantum counts as waiting; one that arrives when another
/// completes finds it gone.
#[test]
fn simultaneous_events_have_an_order() {
    for policy in ["ps", "tq"] {
        let done = play(&one_worker(policy, Costs::IDEAL), &[(0, 150), (100, 20)]);
        assert_eq!(done, [(100, 120), (0, 170)], "{policy}");
    }
    // JSQ: at 50, the first worker's job has left; it is the shortest of both, and the lowest.
    let config = Config { workers: 2, ..one_worker("tq", Costs::IDEAL) };
    let done = play(&config, &[(0, 50), (0, 1_000), (50, 10)]);
    assert_eq!(done, [(0, 50), (50, 60), (0, 1_000)]);
}

/// The third job runs on the dispatcher, from 20 on, which therefore sees only at 120 that the first
/// one's quantum ended at 100. From then on their quanta end together, and each time it must see
/// that: the first two take turns by 100, not by 200.
#[test]
fn a_dispatcher_that_ran_a_job_sees_the_quanta_that_end_with_its_own() {
    let done = play(&one_worker("concord", Costs::IDEAL), &[(0, 1000), (10, 1000), (20, 3000)]);
    assert_eq!(done, [(0, 1900), (10, 2000), (20, 3020)]);
}

/// JBSQ(2): two jobs in a worker's inbox, the running one included, and the third waits centrally;
/// so the fourth's worker is decided only when a place becomes free.
#[test]
fn a_bounded_inbox_counts_the_running_job() {
    let config = Config::ideal(spec("jbsq", None), 2, 0);
    // Worker 0 gets the jobs of 1,000 and 30, worker 1 those of 100 and 20: what is in an inbox
    // stays there. The last goes to whichever has a place first.
    let done = play(&config, &[(0, 1_000), (1, 100), (2, 30), (3, 20), (4, 10)]);
    assert_eq!(done, [(1, 101), (3, 121), (4, 131), (0, 1_000), (2, 1_030)]);
}

/// Each cost on its own, on a job alone and on one behind it.
#[test]
fn costs_add_up() {
    let sojourns = |costs: Costs| {
        let done = play(&one_worker("fcfs", costs), &[(0, 100), (10, 100)]);
        (done[0].1, done[1].1)
    };
    let ideal = Costs::IDEAL;
    assert_eq!(sojourns(ideal), (100, 200));
    assert_eq!(sojourns(Costs { receive: 5, ..ideal }), (105, 205));
    assert_eq!(sojourns(Costs { dispatch: 5, ..ideal }), (105, 210));
    assert_eq!(sojourns(Costs { hear: 5, ..ideal }), (100, 205));
    assert_eq!(sojourns(Costs { ring: 5, ..ideal }), (105, 215));
    assert_eq!(sojourns(Costs { start: 5, ..ideal }), (105, 210));
    assert_eq!(sojourns(Costs { finish: 5, ..ideal }), (100, 205));
    assert_eq!(sojourns(Costs { switch: 5, ..ideal }), (100, 200), "no job is pre-empted");
    assert_eq!(sojourns(Costs { instrumentation: 0.1, ..ideal }), (110, 220));
    // An inbox of two hides the way there and back.
    let config = Config {
        costs: Costs { ring: 5, dispatch: 5, ..ideal },
        ..Config::ideal(spec("jbsq", None), 1, 0)
    };
    assert_eq!(play(&config, &[(0, 100), (10, 100)]), [(0, 110), (10, 210)]);
}

/// A dispatcher that interrupts: its order takes a while to be noticed.
#[test]
fn a_notification_comes_late() {
    let costs = Costs { notify: 30, signal: 5, ..Costs::IDEAL };
    let config = one_worker("shinjuku", costs);
    // At 100 the dispatcher sees the quantum's end, asks for 5, and the job notices at 135.
    let done = play(&config, &[(0, 200), (50, 20)]);
    assert_eq!(done, [(50, 155), (0, 220)]);
    // A job that ends before it notices has completed.
    let done = play(&config, &[(0, 120), (50, 20)]);
    assert_eq!(done, [(0, 120), (50, 140)]);
}

/// A dispatcher serves one request after the other and saturates: 100 ns each make 10 M/s.
#[test]
fn a_dispatcher_saturates() {
    let costs = Costs { dispatch: 100, ..Costs::IDEAL };
    let mix = mix("a:1us:1");
    for (dispatchers, expected_rps) in [(1, 1e7), (4, 4e7)] {
        let config = Config {
            costs,
            dispatchers,
            balance: Balance::Jsq,
            capacity: 1_000,
            ..Config::ideal(spec("tq", None), 64, 1)
        };
        // 64 workers could serve 64 M/s.
        let out = simulate(&config, &mix, 1.0, 200_000);
        let rps = out.completed as f64 * 1e9 / out.until_drained_ns as f64 * 0.9;
        assert!((rps / expected_rps - 1.0).abs() < 0.05, "{dispatchers}: {rps}");
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let ideal = Config::ideal(spec("tq", None), 4, 0);
    let says = |config: Config, what: &str| {
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    says(Config { workers: 0, ..ideal.clone() }, "at least one worker");
    says(Config { workers: 2_000, ..ideal.clone() }, "2000 workers");
    says(Config { dispatchers: 5, ..ideal.clone() }, "5 dispatchers");
    says(Config { dispatchers: 0, ..ideal.clone() }, "0 dispatchers");
    says(Config { capacity: 0, ..ideal.clone() }, "between 1");
    says(Config { flows: 0, ..ideal.clone() }, "flow");
    assert_eq!(Config { workers: 1_024, ..ideal }.validate(), Ok(()));
}
