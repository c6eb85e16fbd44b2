//! `locks`: short readers beside long ones, by kind of lock.
//!
//! A contestant is a server, a thread for each connection, that computes for each request while it
//! holds a lock for reading. It has one core, the client the other; then both, the client sharing one.

use crate::Size;
use crate::ask::{Way, offer};
use crate::figures::Spread;
use crate::pool::steps_in;
use crate::program::Cores;
use crate::resp::Resp;
use crate::servers::{On, Round, Rounds, Server, p99s, rows, spans};
use curtail_report::Machine;
use curtail_workload::{Arrivals, Class, Mix, Request, Requests, Service, Until};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The contestants: the name, and the program with its arguments after the kind of lock.
const SERVERS: [(&str, &str); 6] = [
    ("curtail", "curtail grace {n}"),
    ("curtail_ban", "curtail ban {n}"),
    ("curtail_none", "curtail none {n}"),
    ("kernel_threads", "threads"),
    ("tokio", "tokio"),
    ("go", "go"),
];
/// `mutex` and `rwlock` are those of the runtime; readers of a mutex wait for each other.
const LOCKS: [&str; 4] = ["mutex", "rwlock", "std", "parking_lot"];
/// How long a short reader computes under its lock, and a long one.
const SERVICE: [Duration; 2] = [Duration::from_micros(1), Duration::from_millis(1)];
/// Of all readers, those that are long.
const LONG: f64 = 0.01;
/// Requests a second.
const RATE_RPS: f64 = 10_000.0;
const PATIENCE: Duration = Duration::from_secs(1);

/// What is written to `locks.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Locks {
    /// 99% of the short readers took no longer, on one core: by contestant and lock, the median of the
    /// rounds.
    pub short_p99_us: BTreeMap<String, BTreeMap<String, f64>>,
    /// 99% of the short readers took no longer, on two cores, of which the client shares one.
    pub short_p99_us_two_cores: BTreeMap<String, BTreeMap<String, f64>>,
    /// Every round, by where it ran.
    pub rounds: BTreeMap<String, Rounds>,
    /// Requests a second that were due.
    pub rate_rps: f64,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// Short and long readers: classes 0 and 1.
fn plan(span: Duration, seed: u64) -> Vec<Request> {
    let class = |(name, share, service): (&str, f64, Duration)| Class {
        name: name.to_owned(),
        share,
        service: Service::Constant(service.as_nanos() as u64),
    };
    let classes = [("short", 1.0 - LONG, SERVICE[0]), ("long", LONG, SERVICE[1])];
    let mix = Mix::new(classes.map(class).to_vec()).expect("both have a share");
    let until = Until::Time(span.as_nanos() as u64);
    Requests::new(&mix, Arrivals::Poisson, RATE_RPS, seed, until).collect()
}

fn round(
    server: &Server,
    lock: &str,
    messages: &[Vec<u8>],
    (on, cores): (On, Cores),
    (size, seed): (Size, u64),
) -> Result<Round, String> {
    let (_running, port) = server.start(&[lock], &on.cores(cores))?;
    let way = Way { sleeps: on == On::Two, ..Way::new(messages, PATIENCE) };
    let failed = |error: std::io::Error| error.to_string();
    let [warm, span] = spans(size);
    offer::<Resp>(port, &way, &plan(warm, seed + 500)).map_err(failed)?;
    let due = plan(span, seed);
    let found = offer::<Resp>(port, &way, &due).map_err(failed)?;
    let lost = found.sojourn_ns.iter().filter(|ns| ns.is_none()).count();
    let short = due.iter().zip(&found.sojourn_ns).filter(|(due, _)| due.class == 0);
    let short = short.map(|(_, ns)| ns.unwrap_or(PATIENCE.as_nanos() as u64)).collect();
    let short = Spread::of(short).ok_or("too few requests")?;
    Ok(Round { short, lost, sent_late: found.sent_late, beside: 0 })
}

/// Measures all programs that were built; `rounds`: default 5.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Locks, String> {
    let machine = Machine::gather();
    let cores = Cores::pick()?;
    cores.stay()?;
    let messages = SERVICE.map(|time| format!("{}\n", steps_in(time)).into_bytes());
    let smoke = size == Size::Smoke;
    let mut found = Locks { rate_rps: RATE_RPS, smoke, machine, ..Locks::default() };
    let mut servers = Vec::new();
    for (name, line) in SERVERS {
        match Server::find(programs, "locks", name, line) {
            Ok(server) => servers.push(server),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    for at in 0..rounds.unwrap_or(size.pick(1, 5)) {
        for (on, lock) in [On::One, On::Two].into_iter().flat_map(|on| LOCKS.map(|lock| (on, lock)))
        {
            for turn in 0..servers.len() {
                let server = &servers[(at + turn) % servers.len()];
                // The same arrivals for all.
                let how = (size, at as u64 * 1_000 + 1);
                match round(server, lock, &messages, (on, cores), how) {
                    Ok(round) => {
                        let of = found.rounds.entry(on.name().to_owned()).or_default();
                        let of = of.entry(server.name.clone()).or_default();
                        of.entry(lock.to_owned()).or_default().push(round);
                    }
                    Err(why) => found.notes.push(format!(
                        "{}, {lock}, {}, round {at}: {why}",
                        server.name,
                        on.name()
                    )),
                }
            }
        }
    }
    let of = |on: On| found.rounds.get(on.name()).map(p99s).unwrap_or_default();
    (found.short_p99_us, found.short_p99_us_two_cores) = (of(On::One), of(On::Two));
    Ok(found)
}

impl Locks {
    /// As people read it: medians over the rounds.
    #[must_use]
    pub fn text(&self) -> String {
        let names = SERVERS.map(|(name, _)| name);
        let rounds = self.rounds.values().flat_map(BTreeMap::values);
        let rounds = rounds.flat_map(BTreeMap::values).map(Vec::len).max().unwrap_or(0);
        format!(
            "== locks ==\n{}\n{:.0} readers/s, 99% hold the lock for {:?}, 1% for {:?}\n\
             p99 of the short ones in µs, medians of {rounds} rounds\n\non one core\n{}\n\
             on two, the client sharing one\n{}",
            self.machine.cpu.as_deref().unwrap_or("an unknown processor"),
            self.rate_rps,
            SERVICE[0],
            SERVICE[1],
            rows(&names, &LOCKS, &self.short_p99_us),
            rows(&names, &LOCKS, &self.short_p99_us_two_cores)
        )
    }
}
