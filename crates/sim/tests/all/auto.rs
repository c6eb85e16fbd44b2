//! `auto` in virtual time: beside the policies that it must not be worse than, on workloads that
//! change, and what it does not do: change its mind for nothing.

use crate::common;

use common::{mean, mix, seeds, spec};
use curtail_policy::{AnyPolicy, Nanos, PreemptKind};
use curtail_sim::{Config, Costs, Done, Observer, Outcome, run_observed};
use curtail_workload::{Arrivals, Phases, Recorder, Request, Requests, Until};

const WORKERS: usize = 8;

fn ideal(policy: &str) -> Config {
    Config::ideal(spec(policy, None), WORKERS, 1)
}

fn tail(outcome: &Outcome) -> f64 {
    outcome.recorder.overall().slowdown.percentile(99.9)
}

/// The mean over seeds of the 99.9th percentile of the slowdown. The same seeds offer every policy
/// the same requests, so that the differences are the policies'.
fn tails(config: &Config, classes: &str, load: f64) -> f64 {
    mean(&seeds(config, &mix(classes), load, 100_000, 3), tail)
}

/// No policy is told anything of the workload; the room of 10% is for what `auto` must learn at the
/// beginning of so short a run.
#[test]
fn not_worse_than_the_best() {
    let others = ["fcfs", "shinjuku", "tq", "darc", "darc-ps"];
    for classes in [
        "fixed1",
        "exp10",
        "bimodal-90-10",
        "tpcc",
        "a:1us:50,b:100us:50",
        "a:exp(2us):90,b:exp(50us):10",
        "a:5us:97,b:exp(80us):3",
        "a:uniform(50us..100us):1",
        "a:half-normal(10us):1",
    ] {
        for load in [0.5, 0.9] {
            let tails = |policy: &str| tails(&ideal(policy), classes, load);
            let auto = tails("auto");
            let best = others.iter().map(|&other| tails(other)).fold(f64::MAX, f64::min);
            assert!(auto <= 1.1 * best, "{classes} at {load}: {auto:.2}, not {best:.2}");
        }
    }
}

/// As many workers as the book's table has, and as there: the others are told the workload, `auto` is
/// not. `concord` is on equal cores, without a dispatcher that serves requests, too.
#[test]
fn not_worse_than_the_best_on_sixteen_workers() {
    let named = ["fixed1", "high-bimodal", "bimodal-90-10", "tpcc"];
    let points = named.into_iter().flat_map(|name| [0.6, 0.9].map(|load| (name, load)));
    for (classes, load) in points {
        let tails = |policy: &str| {
            let mut spec = spec(policy, None);
            let mix = mix(classes);
            for (at, class) in mix.classes().iter().enumerate().filter(|_| policy != "auto") {
                let plan = spec.plan_mut(at);
                plan.service = Some(Nanos(class.service.mean_ns() as u64));
                plan.occurrence = Some((class.share * 1e6).round() as u32);
            }
            let conserving =
                (policy == "concord").then(|| spec.clone().with_work_conserving(false));
            let spec = conserving.map_or(spec, Result::unwrap);
            tails(&Config::ideal(spec, 16, 1), classes, load)
        };
        let auto = tails("auto");
        let others = ["fcfs", "concord", "tq", "darc", "darc-ps"].map(tails);
        let best = others.into_iter().fold(f64::MAX, f64::min);
        assert!(auto <= 1.05 * best, "{classes} at {load}: {auto:.2}, not {best:.2}");
    }
}

/// A classifier that draws lots (Perséphone §5.6), and one that knows no class at all, on a workload
/// for which classes are what matters.
#[test]
fn a_broken_classifier_does_no_harm() {
    let mix = mix("a:1us:80,b:50us:20");
    let run = |policy: &str, classify: fn(u64) -> u16| {
        let config = ideal(policy);
        let rate_rps = mix.rate_rps(0.8, WORKERS);
        let until = Until::Jobs(200_000);
        let requests = Requests::new(&mix, Arrivals::Poisson, rate_rps, 1, until);
        let requests = requests.map(|it| Request { class: classify(it.at_ns), ..it });
        tail(&curtail_sim::run(&config, requests, 2, Until::Jobs(20_000)).unwrap())
    };
    let lots = |at_ns: u64| (at_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as u16;
    for classify in [lots, |_| 1, |_| u16::MAX] {
        let [auto, fcfs, tq] = ["auto", "fcfs", "tq"].map(|policy| run(policy, classify));
        assert!(auto < 0.1 * fcfs && auto <= 1.05 * tq, "{auto}, not {fcfs}, {tq}");
    }
}

/// Service times of a class that vary, and not by much: sharing without regard to the service had is
/// about as good or a little better.
#[test]
fn not_much_worse_than_sharing_where_that_is_best() {
    for load in [0.5, 0.9] {
        let tails = |policy: &str| tails(&ideal(policy), "x:uniform(1us..100us):1", load);
        let (auto, fcfs) = (tails("auto"), tails("fcfs"));
        let best = tails("shinjuku").min(tails("tq"));
        assert!(auto <= 1.1 * best && auto < fcfs / 2.0, "{load}: {auto:.2}, not {best:.2}");
    }
}

/// What the policy said of itself at equal distances, and the slowdowns of everybody in the second
/// half of each phase.
struct Watch {
    every_ns: u64,
    next_ns: u64,
    changes: Vec<u64>,
    stretch: Vec<u64>,
    quanta: Vec<Nanos>,
    said: Vec<String>,
    phase_ns: u64,
    late: Recorder,
}

impl Watch {
    fn new(every_ns: u64, phase_ns: u64, classes: usize) -> Self {
        Self {
            every_ns,
            next_ns: every_ns,
            changes: Vec::new(),
            stretch: Vec::new(),
            quanta: Vec::new(),
            said: Vec::new(),
            phase_ns,
            late: Recorder::new(classes),
        }
    }
}

impl Observer for &mut Watch {
    fn completed(&mut self, done: &Done) {
        if done.arrived_ns % self.phase_ns >= self.phase_ns / 2 {
            let class = usize::from(done.class.0);
            self.late.record(class, done.sojourn_ns(), done.service_ns, false);
        }
    }

    fn wants_to_look_ns(&self) -> u64 {
        self.next_ns
    }

    fn look(&mut self, policy: &AnyPolicy) {
        self.next_ns += self.every_ns;
        if let Some(auto) = policy.auto() {
            self.changes.push(auto.changes());
            self.stretch.push(auto.stretch());
            self.quanta.push(auto.least_quantum());
            self.said.push(auto.explain(|class| format!("c{}", class.0)));
        }
    }
}

/// Phases of equal length, watched.
fn watched(config: &Config, text: &str, load: f64) -> (Outcome, Watch) {
    let phases = Phases::parse(text).unwrap();
    let length = phases.duration_ns() / phases.phases().len() as u64;
    let mut watch = Watch::new(length / 8, length, phases.classes().len());
    let source = phases.source(Arrivals::Poisson, load, config.workers, config.seed);
    let requests = source.map(|it| Request {
        at_ns: it.at_ns,
        class: it.class as u16,
        service_ns: it.service_ns,
    });
    let warmup = Until::Time(length / 10);
    let outcome =
        run_observed(config, requests, phases.classes().len(), warmup, &mut watch).unwrap();
    (outcome, watch)
}

/// Each of these is about 100 windows of completions.
#[test]
fn stationary_input_hardly_changes_its_mind() {
    for (text, load) in [
        ("25ms:classes=a:1us:1", 0.9),
        ("250ms:classes=a:1us:90,b:100us:10", 0.8),
        ("250ms:classes=a:exp(10us):1", 0.7),
        ("500ms tpcc", 0.8),
        ("60ms:classes=a:1us:99,b:50us:1", 0.6),
    ] {
        for switch in [0, 400] {
            let costs = Costs { switch, ..Costs::IDEAL };
            let (outcome, watch) = watched(&Config { costs, ..ideal("auto") }, text, load);
            assert!(outcome.completed > 100_000, "{text}: {}", outcome.completed);
            let learnt = watch.changes[1];
            let after = watch.changes[watch.changes.len() - 1] - learnt;
            assert!(learnt <= 8 && after <= 6, "{text}: {:?} {:?}", watch.changes, watch.said);
        }
    }
}

#[test]
fn the_cost_of_a_switch_is_found_out_and_the_quantum_follows() {
    let text = "250ms:classes=a:1us:90,b:100us:10";
    let quantum = |switch| {
        let costs = Costs { switch, ..Costs::IDEAL };
        let (outcome, watch) = watched(&Config { costs, ..ideal("auto") }, text, 0.8);
        (watch.quanta[watch.quanta.len() - 1], outcome.shares.overhead, watch.said)
    };
    let (free, ..) = quantum(0);
    assert_eq!(free, Nanos::ZERO);
    let mut last = free;
    for switch in [100, 1_000, 10_000] {
        let (least, overhead, said) = quantum(switch);
        assert!(least > last && least >= Nanos(2 * switch - 2), "{least:?} {said:?}");
        assert!(overhead < 0.08, "{switch} ns take {overhead}");
        last = least;
    }
}

/// Every phase is another world; a policy that fits one of them is bad in another.
#[test]
fn a_workload_that_changes() {
    let text = "50ms tpcc; 50ms:classes=a:1us:50,b:100us:50; 50ms:classes=a:100us:50,b:1us:50; \
                50ms:classes=a:1us:100; 50ms:classes=b:exp(5us):1";
    let best = ["fcfs", "shinjuku", "concord", "tq", "ps"].map(|policy| {
        let (outcome, watch) = watched(&ideal(policy), text, 0.8);
        (tail(&outcome), watch.late.overall().slowdown.percentile(99.9))
    });
    let (outcome, watch) = watched(&ideal("auto"), text, 0.8);
    let all = best.iter().map(|it| it.0).fold(f64::MAX, f64::min);
    let settled = best.iter().map(|it| it.1).fold(f64::MAX, f64::min);
    assert!(tail(&outcome) <= 1.05 * all, "{} {all} {:?}", tail(&outcome), watch.said);
    let late = watch.late.overall().slowdown.percentile(99.9);
    assert!(late <= settled, "{late} {settled} {:?}", watch.said);
}

/// While there is too much to do, short requests do not wait for long ones, and after that everything
/// is as before.
#[test]
fn an_overload_passes() {
    let text = "100ms:workload=tpcc,load=0.7; 100ms:workload=tpcc,load=1.2; \
                100ms:workload=tpcc,load=0.5; 100ms:workload=tpcc,load=0.7; \
                100ms:workload=tpcc,load=0.7; 100ms:workload=tpcc,load=0.7";
    let (outcome, watch) = watched(&ideal("auto"), text, 1.0);
    let (sharing, _) = watched(&ideal("tq"), text, 1.0);
    assert_eq!(outcome.refused, 0);
    let short = |outcome: &Outcome| outcome.recorder.class(0).slowdown.percentile(99.0);
    assert!(short(&outcome) < 0.1 * short(&sharing), "{} {:?}", short(&outcome), watch.said);
    assert!(watch.stretch.iter().any(|&stretch| stretch > 1_000), "{:?}", watch.stretch);
    assert!(watch.stretch[watch.stretch.len() - 1] <= 64, "{:?}", watch.stretch);
}

/// As the runtime has it: a job that started stays; and none is pre-empted where no code can be.
#[test]
fn pinned_and_without_pre_emption() {
    let classes = "a:1us:95,b:100us:5";
    for workers in [1, 2, WORKERS] {
        let config = |policy: &str| Config { pinned: true, workers, ..ideal(policy) };
        let [auto, fcfs, tq] = ["auto", "fcfs", "tq"].map(|it| tails(&config(it), classes, 0.7));
        assert!(auto <= 1.05 * fcfs.min(tq), "{workers} workers: {auto}, not {fcfs}, {tq}");
        let never = |policy: &str| {
            let spec = spec(policy, None).with_preempt(PreemptKind::Never);
            tails(&Config { spec, ..config(policy) }, classes, 0.7)
        };
        let (auto, fcfs) = (never("auto"), never("fcfs"));
        let better = if workers == WORKERS { 0.5 } else { 1.05 };
        assert!(auto <= better * fcfs, "{workers} workers: {auto}, not {fcfs}");
    }
}

#[test]
fn it_explains_itself() {
    let said = |text: &str, policy: Config| {
        let (_, watch) = watched(&policy, text, 0.8);
        watch.said[watch.said.len() - 1].clone()
    };
    let fixed = said("20ms:classes=a:1us:1", ideal("auto"));
    assert!(fixed.starts_with("first come, first served"), "{fixed}");
    let two = said("100ms:classes=a:1us:90,b:100us:10", ideal("auto"));
    assert!(two.contains(" c0 896ns, c1 98.3us; pre-empts at once"), "{two}");
    assert!(two.contains("; load 0.") && two.contains("p99.9 slowdown"), "{two}");
    let spec = spec("auto", None).with_preempt(PreemptKind::Never);
    let never = said("100ms:classes=a:1us:90,b:100us:10", Config { spec, ..ideal("auto") });
    assert!(never.contains("no pre-emption, 1 workers reserved"), "{never}");
}

#[test]
fn deterministic_by_seed() {
    let text = "30ms tpcc; 30ms exp10";
    let once = || {
        let (outcome, watch) = watched(&ideal("auto"), text, 0.8);
        (outcome.events, outcome.preemptions, tail(&outcome).to_bits(), watch.said)
    };
    assert_eq!(once(), once());
}
