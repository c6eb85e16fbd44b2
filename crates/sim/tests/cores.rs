//! Core allocation: by hand where that can be done, and against Erlang's formula.

use curtail_sim::{OnDemand, by_intervals, on_demand};
use curtail_workload::{Arrivals, Mix, Request, Requests, Until};

fn request(at_ns: u64, service_ns: u64) -> Request {
    Request { at_ns, class: 0, service_ns }
}

/// Histograms keep three digits.
#[track_caller]
fn close(found: f64, expected: u64) {
    assert!((found / expected as f64 - 1.0).abs() < 1e-3, "{found} {expected}");
}

#[test]
fn an_interval_begins_empty_and_its_end_serves_what_is_left() {
    // On one core: the second waits for the first, the third would until 1,600 but the interval
    // ends; the fourth finds nobody.
    let requests = [request(0, 400), request(100, 500), request(800, 700), request(1_000, 50)];
    let served = by_intervals(requests.into_iter(), 1, 1_000);
    let percentile = |p: f64| served.sojourn.percentile(p) as u64;
    // Sojourn times: 50, 200, 400, 800.
    assert_eq!([25.0, 50.0, 75.0, 100.0].map(percentile), [50, 200, 400, 800]);
    assert_eq!((served.used_ns, served.allocated_ns, served.grants), (1_650, 2_000, 2));
}

#[test]
fn long_intervals_are_a_queue_with_so_many_servers() {
    // M/M/2 at load 0.7: the mean sojourn time is S (1 + C / (2 (1 - 0.7))), and Erlang's C for two
    // servers 2 rho^2 / (1 + rho).
    let mix = Mix::parse("request:exp(10us):100").unwrap();
    let rate = mix.rate_rps(0.7, 2);
    let requests = Requests::new(&mix, Arrivals::Poisson, rate, 1, Until::Jobs(2_000_000));
    let served = by_intervals(requests, 2, 1_000_000_000_000);
    let waits = 2.0 * 0.7 * 0.7 / 1.7;
    let mean = 10_000.0 * (1.0 + waits / (2.0 * 0.3));
    assert!((served.sojourn.mean() / mean - 1.0).abs() < 0.01, "{} {mean}", served.sojourn.mean());
}

const HOW: OnDemand =
    OnDemand { cores: 4, interval_ns: 5_000, wake_ns: 600, search_ns: 2_000, park_ns: 400 };

#[test]
fn a_core_comes_for_a_request_and_goes_after_it() {
    let served = on_demand([request(1_000, 10_000)].into_iter(), &HOW);
    close(served.sojourn.max(), 10_600);
    assert_eq!((served.used_ns, served.allocated_ns, served.grants), (10_000, 13_000, 1));
    // One that comes while the core still looks for work finds it; a later one does not.
    let served = on_demand([request(0, 1_000), request(3_000, 1_000)].into_iter(), &HOW);
    close(served.sojourn.max(), 1_600);
    close(served.sojourn.percentile(50.0), 1_000);
    assert_eq!(served.grants, 1);
    let served = on_demand([request(0, 1_000), request(3_601, 1_000)].into_iter(), &HOW);
    close(served.sojourn.percentile(50.0), 1_600);
    assert_eq!(served.grants, 2);
}

#[test]
fn who_is_seen_waiting_twice_gets_a_core() {
    // The second waits; the looks at 5,000 and 10,000 see it, and the core serves from 10,600.
    let two = [request(4_000, 50_000), request(4_500, 1_000)];
    let served = on_demand(two.into_iter(), &HOW);
    close(served.sojourn.percentile(50.0), 10_600 + 1_000 - 4_500);
    assert_eq!(served.grants, 2);
    // With a long interval it waits for the first to end.
    let slow = OnDemand { interval_ns: 1_000_000, ..HOW };
    let served = on_demand(two.into_iter(), &slow);
    // From 4,600 to 54,600 the first is served.
    close(served.sojourn.max(), 54_600 + 1_000 - 4_500);
    assert_eq!(served.grants, 1);
}

#[test]
fn no_more_cores_than_there_are_and_all_are_served() {
    let mix = Mix::parse("request:exp(10us):100").unwrap();
    let requests = || {
        let rate = mix.rate_rps(0.95, 4);
        Requests::new(&mix, Arrivals::Poisson, rate, 3, Until::Jobs(100_000))
    };
    let served = on_demand(requests(), &HOW);
    assert_eq!(served.sojourn.count(), 100_000);
    let span_ns = requests().last().unwrap().at_ns;
    // Four cores at the most, for as long as requests come and a while after.
    assert!(served.allocated_ns < 4 * (span_ns + 10_000_000), "{served:?}");
    assert!(served.efficiency() > 0.9 && served.efficiency() < 1.0, "{}", served.efficiency());
}
