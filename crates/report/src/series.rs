//! Runs as curves: which belong together, what they are called, and the colours and shapes that
//! the page and the picture share.

use crate::Run;
use crate::units::chosen;

/// Eight hues that remain apart for colour-blind readers (Okabe and Ito's set, yellow darkened for
/// white paper), and a lighter version of each for dark backgrounds.
pub const COLOURS: [(&str, &str); 8] = [
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
#[must_use]
pub const fn shape(at: usize) -> usize {
    (at + at / COLOURS.len()) % 4
}

/// One curve: runs that differ in load alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// What tells it from the others.
    pub label: String,
    /// Indices of its runs, as they were given.
    pub runs: Vec<usize>,
}

/// The curves among those runs of `runs` for which `keep` holds, in order of first appearance.
/// Labels say no more than it takes to tell the curves apart.
#[must_use]
pub fn series(runs: &[Run], keep: impl Fn(&Run) -> bool) -> Vec<Series> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, quantum_ns: Option<u64>) -> Run {
        Run { policy: policy.into(), quantum_ns, ..Run::default() }
    }

    #[test]
    fn labels_tell_curves_apart_and_no_more() {
        let mut signal = run("tq", Some(2_000));
        signal.preempt = "signal".into();
        let mut clock = run("tq", Some(2_000));
        clock.preempt = "clock".into();
        let runs = [run("fcfs", None), signal, clock, run("fcfs", None)];
        let series = series(&runs, |_| true);
        let labels: Vec<_> = series.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["fcfs", "tq 2 µs signal", "tq 2 µs clock"]);
        assert_eq!(series[0].runs, [0, 3]);
    }
}
