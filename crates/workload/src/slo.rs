//! Service-level objectives: `p99.9 slowdown 50`, `short: p99 sojourn 100us`.

use crate::{ClassRecord, ParseError, duration_ns, format_duration};
use std::fmt;

/// Which figure of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantile {
    /// `p99.9`: above 0, up to 100.
    Percentile(f64),
    /// `mean`.
    Mean,
    /// `max`.
    Max,
}

/// Which distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Sojourn time over un-instrumented service time.
    Slowdown,
    /// Sojourn time, ns.
    Sojourn,
}

/// An objective: a figure that must not exceed a limit, over all requests or those of one class.
///
/// Written `[CLASS:] pN|mean|max slowdown NUMBER` or `[CLASS:] pN|mean|max sojourn DURATION`.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// Of which class; `None`: of all requests.
    pub class: Option<String>,
    /// Which figure.
    pub quantile: Quantile,
    /// Of which distribution.
    pub metric: Metric,
    /// The limit: a slowdown, or nanoseconds.
    pub limit: f64,
}

impl Slo {
    /// Reads an objective.
    ///
    /// # Errors
    /// It is none; the message names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let bad = |why: String| ParseError::new(format!("`{text}` is no objective: {why}"));
        let (class, rest) = match text.split_once(':') {
            Some((class, rest)) if !class.trim().is_empty() => (Some(class.trim()), rest),
            Some(_) => return Err(bad("no class before the colon".into())),
            None => (None, text),
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let &[quantile, metric, limit] = words.as_slice() else {
            return Err(bad("write 'p99.9 slowdown 50' or 'short: p99 sojourn 100us'".into()));
        };
        let quantile = parse_quantile(quantile)
            .ok_or_else(|| bad(format!("`{quantile}` is none of p50 … p100, mean, max")))?;
        let (metric, limit) = match metric {
            "slowdown" => {
                let number = limit.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 1.0);
                let number = number
                    .ok_or_else(|| bad(format!("`{limit}` is no slowdown (a number from 1 up)")))?;
                (Metric::Slowdown, number)
            }
            "sojourn" => match duration_ns(limit).map_err(|e| bad(e.to_string()))? {
                0 => return Err(bad("nothing takes no time".into())),
                ns => (Metric::Sojourn, ns as f64),
            },
            other => return Err(bad(format!("`{other}` is neither slowdown nor sojourn"))),
        };
        Ok(Self { class: class.map(str::to_owned), quantile, metric, limit })
    }

    /// The figure that the objective is about, from the record of the requests it is about.
    #[must_use]
    pub fn value(&self, of: &ClassRecord) -> f64 {
        match self.metric {
            Metric::Slowdown => of.slowdown.at(self.quantile),
            Metric::Sojourn => of.sojourn.at(self.quantile),
        }
    }

    /// The figure where so many further requests were never served at all: they count as endless
    /// ones. Infinite where the figure falls among them; a mean does if there is one.
    #[must_use]
    pub fn value_with_endless(&self, of: &ClassRecord, endless: u64) -> f64 {
        if endless == 0 {
            return self.value(of);
        }
        let Quantile::Percentile(p) = self.quantile else { return f64::INFINITY };
        let (served, all) = (of.count() as f64, (of.count() + endless) as f64);
        // The same rank, as a percentile of those served.
        let p = p * all / served;
        if p > 100.0 || served == 0.0 {
            return f64::INFINITY;
        }
        Self { quantile: Quantile::Percentile(p), ..self.clone() }.value(of)
    }
}

fn parse_quantile(text: &str) -> Option<Quantile> {
    match text {
        "mean" => Some(Quantile::Mean),
        "max" => Some(Quantile::Max),
        _ => {
            let p = text.strip_prefix('p')?.parse::<f64>().ok()?;
            (p > 0.0 && p <= 100.0).then_some(Quantile::Percentile(p))
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(class) = &self.class {
            write!(f, "{class}: ")?;
        }
        match self.quantile {
            Quantile::Percentile(p) => write!(f, "p{p}")?,
            Quantile::Mean => f.write_str("mean")?,
            Quantile::Max => f.write_str("max")?,
        }
        match self.metric {
            Metric::Slowdown => write!(f, " slowdown {}", self.limit),
            Metric::Sojourn => write!(f, " sojourn {}", format_duration(self.limit as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;
    use proptest::prelude::*;

    #[test]
    fn the_documented_forms() {
        let slo = Slo::parse("p99.9 slowdown 50").unwrap();
        assert_eq!((slo.class.as_deref(), slo.quantile), (None, Quantile::Percentile(99.9)));
        assert_eq!((slo.metric, slo.limit), (Metric::Slowdown, 50.0));
        let slo = Slo::parse("short: p99 sojourn 100us").unwrap();
        assert_eq!((slo.class.as_deref(), slo.limit), (Some("short"), 100_000.0));
    }

    #[test]
    fn names_the_bad_part() {
        for (text, says) in [
            ("", "p99.9 slowdown 50"),
            ("p99.9 slowdown", "p99.9 slowdown 50"),
            ("p0 slowdown 5", "`p0`"),
            ("p101 slowdown 5", "`p101`"),
            ("99 slowdown 5", "`99`"),
            ("p99 latency 5us", "`latency`"),
            ("p99 slowdown 5us", "`5us`"),
            ("p99 slowdown 0.5", "`0.5`"),
            ("p99 sojourn 5", "`5`"),
            (": p99 sojourn 5us", "no class"),
        ] {
            let error = Slo::parse(text).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn reads_its_figure() {
        let mut recorder = Recorder::new(1);
        for i in 1..=100 {
            recorder.record(0, i * 1_000, 1_000, false);
        }
        let all = recorder.overall();
        let value = |text: &str| Slo::parse(text).unwrap().value(&all);
        assert!((value("p50 slowdown 2") - 50.0).abs() < 0.1);
        assert!((value("mean sojourn 1us") - 50_500.0).abs() < 100.0);
        assert!((value("max sojourn 1us") - 100_000.0).abs() < 100.0);
    }

    #[test]
    fn requests_never_served_are_the_slowest() {
        let mut recorder = Recorder::new(1);
        for i in 1..=90 {
            recorder.record(0, i * 1_000, 1_000, false);
        }
        let all = recorder.overall();
        let value = |text: &str| Slo::parse(text).unwrap().value_with_endless(&all, 10);
        assert!((value("p50 slowdown 2") - 50.0).abs() < 0.1);
        assert!((value("p90 slowdown 2") - 90.0).abs() < 0.1);
        for text in ["p91 slowdown 2", "mean slowdown 2", "max sojourn 1us"] {
            assert_eq!(value(text), f64::INFINITY, "{text}");
        }
        let none = Recorder::new(1).overall();
        let slo = Slo::parse("p50 slowdown 2").unwrap();
        assert_eq!(slo.value_with_endless(&none, 1), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn round_trip(p in 1u32..=1_000, limit in 1u64..1_000_000_000, kind in 0..4) {
            let class = (kind % 2 == 0).then(|| "short".to_owned());
            let metric = if kind < 2 { Metric::Slowdown } else { Metric::Sojourn };
            let quantile = Quantile::Percentile(f64::from(p) / 10.0);
            let slo = Slo { class, quantile, metric, limit: limit as f64 };
            prop_assert_eq!(Slo::parse(&slo.to_string()), Ok(slo));
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = Slo::parse(&text);
        }
    }
}
