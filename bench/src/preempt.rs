//! `preempt`: what pre-emption costs by each mechanism, against the quantum, and how late it comes.
//!
//! Requests of one length saturate one worker of the real runtime, and more wait there all the time,
//! so that every quantum ends in a switch: as in Concord's Fig. 2, but with the switch. One process
//! runs `never` and then each mechanism, at each quantum, with one calibration of the work; a
//! mechanism is compared with the `never` of its own quantum and round.
//!
//! What is compared is the processor time that the worker takes for a request: on a machine where
//! others want the cores too, requests a second say who was given them. A dispatcher that is kept
//! from its core ends fewer quanta than it should; the table has what was ended beside what there
//! was to end.

use crate::dispatch::{Options, curtail};
use crate::figure::{Report, median};
use curtail_report::{Run, duration};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// How long a request takes, as in the paper.
const SERVICE_US: u64 = 500;
const QUANTA_US: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];
const MECHANISMS: [&str; 3] = ["clock", "flag", "signal"];

/// What the paper says of its two kinds of mechanism.
const PAPER: &str = "Concord (SOSP'23), on its machines: receiving an inter-processor interrupt \
    of Shinjuku takes about 1,200 cycles, one of Linux twice that; 33% of the throughput at a \
    quantum of 2us and 6% at 10us (Fig. 2, without the switch). Its own polls of a cache line cost \
    1 to 1.5% at every quantum, a twelfth of the interrupts' at 2us, and as much as they at 25us. \
    Probes that read the clock every 200 instructions cost 21% at every quantum.";

const MISSED: &str = "flags and signals ended fewer quanta than there were (`ended`): the dispatcher \
    had no core in time, or a signal took longer than the quantum. Their overhead is that of the \
    quanta that they ended; compare what `each` pre-emption adds.";

/// One mechanism at one quantum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `clock`, `flag` or `signal`.
    pub mechanism: String,
    /// The quantum.
    pub quantum_ns: u64,
    /// Processor time for a request, more than with `never`, as a share of that: by round.
    pub overhead: Vec<f64>,
    /// Of these.
    pub overhead_median: f64,
    /// Quanta that were ended early enough, as a share of those that a request has: median.
    pub ended: f64,
    /// What one pre-emption adds, the switch included: median.
    pub each_ns: f64,
    /// Half of the pre-emptions came no later than this, in nanoseconds: the median of the rounds.
    pub late_p50_ns: f64,
    /// 99% of the pre-emptions came no later than this, in nanoseconds: the median of the rounds.
    pub late_p99_ns: f64,
    /// Signals that came at a bad place, as a share of all: median.
    pub refused: f64,
}

/// Runs the benchmark.
#[must_use]
pub fn run(options: &Options) -> Report {
    let mut report = Report::new("preempt", options.size);
    let Some(program) = &options.curtail else {
        report.notes.push("skipped, the command `curtail` is not built".to_owned());
        return report;
    };
    let quanta: Vec<u64> = options.size.pick(vec![10], QUANTA_US.to_vec());
    let list = quanta.iter().map(|us| format!("{us}us")).collect::<Vec<_>>().join(",");
    let class = format!("fixed:{SERVICE_US}us:1");
    let preempt = format!("never,{}", MECHANISMS.join(","));
    let args = [
        ["--policy", "tq"],
        ["--classes", &class],
        ["--load", "1.5"],
        ["--capacity", "8"],
        ["--warmup", "0"],
        ["--quantum", &list],
        ["--preempt", &preempt],
    ];
    let mut rounds: Vec<Vec<Run>> = Vec::new();
    for _ in 0..options.rounds {
        match curtail(program, args.as_flattened(), options.seconds / 4.0) {
            Ok(runs) => rounds.push(runs),
            Err(error) => report.notes.push(error),
        }
    }
    for &us in &quanta {
        for mechanism in MECHANISMS {
            match row(&rounds, mechanism, us * 1_000) {
                Some(row) => report.rows.push(row),
                None => report.notes.push(format!("{mechanism} at {us}us: did not run")),
            }
        }
    }
    if report.rows.iter().any(|row| row.mechanism != "clock" && row.ended < 0.8) {
        report.notes.push(MISSED.to_owned());
    }
    report.notes.push(PAPER.to_owned());
    report
}

/// Processor time for a request.
fn each_s(run: &Run) -> Option<f64> {
    let busy_s = run.cpu?.busy_s?;
    (run.completed > 0 && busy_s > 0.0).then(|| busy_s / run.completed as f64)
}

/// One mechanism at one quantum, over the rounds in which it ran.
fn row(rounds: &[Vec<Run>], mechanism: &str, quantum_ns: u64) -> Option<Row> {
    let (mut overhead, mut ended, mut each_ns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut p50, mut p99, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for runs in rounds {
        let find = |preempt: &str| {
            let here = |run: &&Run| run.preempt == preempt && run.quantum_ns == Some(quantum_ns);
            runs.iter().find(here)
        };
        let (Some(never), Some(run)) = (find("never"), find(mechanism)) else { continue };
        let (Some(base), Some(with)) = (each_s(never), each_s(run)) else { continue };
        let preemptions = run.preemptions as f64 / run.completed as f64;
        overhead.push(with / base - 1.0);
        ended.push(preemptions * quantum_ns as f64 / (SERVICE_US * 1_000) as f64);
        if preemptions > 0.0 {
            each_ns.push((with - base) * 1e9 / preemptions);
        }
        if let Some(late) = run.preempt_late_ns {
            p50.push(late.p50 as f64);
            p99.push(late.p99 as f64);
        }
        if let Some(ticks) = run.ticks.filter(|ticks| ticks.received > 0) {
            let taken = (ticks.taken + ticks.early) as f64 / ticks.received as f64;
            refused.push(1.0 - taken);
        }
    }
    (!overhead.is_empty()).then(|| Row {
        mechanism: mechanism.to_owned(),
        quantum_ns,
        overhead_median: median(&overhead),
        overhead,
        ended: median(&ended),
        each_ns: median_or_zero(&each_ns),
        late_p50_ns: median_or_zero(&p50),
        late_p99_ns: median_or_zero(&p99),
        refused: median_or_zero(&refused),
    })
}

fn median_or_zero(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { median(values) }
}

/// The rows as people read them.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut out = format!(
        "\nprocessor time of {SERVICE_US}us requests, against `never`; medians of rounds\n  \
         {:>7}  {:8}  {:>8}  {:>6}  {:>9}  {:>9}  {:>9}  {:>7}\n",
        "quantum", "by", "overhead", "ended", "each", "late p50", "late p99", "refused"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "  {:>7}  {:8}  {:>7.2}%  {:>5.0}%  {:>9}  {:>9}  {:>9}  {:>6.1}%",
            duration(row.quantum_ns as f64),
            row.mechanism,
            row.overhead_median * 100.0,
            row.ended * 100.0,
            duration(row.each_ns.max(0.0)),
            duration(row.late_p50_ns),
            duration(row.late_p99_ns),
            row.refused * 100.0,
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_report::{Cpu, Lateness, Ticks};

    fn of(preempt: &str, busy_s: f64, preemptions: u64) -> Run {
        Run {
            preempt: preempt.to_owned(),
            quantum_ns: Some(5_000),
            completed: 1_000,
            preemptions,
            cpu: Some(Cpu { busy_s: Some(busy_s), ..Cpu::default() }),
            preempt_late_ns: Some(Lateness { p50: 100, p99: 900, max: 1_000 }),
            ticks: (preempt == "signal").then(|| Ticks {
                received: 8,
                taken: 6,
                ..Ticks::default()
            }),
            ..Run::default()
        }
    }

    #[test]
    fn a_mechanism_is_compared_with_its_own_round() {
        let rounds = [
            vec![of("never", 0.5, 0), of("signal", 0.6, 100_000)],
            // Everything took twice as long, the overhead's share is the same.
            vec![of("never", 1.0, 0), of("signal", 1.2, 100_000)],
            // It did not run: no figure.
            vec![of("never", 1.0, 0)],
        ];
        let row = row(&rounds, "signal", 5_000).unwrap();
        assert_eq!(row.overhead.len(), 2);
        assert!((row.overhead_median - 0.2).abs() < 1e-9, "{row:?}");
        assert!((row.ended - 1.0).abs() < 1e-9, "{row:?}");
        assert!((row.each_ns - 1_500.0).abs() < 1e-6, "{row:?}");
        assert_eq!((row.late_p50_ns, row.late_p99_ns, row.refused), (100.0, 900.0, 0.25));
        assert!(super::row(&rounds, "signal", 7_000).is_none());
        assert!(super::row(&rounds, "flag", 5_000).is_none());
        assert!(table(&[row]).contains("20.00%"));
    }
}
