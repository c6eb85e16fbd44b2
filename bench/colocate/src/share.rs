//! A service and batch work on one core: what each gets, by the way in which they share it.
//!
//! | way | who shares the core |
//! |---|---|
//! | `process` | the service under the core allocator; batch work with safepoints by `curtail batch` |
//! | `process_plain` | the same with batch work without safepoints, which the kernel pre-empts |
//! | `dispatched` | a server with a dispatcher, and batch work as under `process` |
//! | `inside` | no core allocator: batch work is a batch thread of the service, cut at safepoints |
//! | `inside_plain` | the same without safepoints: it yields by hand |
//! | `linux` | no core allocator: the service's threads, and batch work of the class `SCHED_IDLE` |
//! | `linux_nice` | the same with batch work at nice 19 |
//!
//! In each round the service runs alone and beside batch work, in each way, with the same requests;
//! batch work alone has the core before them.

use crate::service::Served;
use crate::stage::{How, Load, Programs, Stage};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kinds of work: their names, and what they are.
    pub works: Vec<(String, String)>,
    /// Of the core's capacity.
    pub loads: Vec<f64>,
    /// By which ways.
    pub ways: Vec<How>,
    /// How long each is measured.
    pub seconds: f64,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// The programs.
    pub programs: Programs,
    /// How often the core allocator looks.
    pub interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let same = |name: &&str| ((*name).to_owned(), (*name).to_owned());
        Self {
            works: ["exp10", "exp100", "bimodal"].iter().map(same).collect(),
            loads: vec![0.2, 0.5, 0.8],
            ways: How::ALL.iter().map(|(_, how)| *how).collect(),
            seconds: 0.5,
            rounds: 5,
            programs: Programs::default(),
            interval: Duration::from_micros(5),
        }
    }
}

/// One way at one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The kind of work.
    pub work: String,
    /// Of the core's capacity.
    pub load: f64,
    /// By which way.
    pub how: String,
    /// The service's 99th percentile beside batch work, in µs.
    pub lc_p99_us: f64,
    /// The service's 99th percentile alone, in µs.
    pub lc_p99_alone_us: f64,
    /// The service's median beside batch work, in µs.
    pub lc_p50_us: f64,
    /// The service's median alone, in µs.
    pub lc_p50_alone_us: f64,
    /// The service's share of the core: the service times of what it served.
    pub lc: f64,
    /// The batch work's: what it did, by what it does alone.
    pub batch: f64,
    /// Both.
    pub sum: f64,
    /// How late requests were handed over, of one in a thousand, in µs.
    pub generator_late_us: f64,
    /// Rounds of which this is the median.
    pub rounds: usize,
}

/// Measures all of it. `itself` is this program.
///
/// # Errors
/// Where there is one core only, or a program fails.
pub fn measure(itself: &Path, options: &Options) -> Result<Vec<Share>, String> {
    let stage = Stage::new(itself, &options.programs)?;
    let mut all = Vec::new();
    for (name, mix) in &options.works {
        for &load in &options.loads {
            let mut rounds = Vec::new();
            for seed in 1..=options.rounds as u64 {
                rounds.push(round(&stage, options, mix, load, seed)?);
            }
            for (at, how) in ways(&stage, options).enumerate() {
                let of_one: Vec<&Share> = rounds.iter().map(|round| &round[at]).collect();
                let found = median(&of_one);
                let how = how.name().to_owned();
                all.push(Share { work: name.clone(), load, how, ..found });
                eprintln!("{}", line(all.last().expect("pushed")));
            }
        }
    }
    Ok(all)
}

fn ways<'a>(stage: &'a Stage<'_>, options: &'a Options) -> impl Iterator<Item = How> + 'a {
    options.ways.iter().copied().filter(|how| stage.has(*how))
}

/// Each way once, in turn, so that what the machine does else comes to all of them.
fn round(
    stage: &Stage<'_>,
    options: &Options,
    mix: &str,
    load: f64,
    seed: u64,
) -> Result<Vec<Share>, String> {
    let offered = Load {
        mix: mix.to_owned(),
        load,
        steps: None,
        seconds: options.seconds,
        seed,
        interval: options.interval,
        parks: true,
    };
    let mut alone: Vec<(How, Served)> = Vec::new();
    let mut shares = Vec::new();
    for how in ways(stage, options) {
        if !alone.iter().any(|(known, _)| *known == how.alone()) {
            alone.push((how.alone(), stage.alone(&offered, how.alone())?));
        }
        let (_, alone) = alone.iter().find(|(known, _)| *known == how.alone()).expect("pushed");
        let rate = stage.batch_rate(how)?;
        let (beside, batch) = stage.beside(&offered, how)?;
        shares.push(Share {
            lc_p99_us: beside.sojourn_us.p99,
            lc_p99_alone_us: alone.sojourn_us.p99,
            lc_p50_us: beside.sojourn_us.p50,
            lc_p50_alone_us: alone.sojourn_us.p50,
            lc: beside.share,
            batch: batch / rate,
            sum: beside.share + batch / rate,
            generator_late_us: beside.generator_late_us,
            ..Share::default()
        });
    }
    Ok(shares)
}

/// For people.
#[must_use]
pub fn table(shares: &[Share]) -> String {
    let mut text = format!(
        "a service and batch work on one core (medians)\n\n{:<12}{:>5}  {:<14}{:>9}{:>9}{:>9}{:>9}{:>7}{:>7}{:>7}\n",
        "work", "load", "how", "p50 µs", "alone", "p99 µs", "alone", "lc", "batch", "sum"
    );
    for share in shares {
        let _ = writeln!(text, "{}", line(share));
    }
    text
}

fn line(share: &Share) -> String {
    format!(
        "{:<12}{:>5.2}  {:<14}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{:>7.3}{:>7.3}{:>7.3}",
        share.work,
        share.load,
        share.how,
        share.lc_p50_us,
        share.lc_p50_alone_us,
        share.lc_p99_us,
        share.lc_p99_alone_us,
        share.lc,
        share.batch,
        share.sum
    )
}

/// Of each figure by itself.
fn median(rounds: &[&Share]) -> Share {
    let of = |figure: fn(&Share) -> f64| middle(rounds.iter().map(|it| figure(it)).collect());
    Share {
        lc_p99_us: of(|it| it.lc_p99_us),
        lc_p99_alone_us: of(|it| it.lc_p99_alone_us),
        lc_p50_us: of(|it| it.lc_p50_us),
        lc_p50_alone_us: of(|it| it.lc_p50_alone_us),
        lc: of(|it| it.lc),
        batch: of(|it| it.batch),
        sum: of(|it| it.sum),
        generator_late_us: of(|it| it.generator_late_us),
        rounds: rounds.len(),
        ..Share::default()
    }
}

/// The median.
pub(crate) fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
