//! `wakeups`: how late sleeps and sockets are while other threads of the same core compute.
//!
//! A contestant is a program `wakeups-NAME COMPUTING SLEEPS` on one core: `COMPUTING` threads that
//! compute for ever and yield after each millisecond of it, a thread that sleeps for 1 ms `SLEEPS`
//! times, and an echo server.
//!
//! It prints its port; when it has slept, the nanoseconds by which it woke late, on one line; and
//! on the next how many milliseconds' worth of computing was done a second meanwhile. A client on
//! the other core asks every 1.5 ms or so. Each is measured with two threads that compute and with
//! none.

use crate::Size;
use crate::client::{Client, Kind};
use crate::figures::{Spread, median, show, table};
use crate::load::Load;
use crate::neighbours::Neighbours;
use crate::program::{self, Cores, Running};
use curtail_report::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The contestants, in the order of the table. Curtail takes part with a quantum of 2 µs, in a
/// program with safepoints, and without.
pub const NAMES: [&str; 5] = ["curtail_quantum_2us", "curtail", "tokio", "go", "pthread"];
/// Threads that compute.
const COMPUTING: usize = 2;
/// Requests a second.
const RATE_RPS: f64 = 650.0;

/// What one contestant does, over the samples of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// By how much a sleep of 1 ms ended late.
    pub sleep_late: Spread,
    /// Round trip through a socket, from when the request was due.
    pub socket: Spread,
    /// Requests that were not answered within 200 ms.
    pub unanswered: usize,
    /// Figures without the rounds in which a neighbour had one of the cores. Of kernel threads,
    /// which wait for each other too, it can't be told.
    pub undisturbed: Option<Undisturbed>,
    /// The share of the core's time that the computing threads had, by what they got done: median
    /// over the rounds.
    pub computed: f64,
}

/// Of the rounds in which no neighbour had the program's core or the client's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undisturbed {
    /// As in [`Lateness`].
    pub sleep_late: Spread,
    /// As in [`Lateness`].
    pub socket: Spread,
}

/// What is written to `wakeups.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wakeups {
    /// Beside two threads that compute.
    pub computing: BTreeMap<String, Lateness>,
    /// The programs without threads that compute.
    pub idle: BTreeMap<String, Lateness>,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

#[derive(Default)]
struct Samples {
    sleep_late_ns: Vec<u64>,
    socket_ns: Vec<u64>,
    unanswered: usize,
    computed: Vec<f64>,
    quiet_sleep_late_ns: Vec<u64>,
    quiet_socket_ns: Vec<u64>,
}

impl Samples {
    fn late(self) -> Option<Lateness> {
        let quiet = Spread::of(self.quiet_sleep_late_ns).zip(Spread::of(self.quiet_socket_ns));
        Some(Lateness {
            undisturbed: quiet.map(|(sleep_late, socket)| Undisturbed { sleep_late, socket }),
            sleep_late: Spread::of(self.sleep_late_ns)?,
            socket: Spread::of(self.socket_ns)?,
            unanswered: self.unanswered,
            computed: median(&self.computed)?,
        })
    }

    fn round(
        &mut self,
        name: &str,
        program: &Path,
        computing: usize,
        seed: u64,
        (core, size): (usize, Size),
    ) -> Result<(), String> {
        let sleeps = size.pick(20, 250);
        let (computing, sleeps) = (computing.to_string(), sleeps.to_string());
        let mut args = vec![computing.as_str(), &sleeps];
        if name.contains("quantum") {
            args.push("--quantum-2us");
        }
        let mut program = Running::start(program, &args, core)?;
        let port = program.number(Duration::from_secs(10))?;
        let load = Load {
            rate_rps: RATE_RPS,
            span: size.pick(Duration::from_millis(60), Duration::from_millis(300)),
            patience: Duration::from_millis(200),
            seed,
        };
        let failed = |error: std::io::Error| format!("socket: {error}");
        let mut round = Neighbours::of(&program)?;
        let neighbours = Neighbours::of(&program)?;
        let mut client = Client::connect(Kind::Tcp, port, 1).map_err(failed)?;
        let found = client.offer(&load, neighbours).map_err(failed)?;
        let quiet = name != "pthread" && round.look().is_none();
        let line = program.line(Duration::from_secs(30))?;
        let late: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        let late = late.map_err(|_| format!("said `{line}` of its sleeps"))?;
        if quiet {
            self.quiet_sleep_late_ns.extend(&late);
            self.quiet_socket_ns.extend(found.sojourns());
        }
        self.sleep_late_ns.extend(late);
        let computed: f64 = program.number(Duration::from_secs(5))?;
        self.computed.push(computed / 1e3);
        self.unanswered += found.sojourn_ns.iter().filter(|ns| ns.is_none()).count();
        self.socket_ns.extend(found.sojourns());
        Ok(())
    }
}

/// Measures all programs that were built; `rounds`: default 15.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Wakeups, String> {
    let machine = Machine::gather();
    let cores = Cores::pick()?;
    cores.stay()?;
    let mut found = Wakeups { smoke: size == Size::Smoke, machine, ..Wakeups::default() };
    if cores.client == cores.program {
        found.notes.push("one core: the client shares it with the programs".to_owned());
    }
    let at = (cores.program, size);
    let mut contestants = Vec::new();
    for name in NAMES {
        match program::find(programs, "wakeups", name) {
            Ok(program) => contestants.push((name, program)),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    let mut all: BTreeMap<(usize, &str), Samples> = BTreeMap::new();
    for round in 0..rounds.unwrap_or(size.pick(1, 15)) {
        for computing in [COMPUTING, 0] {
            for turn in 0..contestants.len() {
                let (name, program) = &contestants[(round + turn) % contestants.len()];
                let samples = all.entry((computing, *name)).or_default();
                if let Err(why) = samples.round(name, program, computing, round as u64, at) {
                    found.notes.push(format!("{name}, round {round}: it {why}"));
                }
            }
        }
    }
    for ((computing, name), samples) in all {
        if let Some(late) = samples.late() {
            let into = if computing > 0 { &mut found.computing } else { &mut found.idle };
            into.insert(name.to_owned(), late);
        }
    }
    Ok(found)
}

impl Wakeups {
    /// As people read it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = "== wakeups ==\n".to_owned();
        let heads = ["µs: p50", "p99", "p99.9", "socket p50", "p99", "p99.9", "computed"];
        let both = [("beside 2 that compute", &self.computing), ("nothing computes", &self.idle)];
        for (what, found) in both {
            let head = std::iter::once(what).chain(heads).map(str::to_owned);
            let mut rows = vec![head.collect::<Vec<_>>()];
            for (name, it) in NAMES.iter().filter_map(|name| found.get_key_value(*name)) {
                let row = |name: String, sleep_late: Spread, socket: Spread| {
                    let values = |it: Spread| [it.p50_us, it.p99_us, it.p99_9_us];
                    let values = values(sleep_late).into_iter().chain(values(socket));
                    let cells = values.map(|value| show(Some(value)));
                    std::iter::once(name).chain(cells).collect::<Vec<_>>()
                };
                let mut all = row(name.clone(), it.sleep_late, it.socket);
                all.push(format!("{:.0}%", it.computed * 100.0));
                rows.push(all);
                if let Some(quiet) = it.undisturbed {
                    rows.push(row("  undisturbed".to_owned(), quiet.sleep_late, quiet.socket));
                }
            }
            out.push('\n');
            out.push_str(&table(&rows));
        }
        out.push_str("\nfirst the lateness of sleep(1 ms), then the socket's round trip\n");
        out
    }
}
