//! What the figures say, in a sentence made of them.

use curtail_report::{Metric, Quantile, Run, duration};

/// Compares, for each mix, the GETs under the first and the last policy, and says how far
/// the figures may be trusted.
pub(super) fn of(runs: &[Run], preemption_is_off: bool) -> String {
    let mut mixes: Vec<&str> = Vec::new();
    for run in runs {
        if !mixes.contains(&run.workload.as_str()) {
            mixes.push(&run.workload);
        }
    }
    let compared: Vec<_> = mixes
        .iter()
        .map(|mix| {
            let of_mix: Vec<_> = runs.iter().filter(|run| run.workload == *mix).collect();
            format!("{mix}: {}", compare(&of_mix))
        })
        .collect();
    let mut said = compared.join("; ");
    if preemption_is_off {
        said.push_str("; pre-emption is off, as this program is not instrumented");
    }
    let invalid = runs.iter().filter(|run| !run.valid).count();
    if invalid > 0 {
        said.push_str(&format!(
            "; {invalid} of {} runs are not valid and prove nothing (last column)",
            runs.len()
        ));
    }
    said.push('.');
    said
}

/// The class that is told of: short, in every mix, and the most frequent one in both.
pub(super) const CLASS: &str = "get";

/// Two runs at the same load and their figures.
type Pair<'a> = (&'a Run, f64, &'a Run, f64);

fn compare(runs: &[&Run]) -> String {
    let p99 = |run: &Run| run.figure(Some(CLASS), Metric::Sojourn, Quantile::P99);
    let policies = runs.first().zip(runs.last()).map(|(a, b)| (&a.policy, &b.policy));
    let pairs = runs.iter().enumerate().flat_map(|(at, first)| {
        // One policy alone is paired with itself.
        let others = runs[at..].iter();
        others.filter(|last| last.load == first.load).map(move |last| (*first, *last))
    });
    let pairs = pairs.filter(|(a, b)| policies == Some((&a.policy, &b.policy)));
    let pairs = pairs.filter_map(|(a, b)| Some((a, p99(a)?, b, p99(b)?)));
    // Valid runs first, of these the ones at the load nearest to a half.
    let rank = |(a, _, b, _): &Pair<'_>| {
        let off = a.load.map_or(f64::INFINITY, |load| (load - 0.5).abs());
        (!(a.valid && b.valid), off)
    };
    match pairs.min_by(|a, b| rank(a).partial_cmp(&rank(b)).expect("loads are numbers")) {
        Some(pair) => told(pair),
        None => format!("no {} was answered", CLASS.to_uppercase()),
    }
}

/// What became of a time.
fn verdict(was: f64, is: f64) -> String {
    let factor = |by: f64| if by < 9.95 { format!("{by:.1}") } else { format!("{by:.0}") };
    match was / is {
        ratio if ratio >= 1.1 => format!("{} times lower", factor(ratio)),
        ratio if ratio <= 1.0 / 1.1 => format!("{} times higher", factor(1.0 / ratio)),
        _ => "no difference to speak of".to_owned(),
    }
}

/// The other classes, which pay for it or do not: name, and p99 in both.
fn price<'a>(first: &'a Run, last: &'a Run) -> impl Iterator<Item = (&'a str, f64, f64)> {
    let others =
        first.classes.iter().map(|class| class.name.as_str()).filter(|name| *name != CLASS);
    others.filter_map(|name| {
        let p99 = |run: &Run| run.figure(Some(name), Metric::Sojourn, Quantile::P99);
        Some((name, p99(first)?, p99(last)?))
    })
}

fn told((first, was, last, is): Pair<'_>) -> String {
    let load = first.load.map_or(String::new(), |load| format!(" at load {load}"));
    let mut said =
        format!("{} p99{load}: {} {}", CLASS.to_uppercase(), first.policy, duration(was));
    if !std::ptr::eq(first, last) {
        said.push_str(&format!(", {} {}: {}", last.policy, duration(is), verdict(was, is)));
        for (class, was, is) in price(first, last) {
            let (was, is, verdict) = (duration(was), duration(is), verdict(was, is));
            said.push_str(&format!(" ({} p99: {was}, {is}: {verdict})", class.to_uppercase()));
        }
    }
    if !(first.valid && last.valid) {
        said.push_str(" (not valid)");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_report::{Class, Quantiles};

    fn run(policy: &str, load: f64, p99: u64) -> Run {
        let sojourn_ns = Some(Quantiles { p99, ..Quantiles::default() });
        let class = |name: &str, service_ns_mean, sojourn_ns| Class {
            name: name.to_owned(),
            count: 9,
            service_ns_mean,
            sojourn_ns,
            ..Class::default()
        };
        Run {
            policy: policy.to_owned(),
            workload: "mix".to_owned(),
            load: Some(load),
            classes: vec![class("scan", 1e6, None), class("get", 1e3, sojourn_ns)],
            ..Run::default()
        }
    }

    #[test]
    fn first_and_last_policy_are_compared_in_the_middle() {
        let mut runs = Vec::new();
        for (load, p99) in [(0.3, 1), (0.5, 2), (0.7, 3)] {
            for (policy, factor) in [("fcfs", 2_050_000), ("concord", 7), ("tq", 60_000)] {
                runs.push(run(policy, load, p99 * factor));
            }
        }
        let said = of(&runs, false);
        assert_eq!(said, "mix: GET p99 at load 0.5: fcfs 4.10 ms, tq 120 µs: 34 times lower.");
        // Where those cannot be trusted, another load is better.
        runs[3].invalidate("noise");
        runs[8].invalidate("noise");
        let said = of(&runs, false);
        assert!(said.starts_with("mix: GET p99 at load 0.3: fcfs 2.05 ms"), "{said}");
        assert!(said.ends_with("; 2 of 9 runs are not valid and prove nothing (last column)."));
    }

    #[test]
    fn the_price_stands_beside_the_gain() {
        let with_scan = |policy: &str, get: u64, scan: u64| {
            let mut run = run(policy, 0.5, get);
            run.classes[0].sojourn_ns = Some(Quantiles { p99: scan, ..Quantiles::default() });
            run
        };
        let runs = [with_scan("fcfs", 4_100_000, 3_910_000), with_scan("tq", 120_000, 14_200_000)];
        assert_eq!(
            of(&runs, false),
            "mix: GET p99 at load 0.5: fcfs 4.10 ms, tq 120 µs: 34 times lower \
             (SCAN p99: 3.91 ms, 14.2 ms: 3.6 times higher)."
        );
    }

    #[test]
    fn what_is_no_better_is_not_called_better() {
        let said = |is| of(&[run("fcfs", 0.5, 1_000), run("tq", 0.5, is)], true);
        assert!(said(3_000).contains("3.0 times higher; pre-emption is off"), "{}", said(3_000));
        assert!(said(1_050).contains("no difference"), "{}", said(1_050));
    }

    #[test]
    fn one_policy_alone_is_told() {
        let runs = [run("fcfs", 0.5, 1_000)];
        assert_eq!(of(&runs, false), "mix: GET p99 at load 0.5: fcfs 1.00 µs.");
        let mut none = run("fcfs", 0.5, 1);
        none.classes.clear();
        assert_eq!(of(&[none], false), "mix: no GET was answered.");
    }
}
