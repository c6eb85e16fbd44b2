//! Runs as curves: which belong together, what they are called, and the colours and shapes that
//! the page and the picture share.

use crate::Run;
use crate::units::chosen;
#[cfg(feature = "pictures")]
use crate::{Metric, Quantile};

/// Eight hues that remain apart for colour-blind readers (Okabe and Ito's set, yellow darkened for
/// white paper), and a lighter version of each for dark backgrounds.
pub(crate) const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#56a8e8"),
    ("#d55e00", "#ff8a4c"),
    ("#009e73", "#2fc79a"),
    ("#cc79a7", "#e79bc6"),
    ("#8a6d00", "#e8c545"),
    ("#3a9bd6", "#8fd0ff"),
    ("#7b4fb5", "#b494ea"),
    ("#5c6670", "#b4bec8"),
];

/// The shape of a curve's points: circle, square, triangle, diamond. Once through the colours the
/// shapes have moved on by one, so that 32 curves look different.
pub(crate) const fn shape(at: usize) -> usize {
    (at + at / COLOURS.len()) % 4
}

/// One curve: runs that differ in load alone.
pub(crate) struct Series {
    /// What tells it from the others.
    pub(crate) label: String,
    /// Indices of its runs, as they were given.
    pub(crate) runs: Vec<usize>,
}

/// The curves among those runs of `runs` for which `keep` holds, in order of first appearance.
/// Labels say no more than it takes to tell the curves apart.
pub(crate) fn series(runs: &[Run], keep: impl Fn(&Run) -> bool) -> Vec<Series> {
    let mut found: Vec<(Key<'_>, Vec<usize>)> = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| keep(run)) {
        let key = key(run);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(at),
            None => found.push((key, vec![at])),
        }
    }
    let keys: Vec<_> = found.iter().map(|(key, _)| *key).collect();
    found.into_iter().map(|(key, runs)| Series { label: label(key, &keys), runs }).collect()
}

/// Policy, quantum, pre-emption, workers, verb.
type Key<'a> = (&'a str, Option<u64>, &'a str, Option<u32>, &'a str);

fn key(run: &Run) -> Key<'_> {
    (&run.policy, run.quantum_ns, &run.preempt, run.workers, &run.verb)
}

fn label(key: Key<'_>, all: &[Key<'_>]) -> String {
    let (policy, quantum, preempt, workers, verb) = key;
    let mut label = policy.to_owned();
    // A part is said if, among curves of this policy (or, for workers and verb, among all), it
    // differs. A quantum is always said: it is what the figure means.
    if let Some(ns) = quantum {
        label.push_str(&format!(" {}", chosen(ns as f64)));
    }
    let same_policy = || all.iter().filter(|other| other.0 == policy);
    if !preempt.is_empty() && same_policy().any(|other| other.2 != preempt) {
        label.push_str(&format!(" {preempt}"));
    }
    if let Some(workers) = workers.filter(|_| all.iter().any(|other| other.3 != workers)) {
        label.push_str(&format!(" ×{workers}"));
    }
    if !verb.is_empty() && all.iter().any(|other| other.4 != verb) {
        label.push_str(&format!(" ({verb})"));
    }
    label
}

/// A point of a curve: the median over the valid runs at one load, or, where none is valid, over
/// the invalid ones.
#[cfg(feature = "pictures")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) valid: bool,
}

/// The points of one curve by rising load; runs without the figure have none.
#[cfg(feature = "pictures")]
pub(crate) fn points(
    runs: &[Run],
    series: &Series,
    class: Option<&str>,
    metric: Metric,
    quantile: Quantile,
) -> Vec<Point> {
    let mut all: Vec<Point> = series
        .runs
        .iter()
        .filter_map(|&at| {
            let run = &runs[at];
            let y = run.figure(class, metric, quantile)?;
            Some(Point { x: run.load?, y, valid: run.valid })
        })
        .collect();
    all.sort_by(|a, b| (a.x, a.y).partial_cmp(&(b.x, b.y)).expect("figures are finite"));
    all.chunk_by(|a, b| (a.x - b.x).abs() < 1e-9)
        .map(|same| {
            let valid = same.iter().any(|point| point.valid);
            let of: Vec<_> = same.iter().filter(|point| point.valid == valid).collect();
            let (low, high) = (of[(of.len() - 1) / 2].y, of[of.len() / 2].y);
            Point { x: same[0].x, y: (low + high) / 2.0, valid }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantiles;

    fn run(policy: &str, quantum_ns: Option<u64>, load: f64, p99: u64, valid: bool) -> Run {
        let sojourn_ns = Some(Quantiles { p99, ..Quantiles::default() });
        let load = Some(load);
        Run { policy: policy.into(), quantum_ns, load, sojourn_ns, valid, ..Run::default() }
    }

    #[test]
    fn labels_tell_curves_apart_and_no_more() {
        let mut signal = run("tq", Some(2_000), 0.1, 1, true);
        signal.preempt = "signal".into();
        let mut clock = run("tq", Some(2_000), 0.1, 1, true);
        clock.preempt = "clock".into();
        let runs =
            [run("fcfs", None, 0.1, 1, true), signal, clock, run("fcfs", None, 0.2, 1, true)];
        let series = series(&runs, |_| true);
        let labels: Vec<_> = series.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["fcfs", "tq 2 µs signal", "tq 2 µs clock"]);
        assert_eq!(series[0].runs, [0, 3]);
    }

    #[test]
    fn a_point_is_the_median_of_the_valid_runs() {
        let runs = [
            run("a", None, 0.5, 30, true),
            run("a", None, 0.5, 10, true),
            run("a", None, 0.5, 900, false),
            run("a", None, 0.5, 20, true),
            run("a", None, 0.3, 7, false),
            run("a", None, 0.3, 9, false),
        ];
        let series = series(&runs, |_| true);
        let points = points(&runs, &series[0], None, Metric::Sojourn, Quantile::P99);
        assert_eq!(
            points,
            [Point { x: 0.3, y: 8.0, valid: false }, Point { x: 0.5, y: 20.0, valid: true }]
        );
    }
}
