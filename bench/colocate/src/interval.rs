//! How often the core allocator looks (Shenango §7.3, Fig. 8), and whether the service gives its core
//! back when it has nothing to do: what that costs its tail and the batch work beside it.

use crate::share::middle;
use crate::stage::{How, Load, Programs, Stage};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of work: its name, and what it is.
    pub work: (String, String),
    /// Of the core's capacity.
    pub load: f64,
    /// From one look to the next.
    pub intervals: Vec<Duration>,
    /// How long each is measured.
    pub seconds: f64,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// The programs.
    pub programs: Programs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            work: ("exp100".to_owned(), "work:exp(100us):1".to_owned()),
            load: 0.5,
            intervals: [5, 10, 25, 50, 100, 250, 1_000].map(Duration::from_micros).to_vec(),
            seconds: 0.5,
            rounds: 3,
            programs: Programs::default(),
        }
    }
}

/// One interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The kind of work.
    pub work: String,
    /// Of the core's capacity.
    pub load: f64,
    /// From one look to the next, in µs.
    pub interval_us: f64,
    /// The service gives its core back when it has nothing to do.
    pub parking: bool,
    /// The service's median beside batch work, in µs.
    pub lc_p50_us: f64,
    /// The service's 99th percentile, in µs.
    pub lc_p99_us: f64,
    /// The service's share of the core.
    pub lc: f64,
    /// The batch work's.
    pub batch: f64,
    /// Both.
    pub sum: f64,
}

/// Measures all of it. `itself` is this program.
///
/// # Errors
/// Where there is one core only, or a program fails.
pub fn measure(itself: &Path, options: &Options) -> Result<Vec<Interval>, String> {
    let stage = Stage::new(itself, &options.programs)?;
    let mut all = Vec::new();
    for parking in [true, false] {
        for &interval in &options.intervals {
            all.push(one(&stage, options, interval, parking)?);
        }
    }
    Ok(all)
}

fn one(
    stage: &Stage<'_>,
    options: &Options,
    interval: Duration,
    parking: bool,
) -> Result<Interval, String> {
    let how = How::Process { looks: true };
    let mut rounds = Vec::new();
    for seed in 1..=options.rounds as u64 {
        let load = Load {
            mix: options.work.1.clone(),
            load: options.load,
            steps: None,
            seconds: options.seconds,
            seed,
            interval,
            parks: parking,
        };
        let rate = stage.batch_rate(how)?;
        let (served, batch) = stage.beside(&load, how)?;
        rounds.push((served, batch / rate));
    }
    let of = |figure: fn(&(crate::service::Served, f64)) -> f64| {
        middle(rounds.iter().map(figure).collect())
    };
    Ok(Interval {
        work: options.work.0.clone(),
        load: options.load,
        interval_us: interval.as_nanos() as f64 / 1e3,
        parking,
        lc_p50_us: of(|it| it.0.sojourn_us.p50),
        lc_p99_us: of(|it| it.0.sojourn_us.p99),
        lc: of(|it| it.0.share),
        batch: of(|it| it.1),
        sum: of(|it| it.0.share + it.1),
    })
}

/// For people.
#[must_use]
pub fn table(intervals: &[Interval]) -> String {
    let mut text = format!(
        "how often the core allocator looks (medians)\n\n{:<10}{:>5}{:>12}{:>9}{:>9}{:>9}{:>7}{:>7}{:>7}\n",
        "work", "load", "interval µs", "parking", "p50 µs", "p99 µs", "lc", "batch", "sum"
    );
    for it in intervals {
        let parking = if it.parking { "on" } else { "off" };
        let _ = writeln!(
            text,
            "{:<10}{:>5.2}{:>12}{parking:>9}{:>9.1}{:>9.1}{:>7.3}{:>7.3}{:>7.3}",
            it.work, it.load, it.interval_us, it.lc_p50_us, it.lc_p99_us, it.lc, it.batch, it.sum
        );
    }
    text
}
