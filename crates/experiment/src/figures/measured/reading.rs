//! What is read off a figure's curves, as data.

use super::super::drawn::{Drawn, DrawnCurve, DrawnPoint};
use curtail_chart::Unit;
use curtail_report::{Metric, Quantile};

/// Which tail: p99.9, of all requests or of a class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    class: Option<&'static str>,
    metric: Metric,
    /// The network's part, in nanoseconds.
    network_ns: f64,
}

/// The round trip in the testbeds of Perséphone (§5.1) and Concord (§5.1).
const ROUND_TRIP_NS: f64 = 10_000.0;

impl Tail {
    /// All requests' slowdown.
    pub(crate) const SLOWDOWN: Self =
        Self { class: None, metric: Metric::Slowdown, network_ns: 0.0 };

    /// A class's sojourn time, and the network's round trip.
    pub(crate) const fn end_to_end(class: &'static str) -> Self {
        Self { class: Some(class), metric: Metric::Sojourn, network_ns: ROUND_TRIP_NS }
    }

    fn of(self, point: &DrawnPoint) -> f64 {
        let run = point.run.as_ref();
        let figure = run.and_then(|run| run.figure(self.class, self.metric, Quantile::P99_9));
        figure.map_or(f64::NAN, |figure| figure + self.network_ns)
    }

    /// The curve of this tail over the same points.
    fn curve(self, drawn: &Drawn, label: &str) -> DrawnCurve {
        let curve = drawn.curve(label);
        let points = curve.points.iter().map(|point| DrawnPoint {
            x: point.x,
            y: self.of(point),
            overloaded: point.overloaded,
            note: String::new(),
            tail_ns: None,
            run: None,
        });
        DrawnCurve { label: curve.label, points: points.collect() }
    }
}

/// A figure read off the curves, which it names by their labels.
pub(crate) enum Reading {
    /// The rate that `of` sustains within the limit.
    Rate { of: &'static str, tail: Tail, limit: f64 },
    /// The rate that `of` sustains within the limit, as a multiple of what `over` sustains.
    Gain { of: &'static str, over: &'static str, tail: Tail, limit: f64 },
    /// At the rate nearest to this: how many times longer the tail of `than` is.
    Shorter { of: &'static str, than: &'static str, tail: Tail, rate_rps: f64 },
    /// How many times longer it is at most, where neither is overloaded.
    MostShorter { of: &'static str, than: &'static str, tail: Tail },
    /// At the rate nearest to this: the tail.
    At { of: &'static str, tail: Tail, rate_rps: f64 },
    /// Where on the level axis the curve is lowest.
    LowestAt { of: &'static str },
    /// How many times the lowest the curve's value at this place is.
    AboveLowest { of: &'static str, at: f64 },
    /// The curve's value at this place.
    Value { of: &'static str, at: f64 },
}

impl Reading {
    /// The curves that it is of.
    #[cfg(test)]
    pub(crate) fn labels(&self) -> Vec<&'static str> {
        match *self {
            Self::Gain { of, over, .. } => vec![of, over],
            Self::Shorter { of, than, .. } | Self::MostShorter { of, than, .. } => vec![of, than],
            Self::Rate { of, .. }
            | Self::At { of, .. }
            | Self::LowestAt { of }
            | Self::AboveLowest { of, .. }
            | Self::Value { of, .. } => vec![of],
        }
    }

    /// What is read.
    pub(crate) fn read(&self, drawn: &Drawn) -> f64 {
        match *self {
            Self::Rate { of, tail, limit } => tail.curve(drawn, of).within(limit),
            Self::Gain { of, over, tail, limit } => {
                tail.curve(drawn, of).within(limit) / tail.curve(drawn, over).within(limit)
            }
            Self::Shorter { of, than, tail, rate_rps } => {
                tail.curve(drawn, than).near(rate_rps) / tail.curve(drawn, of).near(rate_rps)
            }
            Self::MostShorter { of, than, tail } => {
                let (short, long) = (tail.curve(drawn, of), tail.curve(drawn, than));
                long.beside(&short).map(|[_, long, short]| long / short).fold(f64::NAN, f64::max)
            }
            Self::At { of, tail, rate_rps } => tail.curve(drawn, of).near(rate_rps),
            Self::LowestAt { of } => lowest(drawn, of).0,
            Self::AboveLowest { of, at } => drawn.curve(of).near(at) / lowest(drawn, of).1,
            Self::Value { of, at } => drawn.curve(of).near(at),
        }
    }

    /// It, for people.
    pub(crate) fn show(&self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "none".to_owned(),
            Self::Rate { .. } => Unit::Rate.show(value),
            Self::At { tail: Tail { metric: Metric::Sojourn, .. }, .. } => {
                Unit::Duration.show(value)
            }
            Self::At { .. } | Self::LowestAt { .. } | Self::Value { .. } => {
                Unit::Number.show(value)
            }
            Self::Gain { .. }
            | Self::Shorter { .. }
            | Self::MostShorter { .. }
            | Self::AboveLowest { .. } => format!("{value:.2} times"),
        }
    }
}

fn lowest(drawn: &Drawn, of: &str) -> (f64, f64) {
    let by = |a: &&DrawnPoint, b: &&DrawnPoint| a.y.total_cmp(&b.y);
    let sure = drawn.curve(of).points.iter().filter(|point| !point.overloaded);
    sure.min_by(by).map_or((f64::NAN, f64::NAN), |point| (point.x, point.y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_report::{Quantiles, Run, Slowdown};

    fn point(x: f64, p99_9: f64) -> DrawnPoint {
        let slowdown = Some(Slowdown { p99_9, ..Slowdown::default() });
        let sojourn_ns = Some(Quantiles { p99_9: 10 * p99_9 as u64, ..Quantiles::default() });
        let run = Some(Run { slowdown, sojourn_ns, ..Run::default() });
        let (overloaded, note) = (p99_9 > 1e6, String::new());
        DrawnPoint { x, y: p99_9, overloaded, note, tail_ns: None, run }
    }

    fn drawn() -> Drawn {
        let curve = |label, ys: [f64; 3]| DrawnCurve {
            label,
            points: [1e3, 2e3, 3e3].into_iter().zip(ys).map(|(x, y)| point(x, y)).collect(),
        };
        let curves = vec![curve("a", [4.0, 2.0, 20.0]), curve("b", [8.0, 30.0, 2e6])];
        Drawn { curves, decided: Vec::new() }
    }

    #[test]
    fn curves_are_read() {
        let (of, than, tail) = ("a", "b", Tail::SLOWDOWN);
        let read = |reading: Reading| reading.read(&drawn());
        assert_eq!(read(Reading::Rate { of, tail, limit: 20.0 }), 3e3);
        let half = Reading::Gain { of, over: than, tail, limit: 30.0 };
        assert_eq!((read(half), 3e3 / 2e3), (1.5, 1.5));
        assert_eq!(read(Reading::Shorter { of, than, tail, rate_rps: 1_100.0 }), 2.0);
        // Not where one is overloaded.
        assert_eq!(read(Reading::MostShorter { of, than, tail }), 15.0);
        assert_eq!(read(Reading::LowestAt { of }), 2e3);
        assert_eq!(read(Reading::AboveLowest { of, at: 3e3 }), 10.0);
        assert_eq!(read(Reading::Value { of, at: 3e3 }), 20.0);
        let all = Tail { class: None, metric: Metric::Sojourn, network_ns: 10.0 };
        let at = Reading::At { of, tail: all, rate_rps: 3e3 };
        assert_eq!((read(at), Reading::LowestAt { of }.show(2.0)), (210.0, "2".to_owned()));
        assert!(read(Reading::At { of, tail: Tail::end_to_end("none"), rate_rps: 1.0 }).is_nan());
    }
}
