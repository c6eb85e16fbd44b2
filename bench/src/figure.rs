//! Figures: contestants by turns, medians, ratios, as text and as JSON.

use crate::Size;
use curtail_report::{Machine, Run};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// One thing measured, for all contestants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// The values' unit, such as `ns` or `/s`.
    pub unit: String,
    /// More is better (rates); else less is (times).
    pub more_is_better: bool,
    /// Ours first.
    pub entries: Vec<Entry>,
}

/// One contestant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Median over the rounds.
    pub median: f64,
    /// The best round.
    pub best: f64,
    /// Its median over the first contestant's.
    pub ratio: f64,
    /// All rounds, in order.
    pub rounds: Vec<f64>,
}

/// What one benchmark found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub benchmark: String,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// The runs behind them, where there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// Of `preempt` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<crate::preempt::Row>,
    /// Of `sim` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<crate::sim::Simulated>,
    /// What could not be measured, and what else the reader should know.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// A contestant: its name, and what gives one round's value.
pub type Contestant<'a> = (&'a str, &'a mut dyn FnMut() -> f64);

impl Figure {
    /// Runs every contestant once a round, in turns, each round beginning with another.
    #[must_use]
    pub fn measure(
        what: &str,
        unit: &str,
        more_is_better: bool,
        rounds: usize,
        contestants: &mut [Contestant<'_>],
    ) -> Self {
        let mut values = vec![Vec::with_capacity(rounds); contestants.len()];
        for round in 0..rounds {
            for turn in 0..contestants.len() {
                let at = (round + turn) % contestants.len();
                values[at].push((contestants[at].1)());
            }
        }
        let names = contestants.iter().map(|(name, _)| (*name).to_owned());
        Self::of(what, unit, more_is_better, names.zip(values).collect())
    }

    /// Of rounds measured already.
    #[must_use]
    pub fn of(
        what: &str,
        unit: &str,
        more_is_better: bool,
        values: Vec<(String, Vec<f64>)>,
    ) -> Self {
        let first = values.first().map_or(f64::NAN, |(_, rounds)| median(rounds));
        let entry = |(name, rounds): (String, Vec<f64>)| {
            let pick = if more_is_better { f64::max } else { f64::min };
            let best = rounds.iter().copied().reduce(pick).unwrap_or(f64::NAN);
            let median = median(&rounds);
            Entry { name, median, best, ratio: median / first, rounds }
        };
        Self {
            what: what.to_owned(),
            unit: unit.to_owned(),
            more_is_better,
            entries: values.into_iter().map(entry).collect(),
        }
    }

    fn show(&self, value: f64) -> String {
        match self.unit.as_str() {
            "/s" => curtail_report::rate(value),
            "ns" => curtail_report::duration(value),
            unit => format!("{} {unit}", curtail_report::ratio(value)),
        }
    }
}

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

impl Report {
    /// An empty one.
    #[must_use]
    pub fn new(benchmark: &str, size: Size) -> Self {
        let tsc_hz = Some(crate::machine::Tsc::get().hz as u64);
        Self {
            benchmark: benchmark.to_owned(),
            smoke: size == Size::Smoke,
            machine: Machine { tsc_hz, ..Machine::gather() },
            ..Self::default()
        }
    }

    /// As people read it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("== {} ==\n", self.benchmark);
        if self.smoke {
            out.push_str("smoke run: the figures mean nothing\n");
        }
        for figure in &self.figures {
            let _ = writeln!(out, "\n{}", figure.what);
            let width = figure.entries.iter().map(|e| e.name.chars().count()).max().unwrap_or(0);
            for entry in &figure.entries {
                let _ = writeln!(
                    out,
                    "  {:width$}  {:>9}  best {:>9}  {:>7}×  ({} rounds)",
                    entry.name,
                    figure.show(entry.median),
                    figure.show(entry.best),
                    curtail_report::ratio(entry.ratio),
                    entry.rounds.len(),
                );
            }
        }
        if !self.runs.is_empty() {
            let _ = write!(out, "\n{}", curtail_report::table(&self.runs));
        }
        if !self.rows.is_empty() {
            out.push_str(&crate::preempt::table(&self.rows));
        }
        if !self.simulated.is_empty() {
            out.push_str(&crate::sim::table(&self.simulated));
        }
        for note in &self.notes {
            let _ = writeln!(out, "\nnote: {note}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn contestants_take_turns_and_each_begins_a_round() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut a = || {
            order.borrow_mut().push('a');
            2.0
        };
        let mut b = || {
            order.borrow_mut().push('b');
            3.0
        };
        let contestants: &mut [Contestant<'_>] = &mut [("a", &mut a), ("b", &mut b)];
        let figure = Figure::measure("x", "ns", false, 3, contestants);
        assert_eq!(*order.borrow(), ['a', 'b', 'b', 'a', 'a', 'b']);
        assert_eq!(figure.entries[1].ratio, 1.5);
        assert_eq!(figure.entries[1].rounds, [3.0; 3]);
    }

    #[test]
    fn the_best_is_the_most_of_a_rate_and_the_least_of_a_time() {
        let values = || vec![("a".to_owned(), vec![1.0, 5.0, 2.0])];
        assert_eq!(Figure::of("x", "/s", true, values()).entries[0].best, 5.0);
        assert_eq!(Figure::of("x", "ns", false, values()).entries[0].best, 1.0);
    }
}
