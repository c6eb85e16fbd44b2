//! Shenango's runtime: what must hold of it beyond what holds of every policy (`conventions`).

use crate::common;

use common::{close, mean, mix, seeds, simulate, spec};
use curtail_policy::{Spec, Victim};
use curtail_sim::{Balance, Config, ConfigError, Costs, Done, Kthreads, run_observed};
use curtail_workload::{Arrivals, Request, Requests, Until};

fn config(policy: &str, workers: usize) -> Config {
    Config::ideal(spec(policy, None), workers, 5)
}

/// Every job as it completed.
fn history(config: &Config, load: f64) -> Vec<Done> {
    let mix = mix("short:1us:9,long:exp(40us):1");
    let rate = mix.rate_rps(load, config.workers);
    let requests = Requests::new(&mix, Arrivals::Poisson, rate, 7, Until::Jobs(20_000));
    let mut done = Vec::new();
    run_observed(config, requests, 2, Until::Jobs(0), |it: &Done| done.push(*it)).unwrap();
    done
}

/// Arrival and service: when each arrived and completed, in the order of completion.
fn play(config: &Config, requests: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let requests =
        requests.iter().map(|&(at_ns, service_ns)| Request { at_ns, class: 0, service_ns });
    let mut done = Vec::new();
    let note = |it: &Done| done.push((it.arrived_ns, it.finished_ns));
    run_observed(config, requests, 1, Until::Jobs(0), note).unwrap();
    done
}

#[test]
fn one_kthread_is_one_queue() {
    assert_eq!(history(&config("shenango", 1), 0.8), history(&config("fcfs", 1), 0.8));
    assert_eq!(history(&config("shenango-ps", 1), 0.8), history(&config("tq", 1), 0.8));
}

/// No kthread is idle while a request waits, so the number in the system is M/M/c's, whichever
/// kthread steals from which: Erlang C.
#[test]
fn stealing_conserves_work() {
    let (workers, load) = (4, 0.9);
    let offered = load * workers as f64;
    let blocking = (1..=workers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocking / (1.0 - load * (1.0 - blocking));
    let exact = 10_000.0 * (1.0 + waits / (workers as f64 - offered));
    let mix = mix("a:exp(10us):1");
    let runs = |config: &Config| {
        let runs = seeds(config, &mix, load, 400_000, 12);
        mean(&runs, |run| run.recorder.overall().sojourn.mean())
    };
    for half in [true, false] {
        let kthreads = Kthreads { half, ..Kthreads::default() };
        close("shenango", runs(&Config { kthreads, ..config("shenango", workers) }), exact);
    }
    for order in [Victim::Longest, Victim::Oldest] {
        let spec = Spec::preset("shenango").unwrap().with_victim(order).unwrap();
        close(order.name(), runs(&Config { spec, ..config("shenango", workers) }), exact);
    }
    // Few flows are uneven; stealing evens them out (Shenango §7.3, Figure 7).
    let few = Config { balance: Balance::Rss, flows: 6, ..config("shenango", workers) };
    close("of 6 flows", runs(&few), exact);
}

#[test]
fn a_request_is_stolen_from_where_it_came_to() {
    // Twenty of 100 ns at once on two kthreads: wherever they came to, both work all the time.
    for policy in ["shenango", "shenango-ps"] {
        let done = play(&config(policy, 2), &[(0, 100); 20]);
        let times: Vec<u64> = done.iter().map(|it| it.1).collect();
        let pairs: Vec<u64> = (1..=10).flat_map(|i| [i * 100; 2]).collect();
        assert_eq!(times, pairs, "{policy}");
    }
}

#[test]
fn each_cost_is_where_it_belongs() {
    let one = |costs| play(&Config { costs, ..config("shenango", 1) }, &[(0, 100), (0, 100)]);
    let ends = |costs| one(costs).iter().map(|it| it.1).collect::<Vec<_>>();
    let ideal = Costs::IDEAL;
    assert_eq!(ends(ideal), [100, 200]);
    // Both have come: they are taken in at once, before either runs.
    assert_eq!(ends(Costs { receive: 5, ..ideal }), [110, 210]);
    assert_eq!(ends(Costs { start: 5, ..ideal }), [105, 210]);
    assert_eq!(ends(Costs { finish: 5, ..ideal }), [100, 205]);
    assert_eq!(ends(Costs { instrumentation: 0.1, ..ideal }), [110, 220]);
    assert_eq!(ends(Costs { steal: 5, ..ideal }), [100, 200], "none to steal from");
    // It sleeps at first, and is woken; then it has work.
    assert_eq!(ends(Costs { wake: 50, ..ideal }), [150, 250]);
    // No kthread does what a dispatcher does.
    let theirs = Costs { dispatch: 7, hear: 7, signal: 7, ring: 7, notify: 7, ..ideal };
    assert_eq!(ends(theirs), [100, 200]);
}

#[test]
fn a_switch_costs_whoever_yields() {
    let costs = Costs { switch: 10, ..Costs::IDEAL };
    let config = Config { costs, ..Config::ideal(spec("shenango", Some(100)), 1, 0) };
    // 100 of the first, a switch, all of the second, the rest of the first.
    assert_eq!(play(&config, &[(0, 150), (20, 60)]), [(20, 170), (0, 220)]);
}

/// A thief needs 30 ns: two kthreads, of which one got both requests.
#[test]
fn a_theft_takes_its_time() {
    let costs = Costs { steal: 30, ..Costs::IDEAL };
    let ends: Vec<Vec<u64>> = (0..20)
        .map(|seed| {
            let config = Config { costs, seed, ..config("shenango", 2) };
            play(&config, &[(0, 100), (0, 100)]).iter().map(|it| it.1).collect()
        })
        .collect();
    assert!(ends.contains(&vec![100, 100]), "each has its own: {ends:?}");
    assert!(ends.contains(&vec![100, 130]), "one is stolen: {ends:?}");
    assert!(ends.iter().all(|ends| ends == &[100, 100] || ends == &[100, 130]), "{ends:?}");
}

#[test]
fn who_finds_nothing_parks_after_its_patience() {
    let costs = Costs { wake: 50, park: 20, ..Costs::IDEAL };
    let kthreads = Kthreads { spin_ns: 1_000, ..Kthreads::default() };
    let config = Config { costs, kthreads, ..config("shenango", 1) };
    // Woken at 0, it runs until 150, and searches until 1,150; then it goes to sleep until 1,170.
    let second = |at| play(&config, &[(0, 100), (at, 100)])[1].1;
    assert_eq!(second(1_149), 1_249, "found at once");
    assert_eq!(second(1_160), 1_270, "seen before it sleeps");
    assert_eq!(second(1_171), 1_321, "woken");
}

/// A request that no kthread awake can take wakes a sleeping one, even while its own is busy.
#[test]
fn no_request_waits_while_a_kthread_sleeps() {
    let costs = Costs { wake: 50, ..Costs::IDEAL };
    for seed in 0..20 {
        let config = Config { costs, seed, ..config("shenango", 4) };
        let done = play(&config, &[(0, 10_000), (100, 10), (200, 10), (300, 10)]);
        let sojourns: Vec<u64> = done.iter().map(|it| it.1 - it.0).collect();
        // A theft, or none: both are free here.
        assert!(sojourns[..3].iter().all(|&ns| ns <= 60), "{sojourns:?}");
    }
}

#[test]
fn what_has_started_stays_where_it_is_pinned() {
    // Two run at once, and a third shares the kthread of one of them. If that is the longer one, the
    // other kthread is free at 500 and takes over one of two started threads, where it may.
    let latest = |pinned| {
        let end = |seed| {
            let spec = spec("shenango", Some(100));
            let config = Config { pinned, seed, ..Config::ideal(spec, 2, 0) };
            let done = play(&config, &[(0, 1_000), (0, 500), (10, 1_000)]);
            done.last().unwrap().1
        };
        (0..20).map(end).max().unwrap()
    };
    assert_eq!((latest(false), latest(true)), (1_500, 2_000));
    let config = Config { pinned: true, ..config("shenango-ps", 8) };
    let out = simulate(&config, &mix("extreme-bimodal"), 0.8, 50_000);
    assert!(out.thefts > 0 && out.preemptions > 0 && out.completed == 50_000);
}

#[test]
fn what_it_did_is_counted() {
    let mix = mix("exp1");
    let costs = Costs { wake: 2_000, park: 500, steal: 100, ..Costs::IDEAL };
    let run = |load| simulate(&Config { costs, ..config("shenango", 8) }, &mix, load, 50_000);
    let (idle, busy) = (run(0.05), run(0.95));
    assert!(idle.parkings > 10 * busy.parkings.max(1), "{} {}", idle.parkings, busy.parkings);
    assert!(busy.thefts > 1_000, "{}", busy.thefts);
    let free = simulate(&config("shenango", 8), &mix, 0.5, 50_000);
    assert_eq!((free.parkings, free.preemptions), (0, 0), "no kthread needs to park for nothing");
    assert!(free.late.is_none() && free.decided.is_none());
}

#[test]
fn several_dispatchers_are_more_than_it_has() {
    let config = Config { dispatchers: 2, ..config("shenango", 4) };
    let error = config.validate().unwrap_err();
    assert_eq!(error, ConfigError::Dispatcherless("shenango".to_owned()));
}
