//! Concord (SOSP 2023).

use super::drawn::{Drawn, Finding};
use super::figure::{Curve, Figure, Of, Statement, Sweep};
use super::system::System;
use super::{LOADS, SLOWDOWN, SUSTAINED};
use curtail_sim::Costs;
use curtail_workload::Service;

const WORKLOAD: &str = "extreme-bimodal";

const fn late(label: &'static str, deviation_ns: u64) -> Curve {
    let costs = Costs { overshoot: Service::HalfNormal(deviation_ns), ..Costs::IDEAL };
    let system = System::new(WORKLOAD, "ps").quantum(5_000).costs(costs);
    Curve { label, sweep: Sweep::Loads { system, loads: LOADS, of: Of::All } }
}

pub(super) static FIG_5: Figure = Figure {
    name: "concord-5",
    source: "Concord (SOSP 2023), Figure 5",
    title: "Pre-emption that comes late",
    setting: "A single queue, 99.5% of requests 0.5 µs and 0.5% 500 µs. A quantum lasts 5 µs, exactly \
              or one-sided normally distributed with several standard deviations, or for ever.",
    chosen: "16 workers, no costs, a one-sided normal variable as 5 µs and |N(0, σ)| on top, and \
             deviations of 1, 2 and 5 µs; the text names none of these.",
    jobs: 1_000_000,
    x: SUSTAINED,
    y: SLOWDOWN,
    line: Some((50.0, "Concord's objective: 50")),
    curves: &[
        Curve {
            label: "no pre-emption",
            sweep: Sweep::Loads {
                system: System::new(WORKLOAD, "fcfs"),
                loads: LOADS,
                of: Of::All,
            },
        },
        Curve {
            label: "precise, 5 µs",
            sweep: Sweep::Loads {
                system: System::new(WORKLOAD, "ps").quantum(5_000),
                loads: LOADS,
                of: Of::All,
            },
        },
        late("N(5, 1)", 1_000),
        late("N(5, 2)", 2_000),
        late("N(5, 5)", 5_000),
    ],
    statements: &[
        Statement {
            says: "Small deviations leave the tail almost as precise pre-emption has it; 2 µs is what \
                   Concord's instrumentation keeps.",
            check: small_deviations,
        },
        Statement { says: "Without pre-emption it is far worse.", check: never_is_worst },
        Statement { says: "Precise pre-emption is the best.", check: precise_is_best },
    ],
};

fn small_deviations(drawn: &Drawn) -> Finding {
    let precise = drawn.curve("precise, 5 µs");
    let worst = drawn.curve("N(5, 2)").beside(precise).map(|[_, late, precise]| late / precise);
    let worst = worst.fold(0.0, f64::max);
    let [exact, two, five] =
        ["precise, 5 µs", "N(5, 2)", "N(5, 5)"].map(|label| drawn.curve(label).within(50.0) / 1e6);
    Finding::new(
        two >= 0.95 * exact && worst < 1.5,
        format!(
            "A slowdown of 50 is held up to {exact:.2} M/s if precise, {two:.2} with σ = 2 µs, {five:.2} \
             with 5 µs. With 2 µs the slowdown is at most {worst:.2} times the precise one."
        ),
    )
}

fn never_is_worst(drawn: &Drawn) -> Finding {
    let [never, precise] =
        ["no pre-emption", "precise, 5 µs"].map(|label| drawn.curve(label).within(50.0) / 1e6);
    Finding::new(
        never < 0.7 * precise,
        format!("A slowdown of 50 is held up to {never:.2} M/s without, {precise:.2} with it."),
    )
}

fn precise_is_best(drawn: &Drawn) -> Finding {
    let precise = drawn.curve("precise, 5 µs");
    let others = ["N(5, 1)", "N(5, 2)", "N(5, 5)", "no pre-emption"];
    let below = others.iter().flat_map(|label| drawn.curve(label).beside(precise));
    let least = below.map(|[_, other, precise]| other / precise).fold(f64::INFINITY, f64::min);
    Finding::new(
        least > 0.97,
        format!("At no load is another's slowdown below {least:.2} times that of precise."),
    )
}
