//! Perséphone (SOSP 2021).

use super::drawn::{Drawn, DrawnCurve, Finding};
use super::figure::{Curve, Figure, Of, Scale, Statement, Sweep};
use super::system::System;
use super::{FINE_LOADS, LOADS, SLOWDOWN, SUSTAINED};
use curtail_sim::Costs;

const WORKLOAD: &str = "extreme-bimodal";

const fn worst(label: &'static str, system: System) -> Curve {
    Curve { label, sweep: Sweep::Loads { system, loads: FINE_LOADS, of: Of::Worst } }
}

/// Shinjuku's, as Perséphone simulates it: each pre-emption costs a microsecond.
const SWITCH: Costs = Costs { switch: 1_000, ..Costs::IDEAL };

pub(super) static FIG_1: Figure = Figure {
    name: "persephone-1",
    source: "Perséphone (SOSP 2021), Figure 1",
    title: "What each policy sustains, by the p99.9 slowdown of each type",
    setting: "16 workers, 99.5% of requests 0.5 µs and 0.5% 500 µs, Poisson arrivals for 1 s, no \
              network. d-FCFS, c-FCFS, time sharing every 5 µs at 1 µs each, and DARC.",
    chosen: "The axes are exchanged: slowdown over rate. The slowdown is that of the type that fares \
             worse. Time sharing both from one queue and, as the paper's Table 1 has it, from a queue \
             for each type. DARC as its Algorithm 2 reserves (three workers: the demand is 2.66) and with \
             the one worker that its text reports; it knows the workload from the start. A million \
             requests a run.",
    jobs: 1_000_000,
    x: SUSTAINED,
    y: Scale { name: "p99.9 slowdown, the worse type's", ..SLOWDOWN },
    line: Some((10.0, "objective: 10")),
    curves: &[
        worst("d-FCFS", System::new(WORKLOAD, "dfcfs")),
        worst("c-FCFS", System::new(WORKLOAD, "fcfs")),
        worst("TS, one queue", System::new(WORKLOAD, "shinjuku").quantum(5_000).costs(SWITCH)),
        worst(
            "TS, typed queues",
            System::new(WORKLOAD, "shinjuku-mq").quantum(5_000).costs(SWITCH),
        ),
        worst("DARC", System::new(WORKLOAD, "darc")),
        worst("DARC, 1 reserved", System::new(WORKLOAD, "darc-static").reserved(1)),
    ],
    statements: &[
        Statement { says: "c-FCFS holds a slowdown of 10 up to 2.1 M/s.", check: c_fcfs },
        Statement { says: "Time sharing does up to 3.7 M/s.", check: time_sharing },
        Statement {
            says: "DARC does up to 5.1 M/s: 2.5 times as much as c-FCFS, 1.4 times as time sharing.",
            check: darc,
        },
        Statement { says: "d-FCFS performs poorly.", check: d_fcfs },
        Statement {
            says: "DARC reserves one worker for short requests, at the price of 5% of the throughput.",
            check: one_reserved,
        },
        Statement {
            says: "At 5.1 M/s the p99.9 sojourn time of short requests is 9.87 µs under DARC, 161 µs \
                   under time sharing, 7.7 ms under c-FCFS.",
            check: at_the_end,
        },
    ],
};

fn holds(drawn: &Drawn, label: &str) -> f64 {
    drawn.curve(label).within(10.0) / 1e6
}

/// A tenth of the peak, in millions a second.
const TENTH: f64 = 1.6 / 2.9975;

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() <= 0.1
}

fn c_fcfs(drawn: &Drawn) -> Finding {
    let rate = holds(drawn, "c-FCFS");
    let last = (rate / TENTH).floor() * TENTH;
    Finding::new(
        near(last, 2.1),
        format!("Up to {rate:.2} M/s; of loads in steps of a tenth, up to {last:.2}."),
    )
}

fn time_sharing(drawn: &Drawn) -> Finding {
    let [one, typed] = ["TS, one queue", "TS, typed queues"].map(|label| holds(drawn, label));
    let [a, b] = ["TS, one queue", "TS, typed queues"].map(|label| drawn.curve(label).near(3.7e6));
    Finding::new(
        near(one, 3.7) || near(typed, 3.7),
        format!(
            "Up to {one:.2} M/s from one queue, {typed:.2} from typed queues. At 3.7 M/s the slowdown \
             is {a:.1} and {b:.1}."
        ),
    )
}

fn darc(drawn: &Drawn) -> Finding {
    let [darc, one, fcfs, sharing] =
        ["DARC", "DARC, 1 reserved", "c-FCFS", "TS, typed queues"].map(|label| holds(drawn, label));
    Finding::of(
        &[
            ("order", darc > sharing && sharing > fcfs),
            ("rate", near(darc, 5.1)),
            ("gain over c-FCFS", near(darc / fcfs, 2.5)),
            ("gain over time sharing", near(darc / sharing, 1.4)),
        ],
        format!(
            "Up to {darc:.2} M/s (with one worker reserved {one:.2}): {:.1} times c-FCFS, {:.1} times \
             time sharing.",
            darc / fcfs,
            darc / sharing
        ),
    )
}

fn d_fcfs(drawn: &Drawn) -> Finding {
    let curve = drawn.curve("d-FCFS");
    let least = curve.points.first().map_or(f64::NAN, |point| point.y);
    Finding::new(
        curve.within(10.0) <= holds(drawn, "c-FCFS") * 1e6 && least > 10.0,
        format!("Its slowdown is {least:.0} at the lowest load already."),
    )
}

fn one_reserved(drawn: &Drawn) -> Finding {
    let decided = drawn.decided.iter().find(|it| it.0 == "DARC").map_or("", |it| it.1.as_str());
    let says = format!("DARC decided: {decided}.");
    Finding::new(decided.contains("workers 0, steals 1–15"), says)
}

fn at_the_end(drawn: &Drawn) -> Finding {
    let us = |label: &str| {
        let run = drawn.curve(label).nearest(5.1e6).and_then(|point| point.run.as_ref());
        let class = run.and_then(|run| run.classes.iter().find(|class| class.name == "short"));
        class.and_then(|class| class.sojourn_ns).map_or(f64::NAN, |ns| ns.p99_9 as f64 / 1e3)
    };
    let labels = ["DARC", "DARC, 1 reserved", "TS, typed queues", "TS, one queue", "c-FCFS"];
    let [darc, static_one, typed, one, fcfs] = labels.map(us);
    let rate = drawn.curve("DARC").nearest(5.1e6).map_or(f64::NAN, |point| point.x / 1e6);
    Finding::of(
        &[
            ("DARC", near(darc, 9.87) || near(static_one, 9.87)),
            ("time sharing", near(typed, 161.0) || near(one, 161.0)),
            ("c-FCFS", near(fcfs, 7_700.0)),
        ],
        format!(
            "At {rate:.2} M/s {darc:.2} µs under DARC ({static_one:.2} with one worker \
             reserved), {typed:.0} µs under time sharing from typed queues \
             and {one:.0} µs from one queue, {fcfs:.0} µs under c-FCFS."
        ),
    )
}

/// Pre-emption as soon as a short request waits; half of the time until the worker knows, half to
/// make room.
const fn preempted(label: &'static str, half_ns: u64, of: Of) -> Curve {
    let costs = Costs { notify: half_ns, switch: half_ns, ..Costs::IDEAL };
    // Among long requests, no turn ends.
    let system = System::new(WORKLOAD, "fp").preemptive().quantum(1_000_000_000).costs(costs);
    Curve { label, sweep: Sweep::Loads { system, loads: LOADS, of } }
}

const fn ten(of: Of) -> [Curve; 5] {
    let system = System::new(WORKLOAD, "darc");
    [
        preempted("TS 4 µs", 2_000, of),
        preempted("TS 2 µs", 1_000, of),
        preempted("TS 1 µs", 500, of),
        preempted("TS 0 µs", 0, of),
        Curve { label: "DARC", sweep: Sweep::Loads { system, loads: LOADS, of } },
    ]
}

const SETTING: &str = "The workload and workers of its Figure 1. A long request is interrupted as soon \
                       as a short one waits and all workers run long ones. An interrupt takes as long \
                       to get to the worker as it then takes to make room: 2 + 2, 1 + 1, 0.5 + 0.5 µs, \
                       or nothing.";
const CHOSEN: &str = "Short requests go first, and an interrupted one is the first of the long ones to \
                      go on. Half a million requests a run.";

pub(super) static FIG_10: Figure = Figure {
    name: "persephone-10",
    source: "Perséphone (SOSP 2021), Figure 10",
    title: "Interrupts of several speeds: short requests",
    setting: SETTING,
    chosen: CHOSEN,
    jobs: 500_000,
    x: SUSTAINED,
    y: Scale { name: "p99.9 slowdown of short requests", ..SLOWDOWN },
    line: Some((10.0, "10")),
    curves: &ten(Of::Class("short")),
    statements: &[
        Statement {
            says: "Without overheads, pre-emption does as well as DARC or better.",
            check: ideal_is_best,
        },
        Statement {
            says: "The faster pre-emption is, the better short requests are protected.",
            check: faster_is_better,
        },
    ],
};

pub(super) static FIG_10_LONG: Figure = Figure {
    name: "persephone-10-long",
    source: "Perséphone (SOSP 2021), Figure 10, and the price",
    title: "Interrupts of several speeds: long requests",
    setting: SETTING,
    chosen: CHOSEN,
    jobs: 500_000,
    x: SUSTAINED,
    y: Scale { name: "p99.9 slowdown of long requests", ..SLOWDOWN },
    line: Some((10.0, "10")),
    curves: &ten(Of::Class("long")),
    statements: &[
        Statement {
            says: "The faster pre-emption is, the less long requests suffer.",
            check: faster_is_better,
        },
        Statement {
            says: "Overheads of 1 µs cost 30% of the load that is sustained with a slowdown of 10 (of \
                   short requests).",
            check: thirty_percent,
        },
    ],
};

fn ideal_is_best(drawn: &Drawn) -> Finding {
    let pairs = drawn.curve("TS 0 µs").beside(drawn.curve("DARC"));
    let most = pairs.map(|[_, ideal, darc]| ideal / darc).fold(0.0, f64::max);
    Finding::new(most <= 1.01, format!("Its slowdown is at most {most:.2} times DARC's."))
}

fn faster_is_better(drawn: &Drawn) -> Finding {
    let labels = ["TS 0 µs", "TS 1 µs", "TS 2 µs", "TS 4 µs"];
    let least = labels.windows(2).flat_map(|pair| {
        let (faster, slower) = (drawn.curve(pair[0]), drawn.curve(pair[1]));
        slower.beside(faster).map(|[_, slower, faster]| slower / faster)
    });
    let least = least.fold(f64::INFINITY, f64::min);
    let each = |of: &dyn Fn(&DrawnCurve) -> f64| {
        labels.map(|label| format!("{:.1}", of(drawn.curve(label)))).join(", ")
    };
    Finding::new(
        least > 0.95,
        format!(
            "At 3.7 M/s the slowdown is {}, at the worst load {} with 0, 1, 2 and 4 µs; at no load is \
             the slower one's less than {least:.2} times the faster one's.",
            each(&|curve| curve.near(3.7e6)),
            each(&|curve| curve.peak().1),
        ),
    )
}

fn thirty_percent(drawn: &Drawn) -> Finding {
    let [none, one, two, four] =
        ["TS 0 µs", "TS 1 µs", "TS 2 µs", "TS 4 µs"].map(|label| holds(drawn, label));
    let lost = |rate: f64| 100.0 * (1.0 - rate / none);
    Finding::new(
        (20.0..40.0).contains(&lost(one)),
        format!(
            "Of the load at which long requests have a slowdown of 10, 1 µs costs {:.0}%, 2 µs {:.0}%, \
             4 µs {:.0}% ({none:.2} M/s and more with none).",
            lost(one),
            lost(two),
            lost(four)
        ),
    )
}

const fn tpcc(label: &'static str, policy: &'static str) -> Curve {
    let system = System::new("tpcc", policy).workers(14);
    Curve { label, sweep: Sweep::Loads { system, loads: LOADS, of: Of::All } }
}

pub(super) static TPCC: Figure = Figure {
    name: "persephone-tpcc",
    source: "Perséphone (SOSP 2021), §5.4.3",
    title: "TPC-C: what DARC reserves, and what for",
    setting: "14 workers, the five transactions of its Table 4. The paper measures this on its prototype; \
              here it is simulated.",
    chosen: "No costs; c-FCFS in place of Shenango, δ = 2; half a million requests a run.",
    jobs: 500_000,
    x: SUSTAINED,
    y: SLOWDOWN,
    line: Some((10.0, "objective: 10")),
    curves: &[tpcc("c-FCFS", "fcfs"), tpcc("DARC", "darc")],
    statements: &[Statement {
        says: "Payment and OrderStatus share workers 1–2 and steal from 3–14, NewOrder has 3–8 and \
                   steals from 9–14, Delivery and StockLevel share 9–14.",
        check: tpcc_groups,
    }],
};

fn tpcc_groups(drawn: &Drawn) -> Finding {
    let decided = drawn.decided.iter().find(|it| it.0 == "DARC").map_or("", |it| it.1.as_str());
    // The same, counted from 0.
    let groups = [
        ("payment+order-status ", "workers 0–1, steals 2–13"),
        ("new-order ", "workers 2–7, steals 8–13"),
        ("delivery+stock-level ", "workers 8–13"),
    ];
    let has = |(names, workers): &(&str, &str)| {
        decided.split("; ").any(|group| group.starts_with(names) && group.ends_with(workers))
    };
    Finding::new(groups.iter().all(has), format!("DARC decided (workers count from 0): {decided}."))
}
