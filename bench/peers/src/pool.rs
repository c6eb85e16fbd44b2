//! `pool`: an HTTP service with many short requests and a few long ones, and how the work is done.
//!
//! A contestant is a program that prints its port and answers `GET /short/STEPS` and
//! `GET /long/STEPS` when it has computed that many steps. It has one core, the client
//! ([`http`]) the other. All get the same work at the same rate, an open loop that needs
//! 70% of a core for the work alone.

use crate::Size;
use crate::figures::{Spread, median, show, table};
use crate::http;
use crate::neighbours::ran;
use crate::program::{self, Cores, Running};
use crate::sqlite::{self, Sqlite};
use curtail_report::Machine;
use curtail_workload::{Arrivals, Class, Mix, Request, Requests, Service, Until};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// The contestants, in the order of the table: the name, the program, how it is to work.
pub const WAYS: [(&str, &str, &[&str]); 7] = [
    ("curtail", "safepoints", &["curtail"]),
    ("curtail_auto", "safepoints", &["curtail:policy=auto,quantum_us=50"]),
    ("curtail_without_safepoints", "web", &["curtail"]),
    ("spawn_blocking", "web", &["spawn_blocking"]),
    ("tokio_inline", "web", &["tokio_inline"]),
    ("rayon", "web", &["rayon"]),
    ("go", "go", &[]),
];
/// What a short request computes, and a long one.
const SERVICE: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(10)];
/// Of all requests, those that are long.
const LONG: f64 = 0.01;
/// Of one core, by the work alone.
const LOAD: f64 = 0.7;

/// What one contestant does: medians over the rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Half of the short requests took no longer, from when they were due.
    pub short_p50_us: f64,
    /// 99% of the short requests.
    pub short_p99_us: f64,
    /// 99% of the long requests.
    pub long_p99_us: f64,
    /// Answers a second.
    pub rps: f64,
    /// Of one core, what the program took in all.
    pub cpu: f64,
    /// Every round, in order.
    pub rounds: Vec<Round>,
}

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Short requests; one that was not answered took as long as the client waited.
    pub short: Spread,
    /// Long requests.
    pub long: Spread,
    /// Requests that were not answered.
    pub lost: usize,
    /// Requests that the client itself sent more than 100 µs late.
    pub sent_late: usize,
    /// Answers a second.
    pub rps: f64,
    /// As in [`Way`].
    pub cpu: f64,
}

/// What is written to `pool.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// 99% of the short requests took no longer, in microseconds: by contestant, the median of the
    /// rounds.
    pub short_p99_us: BTreeMap<String, f64>,
    /// Everything, by contestant.
    pub ways: BTreeMap<String, Way>,
    /// A database behind one mutex.
    pub sqlite: Sqlite,
    /// Of one core, what the work alone takes.
    pub load: f64,
    /// Requests a second that were due.
    pub rate_rps: f64,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// Work of so many steps, alike in every program.
fn work(steps: u64) -> u64 {
    let mut x = black_box(steps) | 1;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// How many steps this core takes in `time`, when nothing disturbs it.
pub(crate) fn steps_in(time: Duration) -> u64 {
    const STEPS: u64 = 200_000;
    let once = || {
        let begun = Instant::now();
        black_box(work(STEPS));
        begun.elapsed()
    };
    let best = (0..100).map(|_| once()).min().expect("a hundred of them");
    (STEPS as f64 * time.as_secs_f64() / best.as_secs_f64()) as u64
}

/// Short requests and long ones.
fn mix() -> Mix {
    let class = |(name, share, service): (&str, f64, Duration)| Class {
        name: name.to_owned(),
        share,
        service: Service::Constant(service.as_nanos() as u64),
    };
    let classes = [("short", 1.0 - LONG, SERVICE[0]), ("long", LONG, SERVICE[1])];
    Mix::new(classes.map(class).to_vec()).expect("both have a share")
}

/// What is due, and when: classes are the indices of the paths.
fn plan(rate_rps: f64, span: Duration, seed: u64) -> Vec<Request> {
    let until = Until::Time(span.as_nanos() as u64);
    Requests::new(&mix(), Arrivals::Poisson, rate_rps, seed, until).collect()
}

/// What all contestants are asked for.
struct Task {
    paths: Vec<String>,
    rate_rps: f64,
    size: Size,
    core: usize,
}

impl Task {
    fn round(&self, program: &Path, args: &[&str], seed: u64) -> Result<Round, String> {
        let mut program = Running::start(program, args, self.core)?;
        let port = program.number(Duration::from_secs(10))?;
        let patience = Duration::from_secs(2);
        let offer = |span, seed| {
            let due = plan(self.rate_rps, span, seed);
            http::offer(port, &self.paths, &due, patience).map(|found| (due, found))
        };
        let failed = |error: std::io::Error| error.to_string();
        let warm = self.size.pick(Duration::from_millis(50), Duration::from_millis(500));
        offer(warm, seed + 500).map_err(failed)?;
        let (before, begun) = (ran(&program)?, Instant::now());
        let span = self.size.pick(Duration::from_millis(200), Duration::from_secs(5));
        let (due, found) = offer(span, seed).map_err(failed)?;
        let passed = begun.elapsed();
        let cpu = (ran(&program)? - before).as_secs_f64() / passed.as_secs_f64();
        let lost = found.sojourn_ns.iter().filter(|ns| ns.is_none()).count();
        let of = |kind| {
            let all = due.iter().zip(&found.sojourn_ns).filter(|(due, _)| due.class == kind);
            let ns = all.map(|(_, ns)| ns.unwrap_or(patience.as_nanos() as u64)).collect();
            Spread::of(ns).ok_or("too few requests")
        };
        let sent_late = found.sent_late;
        let rps = (due.len() - lost) as f64 / passed.as_secs_f64();
        Ok(Round { short: of(0)?, long: of(1)?, lost, sent_late, rps, cpu })
    }
}

/// Measures all programs that were built; `rounds`: default 5.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Pool, String> {
    let machine = Machine::gather();
    let cores = Cores::pick()?;
    cores.stay()?;
    let rate_rps = mix().rate_rps(LOAD, 1);
    let steps = SERVICE.map(steps_in);
    let paths = vec![format!("/short/{}", steps[0]), format!("/long/{}", steps[1])];
    let task = Task { paths, rate_rps, size, core: cores.program };
    let mut found =
        Pool { load: LOAD, rate_rps, smoke: size == Size::Smoke, machine, ..Pool::default() };
    if cores.client == cores.program {
        found.notes.push("one core for client and server: the figures mean little".to_owned());
    }
    let mut ways = Vec::new();
    for (name, program, args) in WAYS {
        match program::find(programs, "pool", program) {
            Ok(program) => ways.push((name, program, args)),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    let mut all: BTreeMap<&str, Vec<Round>> = BTreeMap::new();
    let rounds = rounds.unwrap_or(size.pick(1, 5));
    for at in 0..rounds {
        for turn in 0..ways.len() {
            let (name, program, args) = &ways[(at + turn) % ways.len()];
            // The same arrivals for all.
            match task.round(program, args, at as u64 * 1_000 + 1) {
                Ok(round) => all.entry(name).or_default().push(round),
                Err(why) => found.notes.push(format!("{name}, round {at}: {why}")),
            }
        }
    }
    for (name, rounds) in all {
        if let Some(way) = Way::of(rounds) {
            found.short_p99_us.insert(name.to_owned(), way.short_p99_us);
            found.ways.insert(name.to_owned(), way);
        }
    }
    found.sqlite = sqlite::run(programs, cores, size, rounds, &mut found.notes);
    Ok(found)
}

impl Way {
    fn of(rounds: Vec<Round>) -> Option<Self> {
        let every =
            |value: fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
        Some(Self {
            short_p50_us: every(|round| round.short.p50_us)?,
            short_p99_us: every(|round| round.short.p99_us)?,
            long_p99_us: every(|round| round.long.p99_us)?,
            rps: every(|round| round.rps)?,
            cpu: every(|round| round.cpu)?,
            rounds,
        })
    }
}

impl Pool {
    /// As people read it: medians over the rounds.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!(
            "== pool ==\n99% of {:?}, 1% of {:?}, {} requests/s: load {} of one core\n\
             medians of the rounds (best and worst)\n\n",
            SERVICE[0],
            SERVICE[1],
            show(Some(self.rate_rps)),
            self.load
        );
        let heads = ["", "short p50 µs", "short p99 µs", "", "long p99 µs", "requests/s", "CPU"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for (name, way) in WAYS.iter().filter_map(|(name, ..)| self.ways.get_key_value(*name)) {
            let p99s = || way.rounds.iter().map(|round| round.short.p99_us);
            let (best, worst) = (p99s().reduce(f64::min), p99s().reduce(f64::max));
            rows.push(vec![
                name.clone(),
                show(Some(way.short_p50_us)),
                show(Some(way.short_p99_us)),
                format!("({}–{})", show(best), show(worst)),
                show(Some(way.long_p99_us)),
                show(Some(way.rps)),
                show(Some(way.cpu)),
            ]);
        }
        out.push_str(&table(&rows));
        out.push_str(&self.sqlite.text());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_long() {
        let due = plan(50_000.0, Duration::from_secs(1), 3);
        let long = due.iter().filter(|due| due.class == 1).count() as f64;
        assert!((long / due.len() as f64 - LONG).abs() < 0.003, "{long} of {}", due.len());
        assert!(due.windows(2).all(|two| two[0].at_ns <= two[1].at_ns));
    }
}
