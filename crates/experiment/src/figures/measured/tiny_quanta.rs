//! Tiny Quanta (ASPLOS 2024).

use super::super::SUSTAINED;
use super::super::figure::{Curve, Figure, Scale, Sweep};
use super::super::system::System;
use super::systems::{LOADS, TINY_QUANTAS_INTERRUPT, at, shinjuku, stealing, tiny_quanta};
use super::{Measured, Paper, Reading, Tail, UNKNOWN, claim, packets};
use curtail_chart::Unit;
use curtail_policy::{Balance, CoreKind};
use curtail_sim::Costs;
use curtail_workload::Service;

const EXTREME: &str = "extreme-bimodal";
const HIGH: &str = "high-bimodal";

/// What the figures have in common.
const FIGURE: Figure = Figure {
    name: "",
    source: "",
    title: "",
    setting: "",
    chosen: "Times are end to end, with a network of 10 µs as in the other papers' testbeds; slowdowns \
             the server's. Shinjuku has one queue and its interrupts take 1 µs of the worker. \
             Caladan is work stealing by kthreads that keep their cores.",
    jobs: 150_000,
    x: SUSTAINED,
    y: Scale { name: "p99.9 slowdown", unit: Unit::Number, log: true, most: None },
    line: None,
    curves: &[],
    statements: &[],
};

const TQ: &str = "TQ";
const SHINJUKU: &str = "Shinjuku";
const CALADAN: &str = "Caladan";

const SHORT: Tail = Tail::end_to_end("short");
const LONG: Tail = Tail::end_to_end("long");
const GET: Tail = Tail::end_to_end("get");

/// The paper's, for the shorter requests.
const BUDGET: f64 = 50e3;

const fn in_time(of: &'static str, over: &'static str, tail: Tail) -> Reading {
    Reading::Gain { of, over, tail, limit: BUDGET }
}

/// Of long requests no budget is named: ten times their service.
const fn long(of: &'static str, over: &'static str) -> Reading {
    Reading::Gain { of, over, tail: LONG, limit: 5e6 }
}

pub(super) static FIG_5_6: Measured = Measured {
    figure: Figure {
        name: "tq-5-6",
        source: "Tiny Quanta (ASPLOS 2024), Figures 5 and 6",
        title: "Quanta of several lengths on the prototype",
        setting: "16 workers, 99.5% of requests 0.5 µs and 0.5% 500 µs, quanta from 0.5 to 10 µs.",
        curves: &[
            at("0.5 µs", tiny_quanta(EXTREME, 500), 16, LOADS),
            at("1 µs", tiny_quanta(EXTREME, 1_000), 16, LOADS),
            at("2 µs", tiny_quanta(EXTREME, 2_000), 16, LOADS),
            at("5 µs", tiny_quanta(EXTREME, 5_000), 16, LOADS),
            at("10 µs", tiny_quanta(EXTREME, 10_000), 16, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Short requests' tail is shorter with 2 µs than with 10 µs, at most",
            Paper::Above(1.0),
            Reading::MostShorter { of: "2 µs", than: "10 µs", tail: SHORT },
            UNKNOWN,
        ),
        claim(
            "Short requests: 2 µs sustain no less than 10 µs",
            Paper::Above(0.95),
            in_time("2 µs", "10 µs", SHORT),
            UNKNOWN,
        ),
        claim(
            "Long requests (5 ms): 1 µs sustains as much as 10 µs",
            Paper::Is(1.0),
            long("1 µs", "10 µs"),
            UNKNOWN,
        ),
        claim("And 0.5 µs less", Paper::Below(1.0), long("0.5 µs", "10 µs"), UNKNOWN),
    ],
};

pub(super) static FIG_7: Measured = Measured {
    figure: Figure {
        name: "tq-7",
        source: "Tiny Quanta (ASPLOS 2024), Figure 7, Extreme Bimodal",
        title: "Three systems, Extreme Bimodal",
        setting: "16 workers, 99.5% of requests 0.5 µs and 0.5% 500 µs. TQ with quanta of 2 µs, \
                  Shinjuku with 5 µs.",
        curves: &[
            at(TQ, tiny_quanta(EXTREME, 2_000), 16, LOADS),
            at(SHINJUKU, shinjuku(EXTREME, 5_000, TINY_QUANTAS_INTERRUPT), 16, LOADS),
            at(CALADAN, stealing(EXTREME), 16, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Within 50 µs for short requests, TQ sustains",
            Paper::Is(4.5e6),
            Reading::Rate { of: TQ, tail: SHORT, limit: BUDGET },
            UNKNOWN,
        ),
        claim(
            "More than Shinjuku",
            Paper::Is(2.6),
            in_time(TQ, SHINJUKU, SHORT),
            "What the dispatcher costs decides: with one that costs nothing it is 1.47 times.",
        ),
        claim(
            "More than Caladan",
            Paper::Is(2.1),
            in_time(TQ, CALADAN, SHORT),
            packets!("2.12 times."),
        ),
        claim(
            "Long requests (5 ms): TQ sustains more than Shinjuku",
            Paper::Is(1.8),
            long(TQ, SHINJUKU),
            "What the dispatcher costs decides: with one that costs nothing it is 1.37 times.",
        ),
        claim("And more than Caladan", Paper::Is(1.2), long(TQ, CALADAN), packets!("1.22 times.")),
    ],
};

pub(super) static FIG_7_HIGH: Measured = Measured {
    figure: Figure {
        name: "tq-7-high",
        source: "Tiny Quanta (ASPLOS 2024), Figure 7, High Bimodal",
        title: "Three systems, High Bimodal",
        setting: "16 workers, half of the requests 1 µs, half 100 µs. TQ with quanta of 2 µs, Shinjuku \
                  with 5 µs.",
        jobs: 20_000,
        curves: &[
            at(TQ, tiny_quanta(HIGH, 2_000), 16, LOADS),
            at(SHINJUKU, shinjuku(HIGH, 5_000, TINY_QUANTAS_INTERRUPT), 16, LOADS),
            at(CALADAN, stealing(HIGH), 16, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Within 50 µs for short requests, TQ sustains more than Caladan",
            Paper::Is(1.65),
            in_time(TQ, CALADAN, SHORT),
            packets!("1.50 times."),
        ),
        claim(
            "More than Shinjuku",
            Paper::Is(1.33),
            in_time(TQ, SHINJUKU, SHORT),
            "What the dispatcher costs decides: with one that costs nothing it is 1.27 times.",
        ),
    ],
};

const fn slowdown(of: &'static str, over: &'static str) -> Reading {
    Reading::Gain { of, over, tail: Tail::SLOWDOWN, limit: 10.0 }
}

pub(super) static FIG_8: Measured = Measured {
    figure: Figure {
        name: "tq-8",
        source: "Tiny Quanta (ASPLOS 2024), Figure 8",
        title: "Three systems, TPC-C",
        setting: "16 workers, the five transactions of TPC-C. TQ with quanta of 2 µs, Shinjuku with \
                  10 µs.",
        jobs: 25_000,
        curves: &[
            at(TQ, tiny_quanta("tpcc", 2_000), 16, LOADS),
            at(SHINJUKU, shinjuku("tpcc", 10_000, TINY_QUANTAS_INTERRUPT), 16, LOADS),
            at(CALADAN, stealing("tpcc"), 16, LOADS),
        ],
        line: Some((10.0, "objective: 10")),
        ..FIGURE
    },
    claims: &[
        claim(
            "Within a slowdown of 10, TQ sustains more than Caladan",
            Paper::Is(1.29),
            slowdown(TQ, CALADAN),
            UNKNOWN,
        ),
        claim("More than Shinjuku", Paper::Is(1.18), slowdown(TQ, SHINJUKU), UNKNOWN),
    ],
};

const ROCKSDB: &str = "rocksdb-0.5";
const ROCKSDB_SETTING: &str =
    "16 workers, 99.5% GETs of 1.5 µs and 0.5% SCANs of 635 µs, quanta of 2 µs.";

const fn variant(label: &'static str, costs: Costs) -> Curve {
    at(label, tiny_quanta(ROCKSDB, 2_000).costs(costs), 16, LOADS)
}

const IC: &str = "TQ-IC";
const SLOW_YIELD: &str = "TQ-SLOW-YIELD";
const TIMING: &str = "TQ-TIMING";

pub(super) static FIG_11: Measured = Measured {
    figure: Figure {
        name: "tq-11",
        source: "Tiny Quanta (ASPLOS 2024), Figure 11",
        title: "What forced multitasking gains",
        setting: ROCKSDB_SETTING,
        chosen: "TQ-IC is service that is 60% longer, TQ-SLOW-YIELD a pre-emption that takes 1 µs more. \
                 TQ-TIMING has quanta of any length between 1 and 3 µs, while the paper's has 1 µs for \
                 GETs and 3 µs for SCANs: policies here have one quantum.",
        curves: &[
            variant(TQ, Costs::IDEAL),
            variant(IC, Costs { instrumentation: 0.6, ..Costs::IDEAL }),
            variant(SLOW_YIELD, Costs { switch: 1_000, ..Costs::IDEAL }),
            at(
                TIMING,
                tiny_quanta(ROCKSDB, 1_000)
                    .costs(Costs { overshoot: Service::Uniform(0, 2_000), ..Costs::IDEAL }),
                16,
                LOADS,
            ),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Within 50 µs for GETs, TQ-IC sustains of TQ's",
            Paper::Is(0.62),
            in_time(IC, TQ, GET),
            UNKNOWN,
        ),
        claim("TQ-SLOW-YIELD", Paper::Is(0.81), in_time(SLOW_YIELD, TQ, GET), UNKNOWN),
        claim(
            "TQ-TIMING",
            Paper::Is(0.81),
            in_time(TIMING, TQ, GET),
            "Another setting: the paper's GETs always have the shorter quantum.",
        ),
    ],
};

const RAND: &str = "TQ-RAND";
const POWER_TWO: &str = "TQ-POWER-TWO";
const TQ_FCFS: &str = "TQ-FCFS";

pub(super) static FIG_12: Measured = Measured {
    figure: Figure {
        name: "tq-12",
        source: "Tiny Quanta (ASPLOS 2024), Figure 12",
        title: "What two-level scheduling gains",
        setting: ROCKSDB_SETTING,
        chosen: "TQ-POWER-TWO has a dispatcher for each worker: a choice among workers is one among \
                 dispatchers here.",
        curves: &[
            at(TQ, tiny_quanta(ROCKSDB, 2_000), 16, LOADS),
            at(RAND, System::new(ROCKSDB, "dfcfs").core(CoreKind::Ps).quantum(2_000), 16, LOADS),
            at(POWER_TWO, tiny_quanta(ROCKSDB, 2_000).each(Balance::PowerOfTwo), 16, LOADS),
            at(TQ_FCFS, System::new(ROCKSDB, "tq").core(CoreKind::Fcfs), 16, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Within 50 µs for GETs, TQ-RAND sustains of TQ's",
            Paper::Is(0.53),
            in_time(RAND, TQ, GET),
            "TQ's workers turn to eight requests at a time (§5.1), ours to all. With eight, and without costs, 0.49 times where a new one comes last, 0.55 where first.",
        ),
        claim("TQ-POWER-TWO", Paper::Is(1.0), in_time(POWER_TWO, TQ, GET), UNKNOWN),
        claim(
            "Its tail is longer than TQ's, at most",
            Paper::Above(1.0),
            Reading::MostShorter { of: TQ, than: POWER_TWO, tail: GET },
            UNKNOWN,
        ),
        claim(
            "TQ-FCFS",
            Paper::Is(0.34),
            in_time(TQ_FCFS, TQ, GET),
            "What counts is when the dispatcher hears of a free worker. It sustains 0.46 of the load if at once, 0.37 after 322 ns, 0.31 after 1 µs. TQ's reads counters, how often is not said.",
        ),
    ],
};

const MILLISECONDS: &str = "request:1ms:1";
const QUANTA: &[u64] = &[500, 1_000, 2_000, 3_000, 4_000, 5_000];

const fn kept_busy(label: &'static str, system: System) -> Curve {
    Curve { label, sweep: Sweep::Workers { system, quanta_ns: QUANTA } }
}

const fn workers(of: &'static str, quantum_ns: f64) -> Reading {
    Reading::Value { of, at: quantum_ns }
}

pub(super) static FIG_16: Measured = Measured {
    figure: Figure {
        name: "tq-16",
        source: "Tiny Quanta (ASPLOS 2024), Figure 16",
        title: "How many workers a dispatcher keeps to their quanta",
        setting: "Requests of 1 ms, more than workers. With how many workers, 16 at most, quanta are on \
                  average at most a tenth of their length longer than with one worker.",
        chosen: "Four requests a worker, all at once.",
        x: Scale { name: "quantum", unit: Unit::Duration, log: false, most: None },
        y: Scale { name: "workers", unit: Unit::Number, log: false, most: Some(16.0) },
        curves: &[
            kept_busy(SHINJUKU, shinjuku(MILLISECONDS, 5_000, TINY_QUANTAS_INTERRUPT)),
            kept_busy(TQ, tiny_quanta(MILLISECONDS, 2_000)),
        ],
        ..FIGURE
    },
    claims: &[
        claim("Shinjuku: workers with 5 µs", Paper::Is(16.0), workers(SHINJUKU, 5_000.0), UNKNOWN),
        claim("With 3 µs", Paper::Below(16.0), workers(SHINJUKU, 3_000.0), UNKNOWN),
        claim(
            "With 0.5 µs",
            Paper::Is(3.0),
            workers(SHINJUKU, 500.0),
            "350 ns to signal, in place of 226, make it 3, but with quanta of 5 µs they make it 7.",
        ),
        claim("TQ: workers with 0.5 µs", Paper::Is(16.0), workers(TQ, 500.0), UNKNOWN),
    ],
};
