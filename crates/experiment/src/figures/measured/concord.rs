//! Concord (SOSP 2023).

use super::super::SUSTAINED;
use super::super::figure::{Curve, Figure, Scale};
use super::super::system::Ends;
use super::systems::{CONCORDS_INTERRUPT, LOADS, at, c_fcfs, concord, shinjuku};
use super::{Claim, Measured, Paper, Reading, Tail, UNKNOWN, claim};
use curtail_chart::Unit;

/// What the figures have in common.
const FIGURE: Figure = Figure {
    name: "",
    source: "",
    title: "",
    setting: "",
    chosen: "Shinjuku's interrupts take 600 ns of the worker: 1,200 cycles at \
             2 GHz. Concord's dispatcher runs requests when all inboxes of two are full. Only it runs \
             code with safepoints.",
    jobs: 100_000,
    x: SUSTAINED,
    y: Scale { name: "p99.9 slowdown", unit: Unit::Number, log: true, most: None },
    line: Some((50.0, "objective: 50")),
    curves: &[],
    statements: &[],
};

const FCFS: &str = "Perséphone-FCFS";
const SHINJUKU_5: &str = "Shinjuku, 5 µs";
const SHINJUKU_2: &str = "Shinjuku, 2 µs";
const CONCORD_5: &str = "Concord, 5 µs";
const DEDICATED: &str = "Concord, dedicated dispatcher";
const CONCORD_2: &str = "Concord, 2 µs";

const fn five(workload: &'static str, loads: &'static [f64]) -> [Curve; 5] {
    [
        at(FCFS, c_fcfs(workload), 14, loads),
        at(SHINJUKU_5, shinjuku(workload, 5_000, CONCORDS_INTERRUPT), 14, loads),
        at(CONCORD_5, concord(workload, 5_000), 14, loads),
        at(SHINJUKU_2, shinjuku(workload, 2_000, CONCORDS_INTERRUPT), 14, loads),
        at(CONCORD_2, concord(workload, 2_000), 14, loads),
    ]
}

/// The curves of [`five`], and Concord (5 µs) with a dispatcher that runs nothing itself.
const fn six(workload: &'static str, loads: &'static [f64]) -> [Curve; 6] {
    let [fcfs, shinjuku_5, concord_5, shinjuku_2, concord_2] = five(workload, loads);
    let dedicated = at(DEDICATED, concord(workload, 5_000).dedicated(), 14, loads);
    [fcfs, shinjuku_5, concord_5, shinjuku_2, concord_2, dedicated]
}

/// Within the paper's slowdown of 50.
const fn gain(of: &'static str, over: &'static str) -> Reading {
    Reading::Gain { of, over, tail: Tail::SLOWDOWN, limit: 50.0 }
}

const fn at_5(paper: f64, reason: &'static str) -> Claim {
    let says = "With quanta of 5 µs Concord sustains more than Shinjuku";
    claim(says, Paper::Is(paper), gain(CONCORD_5, SHINJUKU_5), reason)
}

const fn at_2(paper: f64, reason: &'static str) -> Claim {
    let says = "With quanta of 2 µs Concord sustains more than Shinjuku";
    claim(says, Paper::Is(paper), gain(CONCORD_2, SHINJUKU_2), reason)
}

const FCFS_EARLIER: Claim = claim(
    "Perséphone-FCFS sustains less than Shinjuku (5 µs)",
    Paper::Below(1.0),
    gain(FCFS, SHINJUKU_5),
    "Shinjuku's dispatcher saturates. Where it costs nothing it is 0.91 times.",
);

/// Of a dispatcher that ends millions of quanta a second.
const FREE: &str = "Ending a quantum takes the dispatcher 401 ns here, under which it saturates. With one \
                    that costs nothing it is 1.20 (5 µs) and 1.44 (2 µs) times.";

pub(super) static FIG_6: Measured = Measured {
    figure: Figure {
        name: "concord-6",
        source: "Concord (SOSP 2023), Figure 6",
        title: "Three systems, half of the requests 1 µs and half 100 µs",
        setting: "14 workers, 50% of requests 1 µs, 50% 100 µs, quanta of 5 µs and 2 µs.",
        jobs: 8_000,
        curves: &five("high-bimodal", LOADS),
        ..FIGURE
    },
    claims: &[at_5(1.18, FREE), at_2(1.45, FREE), FCFS_EARLIER],
};

/// Read off the curve that the figure has beside the others.
const DEDICATED_GAINS: &str = "Concord's dispatcher serves requests itself meanwhile: with a dedicated one \
                              1.07 times, and 1.37 if that costs nothing.";

/// Of a dispatcher that ends millions of quanta a second.
const SATURATED: &str = "Ending a quantum takes the dispatcher 401 ns here, under which it saturates in both \
                         systems. With one that costs nothing it is 1.35 times.";

pub(super) static FIG_7: Measured = Measured {
    figure: Figure {
        name: "concord-7",
        source: "Concord (SOSP 2023), Figure 7",
        title: "Three systems, 99.5% of requests 0.5 µs and 0.5% 500 µs",
        setting: "14 workers, 99.5% of requests 0.5 µs, 0.5% 500 µs, quanta of 5 µs and 2 µs.",
        jobs: 60_000,
        curves: &six("extreme-bimodal", LOADS),
        ..FIGURE
    },
    claims: &[at_5(1.20, DEDICATED_GAINS), at_2(1.52, SATURATED), FCFS_EARLIER],
};

/// Of a dispatcher that has enough to do as it is.
const BUSY: &str = "Concord's dispatcher serves requests itself when all inboxes are full, and feeds none \
                    meanwhile. With a dedicated one it is 1.00 times.";

/// Where a dispatcher saturates long before the workers do.
const LOW_LOADS: &[f64] =
    &[0.1, 0.15, 0.2, 0.225, 0.25, 0.275, 0.3, 0.325, 0.35, 0.375, 0.4, 0.5, 0.7, 0.95];

pub(super) static FIG_8: Measured = Measured {
    figure: Figure {
        name: "concord-8",
        source: "Concord (SOSP 2023), Figure 8, left",
        title: "Three systems, all requests 1 µs",
        setting: "14 workers, every request 1 µs, quanta of 5 µs.",
        curves: &[
            at(FCFS, c_fcfs("fixed1"), 14, LOW_LOADS),
            at(SHINJUKU_5, shinjuku("fixed1", 5_000, CONCORDS_INTERRUPT), 14, LOW_LOADS),
            at(CONCORD_5, concord("fixed1", 5_000), 14, LOW_LOADS),
            at(DEDICATED, concord("fixed1", 5_000).dedicated(), 14, LOW_LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Concord sustains 2% less than Shinjuku",
            Paper::Is(0.98),
            gain(CONCORD_5, SHINJUKU_5),
            BUSY,
        ),
        claim("And than Perséphone-FCFS", Paper::Is(0.98), gain(CONCORD_5, FCFS), BUSY),
    ],
};

const SHINJUKU_10: &str = "Shinjuku, 10 µs";
const CONCORD_10: &str = "Concord, 10 µs";

/// Where the three come to the objective.
const HIGH_LOADS: &[f64] = &[0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.99, 1.02, 1.05];

pub(super) static FIG_8_TPCC: Measured = Measured {
    figure: Figure {
        name: "concord-8-tpcc",
        source: "Concord (SOSP 2023), Figure 8, right",
        title: "Three systems, TPC-C",
        setting: "14 workers, the five transactions of TPC-C, quanta of 10 µs.",
        jobs: 50_000,
        curves: &[
            at(FCFS, c_fcfs("tpcc"), 14, HIGH_LOADS),
            at(SHINJUKU_10, shinjuku("tpcc", 10_000, CONCORDS_INTERRUPT), 14, HIGH_LOADS),
            at(CONCORD_10, concord("tpcc", 10_000), 14, HIGH_LOADS),
            at(DEDICATED, concord("tpcc", 10_000).dedicated(), 14, HIGH_LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Concord sustains more than Shinjuku",
            Paper::Above(1.0),
            gain(CONCORD_10, SHINJUKU_10),
            UNKNOWN,
        ),
        claim(
            "But less than Perséphone-FCFS",
            Paper::Below(1.0),
            gain(CONCORD_10, FCFS),
            "With 77 ns from core to core (two misses in 400 cycles, its §2.2.2) it is 1.00 times. Not explained: even without any costs, and with a dedicated dispatcher, 1.04.",
        ),
    ],
};

/// Of a dispatcher that ends millions of quanta a second.
const DISPATCHER: &str = "Ending a quantum takes the dispatcher 401 ns here, under which it saturates in \
                          both systems. With one that costs nothing it is 1.28 (5 µs) and 1.40 (2 µs) \
                          times; what is left is not explained.";

/// A SCAN has 250 quanta: so few requests, at so few loads, are as many events as elsewhere.
const LEVELDB_JOBS: u64 = 6_000;
const FEW_LOADS: &[f64] = &[0.25, 0.4, 0.5, 0.6, 0.8, 0.95];

const LEVELDB: &str = "get:600ns:50,scan:500us:50";

pub(super) static FIG_9: Measured = Measured {
    figure: Figure {
        name: "concord-9",
        source: "Concord (SOSP 2023), Figure 9",
        title: "Three systems, LevelDB with half GETs and half SCANs",
        setting: "14 workers, 50% GETs of 0.6 µs, 50% SCANs of 500 µs, quanta of 5 µs and 2 µs.",
        jobs: LEVELDB_JOBS,
        curves: &five(LEVELDB, FEW_LOADS),
        ..FIGURE
    },
    claims: &[at_5(1.52, DISPATCHER), at_2(1.83, DISPATCHER), FCFS_EARLIER],
};

pub(super) static FIG_10: Measured = Measured {
    figure: Figure {
        name: "concord-10",
        source: "Concord (SOSP 2023), Figure 10",
        title: "Three systems, ZippyDB's operations on LevelDB",
        setting: "14 workers, 78% GETs, 13% PUTs, 6% DELETEs, 3% SCANs, quanta of 5 µs.",
        jobs: 50_000,
        curves: &[
            at(FCFS, c_fcfs("zippydb"), 14, LOADS),
            at(SHINJUKU_5, shinjuku("zippydb", 5_000, CONCORDS_INTERRUPT), 14, LOADS),
            at(CONCORD_5, concord("zippydb", 5_000), 14, LOADS),
        ],
        ..FIGURE
    },
    claims: &[at_5(1.19, UNKNOWN), FCFS_EARLIER],
};

const COOPERATING: &str = "cooperation";
const JBSQ: &str = "cooperation, JBSQ(2)";

const fn sustained(of: &'static str) -> Reading {
    Reading::Rate { of, tail: Tail::SLOWDOWN, limit: 50.0 }
}

pub(super) static FIG_11: Measured = Measured {
    figure: Figure {
        name: "concord-11",
        source: "Concord (SOSP 2023), Figure 11",
        title: "What each of Concord's mechanisms gains",
        setting: "As in its Figure 9 with quanta of 2 µs. Shinjuku; with safepoints in place of \
                  interrupts; with inboxes of two, too; and with a dispatcher that works, too.",
        jobs: LEVELDB_JOBS,
        curves: &[
            at(SHINJUKU_2, shinjuku(LEVELDB, 2_000, CONCORDS_INTERRUPT), 14, FEW_LOADS),
            at(COOPERATING, shinjuku(LEVELDB, 2_000, Ends::Safepoints), 14, FEW_LOADS),
            at(JBSQ, concord(LEVELDB, 2_000).dedicated(), 14, FEW_LOADS),
            at(CONCORD_2, concord(LEVELDB, 2_000), 14, FEW_LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Shinjuku sustains",
            Paper::Is(19e3),
            sustained(SHINJUKU_2),
            "Ours ends a quantum where another request waits. Where it ends each, as Shinjuku does, 25.9 k/s; what is left is not explained.",
        ),
        claim(
            "Cooperation gains",
            Paper::Is(22.5 / 19.0),
            gain(COOPERATING, SHINJUKU_2),
            "The dispatcher saturates first, at 401 ns a quantum. With one that costs nothing it is 1.07 times.",
        ),
        claim(
            "JBSQ(2) gains, on top",
            Paper::Is(32.0 / 22.5),
            gain(JBSQ, COOPERATING),
            "With a dispatcher that costs nothing it is 1.28 times; where all quanta end, 1.30.",
        ),
        claim(
            "The dispatcher gains, on top",
            Paper::Is(35.0 / 32.0),
            gain(CONCORD_2, JBSQ),
            UNKNOWN,
        ),
    ],
};

const WORKING: &str = "Concord";

pub(super) static FIG_13: Measured = Measured {
    figure: Figure {
        name: "concord-13",
        source: "Concord (SOSP 2023), Figure 13",
        title: "A dispatcher that works, on a small machine",
        setting: "Its Figure 9's requests on two workers, with a dispatcher that runs requests when all \
                  inboxes are full, and one that does not.",
        jobs: LEVELDB_JOBS,
        curves: &[
            at(DEDICATED, concord(LEVELDB, 2_000).dedicated(), 2, SMALL_LOADS),
            at(WORKING, concord(LEVELDB, 2_000), 2, SMALL_LOADS),
        ],
        ..FIGURE
    },
    claims: &[claim(
        "A dispatcher that works sustains more than a dedicated one",
        Paper::Is(1.33),
        gain(WORKING, DEDICATED),
        UNKNOWN,
    )],
};

/// Beyond what two workers do: the dispatcher is a third.
const SMALL_LOADS: &[f64] = &[0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4];
