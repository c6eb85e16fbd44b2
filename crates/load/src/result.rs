//! From what was recorded to the result's JSON.

use curtail_report::{Class, Lateness, Quantiles, Run, Slowdown, Undisturbed};
use curtail_workload::{ClassRecord, Distribution, Recorder};

/// Quantiles of times; `None` of no times.
#[must_use]
pub fn quantiles(of: &Distribution) -> Option<Quantiles> {
    let ns = |p| of.percentile(p) as u64;
    (of.count() > 0).then(|| Quantiles {
        p50: ns(50.0),
        p90: ns(90.0),
        p99: ns(99.0),
        p99_9: ns(99.9),
        max: of.max() as u64,
        mean: of.mean(),
    })
}

/// How late pre-emptions came; `None` where there was none.
#[must_use]
pub fn lateness(of: &Distribution) -> Option<Lateness> {
    let ns = |p| of.percentile(p) as u64;
    (of.count() > 0).then(|| Lateness { p50: ns(50.0), p99: ns(99.0), max: of.max() as u64 })
}

fn slowdown(of: &Distribution) -> Option<Slowdown> {
    (of.count() > 0).then(|| Slowdown {
        p50: of.percentile(50.0),
        p99: of.percentile(99.0),
        p99_9: of.percentile(99.9),
        max: of.max(),
        mean: of.mean(),
    })
}

/// Which slowdowns mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowdowns {
    /// Every request's service time was known.
    Known,
    /// Not every one was: no slowdowns at all.
    Unknown,
}

fn class(name: &str, record: &ClassRecord, dropped: Option<u64>, known: Slowdowns) -> Class {
    let slowdown = match known {
        // Nothing can be said to slow down requests that ask for no service.
        Slowdowns::Known if record.service_sum_ns > 0 => slowdown(&record.slowdown),
        _ => None,
    };
    Class {
        name: name.to_owned(),
        count: record.count(),
        service_ns_mean: record.service_mean_ns(),
        sojourn_ns: quantiles(&record.sojourn),
        slowdown,
        dropped,
    }
}

/// Puts into `run` what was recorded; `dropped` is by class, in the order of `names`.
pub fn fill(
    run: &mut Run,
    recorder: &Recorder,
    names: &[String],
    dropped: &[u64],
    known: Slowdowns,
) {
    let all = class("", &recorder.overall(), None, known);
    (run.sojourn_ns, run.slowdown, run.completed) = (all.sojourn_ns, all.slowdown, all.count);
    run.dropped = dropped.iter().sum();
    run.classes = names
        .iter()
        .enumerate()
        .map(|(i, name)| class(name, &recorder.class(i), dropped.get(i).copied(), known))
        .collect();
}

/// Puts into `run` the figures over requests that no gap overlapped.
pub fn fill_undisturbed(run: &mut Run, recorder: &Recorder, names: &[String]) {
    let known = Slowdowns::Known;
    let all = class("", &recorder.undisturbed(), None, known);
    run.undisturbed = Undisturbed {
        sojourn_ns: all.sojourn_ns,
        slowdown: all.slowdown,
        classes: names
            .iter()
            .enumerate()
            .map(|(i, name)| class(name, recorder.undisturbed_class(i), None, known))
            .collect(),
    };
    run.noise.disturbed_share = recorder.disturbed_share();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_and_undisturbed_stand_side_by_side() {
        let mut recorder = Recorder::new(2);
        recorder.record(0, 1_000, 500, false);
        recorder.record(0, 9_000_000, 500, true);
        let names = ["short".to_owned(), "long".to_owned()];
        let mut run = Run::default();
        fill(&mut run, &recorder, &names, &[3, 4], Slowdowns::Known);
        fill_undisturbed(&mut run, &recorder, &names);
        assert_eq!((run.completed, run.dropped), (2, 7));
        assert!(run.sojourn_ns.unwrap().max >= 8_990_000);
        assert_eq!(run.undisturbed.sojourn_ns.unwrap().max, 1_000);
        assert_eq!(run.undisturbed.slowdown.unwrap().p50, 2.0);
        assert_eq!(run.classes[0].count, 2);
        assert_eq!((run.classes[1].count, run.classes[1].sojourn_ns), (0, None));
        assert!((run.noise.disturbed_share - 0.5).abs() < 1e-9);
    }

    #[test]
    fn slowdowns_that_mean_nothing_are_left_out() {
        let mut recorder = Recorder::new(1);
        recorder.record(0, 1_000, 0, false);
        let mut run = Run::default();
        fill(&mut run, &recorder, &["a".to_owned()], &[0], Slowdowns::Unknown);
        assert!(run.slowdown.is_none() && run.classes[0].slowdown.is_none());
        assert!(run.sojourn_ns.is_some());
    }
}
