//! From runs to figures: overheads, timing, means; and the JSON.
//!
//! Round `r` of a variant is compared with round `r` of the build without safepoints, which ran a
//! moment before or after it. Two overheads stand side by side: of the quickest runs (what the code
//! costs when nothing disturbs it), and the median over rounds (what noise cannot move one way).

use crate::measure::{Run, Timing};
use crate::options::Set;
use curtail_report::Machine;
use serde::{Deserialize, Serialize};

/// One variant of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The variant.
    pub variant: String,
    /// Safepoints in the program.
    pub safepoints: u64,
    /// CPU time (user and system) of each round, in seconds.
    pub cpu_s: Vec<f64>,
    /// User time of each round.
    pub user_s: Vec<f64>,
    /// Wall-clock time of each round.
    pub wall_s: Vec<f64>,
    /// The quickest round over the quickest without safepoints, less one; of several layouts, the sum
    /// of the quickest of each.
    pub overhead_minima: f64,
    /// The median over rounds of each over its like without safepoints, less one; of several layouts,
    /// the mean of their medians.
    pub overhead_paired: f64,
    /// Medians over rounds of what the safepoints recorded.
    pub timing: Option<Timing>,
    /// How often it fired, over how many quanta its CPU time has: well below 1 means that quanta were
    /// overrun, whatever the intervals without the longest ones look like. Median over rounds.
    pub fired: Option<f64>,
    /// Instructions executed, at the scale that was asked for.
    pub instructions: Option<u64>,
    /// Over those without safepoints, less one.
    pub instruction_overhead: Option<f64>,
}

/// One program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Its name.
    pub program: String,
    /// What it is written in.
    pub language: String,
    /// The compiler's flags.
    pub flags: Vec<String>,
    /// The crate and its version, if others wrote what it runs.
    #[serde(default)]
    pub origin: Option<String>,
    /// What every variant of it printed, in every round.
    pub output: String,
    /// Its variants; the first is the build without safepoints.
    pub variants: Vec<Entry>,
}

/// A variant over all programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The variant.
    pub variant: String,
    /// Arithmetic mean of the overheads.
    pub overhead_minima: f64,
    /// Arithmetic mean of the paired overheads.
    pub overhead_paired: f64,
    /// The worst overhead by minima, and whose it is.
    pub worst: f64,
    /// Its program.
    pub worst_program: String,
    /// The worst by paired rounds.
    pub worst_paired: f64,
    /// Mean over programs of the mean absolute error, in cycles.
    pub mae: Option<f64>,
    /// Mean over programs of the mean absolute error without disturbed intervals, in cycles.
    pub calm_mae: Option<f64>,
    /// Mean of the 99th percentiles, in cycles.
    pub p99: Option<f64>,
    /// Mean of the 99th percentiles without disturbed intervals, in cycles.
    pub calm_p99: Option<f64>,
    /// The worst of those.
    pub worst_calm_p99: Option<f64>,
    /// Mean of the instruction overheads.
    pub instruction_overhead: Option<f64>,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// 1.
    pub schema: u32,
    /// `safepoint`.
    pub benchmark: String,
    /// Whose programs: `own` or `outside`.
    #[serde(default = "own")]
    pub set: String,
    /// How much the programs did.
    pub scale: f64,
    /// How often each ran.
    pub rounds: u32,
    /// In how many layouts, in turn.
    #[serde(default = "one")]
    pub layouts: u32,
    /// The order's seed.
    pub seed: u64,
    /// The core they ran on.
    pub core: usize,
    /// Where instructions were counted: at which scale.
    pub instruction_scale: Option<f64>,
    /// Each program.
    pub programs: Vec<Figures>,
    /// Each variant over all of them.
    pub means: Vec<Mean>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// Reports were of nothing else once.
fn own() -> String {
    Set::Own.name().to_owned()
}

fn one() -> u32 {
    1
}

/// Firing less often than that, per quantum of CPU time, is worth a note.
const FIRED_LEAST: f64 = 0.75;

/// The middle value, or the mean of the two; NaN of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Field by field.
fn typical(records: &[&Timing]) -> Option<Timing> {
    let of = |field: fn(&Timing) -> f64| {
        median(&records.iter().map(|record| field(record)).collect::<Vec<_>>())
    };
    (!records.is_empty()).then(|| Timing {
        quantum_cycles: of(|t| t.quantum_cycles),
        yields: of(|t| t.yields),
        interval_mean: of(|t| t.interval_mean),
        interval_mae: of(|t| t.interval_mae),
        interval_p50: of(|t| t.interval_p50),
        interval_p99: of(|t| t.interval_p99),
        interval_max: of(|t| t.interval_max),
        tsc_hz: of(|t| t.tsc_hz),
        disturbed: of(|t| t.disturbed),
        calm_mae: of(|t| t.calm_mae),
        calm_p99: of(|t| t.calm_p99),
    })
}

impl Entry {
    /// The figures of `runs`, one a round and in so many layouts in turn, beside those without
    /// safepoints.
    #[must_use]
    pub fn of(variant: &str, safepoints: u64, runs: &[Run], plain: &[Run], layouts: u32) -> Self {
        let layouts = layouts as usize;
        let least = |runs: &[Run]| -> f64 {
            let of = |at| runs.iter().skip(at).step_by(layouts).map(|run| run.cpu_s);
            (0..layouts).map(|at| of(at).fold(f64::NAN, f64::min)).sum()
        };
        let ratios: Vec<f64> = runs.iter().zip(plain).map(|(a, b)| a.cpu_s / b.cpu_s).collect();
        let paired = |at| {
            median(&ratios.iter().copied().skip(at).step_by(layouts).collect::<Vec<_>>()) - 1.0
        };
        let records: Vec<&Timing> = runs.iter().filter_map(|run| run.timing.as_ref()).collect();
        let fired = |run: &Run| {
            let timing = run.timing.as_ref()?;
            Some(timing.yields * timing.quantum_cycles / timing.tsc_hz / run.cpu_s)
        };
        let fired: Vec<f64> = runs.iter().filter_map(fired).collect();
        let all = |field: fn(&Run) -> f64| runs.iter().map(field).collect();
        Self {
            variant: variant.to_owned(),
            safepoints,
            cpu_s: all(|run| run.cpu_s),
            user_s: all(|run| run.user_s),
            wall_s: all(|run| run.wall_s),
            overhead_minima: least(runs) / least(plain) - 1.0,
            overhead_paired: mean((0..layouts).map(paired)).unwrap_or(f64::NAN),
            timing: typical(&records),
            fired: (!fired.is_empty()).then(|| median(&fired)),
            ..Self::default()
        }
    }
}

impl Report {
    /// Fills in the means, from the programs, and notes which overran their quanta.
    pub fn sum_up(&mut self) {
        for program in &self.programs {
            let late = |entry: &&Entry| entry.fired.is_some_and(|fired| fired < FIRED_LEAST);
            self.notes.extend(program.variants.iter().filter(late).map(|entry| {
                let (name, fired) = (&program.program, entry.fired.unwrap_or(0.0) * 100.0);
                format!("{name}, {}: fired in {fired:.1}% of its quanta only", entry.variant)
            }));
        }
        let variants = self.programs.first().map_or(0, |program| program.variants.len());
        self.means = (1..variants).map(|at| self.mean_of(at)).collect();
    }

    fn mean_of(&self, at: usize) -> Mean {
        let entries = || self.programs.iter().map(|program| &program.variants[at]);
        let timing = |field: fn(&Timing) -> f64| {
            mean(entries().filter_map(|entry| entry.timing.as_ref()).map(field))
        };
        let worst = self.programs.iter().max_by(|a, b| {
            a.variants[at].overhead_minima.total_cmp(&b.variants[at].overhead_minima)
        });
        let p99s = entries().filter_map(|entry| entry.timing.as_ref()).map(|t| t.calm_p99);
        Mean {
            variant: worst.map(|p| p.variants[at].variant.clone()).unwrap_or_default(),
            overhead_minima: mean(entries().map(|e| e.overhead_minima)).unwrap_or(f64::NAN),
            overhead_paired: mean(entries().map(|e| e.overhead_paired)).unwrap_or(f64::NAN),
            worst: worst.map_or(f64::NAN, |p| p.variants[at].overhead_minima),
            worst_program: worst.map(|p| p.program.clone()).unwrap_or_default(),
            worst_paired: entries().map(|e| e.overhead_paired).fold(f64::NAN, f64::max),
            mae: timing(|t| t.interval_mae),
            calm_mae: timing(|t| t.calm_mae),
            p99: timing(|t| t.interval_p99),
            calm_p99: timing(|t| t.calm_p99),
            worst_calm_p99: p99s.reduce(f64::max),
            instruction_overhead: mean(entries().filter_map(|e| e.instruction_overhead)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(times: &[f64]) -> Vec<Run> {
        times.iter().map(|cpu_s| Run { cpu_s: *cpu_s, ..Run::default() }).collect()
    }

    #[test]
    fn overheads_are_of_minima_and_of_pairs() {
        let entry = Entry::of("x", 3, &runs(&[1.1, 3.0, 2.2]), &runs(&[1.0, 2.0, 2.0]), 1);
        assert!((entry.overhead_minima - 0.1).abs() < 1e-9, "{entry:?}");
        assert!((entry.overhead_paired - 0.1).abs() < 1e-9, "{entry:?}");
        let entry = Entry::of("x", 3, &runs(&[1.0, 3.0, 3.0]), &runs(&[1.0, 2.0, 2.0]), 1);
        assert!(entry.overhead_minima.abs() < 1e-9 && (entry.overhead_paired - 0.5).abs() < 1e-9);
    }

    #[test]
    fn layouts_count_alike() {
        // The first layout loses nothing, the second half.
        let (own, plain) = (runs(&[1.0, 3.0, 1.0, 3.0]), runs(&[1.0, 2.0, 1.0, 2.0]));
        let entry = Entry::of("x", 1, &own, &plain, 2);
        assert!((entry.overhead_minima - 1.0 / 3.0).abs() < 1e-9, "{entry:?}");
        assert!((entry.overhead_paired - 0.25).abs() < 1e-9, "{entry:?}");
    }

    #[test]
    fn timing_is_the_median_round() {
        let with = |mae| Run {
            timing: Some(Timing { interval_mae: mae, ..Timing::default() }),
            ..Run::default()
        };
        let rounds = [with(10.0), with(500.0), with(20.0)];
        let timing = Entry::of("x", 1, &rounds, &rounds, 1).timing.unwrap();
        assert_eq!(timing.interval_mae, 20.0);
        assert_eq!(Entry::of("x", 1, &runs(&[1.0]), &runs(&[1.0]), 1).timing, None);
    }

    #[test]
    fn overrun_quanta_are_noted() {
        let run = |yields| {
            let timing = Timing { yields, quantum_cycles: 2e3, tsc_hz: 1e9, ..Timing::default() };
            [Run { cpu_s: 1.0, timing: Some(timing), ..Run::default() }]
        };
        let (good, bad) = (run(490_000.0), run(7.0));
        let variants =
            vec![Entry::of("armed", 1, &good, &good, 1), Entry::of("late", 1, &bad, &bad, 1)];
        assert!((variants[0].fired.unwrap() - 0.98).abs() < 1e-9);
        let program = Figures { program: "p".to_owned(), variants, ..Figures::default() };
        let mut report = Report { programs: vec![program], ..Report::default() };
        report.sum_up();
        assert_eq!(report.notes, ["p, late: fired in 0.0% of its quanta only"]);
    }

    #[test]
    fn means_and_the_worst() {
        let program = |name: &str, minima, paired| Figures {
            program: name.to_owned(),
            variants: vec![
                Entry::default(),
                Entry {
                    variant: "clock".into(),
                    overhead_minima: minima,
                    overhead_paired: paired,
                    ..Entry::default()
                },
            ],
            ..Figures::default()
        };
        let programs = vec![program("a", 0.01, 0.02), program("b", 0.05, 0.0)];
        let mut report = Report { programs, ..Report::default() };
        report.sum_up();
        let mean = &report.means[0];
        assert_eq!((mean.variant.as_str(), mean.worst_program.as_str()), ("clock", "b"));
        assert!((mean.overhead_minima - 0.03).abs() < 1e-9);
        assert!((mean.overhead_paired - 0.01).abs() < 1e-9);
        assert_eq!((mean.worst, mean.worst_paired, mean.mae), (0.05, 0.02, None));
    }
}
