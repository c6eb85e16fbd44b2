//! Shenango's Figure 8, and several programs on one machine.

use super::drawn::{Drawn, Finding};
use super::figure::{Curve, Figure, Scale, Statement, Sweep};
use super::sharing::{Of, Sharing};
use curtail_chart::Unit;
use curtail_sim::HandOvers;

const RATES_K: &[u32] = &[100, 200, 400, 600, 800, 1_000, 1_100, 1_200, 1_300, 1_400];

const SIXTEEN: Sharing = Sharing::new("exp10", 16, HandOvers::FLAG);
const QUICK: &str = "5 µs";
const SLOW: [&str; 4] = ["25 µs", "50 µs", "100 µs", "1 ms"];
const STAYS: &str = "never parks";

const fn by_rate(label: &'static str, how: Sharing, of: Of) -> Curve {
    Curve { label, sweep: Sweep::Shared { how, rates_k: RATES_K, of } }
}

const fn intervals(of: Of) -> [Curve; 6] {
    [
        by_rate(QUICK, SIXTEEN, of),
        by_rate(SLOW[0], SIXTEEN.interval(25_000), of),
        by_rate(SLOW[1], SIXTEEN.interval(50_000), of),
        by_rate(SLOW[2], SIXTEEN.interval(100_000), of),
        by_rate(SLOW[3], SIXTEEN.interval(1_000_000), of),
        by_rate(STAYS, SIXTEEN.never_parks(), of),
    ]
}

const RATE: Scale = Scale { name: "requests per second", unit: Unit::Rate, log: false, most: None };
const TAIL: Scale =
    Scale { name: "p99.9 sojourn time", unit: Unit::Duration, log: true, most: None };

const SETTING: &str = "Figure 4's spin-server, exponential service times with a mean of 10 µs, with batch \
                       on the cores that it does not have; the interval of the allocator is varied.";
const CHOSEN: &str = "One program on 16 cores, of which it may have all; 3.2 µs to come by flag, 2 µs to \
                      go; a kthread looks for work for 2 µs. One curve never gives a core back. 300,000 \
                      requests a point; no network.";

pub(super) static FIG_8: Figure = Figure {
    name: "shenango-8",
    source: "Shenango (NSDI 2019), Figure 8",
    title: "Tail latency by the interval of the core allocator",
    setting: SETTING,
    chosen: CHOSEN,
    jobs: 300_000,
    x: RATE,
    y: TAIL,
    line: None,
    curves: &intervals(Of::Tail),
    statements: &[Statement {
        says: "The tail grows with the interval: by at least 150 µs from 5 µs to 25 µs and more.",
        check: tail_grows,
    }],
};

pub(super) static FIG_8_BATCH: Figure = Figure {
    name: "shenango-8-batch",
    source: "Shenango (NSDI 2019), §7.3, the text to Figure 8",
    title: "What is left to batch, by the interval of the core allocator",
    setting: SETTING,
    chosen: CHOSEN,
    jobs: 300_000,
    x: RATE,
    y: Scale {
        name: "batch's share of the machine",
        unit: Unit::Share,
        log: false,
        most: Some(1.0),
    },
    line: None,
    curves: &intervals(Of::Left),
    statements: &[Statement {
        says: "With 5 µs batch does up to 6% of the machine less than with 25, 50 or 100 µs.",
        check: batch_loses,
    }],
};

fn tail_grows(drawn: &Drawn) -> Finding {
    let mut says = String::new();
    let mut means = Vec::new();
    let mut least = f64::INFINITY;
    for label in SLOW {
        let pairs = drawn.curve(label).beside(drawn.curve(QUICK));
        let more: Vec<f64> = pairs.map(|[_, slow, quick]| slow - quick).collect();
        let most = more.iter().copied().fold(0.0, f64::max);
        let mean = more.iter().sum::<f64>() / more.len().max(1) as f64;
        least = least.min(most);
        means.push(mean);
        let (mean, most) = (Unit::Duration.show(mean), Unit::Duration.show(most));
        says.push_str(&format!("With {label} {mean} more on average, {most} at the most. "));
    }
    let points = drawn.curve(QUICK).points.iter();
    let tail = points.map(|point| point.y).fold(0.0, f64::max);
    says.push_str(&format!("With 5 µs it is at most {}.", Unit::Duration.show(tail)));
    let parts = [("order", means.is_sorted() && means[0] > 0.0), ("size", least >= 150_000.0)];
    Finding::of(&parts, says)
}

fn batch_loses(drawn: &Drawn) -> Finding {
    let most = |label: &str| {
        let pairs = drawn.curve(label).beside(drawn.curve(QUICK));
        pairs.map(|[_, slow, quick]| slow - quick).fold(f64::NEG_INFINITY, f64::max)
    };
    let lost: Vec<f64> = SLOW[..3].iter().map(|label| most(label)).collect();
    let worst = lost.iter().copied().fold(0.0, f64::max);
    let stays = drawn.curve(STAYS).points.iter().map(|point| point.y).fold(0.0, f64::max);
    let says = format!(
        "Up to {:.3}, {:.3} and {:.3} less. A program that never parks leaves at most {stays:.2}.",
        lost[0], lost[1], lost[2]
    );
    Finding::of(&[("direction", worst > 0.0), ("size", worst <= 0.06)], says)
}

const COUNTS: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8];
/// All programs together.
const LOAD: f64 = 0.6;
/// Binding a kthread to another core and its cold caches: an assumption.
const MOVES: HandOvers = HandOvers { repin: 1_000, ..HandOvers::FLAG };

const PLACES: [(&str, Sharing); 5] = [
    ("16 cores", Sharing::new("exp10", 16, MOVES)),
    ("32 cores", Sharing::new("exp10", 32, MOVES)),
    ("64 cores", Sharing::new("exp10", 64, MOVES)),
    ("64 cores, siblings", Sharing::new("exp10", 64, MOVES).siblings()),
    (
        "64 cores, by signal",
        Sharing::new("exp10", 64, HandOvers { repin: 1_000, ..HandOvers::SIGNAL }),
    ),
];

const fn by_count(at: usize, of: Of) -> Curve {
    let (label, how) = PLACES[at];
    Curve { label, sweep: Sweep::Among { how, programs: COUNTS, load: LOAD, of } }
}

const fn places(of: Of) -> [Curve; 5] {
    [by_count(0, of), by_count(1, of), by_count(2, of), by_count(3, of), by_count(4, of)]
}

const NONE: &str = "None: no paper's figure. The papers measure one program beside batch.";
const MANY: &str = "Programs with exponential services of 10 µs that load 0.6 of the machine together, \
                    batch on what is left. Each is guaranteed its part of the cores and may burst to all. \
                    3.2 µs to come by flag (13.5 by signal), 1 µs more on a core that the kthread was not \
                    bound to, 2 µs to go. A hundred thousand requests a point.";
const COUNT: Scale = Scale { name: "programs", unit: Unit::Number, log: false, most: None };

pub(super) static PROGRAMS: Figure = Figure {
    name: "cores-programs",
    source: "several programs",
    title: "What is served and what is left to batch, by the number of programs",
    setting: NONE,
    chosen: MANY,
    jobs: 100_000,
    x: COUNT,
    y: Scale { name: "sum of the shares", unit: Unit::Share, log: false, most: Some(1.0) },
    line: None,
    curves: &places(Of::Sum),
    statements: &[Statement {
        says: "By flag more is left of the machine than by signal.",
        check: flag_saves,
    }],
};

pub(super) static PROGRAMS_TAIL: Figure = Figure {
    name: "cores-programs-tail",
    source: "several programs",
    title: "Tail latency by the number of programs",
    setting: NONE,
    chosen: MANY,
    jobs: 100_000,
    x: COUNT,
    y: TAIL,
    line: None,
    curves: &places(Of::Tail),
    statements: &[Statement {
        says: "By flag the tail is shorter than by signal.",
        check: flag_is_quick,
    }],
};

fn pairs(drawn: &Drawn) -> Vec<[f64; 3]> {
    drawn.curve(PLACES[2].0).beside(drawn.curve(PLACES[4].0)).collect()
}

fn flag_saves(drawn: &Drawn) -> Finding {
    let pairs = pairs(drawn);
    let more = pairs.iter().map(|[_, flag, signal]| flag - signal);
    let (least, most) = more.fold((1.0f64, 0.0f64), |(a, b), it| (a.min(it), b.max(it)));
    let says = format!("By {least:.3} to {most:.3} of 64 cores.");
    Finding::new(least > 0.0, says)
}

fn flag_is_quick(drawn: &Drawn) -> Finding {
    let pairs = pairs(drawn);
    let less = pairs.iter().map(|[_, flag, signal]| signal - flag);
    let (least, most) =
        less.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)));
    let (a, b) = (Unit::Duration.show(least), Unit::Duration.show(most));
    Finding::new(least > 0.0, format!("By {a} to {b} on 64 cores."))
}
