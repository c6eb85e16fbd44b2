//! Perséphone (SOSP 2021).

use super::super::SUSTAINED;
use super::super::figure::{Curve, Figure, Scale, Sweep};
use super::super::system::{Ends, System};
use super::systems::{
    LOADS, PERSEPHONES_INTERRUPT, at, c_fcfs, darc, shinjuku, shinjuku_mq, stealing,
};
use super::{Measured, Paper, Reading, Tail, UNKNOWN, claim, packets};
use crate::Classifier;
use curtail_chart::Unit;

const HIGH: &str = "high-bimodal";
const EXTREME: &str = "extreme-bimodal";

const SLOWDOWN: Scale = Scale { name: "p99.9 slowdown", unit: Unit::Number, log: true, most: None };

/// What the figures have in common.
const FIGURE: Figure = Figure {
    name: "",
    source: "",
    title: "",
    setting: "",
    chosen: "Times and objectives of single types are end to end, with a network of 10 µs: a slowdown \
             of 20 of requests of 1 µs is 20 µs. Slowdowns of all are the server's. Shenango is work stealing by kthreads that keep their cores. DARC knows the workload from \
             the start.",
    jobs: 100_000,
    x: SUSTAINED,
    y: SLOWDOWN,
    line: None,
    curves: &[],
    statements: &[],
};

const FCFS: &str = "c-FCFS";
const D_FCFS: &str = "d-FCFS";
const DARC: &str = "DARC";
const SHENANGO: &str = "Shenango";
const SHINJUKU: &str = "Shinjuku";

/// Up to 260 k/s, where the paper compares.
const TO_260K: &[f64] = &[0.2, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.9, 0.938];

const SHORT: Tail = Tail::end_to_end("short");
const LONG: Tail = Tail::end_to_end("long");

pub(super) static FIG_3: Measured = Measured {
    figure: Figure {
        name: "persephone-3",
        source: "Perséphone (SOSP 2021), Figure 3",
        title: "DARC beside c-FCFS and d-FCFS",
        setting: "14 workers, half of the requests 1 µs, half 100 µs, the three policies in Perséphone.",
        curves: &[
            at(D_FCFS, System::new(HIGH, "dfcfs").ends(Ends::Never), 14, TO_260K),
            at(FCFS, c_fcfs(HIGH), 14, TO_260K),
            at(DARC, darc(HIGH), 14, TO_260K),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Short requests' tail at 260 k/s is shorter under DARC than under c-FCFS",
            Paper::Is(15.7),
            Reading::Shorter { of: DARC, than: FCFS, tail: SHORT, rate_rps: 260e3 },
            "The next two lines: it is longer under c-FCFS here.",
        ),
        claim(
            "It is under c-FCFS",
            Paper::Is(309e3),
            Reading::At { of: FCFS, tail: SHORT, rate_rps: 260e3 },
            "260 k/s are 94% of what 14 workers do, and more with costs: without them 302 µs.",
        ),
        claim(
            "And under DARC",
            Paper::Is(18e3),
            Reading::At { of: DARC, tail: SHORT, rate_rps: 260e3 },
            UNKNOWN,
        ),
        claim(
            "Within 20 µs for short requests, DARC sustains more than c-FCFS",
            Paper::Is(2.3),
            Reading::Gain { of: DARC, over: FCFS, tail: SHORT, limit: 20e3 },
            UNKNOWN,
        ),
        claim(
            "Long requests' tail is up to so much longer under DARC",
            Paper::Is(4.2),
            Reading::MostShorter { of: FCFS, than: DARC, tail: LONG },
            "At 260 k/s long requests need 13.0 of the 13 workers that they have, and more with costs: without them 4.06 times.",
        ),
        claim(
            "Short requests' tail is longer under d-FCFS than under c-FCFS, at most",
            Paper::Above(1.0),
            Reading::MostShorter { of: FCFS, than: D_FCFS, tail: SHORT },
            UNKNOWN,
        ),
    ],
};

const RESERVED: &[u16] = &[0, 1, 2, 3, 4, 6, 8, 10, 12, 13];

const fn reserving(workload: &'static str) -> Curve {
    let system = System::new(workload, "darc-static").workers(14).ends(Ends::Never);
    Curve { label: DARC, sweep: Sweep::Reserved { system, reserved: RESERVED, load: 0.95 } }
}

const FIG_4: Figure = Figure {
    setting: "14 workers at 95% load, of which so many serve short requests alone; short requests go \
              first and may use all. With none it is fixed priority.",
    x: Scale { name: "workers reserved", unit: Unit::Number, log: false, most: None },
    jobs: 400_000,
    ..FIGURE
};

pub(super) static FIG_4_HIGH: Measured = Measured {
    figure: Figure {
        name: "persephone-4-high",
        source: "Perséphone (SOSP 2021), Figure 4a",
        title: "How many workers to reserve, High Bimodal",
        curves: &[reserving(HIGH)],
        ..FIG_4
    },
    claims: &[
        claim(
            "Workers reserved with the smallest slowdown",
            Paper::Is(1.0),
            Reading::LowestAt { of: DARC },
            "At 95% long requests need 13.2 workers and one reservation leaves 13: their tail grows with the run. In runs of 20,000 requests one is best.",
        ),
        claim(
            "Without a reservation the slowdown is greater",
            Paper::Is(4.4),
            Reading::AboveLowest { of: DARC, at: 0.0 },
            "The same: 4.27 times in runs of 20,000 requests.",
        ),
    ],
};

pub(super) static FIG_4_EXTREME: Measured = Measured {
    figure: Figure {
        name: "persephone-4-extreme",
        source: "Perséphone (SOSP 2021), Figure 4b",
        title: "How many workers to reserve, Extreme Bimodal",
        curves: &[reserving(EXTREME)],
        ..FIG_4
    },
    claims: &[
        claim(
            "Workers reserved with the smallest slowdown",
            Paper::Is(2.0),
            Reading::LowestAt { of: DARC },
            "95% of what 14 workers do without costs is 102% with them, an overload. Without costs three are best; short requests need 2.2.",
        ),
        claim(
            "Without a reservation the slowdown is greater",
            Paper::Is(1.5),
            Reading::AboveLowest { of: DARC, at: 0.0 },
            "Two workers make it 1.20 times in that overload. Without costs it is not explained.",
        ),
    ],
};

/// Three quarters of what 14 workers do.
const HIGH_75: f64 = 0.75 * 14.0 / 50.5e-6;

pub(super) static FIG_5_HIGH: Measured = Measured {
    figure: Figure {
        name: "persephone-5-high",
        source: "Perséphone (SOSP 2021), Figure 5a",
        title: "Three systems, High Bimodal",
        setting: "14 workers, half of the requests 1 µs, half 100 µs. Shinjuku with a queue for each \
                  type interrupts every 5 µs, for 1.2 µs each.",
        curves: &[
            at(SHENANGO, stealing(HIGH), 14, LOADS),
            at(SHINJUKU, shinjuku_mq(HIGH, 5_000, PERSEPHONES_INTERRUPT), 14, LOADS),
            at(DARC, darc(HIGH), 14, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Within a slowdown of 20 of short requests, DARC sustains more than Shenango",
            Paper::Is(2.35),
            Reading::Gain { of: DARC, over: SHENANGO, tail: SHORT, limit: 20e3 },
            UNKNOWN,
        ),
        claim(
            "And more than Shinjuku",
            Paper::Is(1.3),
            Reading::Gain { of: DARC, over: SHINJUKU, tail: SHORT, limit: 20e3 },
            "Shinjuku's dispatcher saturates first: with one that costs nothing 1.35 times.",
        ),
        claim(
            "At 75% load short requests' tail is shorter than Shenango's",
            Paper::Is(10.2),
            Reading::Shorter { of: DARC, than: SHENANGO, tail: SHORT, rate_rps: HIGH_75 },
            packets!("9.54 times."),
        ),
        claim(
            "And than Shinjuku's",
            Paper::Is(1.75),
            Reading::Shorter { of: DARC, than: SHINJUKU, tail: SHORT, rate_rps: HIGH_75 },
            "Shinjuku saturates before 75% here and beyond it in the paper: at 60% it is 1.37 times.",
        ),
        claim(
            "Long requests' tail is shorter under DARC than under Shinjuku",
            Paper::Above(1.0),
            Reading::Shorter { of: DARC, than: SHINJUKU, tail: LONG, rate_rps: HIGH_75 },
            UNKNOWN,
        ),
    ],
};

pub(super) static FIG_5_EXTREME: Measured = Measured {
    figure: Figure {
        name: "persephone-5-extreme",
        source: "Perséphone (SOSP 2021), Figure 5b",
        title: "Three systems, Extreme Bimodal",
        setting: "14 workers, 99.5% of requests 0.5 µs and 0.5% 500 µs. Shinjuku with one queue \
                  interrupts every 5 µs, for 1.2 µs each.",
        jobs: 200_000,
        curves: &[
            at(SHENANGO, stealing(EXTREME), 14, LOADS),
            at(SHINJUKU, shinjuku(EXTREME, 5_000, PERSEPHONES_INTERRUPT), 14, LOADS),
            at(DARC, darc(EXTREME), 14, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "Within a slowdown of 50 of short requests, DARC sustains more than Shenango",
            Paper::Is(1.4),
            Reading::Gain { of: DARC, over: SHENANGO, tail: SHORT, limit: 25e3 },
            "A worker waits for two messages of 322 ns between requests. With 34 ns, as §4.3.2 has them (88 cycles), 1.28 times.",
        ),
        claim(
            "DARC sustains more than Shinjuku",
            Paper::Is(1.25),
            Reading::Gain { of: DARC, over: SHINJUKU, tail: SHORT, limit: 25e3 },
            "The same: 1.16 times.",
        ),
        claim(
            "Short requests' tail is shorter than Shinjuku's, at most",
            Paper::Is(1.4),
            Reading::MostShorter { of: DARC, than: SHINJUKU, tail: SHORT },
            "The paper's Shinjuku drops packets beyond 55%, ours has ever longer tails there. Up to 50% it is 1.37 times.",
        ),
        claim(
            "A long request (500 µs) under Shinjuku at low load",
            Paper::Is(620e3),
            Reading::At { of: SHINJUKU, tail: LONG, rate_rps: 0.9e6 },
            "A quantum that ends while none waits is no pre-emption here; Shinjuku interrupts all the same.",
        ),
    ],
};

const TPCC: &str = "tpcc";

/// 85% of what 14 workers do.
const TPCC_85: f64 = 0.85 * 14.0 / 19.068e-6;

const fn tpcc(class: &'static str) -> Reading {
    Reading::Shorter { of: DARC, than: SHENANGO, tail: Tail::end_to_end(class), rate_rps: TPCC_85 }
}

pub(super) static FIG_6: Measured = Measured {
    figure: Figure {
        name: "persephone-6",
        source: "Perséphone (SOSP 2021), Figure 6",
        title: "Three systems, TPC-C",
        setting: "14 workers, the five transactions of its Table 4. Shinjuku with a queue for each type \
                  interrupts every 10 µs, for 1.2 µs each.",
        curves: &[
            at(SHENANGO, stealing(TPCC), 14, LOADS),
            at(SHINJUKU, shinjuku_mq(TPCC, 10_000, PERSEPHONES_INTERRUPT), 14, LOADS),
            at(DARC, darc(TPCC), 14, LOADS),
        ],
        line: Some((10.0, "objective: 10")),
        ..FIGURE
    },
    claims: &[
        claim(
            "Payment's tail at 85% is shorter under DARC than under Shenango",
            Paper::Is(9.2),
            tpcc("payment"),
            packets!("8.55 times."),
        ),
        claim(
            "OrderStatus's",
            Paper::Is(7.0),
            tpcc("order-status"),
            packets!("5.73 times, with 1.2 µs 7.61."),
        ),
        claim("NewOrder's", Paper::Is(3.6), tpcc("new-order"), packets!("3.28 times.")),
        claim(
            "The slowdown of all is up to so much smaller than Shenango's",
            Paper::Is(4.6),
            Reading::MostShorter { of: DARC, than: SHENANGO, tail: Tail::SLOWDOWN },
            packets!("4.55 times."),
        ),
        claim(
            "And than Shinjuku's",
            Paper::Is(3.1),
            Reading::MostShorter { of: DARC, than: SHINJUKU, tail: Tail::SLOWDOWN },
            "At 85%, where Shinjuku saturates, it is StockLevel's under DARC, which starves here. Payment's tail is 8.3 times shorter there.",
        ),
        claim(
            "Within a slowdown of 10, DARC sustains more than Shenango",
            Paper::Is(1.2),
            Reading::Gain { of: DARC, over: SHENANGO, tail: Tail::SLOWDOWN, limit: 10.0 },
            packets!("1.14 times."),
        ),
        claim(
            "And more than Shinjuku",
            Paper::Is(1.05),
            Reading::Gain { of: DARC, over: SHINJUKU, tail: Tail::SLOWDOWN, limit: 10.0 },
            UNKNOWN,
        ),
    ],
};

const RANDOM: &str = "DARC, random classes";

pub(super) static FIG_9: Measured = Measured {
    figure: Figure {
        name: "persephone-9",
        source: "Perséphone (SOSP 2021), Figure 9",
        title: "A classifier that knows nothing",
        setting: "8 workers, half of the requests 1 µs, half 100 µs, classified by their type, or at \
                  random.",
        curves: &[
            at(FCFS, c_fcfs(HIGH), 8, LOADS),
            at(RANDOM, darc(HIGH).classified(Classifier::Random), 8, LOADS),
            at(DARC, darc(HIGH), 8, LOADS),
        ],
        ..FIGURE
    },
    claims: &[
        claim(
            "With random classes DARC sustains as much as c-FCFS (slowdown of 50)",
            Paper::Is(1.0),
            Reading::Gain { of: RANDOM, over: FCFS, tail: Tail::SLOWDOWN, limit: 50.0 },
            UNKNOWN,
        ),
        claim(
            "With its own it sustains more",
            Paper::Above(1.0),
            Reading::Gain { of: DARC, over: FCFS, tail: Tail::SLOWDOWN, limit: 50.0 },
            UNKNOWN,
        ),
    ],
};
