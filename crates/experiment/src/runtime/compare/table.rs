//! What the runtime measured beside what the simulator says: point by point, class by class.

use curtail_report::{Metric, Quantile, Run};
use serde_json::{Value, json};

/// A run in the runtime, and the same requests under the same policy in the simulator.
#[derive(Clone, Debug)]
pub struct Pair {
    /// In the runtime.
    pub real: Run,
    /// In the simulator.
    pub simulated: Run,
}

/// One figure of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// In the runtime.
    pub real: Option<f64>,
    /// In the runtime, over requests that no gap overlapped.
    pub undisturbed: Option<f64>,
    /// In the simulator.
    pub simulated: Option<f64>,
}

impl Figure {
    /// Undisturbed less simulated: the machine's gaps are no cost of the system's.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        Some(self.undisturbed? - self.simulated?)
    }
}

/// A policy at a load: what is compared of a class.
#[derive(Clone, Debug)]
pub struct Line {
    /// With its quantum.
    pub policy: String,
    /// How the runtime made requests yield.
    pub preempt: String,
    /// As a fraction of the workers' capacity.
    pub load: f64,
    /// Its name.
    pub class: String,
    /// Sojourn times in nanoseconds, by [`QUANTILES`].
    pub figures: [Figure; QUANTILES.len()],
    /// Share of the watched cores' time that gaps took.
    pub lost: f64,
    /// Share of the requests that a gap overlapped.
    pub disturbed: f64,
    /// Why the run is not valid.
    pub invalid: Option<String>,
}

/// What is compared of a class.
pub const QUANTILES: [Quantile; 2] = [Quantile::P50, Quantile::P99];

/// The pairs to show, one for each point, in the order in which the points were first measured: of
/// several, the one whose run lost the least time to the machine's gaps. That is nothing that is
/// compared, and its requests are those of its simulation.
#[must_use]
pub fn calmest(pairs: &[Pair]) -> Vec<&Pair> {
    let key = |run: &Run| {
        (run.policy.clone(), run.quantum_ns, run.preempt.clone(), run.load.map(f64::to_bits))
    };
    let mut shown: Vec<&Pair> = Vec::new();
    for pair in pairs {
        match shown.iter_mut().find(|other| key(&other.real) == key(&pair.real)) {
            Some(other) if pair.real.noise.lost_share < other.real.noise.lost_share => {
                *other = pair
            }
            Some(_) => {}
            None => shown.push(pair),
        }
    }
    shown
}

/// A line for each class of each point.
#[must_use]
pub fn lines(shown: &[&Pair]) -> Vec<Line> {
    let of = |pair: &&Pair| {
        let classes = pair.real.classes.clone();
        classes.into_iter().map(|class| line(pair, &class.name)).collect::<Vec<_>>()
    };
    shown.iter().flat_map(of).collect()
}

fn line(pair: &Pair, class: &str) -> Line {
    let Pair { real, simulated } = pair;
    let figure = |quantile: Quantile| {
        let (class, metric) = (Some(class), Metric::Sojourn);
        Figure {
            real: real.figure(class, metric, quantile),
            undisturbed: real.undisturbed_figure(class, metric, quantile),
            simulated: simulated.figure(class, metric, quantile),
        }
    };
    let policy = match real.quantum_ns {
        Some(ns) => format!("{} {}", real.policy, curtail_workload::format_duration(ns)),
        None => real.policy.clone(),
    };
    Line {
        policy,
        preempt: real.preempt.clone(),
        load: real.load.unwrap_or(f64::NAN),
        class: class.to_owned(),
        figures: QUANTILES.map(figure),
        lost: real.noise.lost_share,
        disturbed: real.noise.disturbed_share,
        invalid: real.invalid_reason.clone(),
    }
}

/// The table's heads.
#[must_use]
pub fn heads() -> Vec<String> {
    let fixed = ["load", "policy", "pre-emption", "class"].map(str::to_owned);
    let each = QUANTILES.map(|quantile| {
        ["real", "undisturbed", "simulated", "difference"]
            .map(|what| format!("{} {what}", quantile.name()))
    });
    let last = ["lost", "disturbed", "valid"].map(str::to_owned);
    fixed.into_iter().chain(each.into_iter().flatten()).chain(last).collect()
}

impl Line {
    /// The table's.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let time = |ns: Option<f64>| ns.map_or("–".to_owned(), curtail_report::duration);
        let mut cells = vec![
            format!("{:.2}", self.load),
            self.policy.clone(),
            self.preempt.clone(),
            self.class.clone(),
        ];
        for figure in &self.figures {
            let difference = match (figure.difference(), figure.simulated) {
                (Some(ns), Some(simulated)) if simulated > 0.0 => {
                    let sign = if ns < 0.0 { "−" } else { "+" };
                    let percent = ns.abs() * 100.0 / simulated;
                    format!("{sign}{} ({sign}{percent:.0}%)", curtail_report::duration(ns.abs()))
                }
                _ => "–".to_owned(),
            };
            let shown = [figure.real, figure.undisturbed, figure.simulated].map(time);
            cells.extend(shown);
            cells.push(difference);
        }
        cells.push(format!("{:.2}%", self.lost * 100.0));
        cells.push(format!("{:.1}%", self.disturbed * 100.0));
        cells.push(self.invalid.clone().map_or("yes".to_owned(), |reason| format!("no: {reason}")));
        cells
    }

    /// All of it.
    #[must_use]
    pub fn json(&self) -> Value {
        let figure = |(quantile, figure): (&Quantile, &Figure)| {
            let value = json!({
                "real": figure.real, "undisturbed": figure.undisturbed,
                "simulated": figure.simulated, "difference": figure.difference(),
            });
            (quantile.name().replace('.', "_"), value)
        };
        let figures = QUANTILES.iter().zip(&self.figures).map(figure);
        json!({
            "policy": self.policy, "preempt": self.preempt, "load": self.load,
            "class": self.class, "sojourn_ns": Value::Object(figures.collect()),
            "lost_share": self.lost, "disturbed_share": self.disturbed, "invalid_reason": self.invalid,
        })
    }
}

/// The lines as Markdown.
#[must_use]
pub fn markdown(lines: &[Line]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = heads();
    let mut text = row(heads.clone());
    text.push_str(&format!("|{}\n", "---|".repeat(heads.len())));
    lines.iter().for_each(|line| text.push_str(&row(line.cells())));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_report::{Class, Quantiles, Undisturbed};

    fn run(load: f64, p99: u64, calm: Option<u64>) -> Run {
        let class = |p99| Class {
            name: "short".to_owned(),
            sojourn_ns: Some(Quantiles { p50: 1_000, p99, ..Quantiles::default() }),
            ..Class::default()
        };
        Run {
            policy: "tq".to_owned(),
            preempt: "clock".to_owned(),
            quantum_ns: Some(2_000),
            load: Some(load),
            classes: vec![class(p99)],
            undisturbed: Undisturbed {
                classes: calm.map(class).into_iter().collect(),
                ..Undisturbed::default()
            },
            ..Run::default()
        }
    }

    #[test]
    fn the_calmest_run_stands_for_its_point() {
        let pair = |load, lost_share, real, calm| {
            let mut real = run(load, real, calm);
            real.noise.lost_share = lost_share;
            Pair { real, simulated: run(load, 1_500, None) }
        };
        let pairs = [
            pair(0.1, 0.3, 1_500, Some(1_500)),
            pair(0.2, 0.9, 5_000, None),
            pair(0.1, 0.1, 4_000, Some(2_000)),
            pair(0.1, 0.2, 3_000, Some(1_000)),
        ];
        let lines = lines(&calmest(&pairs));
        assert_eq!(lines.iter().map(|line| line.load).collect::<Vec<_>>(), [0.1, 0.2]);
        let p99 = lines[0].figures[1];
        let expected =
            Figure { real: Some(4_000.0), undisturbed: Some(2_000.0), simulated: Some(1_500.0) };
        assert_eq!((p99, p99.difference()), (expected, Some(500.0)));
        assert!(lines[0].cells().contains(&"+500 ns (+33%)".to_owned()), "{:?}", lines[0].cells());
        // Nothing is made up where every request was disturbed.
        assert_eq!(lines[1].figures[1].difference(), None);
        assert_eq!(lines[0].cells().len(), heads().len());
        assert_eq!(markdown(&lines).lines().count(), 4);
    }
}
