//! Tiny Quanta (ASPLOS 2024).

use super::drawn::{Drawn, Finding};
use super::figure::{Curve, Figure, Of, Scale, Statement, Sweep};
use super::system::System;
use super::{LOADS, SLOWDOWN, SUSTAINED};
use curtail_chart::Unit;
use curtail_policy::Ties;
use curtail_sim::Costs;

const WORKLOAD: &str = "extreme-bimodal";
const SETTING: &str = "99.5% of requests 0.5 µs and 0.5% 500 µs, Poisson arrivals, a scheduler and 16 \
                       cores that share processors from one queue.";

const fn shared(label: &'static str, quantum_ns: u64) -> Curve {
    let system = System::new(WORKLOAD, "ps").quantum(quantum_ns);
    Curve { label, sweep: Sweep::Loads { system, loads: LOADS, of: Of::All } }
}

pub(super) static FIG_1: Figure = Figure {
    name: "tq-1",
    source: "Tiny Quanta (ASPLOS 2024), Figure 1",
    title: "Quanta of several lengths, pre-emption for nothing",
    setting: SETTING,
    chosen: "The lengths of quanta; runs of 400,000 requests instead of 5 s (up to 27 million).",
    jobs: 400_000,
    x: SUSTAINED,
    y: SLOWDOWN,
    line: Some((10.0, "10")),
    curves: &[
        shared("0.5 µs", 500),
        shared("1 µs", 1_000),
        shared("2 µs", 2_000),
        shared("5 µs", 5_000),
        shared("10 µs", 10_000),
    ],
    statements: &[Statement {
        says: "The smaller the quantum, the smaller the slowdown; 5 µs, the shortest that Shinjuku \
               supports, has larger slowdowns at higher loads.",
        check: smaller_is_better,
    }],
};

fn smaller_is_better(drawn: &Drawn) -> Finding {
    let pairs = drawn.curves.windows(2);
    let least = pairs
        .flat_map(|pair| pair[1].beside(&pair[0]))
        .map(|[_, longer, shorter]| longer / shorter)
        .fold(f64::INFINITY, f64::min);
    let [one, five] = ["1 µs", "5 µs"].map(|label| drawn.curve(label).within(10.0) / 1e6);
    Finding::new(
        least > 0.97 && one > five,
        format!(
            "At no load has a longer quantum less than {least:.2} times the slowdown of the next \
             shorter one. A slowdown of 10 is held up to {five:.2} M/s with 5 µs, {one:.2} with 1 µs."
        ),
    )
}

const QUANTA: &[u64] = &[500, 1_000, 2_000, 3_000, 4_000, 5_000, 7_500, 10_000];

const fn overhead(label: &'static str, switch: u64) -> Curve {
    let system = System::new(WORKLOAD, "ps").costs(Costs { switch, ..Costs::IDEAL });
    Curve { label, sweep: Sweep::Rates { system, quanta_ns: QUANTA, limit: 10.0 } }
}

pub(super) static FIG_2: Figure = Figure {
    name: "tq-2",
    source: "Tiny Quanta (ASPLOS 2024), Figure 2",
    title: "The highest rate with a p99.9 slowdown of 10",
    setting: "As in its Figure 1, with a pre-emption that costs nothing, 100 ns or 1 µs.",
    chosen: "The lengths of quanta; a pre-emption is paid for when a request makes room for another, \
             not when it goes on because none waits; runs of 200,000 requests.",
    jobs: 200_000,
    x: Scale { name: "quantum", unit: Unit::Duration, log: false, most: None },
    y: Scale { name: "requests per second", unit: Unit::Rate, log: false, most: None },
    line: None,
    curves: &[overhead("0", 0), overhead("100 ns", 100), overhead("1 µs", 1_000)],
    statements: &[
        Statement {
            says: "For nothing, small quanta sustain about 40% more load than 5 µs.",
            check: forty_percent,
        },
        Statement {
            says: "At 100 ns each, the gain is smaller, and quanta below 1 µs lose capacity.",
            check: hundred_ns,
        },
        Statement { says: "At 1 µs each, any quantum below 3 µs loses capacity.", check: one_us },
    ],
};

fn forty_percent(drawn: &Drawn) -> Finding {
    let free = drawn.curve("0");
    let gain = 100.0 * (free.peak().1 / free.near(5_000.0) - 1.0);
    Finding::new(
        (30.0..50.0).contains(&gain),
        format!(
            "{:.2} M/s with {} instead of {:.2} with 5 µs: {gain:.0}% more.",
            free.peak().1 / 1e6,
            Unit::Duration.show(free.peak().0),
            free.near(5_000.0) / 1e6
        ),
    )
}

fn hundred_ns(drawn: &Drawn) -> Finding {
    let (free, paid) = (drawn.curve("0"), drawn.curve("100 ns"));
    let (half, one) = (paid.near(500.0), paid.near(1_000.0));
    Finding::new(
        paid.peak().1 < free.peak().1 && half < one,
        format!(
            "At most {:.2} M/s (with {}) instead of {:.2}; with 0.5 µs {:.2}, with 1 µs {:.2}.",
            paid.peak().1 / 1e6,
            Unit::Duration.show(paid.peak().0),
            free.peak().1 / 1e6,
            half / 1e6,
            one / 1e6
        ),
    )
}

fn one_us(drawn: &Drawn) -> Finding {
    let paid = drawn.curve("1 µs");
    let [half, one, two, three] = [500.0, 1_000.0, 2_000.0, 3_000.0].map(|ns| paid.near(ns) / 1e6);
    Finding::new(
        half < one && one < two && two < three,
        format!(
            "{half:.2} M/s with 0.5 µs, {one:.2} with 1 µs, {two:.2} with 2 µs, {three:.2} with 3 µs; at \
             most {:.2} with {}.",
            paid.peak().1 / 1e6,
            Unit::Duration.show(paid.peak().0)
        ),
    )
}

const fn long(label: &'static str, system: System) -> Curve {
    Curve { label, sweep: Sweep::Loads { system, loads: LOADS, of: Of::Class("long") } }
}

pub(super) static FIG_4: Figure = Figure {
    name: "tq-4",
    source: "Tiny Quanta (ASPLOS 2024), Figure 4",
    title: "Long requests, in one queue and on two levels",
    setting: "The workload of its Figure 1, p99.9 slowdown of the 500 µs requests, pre-emption for \
              nothing: processor sharing from one queue (CT), and join the shortest queue with sharing \
              on each core (TLS), ties to the most serviced quanta or at random.",
    chosen: "16 workers and a quantum of 2 µs; runs of 3 million requests (15,000 long ones).",
    jobs: 3_000_000,
    x: SUSTAINED,
    y: Scale { name: "p99.9 slowdown of long requests", unit: Unit::Number, log: true, most: None },
    line: None,
    curves: &[
        long("CT", System::new(WORKLOAD, "ps").quantum(2_000)),
        long("TLS, MSQ", System::new(WORKLOAD, "tq").quantum(2_000).ties(Ties::Msq)),
        long("TLS, random", System::new(WORKLOAD, "tq").quantum(2_000).ties(Ties::Random)),
    ],
    statements: &[
        Statement {
            says: "With MSQ two levels come near to one queue, and are much better than with random ties.",
            check: msq_between,
        },
        Statement { says: "One queue is the best where nothing costs anything.", check: one_queue },
    ],
};

/// The highest ratio of the first curve to the second.
fn most(drawn: &Drawn, above: &str, below: &str) -> [f64; 2] {
    let ratios = drawn.curve(above).beside(drawn.curve(below)).map(|[x, a, b]| [x / 1e6, a / b]);
    ratios.fold([0.0, 0.0], |most, it| if it[1] > most[1] { it } else { most })
}

fn msq_between(drawn: &Drawn) -> Finding {
    let [at, random] = most(drawn, "TLS, random", "TLS, MSQ");
    let [near, msq] = most(drawn, "TLS, MSQ", "CT");
    let pairs = drawn.curve("TLS, random").beside(drawn.curve("TLS, MSQ"));
    let high = pairs.filter(|[x, ..]| *x > 3.6e6).map(|[_, random, msq]| random / msq);
    let high = high.fold(0.0, f64::max);
    Finding::of(
        &[
            ("nearness to one queue", msq < 1.35),
            ("gain over random ties", random > 1.2),
            ("that gain at high load", high > 1.2),
        ],
        format!(
            "Random ties have up to {random:.2} times the slowdown of MSQ (at {at:.1} M/s), from 3.7 M/s \
             on up to {high:.2} times; MSQ up to {msq:.2} times that of one queue (at {near:.1} M/s)."
        ),
    )
}

fn one_queue(drawn: &Drawn) -> Finding {
    let [ahead, ratio] = most(drawn, "CT", "TLS, MSQ");
    Finding::new(
        ratio < 1.05,
        format!("One queue has at most {ratio:.2} times the slowdown of MSQ (at {ahead:.1} M/s)."),
    )
}
