//! `redis`: a small Redis, a thread for each connection and one map behind one lock, beside Redis.
//!
//! * GETs in an open loop while another connection asks for `KEYS *` in a loop;
//! * GETs a second in a closed loop, one or sixteen at a time on each of 50 connections.

use crate::Size;
use crate::ask::{Way, offer, saturate};
use crate::figures::{Spread, median};
use crate::program::{Cores, Running};
use crate::resp::{Resp, request};
use crate::servers::{On, Round, Rounds, Server, p99s, rows, spans};
use curtail_report::Machine;
use curtail_workload::{Arrivals, Request};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The contestants: the name, and the program with its arguments after the number of keys.
const SERVERS: [(&str, &str); 7] = [
    ("curtail", "curtail {n} grace"),
    ("curtail_ban", "curtail {n} ban"),
    ("curtail_none", "curtail {n} none"),
    ("kernel_threads", "threads"),
    ("tokio", "tokio"),
    ("go", "go"),
    ("redis", ""),
];
/// GETs a second beside `KEYS *`.
const RATES: [(&str, f64); 2] = [("keys", 2_000.0), ("keys_20k", 20_000.0)];
/// GETs under way on each connection of a closed loop.
const DEPTHS: [(&str, usize); 2] = [("p1", 1), ("p16", 16)];
const CONNECTIONS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(2);
/// Different GETs.
const ASKED: usize = 4_096;

/// What is written to `redis.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Redis {
    /// GETs a second in a closed loop on one core: the medians.
    pub get_rps: BTreeMap<String, BTreeMap<String, f64>>,
    /// 99% of the GETs took no longer, on one core: by what ran beside and contestant, the medians.
    pub get_p99_us_beside: BTreeMap<String, BTreeMap<String, f64>>,
    /// 99% of the GETs took no longer, on two cores, of which the client shares one.
    pub get_p99_us_beside_two_cores: BTreeMap<String, BTreeMap<String, f64>>,
    /// Every round, by where it ran.
    pub rounds: BTreeMap<String, Rounds>,
    /// Every round of the closed loops.
    pub rps_rounds: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// Keys in the map.
    pub keys: usize,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// GETs, whose class is the index of their message.
fn plan(rate_rps: f64, span: Duration, seed: u64) -> Vec<Request> {
    let mut schedule = Arrivals::Poisson.schedule(rate_rps, seed);
    let due = std::iter::repeat_with(|| schedule.next_ns());
    let due = due.take_while(|ns| *ns <= span.as_nanos() as u64);
    let class = |at: usize| (at.wrapping_mul(2_654_435_761) % ASKED) as u16;
    due.enumerate().map(|(at, at_ns)| Request { at_ns, class: class(at), service_ns: 0 }).collect()
}

/// Redis itself, filled.
fn redis(program: &Path, keys: usize, cores: &[usize]) -> Result<(Running, u16), String> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    let port = free.map_err(|error| error.to_string())?.port();
    let text = port.to_string();
    let args = ["--port", &text, "--save", "", "--appendonly", "no", "--enable-debug-command"];
    let args: Vec<&str> =
        args.into_iter().chain(["local", "--bind", "127.0.0.1", "--loglevel", "warning"]).collect();
    let running = Running::start_on(program, &args, cores)?;
    let until = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if Instant::now() > until {
            return Err("redis-server does not come up".to_owned());
        }
        std::thread::yield_now();
    }
    let fill = [request(&["DEBUG", "POPULATE", &keys.to_string(), "key"])];
    let way = Way::new(&fill, Duration::from_secs(30));
    let filled = offer::<Resp>(port, &way, &[Request::default()]);
    filled.map_err(|error| format!("DEBUG POPULATE: {error}"))?;
    Ok((running, port))
}

struct Stage {
    keys: usize,
    size: Size,
    cores: Cores,
    gets: Vec<Vec<u8>>,
}

impl Stage {
    fn start(&self, server: &Server, on: On) -> Result<(Running, u16), String> {
        let cores = on.cores(self.cores);
        match server.name.as_str() {
            "redis" => redis(&server.program, self.keys, &cores),
            _ => server.start(&[&self.keys.to_string()], &cores),
        }
    }

    fn beside(&self, server: &Server, on: On, rate: f64, seed: u64) -> Result<Round, String> {
        let (_running, port) = self.start(server, on)?;
        let beside = request(&["KEYS", "*"]);
        let sleeps = on == On::Two;
        let way = Way { beside: Some(&beside), sleeps, ..Way::new(&self.gets, PATIENCE) };
        let failed = |error: std::io::Error| error.to_string();
        let [warm, span] = spans(self.size);
        let quiet = Way { beside: None, ..way };
        offer::<Resp>(port, &quiet, &plan(rate, warm, seed + 500)).map_err(failed)?;
        let found = offer::<Resp>(port, &way, &plan(rate, span, seed)).map_err(failed)?;
        let lost = found.sojourn_ns.iter().filter(|ns| ns.is_none()).count();
        let all = found.sojourn_ns.iter();
        let all = all.map(|ns| ns.unwrap_or(PATIENCE.as_nanos() as u64)).collect();
        let short = Spread::of(all).ok_or("too few requests")?;
        Ok(Round { short, lost, sent_late: found.sent_late, beside: found.beside })
    }

    fn rps(&self, server: &Server, depth: usize) -> Result<f64, String> {
        let (_running, port) = self.start(server, On::One)?;
        let [_, span] = spans(self.size);
        let found = saturate::<Resp>(port, &self.gets[0], &[depth; CONNECTIONS], span);
        found.map_err(|error| error.to_string())
    }
}

/// What of a map of maps has the names the other way round.
fn turned<T: Clone>(
    of: &BTreeMap<String, BTreeMap<String, T>>,
) -> BTreeMap<String, BTreeMap<String, T>> {
    let mut out: BTreeMap<String, BTreeMap<String, T>> = BTreeMap::new();
    for (a, of) in of {
        for (b, value) in of {
            out.entry(b.clone()).or_default().insert(a.clone(), value.clone());
        }
    }
    out
}

/// Redis as Debian has it, or as it was left among the programs.
fn redis_server(programs: &Path) -> Result<Server, String> {
    let installed = PathBuf::from("/usr/bin/redis-server");
    let found = Server::find(programs, "redis", "redis", "server");
    found.or_else(|why| match installed.exists() {
        true => Ok(Server { name: "redis".to_owned(), program: installed, args: Vec::new() }),
        false => Err(why),
    })
}

/// Measures all programs that were built; `rounds`: default 3.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Redis, String> {
    let machine = Machine::gather();
    let cores = Cores::pick()?;
    cores.stay()?;
    let keys = size.pick(1_000, 1_000_000);
    let smoke = size == Size::Smoke;
    let mut found = Redis { keys, smoke, machine, ..Redis::default() };
    let key = |at: usize| format!("key:{}", at * 7_919 % keys);
    let gets = (0..ASKED).map(|at| request(&["GET", &key(at)])).collect();
    let stage = Stage { keys, size, cores, gets };
    let mut servers = Vec::new();
    for (name, line) in SERVERS {
        let server = match name {
            "redis" => redis_server(programs),
            _ => Server::find(programs, "redis", name, line),
        };
        match server {
            Ok(server) => servers.push(server),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    for at in 0..rounds.unwrap_or(size.pick(1, 3)) {
        for turn in 0..servers.len() {
            let server = &servers[(at + turn) % servers.len()];
            let name = server.name.clone();
            for (on, (column, rate)) in
                [On::One, On::Two].into_iter().flat_map(|on| RATES.map(|rate| (on, rate)))
            {
                match stage.beside(server, on, rate, at as u64 * 1_000 + 1) {
                    Ok(round) => {
                        let of = found.rounds.entry(on.name().to_owned()).or_default();
                        let of = of.entry(name.clone()).or_default();
                        of.entry(column.to_owned()).or_default().push(round);
                    }
                    Err(why) => {
                        let on = on.name();
                        found.notes.push(format!("{name}, {column}, {on}, round {at}: {why}"));
                    }
                }
            }
            for (column, depth) in DEPTHS {
                match stage.rps(server, depth) {
                    Ok(rps) => {
                        let of = found.rps_rounds.entry(column.to_owned()).or_default();
                        of.entry(name.clone()).or_default().push(rps);
                    }
                    Err(why) => found.notes.push(format!("{name}, {column}, round {at}: {why}")),
                }
            }
        }
    }
    let of = |on: On| found.rounds.get(on.name()).map(|of| turned(&p99s(of))).unwrap_or_default();
    (found.get_p99_us_beside, found.get_p99_us_beside_two_cores) = (of(On::One), of(On::Two));
    for (column, of) in &found.rps_rounds {
        let middle =
            of.iter().filter_map(|(name, rounds)| Some((name.clone(), median(rounds)?))).collect();
        found.get_rps.insert(column.clone(), middle);
    }
    Ok(found)
}

impl Redis {
    /// As people read it: medians over the rounds.
    #[must_use]
    pub fn text(&self) -> String {
        let names = SERVERS.map(|(name, _)| name);
        let rounds = self.rps_rounds.values().flat_map(BTreeMap::values);
        let rounds = rounds.map(Vec::len).max().unwrap_or(0);
        let (beside, depths) = (RATES.map(|(name, _)| name), DEPTHS.map(|(name, _)| name));
        format!(
            "== redis ==\n{}\n{} keys; medians of {rounds} rounds\n\n\
             p99 of GETs beside KEYS * in a loop, µs, at 2,000 and 20,000 a second\non one core\n{}\n\
             on two, the client sharing one\n{}\n\
             GETs a second on one core, {CONNECTIONS} connections, 1 and 16 at a time\n{}",
            self.machine.cpu.as_deref().unwrap_or("an unknown processor"),
            self.keys,
            rows(&names, &beside, &turned(&self.get_p99_us_beside)),
            rows(&names, &beside, &turned(&self.get_p99_us_beside_two_cores)),
            rows(&names, &depths, &turned(&self.get_rps)),
        )
    }
}
