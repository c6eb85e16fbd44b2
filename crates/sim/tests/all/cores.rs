//! Core allocation: by hand where that can be done, and against Erlang's formula.

use curtail_alloc::{Detector, Machine, Settings};
use curtail_sim::{Batch, Cores, CoresError, Critical, HandOvers, Served, by_intervals, share};
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
    // ends; the fourth finds the core free.
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

/// So many cores, which change hands as quickly as a switch of Linux in the paper.
fn cores(cores: u32) -> Cores {
    Cores {
        machine: Machine::of(cores),
        settings: Settings { detector: Detector::Queues, ..Settings::default() },
        costs: HandOvers { park: 400, ..HandOvers::SWITCH },
        batch: Batch::Looks,
        seed: 1,
    }
}

fn critical<'a>(
    cores: (u32, u32),
    requests: impl IntoIterator<Item = Request, IntoIter: 'a>,
) -> Critical<'a> {
    Critical {
        kthreads: cores.0 + cores.1,
        guaranteed: cores.0,
        burstable: cores.1,
        search_ns: Some(2_000),
        pinned: false,
        requests: Box::new(requests.into_iter()),
    }
}

fn one(how: &Cores, requests: &[Request]) -> Served {
    let most = how.machine.cores.len() as u32;
    let program = critical((1, most - 1), requests.iter().copied());
    share(how, vec![program]).unwrap().programs.remove(0)
}

#[test]
fn a_core_comes_for_a_request_and_goes_after_it() {
    let how = cores(4);
    // What follows keeps time going until the core is back.
    let served = one(&how, &[request(1_000, 10_000), request(50_000, 10_000)]);
    close(served.sojourn.max(), 10_600);
    // The last request's core is still its own when all is done.
    assert_eq!(served.allocated_ns, 13_000 + 10_600);
    assert_eq!((served.used_ns, served.grants), (20_000, 2));
    // One that comes while the core still looks for work finds it; a later one does not.
    let served = one(&how, &[request(0, 1_000), request(3_000, 1_000)]);
    close(served.sojourn.max(), 1_600);
    close(served.sojourn.percentile(50.0), 1_000);
    assert_eq!(served.grants, 1);
    let served = one(&how, &[request(0, 1_000), request(6_000, 1_000)]);
    close(served.sojourn.percentile(50.0), 1_600);
    assert_eq!(served.grants, 2);
}

#[test]
fn who_is_seen_waiting_twice_gets_a_core() {
    // The second waits; the looks at 5,000 and 10,000 see it, and the core serves from 10,600.
    let two = [request(4_000, 50_000), request(4_500, 1_000)];
    let served = one(&cores(4), &two);
    close(served.sojourn.percentile(50.0), 10_600 + 1_000 - 4_500);
    assert_eq!(served.grants, 2);
    // With a long interval it waits for the first to end.
    let interval = curtail_alloc::Nanos(1_000_000);
    let slow = Cores { settings: Settings { interval, ..cores(4).settings }, ..cores(4) };
    let served = one(&slow, &two);
    // From 4,600 to 54,600 the first is served.
    close(served.sojourn.max(), 54_600 + 1_000 - 4_500);
    assert_eq!(served.grants, 1);
}

#[test]
fn who_hands_over_says_what_it_costs() {
    let costs = HandOvers { line: 3_200, kernel: 11_400, idle: 20_000, ..HandOvers::SWITCH };
    let how = Cores { costs, ..cores(1) };
    for (batch, idler, wait) in [
        (Batch::Looks, false, 3_200),
        (Batch::Blind, false, 11_400),
        (Batch::Blind, true, 11_400),
        (Batch::None, true, 3_200),
        (Batch::None, false, 20_000),
    ] {
        let how = Cores { batch, settings: Settings { idler, ..how.settings }, ..how.clone() };
        let served = one(&how, &[request(1_000, 10_000)]);
        close(served.sojourn.max(), 10_000 + wait);
    }
}

#[test]
fn a_guaranteed_core_is_taken_back_from_a_program_that_bursts() {
    // The first has both cores when the second, at 40,000, asks for its own.
    let costs = HandOvers { evict: 3_000, notice: 1_000, ..cores(2).costs };
    let how = Cores { costs, ..cores(2) };
    let first = [request(0, 100_000), request(0, 100_000)];
    let second = [request(40_000, 10_000)];
    let all = share(&how, vec![critical((1, 1), first), critical((1, 1), second)]).unwrap();
    let [first, second] = &all.programs[..] else { panic!("two programs") };
    close(second.sojourn.max(), 13_000);
    assert_eq!((first.evictions, second.evictions), (1, 0));
    // The first's second request began at 10,600 and lost its core from 41,000 on; it got it back
    // when the second program had searched and parked, at 55,400, or at the look after that.
    let got = first.sojourn.max() as u64;
    assert!((125_000..131_000).contains(&got), "{got}");
}

#[test]
fn without_parking_a_program_keeps_its_cores() {
    let mix = Mix::parse("request:exp(10us):100").unwrap();
    let requests = || Requests::new(&mix, Arrivals::Poisson, 50e3, 3, Until::Jobs(2_000));
    let program = Critical { search_ns: None, ..critical((1, 3), requests()) };
    let all = share(&cores(4), vec![program]).unwrap();
    assert!(all.programs[0].grants <= 4, "{}", all.programs[0].grants);
    assert!(all.programs[0].efficiency() < 0.6, "{}", all.programs[0].efficiency());
}

/// No core is lost and no time is counted twice, whatever the programs do to each other.
#[test]
fn all_is_served_and_time_adds_up() {
    let mix = Mix::parse("short:exp(2us):9,long:exp(40us):1").unwrap();
    for (siblings, pinned, batch) in [
        (false, false, Batch::Looks),
        (true, true, Batch::Looks),
        (true, false, Batch::Blind),
        (false, true, Batch::None),
    ] {
        let machine = if siblings { Machine::of_siblings(8) } else { Machine::of(8) };
        let how = Cores { machine, batch, costs: HandOvers::FLAG, ..cores(8) };
        // Four programs that could each use half of the machine, one of which is overloaded at times.
        let program = |seed: u64| {
            let rate = mix.rate_rps(0.1 + 0.06 * seed as f64, 8);
            let requests = Requests::new(&mix, Arrivals::Poisson, rate, seed, Until::Jobs(20_000));
            Critical { pinned, ..critical((2, 3), requests) }
        };
        let all = share(&how, (0..4).map(program).collect()).unwrap();
        for served in &all.programs {
            assert_eq!(served.sojourn.count(), 20_000);
            assert!(served.allocated_ns >= served.used_ns);
        }
        assert!(
            all.left() >= 0.0 && all.used() + all.left() < 1.0,
            "{} {}",
            all.used(),
            all.left()
        );
        assert!(all.programs.iter().any(|served| served.evictions > 0));
        let again = share(&how, (0..4).map(program).collect()).unwrap();
        assert_eq!(format!("{all:?}"), format!("{again:?}"), "a seed makes a run");
    }
}

#[test]
fn what_can_not_be_is_said() {
    let program = || critical((3, 0), [request(0, 1)]);
    let refused = share(&cores(4), vec![program(), program()]).unwrap_err();
    let says = "program 1: 3 guaranteed cores, and only 1 are not promised to others";
    assert_eq!(refused.to_string(), says);
    let machine = Machine { cores: Vec::new() };
    let none = share(&Cores { machine, ..cores(1) }, Vec::new()).unwrap_err();
    assert!(matches!(none, CoresError::Machine(_)), "{none}");
}
