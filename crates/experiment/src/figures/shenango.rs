//! Shenango (NSDI 2019).

use super::drawn::{Drawn, Finding};
use super::figure::{Curve, Figure, Scale, Statement, Sweep};
use super::sharing::{Of, Sharing};
use curtail_chart::Unit;
use curtail_sim::HandOvers;

const WORKLOAD: &str = "exp10";

const RATES_K: &[u32] = &[
    10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 300, 330,
    360, 390, 420, 450, 480, 510, 540, 570, 600, 640, 680, 720, 760, 800, 850, 900, 950, 1_000,
];

const LIMIT_NS: u64 = 100_000;
const MILLISECOND: &str = "1 ms, at best";
const SHENANGO: &str = "5 µs, a switch";
const FLAG: &str = "5 µs, by flag";
const SIGNAL: &str = "5 µs, by signal";
/// As many as it could ever want.
const CORES: u32 = 32;

pub(super) static FIG_1: Figure = Figure {
    name: "shenango-1",
    source: "Shenango (NSDI 2019), Figure 1",
    title: "CPU efficiency of slow and quick core allocators",
    setting: "Poisson arrivals, exponential service times with a mean of 10 µs, a p99.9 sojourn time of \
              100 µs. The 1 ms allocator has for each rate the fewest cores that hold it, in an M/M/n \
              queue that begins each interval empty and is served at once at its end. The other curve \
              the paper measured on Shenango.",
    chosen: "The others are simulated too, by the allocator of the daemon and a model of the runtime: it \
             looks every 5 µs and grants a core when something was seen waiting twice; a kthread looks \
             for work for 2 µs before it parks. A switch: 600 ns to come and 600 ns to go, what the paper \
             says Linux takes. By flag and by signal: 3.2 µs and 13.5 µs to come, as measured on two \
             virtual cores, and 2 µs to go. Fifty thousand requests a point; numbers are cores.",
    jobs: 50_000,
    x: Scale { name: "requests per second", unit: Unit::Rate, log: false, most: None },
    y: Scale { name: "CPU efficiency", unit: Unit::Share, log: false, most: Some(1.0) },
    line: None,
    curves: &[
        Curve {
            label: MILLISECOND,
            sweep: Sweep::Intervals {
                workload: WORKLOAD,
                rates_k: RATES_K,
                interval_ns: 1_000_000,
                limit_ns: LIMIT_NS,
            },
        },
        Curve {
            label: SHENANGO,
            sweep: Sweep::Shared {
                how: Sharing::new(WORKLOAD, CORES, HandOvers::SWITCH),
                rates_k: RATES_K,
                of: Of::Efficiency,
            },
        },
        Curve {
            label: FLAG,
            sweep: Sweep::Shared {
                how: Sharing::new(WORKLOAD, CORES, HandOvers::FLAG),
                rates_k: RATES_K,
                of: Of::Efficiency,
            },
        },
        Curve {
            label: SIGNAL,
            sweep: Sweep::Shared {
                how: Sharing::new(WORKLOAD, CORES, HandOvers::SIGNAL),
                rates_k: RATES_K,
                of: Of::Efficiency,
            },
        },
    ],
    statements: &[
        Statement {
            says: "Allocating every 5 µs is more efficient than the best that can be done every \
                   millisecond.",
            check: quick_is_better,
        },
        Statement {
            says: "The loss of the slow allocator is the most severe between one and four cores.",
            check: worst_with_few,
        },
        Statement { says: "Its curve is a sawtooth, as cores are whole.", check: sawtooth },
    ],
};

fn quick_is_better(drawn: &Drawn) -> Finding {
    let pairs = || drawn.curve(SHENANGO).beside(drawn.curve(MILLISECOND));
    let ahead = pairs().filter(|[_, quick, slow]| quick > slow).count();
    let behind = pairs().filter(|[_, quick, slow]| quick <= slow).map(|[x, ..]| x);
    let first = behind.fold(f64::INFINITY, f64::min);
    let (low, high) = pairs().fold((f64::INFINITY, 0.0f64), |(low, high), [_, quick, _]| {
        (low.min(quick), high.max(quick))
    });
    let slow = pairs().fold(f64::INFINITY, |low, [_, _, slow]| low.min(slow));
    let points = &drawn.curve(SHENANGO).points;
    let tail_ns = points.iter().filter_map(|point| point.tail_ns).fold(0.0, f64::max);
    let mut says = format!(
        "It is at {ahead} of {} rates: {low:.2} to {high:.2}, where the other begins at {slow:.2}. Its \
         p99.9 sojourn time is at most {}.",
        pairs().count(),
        Unit::Duration.show(tail_ns)
    );
    if first.is_finite() {
        says.push_str(&format!(" The first where it is not is {}.", Unit::Rate.show(first)));
    }
    for (name, label) in [("flag", FLAG), ("signal", SIGNAL)] {
        says.push_str(&beside_the_slow(drawn, name, label));
    }
    let parts = [
        ("most rates", ahead * 10 >= pairs().count() * 9),
        ("all rates", ahead == pairs().count()),
        ("tail", tail_ns <= LIMIT_NS as f64),
    ];
    Finding::of(&parts, says)
}

/// Where the one as measured here is ahead of the slow one, too.
fn beside_the_slow(drawn: &Drawn, name: &str, label: &str) -> String {
    let pairs: Vec<[f64; 3]> = drawn.curve(label).beside(drawn.curve(MILLISECOND)).collect();
    let behind: Vec<String> = pairs
        .iter()
        .filter(|[_, quick, slow]| quick <= slow)
        .map(|[x, quick, slow]| format!("{} ({quick:.3} to {slow:.3})", Unit::Rate.show(*x)))
        .collect();
    let ahead = pairs.len() - behind.len();
    let mut says = format!(" By {name} it is at {ahead} of {}", pairs.len());
    if !behind.is_empty() {
        says.push_str(&format!(", not at {}", behind.join(", ")));
    }
    says.push('.');
    says
}

fn worst_with_few(drawn: &Drawn) -> Finding {
    let curve = drawn.curve(MILLISECOND);
    let mean = |few: bool| {
        let cores = |note: &str| note.parse::<u32>().unwrap_or(0);
        let of: Vec<f64> = curve
            .points
            .iter()
            .filter(|point| (cores(&point.note) <= 4) == few)
            .map(|point| point.y)
            .collect();
        of.iter().sum::<f64>() / of.len().max(1) as f64
    };
    let (few, many) = (mean(true), mean(false));
    Finding::new(
        few < many,
        format!("On average {few:.2} with up to four cores, {many:.2} with more."),
    )
}

fn sawtooth(drawn: &Drawn) -> Finding {
    let points = &drawn.curve(MILLISECOND).points;
    let drops = points.windows(2).filter(|pair| pair[1].y < pair[0].y);
    let falls = drops.clone().count();
    let more = drops.filter(|pair| pair[0].note != pair[1].note).count();
    Finding::new(
        falls > 3 && more == falls,
        format!("It falls {falls} times, each time where a core is added."),
    )
}
