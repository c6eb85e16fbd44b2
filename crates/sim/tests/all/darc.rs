//! DARC in virtual time: how soon it has new reservations for another workload, what it measures, and
//! who is refused in a flood.

use crate::common;

use common::{mix, spec};
use curtail_policy::{AnyPolicy, ClassId, ClassPlan, Reservation};
use curtail_sim::{Config, Costs, Done, Observer, run, run_observed};
use curtail_workload::{Arrivals, Phases, Request, Requests, Until};

const MS: u64 = 1_000_000;

/// What the policy has decided at times of interest, and how long one class's requests took.
struct Watch {
    /// When to look, and what was seen.
    looks_ns: Vec<u64>,
    seen: Vec<Vec<Reservation>>,
    /// Of this class, of those that arrived then: their sojourn times.
    class: ClassId,
    from_ns: u64,
    sojourns_ns: Vec<u64>,
}

impl Observer for &mut Watch {
    fn completed(&mut self, done: &Done) {
        if done.class == self.class && done.arrived_ns >= self.from_ns {
            self.sojourns_ns.push(done.sojourn_ns());
        }
    }

    fn wants_to_look_ns(&self) -> u64 {
        self.looks_ns.get(self.seen.len()).copied().unwrap_or(u64::MAX)
    }

    fn look(&mut self, policy: &AnyPolicy) {
        let AnyPolicy::Darc(darc) = policy else { panic!("it is DARC that runs") };
        self.seen.push(darc.reservations().collect());
    }
}

/// Perséphone §5.5, its first two phases: 14 workers at 80%, half of the requests take 1 µs and half
/// of them 100 µs, and then the other way round. The paper has new reservations after half a second.
#[test]
fn swapped_classes_have_new_reservations_within_half_a_second() {
    let phases = "1s a:100us:50,b:1us:50; 1s a:1us:50,b:100us:50";
    let phases = Phases::parse(phases).unwrap();
    let (a, b) = (ClassId(0), ClassId(1));
    let mut watch = Watch {
        looks_ns: vec![999 * MS, 1_500 * MS],
        seen: Vec::new(),
        class: a,
        from_ns: 1_500 * MS,
        sojourns_ns: Vec::new(),
    };
    let config = Config::ideal(spec("darc", None), 14, 1);
    let source = phases.source(Arrivals::Poisson, 0.8, 14, 1).map(|it| Request {
        at_ns: it.at_ns,
        class: it.class as u16,
        service_ns: it.service_ns,
    });
    let warmup = Until::Time(100 * MS);
    let outcome = run_observed(&config, source, 2, warmup, &mut watch).unwrap();
    assert_eq!(outcome.refused, 0);
    let order = |seen: &[Reservation]| seen.iter().map(|it| it.class).collect::<Vec<_>>();
    assert_eq!(order(&watch.seen[0]), [b, a]);
    assert_eq!(order(&watch.seen[1]), [a, b]);
    // Hardly anything of the time before the change is in them: what was in progress then.
    let service_ns = watch.seen[1][0].service.0;
    assert!((1_000..1_200).contains(&service_ns), "{service_ns} ns");
    assert_eq!(watch.seen[1][0].reserved, 0..1);
    watch.sojourns_ns.sort_unstable();
    let p99_9 = watch.sojourns_ns[watch.sojourns_ns.len() * 999 / 1_000];
    assert!(p99_9 < 10_000, "fast requests take {p99_9} ns again");
}

/// A request takes its worker for as long as it is begun, served and answered.
#[test]
fn a_workers_time_is_all_of_it() {
    let mut spec = spec("darc", None);
    spec.darc.window = 1_000;
    let costs = Costs { start: 300, finish: 3_700, ..Costs::IDEAL };
    let config = Config { costs, ..Config::ideal(spec, 4, 1) };
    let mix = mix("a:1us:50,b:15us:50");
    let mut watch = Watch {
        looks_ns: vec![20 * MS],
        seen: Vec::new(),
        class: ClassId(0),
        from_ns: 0,
        sojourns_ns: Vec::new(),
    };
    let requests = Requests::new(&mix, Arrivals::Poisson, 100_000.0, 1, Until::Time(30 * MS));
    run_observed(&config, requests, 2, Until::Time(MS), &mut watch).unwrap();
    let services: Vec<u64> = watch.seen[0].iter().map(|it| it.service.0).collect();
    assert_eq!(services, [5_000, 19_000]);
    let share = watch.seen[0][0].share;
    assert!((share - 5.0 / 24.0).abs() < 0.03, "{share}");
}

/// Two workers get 30,000 requests of 2 ms a second, thirty times as many as they can serve.
#[test]
fn a_flood_of_long_requests_refuses_long_ones_only() {
    let mix = mix("a:1us:2,b:2ms:300");
    for (policy, keeps_room) in [("darc", true), ("fcfs", true), ("tq", true), ("tq", false)] {
        let base = Config::ideal(spec(policy, None), 2, 1);
        let mut config = Config { capacity: 1_024, keeps_room, ..base };
        config.spec.classes = vec![ClassPlan::default(); 2];
        let requests = Requests::new(&mix, Arrivals::Poisson, 30_200.0, 1, Until::Time(400 * MS));
        let outcome = run(&config, requests, 2, Until::Time(0)).unwrap();
        let [short, long] = outcome.dropped[..] else { panic!("there are two classes") };
        assert!(long > 10_000, "{policy}: {long} of {} refused", outcome.offered);
        assert_eq!(short == 0, keeps_room, "{policy}: {short} short ones refused");
    }
}
