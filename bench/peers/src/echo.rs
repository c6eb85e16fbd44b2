//! `echo`: blocking servers beside asynchronous ones, over TCP and UDP on 127.0.0.1.
//!
//! A contestant is a program `echo-NAME tcp|udp` that prints its port. It has one core, the client
//! ([`client`](crate::client)) the other. In a round, every server is started once per protocol, in
//! turns; measured are round trips on one connection, on eight, on 64 and on 1,000, and the highest rate of an
//! open loop at which 99% of all messages are back within a millisecond after they were due.

use crate::Size;
use crate::client::{Client, Kind};
use crate::figures::{Spread, greatest, median, show, table};
use crate::load::{InTime, Load};
use crate::neighbours::{Neighbours, ran};
use crate::program::{self, Cores, Running};
use crate::rate::highest;
use curtail_report::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The contestants, in the order of the table.
pub const SERVERS: [&str; 6] = ["curtail", "curtail_uring", "tokio", "monoio", "go", "epoll"];
/// Connections of the second closed loop.
const FEW: usize = 8;
/// Connections of the third.
const MANY: usize = 64;
/// Connections of the fourth.
const THOUSAND: usize = 1_000;
/// Connections of the open loop.
const OPEN: usize = 16;
/// How long a message of the open loop may take.
const IN_TIME: Duration = Duration::from_millis(1);

/// What one server does over one protocol: medians over the rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Round trip on one connection, half of all.
    pub p50_us: f64,
    /// Round trip on one connection, 99% of all.
    pub p99_us: f64,
    /// The highest rate of an open loop on 16 connections at which 99% take at most a millisecond:
    /// median over the rounds that found one, if any did.
    pub rps: f64,
    /// The rate of the best round.
    pub rps_best: f64,
    /// Requests in a second of the server's CPU time, closed loop on 16 connections. On a busy machine
    /// it says more than `rps`; of a server that spins while it waits it says too little.
    pub rps_cpu: f64,
    /// As `p50_us`, on eight connections at once.
    pub p50_us_8: f64,
    /// As `p99_us`, on eight connections at once.
    pub p99_us_8: f64,
    /// As `p50_us`, on 64 connections at once.
    pub p50_us_64: f64,
    /// As `p99_us`, on 64 connections at once.
    pub p99_us_64: f64,
    /// As `p50_us`, on 1,000 connections at once; over TCP alone.
    pub p50_us_1000: Option<f64>,
    /// As `p99_us`, on 1,000 connections at once; over TCP alone.
    pub p99_us_1000: Option<f64>,
    /// Figures without the slices of time in which a neighbour had one of the cores.
    pub undisturbed: Undisturbed,
    /// Every round, in order.
    pub rounds: Vec<Round>,
}

/// Over all rounds, the slices of 5 ms in which no neighbour had the server's core or the client's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Undisturbed {
    /// Round trips on one connection.
    pub one: Option<Spread>,
    /// Round trips on eight connections at once.
    pub eight: Option<Spread>,
    /// Round trips on 64 connections at once.
    pub many: Option<Spread>,
    /// Round trips on 1,000 connections at once.
    pub thousand: Option<Spread>,
}

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Round trips on one connection.
    pub one: Spread,
    /// Round trips on eight connections at once.
    pub eight: Spread,
    /// Round trips on 64 connections at once.
    pub many: Spread,
    /// Round trips on 1,000 connections at once, over TCP: of so many datagrams, most sockets' buffers
    /// have no room.
    pub thousand: Option<Spread>,
    /// As in [`Server`].
    pub rps: f64,
    /// The search for that rate came to its end; else a neighbour had one of the cores whenever a
    /// rate was tried, and `rps` is the highest that passed before.
    pub sound: bool,
    /// As in [`Server`].
    pub rps_cpu: f64,
    /// Of the messages of the last rate that failed, the share that the client itself sent late.
    pub client_late: f64,
    /// Tries of a rate that were repeated, as a neighbour had one of the cores meanwhile.
    pub repeated: u32,
}

/// What is written to `echo.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// By server; one that is not built, or fails, is left out, and a note says why.
    pub udp: BTreeMap<String, Server>,
    /// By server.
    pub tcp: BTreeMap<String, Server>,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// Round trips of one round: all, and those of undisturbed slices.
#[derive(Debug, Default)]
struct Trips {
    all: Vec<u64>,
    undisturbed: Vec<u64>,
}

/// One round of one server, and what it is made of.
struct Measured {
    round: Round,
    one: Trips,
    eight: Trips,
    many: Trips,
    thousand: Trips,
}

/// Why a search ends early.
enum Stop {
    Disturbed,
    Broken(String),
}

/// A server that runs, and how it is reached.
struct Served {
    program: Running,
    kind: Kind,
    port: u16,
    size: Size,
}

impl Served {
    fn failed(&self, error: std::io::Error) -> String {
        format!("{}: {error}", self.kind.name())
    }

    fn trips(&self, connections: usize) -> Result<Trips, String> {
        let failed = |error| self.failed(error);
        let slice = self.size.pick(Duration::from_millis(2), Duration::from_millis(5));
        let slices = self.size.pick(2, 140);
        let mut client = Client::connect(self.kind, self.port, connections).map_err(failed)?;
        for _ in 0..slices / 4 {
            client.round_trips(slice).map_err(failed)?;
        }
        let mut found = Trips::default();
        for _ in 0..slices {
            let mut neighbours = Neighbours::of(&self.program)?;
            let trips = client.round_trips(slice).map_err(failed)?;
            if neighbours.look().is_none() {
                found.undisturbed.extend(&trips);
            }
            found.all.extend(trips);
        }
        Ok(found)
    }

    fn per_cpu_second(&self) -> Result<f64, String> {
        let failed = |error| self.failed(error);
        let span = self.size.pick(Duration::from_millis(5), Duration::from_millis(200));
        let mut client = Client::connect(self.kind, self.port, OPEN).map_err(failed)?;
        client.round_trips(span / 4).map_err(failed)?;
        let before = ran(&self.program)?;
        let count = client.round_trips(span).map_err(failed)?.len();
        Ok(count as f64 / (ran(&self.program)? - before).as_secs_f64())
    }

    /// What was achieved at that rate, if it passes; `Err` where too much of it was disturbed.
    fn try_rate(&self, rate_rps: f64, seed: u64, late: &mut f64) -> Result<Option<f64>, Stop> {
        let failed = |error| Stop::Broken(self.failed(error));
        let span = self.size.pick(Duration::from_millis(20), Duration::from_millis(60));
        let load = Load { rate_rps, span, patience: 2 * IN_TIME, seed };
        let neighbours = Neighbours::of(&self.program).map_err(Stop::Broken)?;
        // New connections each time: nothing of an overload is left in them.
        let mut client = Client::connect(self.kind, self.port, OPEN).map_err(failed)?;
        let found = client.offer(&load, neighbours).map_err(failed)?;
        let InTime { undisturbed, in_time } = found.in_time(IN_TIME);
        let due = found.due_ns.len();
        if due == 0 || undisturbed * 3 < due {
            return Err(Stop::Disturbed);
        }
        let share = in_time as f64 / undisturbed as f64;
        if share >= 0.99 {
            return Ok(Some(due as f64 * share / load.span.as_secs_f64()));
        }
        *late = found.sent_late as f64 / due as f64;
        Ok(None)
    }

    fn round(&self, first_rps: f64, mut seed: u64) -> Result<Measured, String> {
        let (one, eight, many) = (self.trips(1)?, self.trips(FEW)?, self.trips(MANY)?);
        let thousand = match self.kind {
            Kind::Tcp => self.trips(THOUSAND)?,
            Kind::Udp => Trips::default(),
        };
        let rps_cpu = self.per_cpu_second()?;
        let (mut client_late, mut repeated, mut most) = (0.0, 0, 0.0_f64);
        let rps = highest(first_rps, 2e6, |rate| {
            for _ in 0..self.size.pick(2, 12) {
                seed += 1;
                match self.try_rate(rate, seed, &mut client_late) {
                    Err(Stop::Disturbed) => repeated += 1,
                    Ok(passed) => {
                        most = most.max(passed.unwrap_or(0.0));
                        return Ok(passed);
                    }
                    broken => return broken,
                }
            }
            Err(Stop::Disturbed)
        });
        let (rps, sound) = match rps {
            Ok(rps) => (rps.unwrap_or(0.0), true),
            Err(Stop::Disturbed) => (most, false),
            Err(Stop::Broken(why)) => return Err(why),
        };
        let spread = |trips: &Trips| Spread::of(trips.all.clone()).ok_or("nothing came back");
        let round = Round {
            one: spread(&one)?,
            eight: spread(&eight)?,
            many: spread(&many)?,
            thousand: Spread::of(thousand.all.clone()),
            rps,
            sound,
            rps_cpu,
            client_late,
            repeated,
        };
        Ok(Measured { round, one, eight, many, thousand })
    }
}

fn serve(program: &Path, kind: Kind, core: usize, size: Size) -> Result<Served, String> {
    let mut program = Running::start(program, &[kind.name()], core)?;
    let port = program.number(Duration::from_secs(10))?;
    Ok(Served { program, kind, port, size })
}

/// Measures all programs that were built; `rounds`: default 5.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Echo, String> {
    let machine = Machine::gather();
    let cores = Cores::pick()?;
    cores.stay()?;
    let mut found = Echo { smoke: size == Size::Smoke, machine, ..Echo::default() };
    if cores.client == cores.program {
        found.notes.push("one core for client and server: the figures mean little".to_owned());
    }
    let mut servers = Vec::new();
    for name in SERVERS {
        match program::find(programs, "echo", name) {
            Ok(program) => servers.push((name, program)),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    let rounds = rounds.unwrap_or(size.pick(1, 5));
    let mut all: BTreeMap<(&str, &str), Vec<Measured>> = BTreeMap::new();
    for at in 0..rounds {
        for kind in [Kind::Tcp, Kind::Udp] {
            for turn in 0..servers.len() {
                let (name, program) = &servers[(at + turn) % servers.len()];
                let before = all.entry((kind.name(), name)).or_default();
                // Near what was found before, so that the search is short.
                let first =
                    before.last().map_or(10_000.0, |last| (last.round.rps * 0.8).max(1_000.0));
                let served = serve(program, kind, cores.program, size);
                match served.and_then(|served| served.round(first, at as u64 * 1_000)) {
                    Ok(measured) => before.push(measured),
                    Err(why) => found.notes.push(format!("{name}, round {at}: {why}")),
                }
            }
        }
    }
    for ((kind, name), rounds) in all {
        if let Some(server) = Server::of(rounds) {
            let sound = server.rounds.iter().filter(|round| round.sound).count();
            if sound < server.rounds.len() {
                let all = server.rounds.len();
                found.notes.push(format!(
                    "{kind}, {name}: {sound} of {all} rounds found a rate, a neighbour had one of the \
                     cores in the others"
                ));
            }
            let servers = if kind == "tcp" { &mut found.tcp } else { &mut found.udp };
            servers.insert(name.to_owned(), server);
        }
    }
    Ok(found)
}

impl Server {
    fn of(measured: Vec<Measured>) -> Option<Self> {
        let mut rounds = Vec::new();
        let (mut one, mut eight, mut many) = (Vec::new(), Vec::new(), Vec::new());
        let mut thousand = Vec::new();
        for it in measured {
            rounds.push(it.round);
            one.extend(it.one.undisturbed);
            eight.extend(it.eight.undisturbed);
            many.extend(it.many.undisturbed);
            thousand.extend(it.thousand.undisturbed);
        }
        let every = |value: fn(&Round) -> f64| -> Vec<f64> { rounds.iter().map(value).collect() };
        let of_thousand = |value: fn(Spread) -> f64| -> Vec<f64> {
            rounds.iter().filter_map(|it| it.thousand.map(value)).collect()
        };
        let sound: Vec<f64> = rounds.iter().filter(|r| r.sound).map(|r| r.rps).collect();
        let rps = if sound.is_empty() { every(|r| r.rps) } else { sound };
        Some(Self {
            p50_us: median(&every(|r| r.one.p50_us))?,
            p99_us: median(&every(|r| r.one.p99_us))?,
            rps: median(&rps)?,
            rps_best: greatest(&rps)?,
            rps_cpu: median(&every(|r| r.rps_cpu))?,
            p50_us_8: median(&every(|r| r.eight.p50_us))?,
            p99_us_8: median(&every(|r| r.eight.p99_us))?,
            p50_us_64: median(&every(|r| r.many.p50_us))?,
            p99_us_64: median(&every(|r| r.many.p99_us))?,
            p50_us_1000: median(&of_thousand(|it| it.p50_us)),
            p99_us_1000: median(&of_thousand(|it| it.p99_us)),
            undisturbed: Undisturbed {
                one: Spread::of(one),
                eight: Spread::of(eight),
                many: Spread::of(many),
                thousand: Spread::of(thousand),
            },
            rounds,
        })
    }
}

impl Echo {
    /// As people read it: medians over the rounds; in brackets, what was not disturbed, and of rates
    /// the best round.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out =
            "== echo ==\nmedians of the rounds (undisturbed; of rates the best)\n".to_owned();
        let heads = [
            "p50 µs",
            "p99 µs",
            "p50 µs, 8",
            "p99 µs, 8",
            "p50 µs, 64",
            "p99 µs, 64",
            "p50 µs, 1,000",
            "p99 µs, 1,000",
            "requests/s",
            "per CPU second",
        ];
        for (kind, servers) in [("tcp", &self.tcp), ("udp", &self.udp)] {
            let head = std::iter::once(kind).chain(heads).map(str::to_owned);
            let mut rows = vec![head.collect::<Vec<_>>()];
            for (name, it) in SERVERS.iter().filter_map(|name| servers.get_key_value(*name)) {
                let both = |value, beside| format!("{} ({})", show(value), show(beside));
                let pair = |value, beside| both(Some(value), beside);
                let Undisturbed { one, eight, many, thousand } = it.undisturbed;
                rows.push(vec![
                    name.clone(),
                    pair(it.p50_us, one.map(|s| s.p50_us)),
                    pair(it.p99_us, one.map(|s| s.p99_us)),
                    pair(it.p50_us_8, eight.map(|s| s.p50_us)),
                    pair(it.p99_us_8, eight.map(|s| s.p99_us)),
                    pair(it.p50_us_64, many.map(|s| s.p50_us)),
                    pair(it.p99_us_64, many.map(|s| s.p99_us)),
                    both(it.p50_us_1000, thousand.map(|s| s.p50_us)),
                    both(it.p99_us_1000, thousand.map(|s| s.p99_us)),
                    pair(it.rps, Some(it.rps_best)),
                    show(Some(it.rps_cpu)),
                ]);
            }
            out.push('\n');
            out.push_str(&table(&rows));
        }
        out
    }
}
