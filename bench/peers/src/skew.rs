//! `skew`: a thread for each of 16 connections, two of which have nine tenths of the work, on two
//! cores, which the client shares. The servers are those of [`locks`](crate::locks), without a lock.

use crate::Size;
use crate::ask::{Way, offer, saturate};
use crate::figures::{Spread, median, show, table};
use crate::pool::steps_in;
use crate::program::Cores;
use crate::resp::Resp;
use crate::servers::{On, Round, Server, spans};
use curtail_report::Machine;
use curtail_workload::{Arrivals, Class, Mix, Request, Requests, Service, Until};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The contestants: the name, and the program with its arguments after the kind of lock.
const SERVERS: [(&str, &str); 5] = [
    ("curtail", "curtail grace {n}"),
    ("curtail_light", "curtail light {n}"),
    ("kernel_threads", "threads"),
    ("tokio", "tokio"),
    ("go", "go"),
];
const CONNECTIONS: usize = 16;
/// The ones with most of the work, and how much of it both have.
const HOT: usize = 2;
const SHARE: f64 = 0.9;
/// What every request computes.
const SERVICE: Duration = Duration::from_micros(50);
/// Of the time of two cores, by the work alone: the client has to have some, too.
const LOAD: f64 = 0.4;
const PATIENCE: Duration = Duration::from_secs(1);

/// What one contestant does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Skewed {
    /// Of the open loop, the median of the rounds.
    pub p50_us: f64,
    /// 99% of the requests of the open loop took no longer, the median of the rounds.
    pub p99_us: f64,
    /// Of a closed loop in which the hot connections always have 16 requests under way and each other
    /// one has one.
    pub rps: f64,
    /// Every round of the open loop.
    pub rounds: Vec<Round>,
    /// Every round of the closed loop.
    pub rps_rounds: Vec<f64>,
}

/// What is written to `skew.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Skew {
    /// By contestant. `curtail_light`: its threads do not move.
    pub skewed: BTreeMap<String, Skewed>,
    /// Of two cores, what the work of the open loop takes.
    pub load: f64,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

/// A class is a connection.
fn plan(span: Duration, seed: u64) -> Vec<Request> {
    let class = |at: usize| Class {
        name: format!("c{at}"),
        share: match at < HOT {
            true => SHARE / HOT as f64,
            false => (1.0 - SHARE) / (CONNECTIONS - HOT) as f64,
        },
        service: Service::Constant(SERVICE.as_nanos() as u64),
    };
    let mix = Mix::new((0..CONNECTIONS).map(class).collect()).expect("all have a share");
    let until = Until::Time(span.as_nanos() as u64);
    Requests::new(&mix, Arrivals::Poisson, mix.rate_rps(LOAD, 2), seed, until).collect()
}

fn round(
    server: &Server,
    message: &[u8],
    cores: Cores,
    (size, seed): (Size, u64),
) -> Result<(Round, f64), String> {
    let on = On::Two.cores(cores);
    let (_running, port) = server.start(&["free"], &on)?;
    let messages = vec![message.to_vec(); CONNECTIONS];
    let way = Way { fixed: Some(CONNECTIONS), sleeps: true, ..Way::new(&messages, PATIENCE) };
    let failed = |error: std::io::Error| error.to_string();
    let [warm, span] = spans(size);
    offer::<Resp>(port, &way, &plan(warm, seed + 500)).map_err(failed)?;
    let found = offer::<Resp>(port, &way, &plan(span, seed)).map_err(failed)?;
    let lost = found.sojourn_ns.iter().filter(|ns| ns.is_none()).count();
    let all = found.sojourn_ns.iter().map(|ns| ns.unwrap_or(PATIENCE.as_nanos() as u64));
    let short = Spread::of(all.collect()).ok_or("too few requests")?;
    let depths: Vec<usize> = (0..CONNECTIONS).map(|at| if at < HOT { 16 } else { 1 }).collect();
    let rps = saturate::<Resp>(port, message, &depths, span).map_err(failed)?;
    Ok((Round { short, lost, sent_late: found.sent_late, beside: 0 }, rps))
}

/// Measures all programs that were built; `rounds`: default 5.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Skew, String> {
    let machine = Machine::gather();
    let cores = Cores::pick()?;
    cores.stay()?;
    let message = format!("{}\n", steps_in(SERVICE)).into_bytes();
    let mut found = Skew { load: LOAD, smoke: size == Size::Smoke, machine, ..Skew::default() };
    let mut servers = Vec::new();
    for (name, line) in SERVERS {
        match Server::find(programs, "locks", name, line) {
            Ok(server) => servers.push(server),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    for at in 0..rounds.unwrap_or(size.pick(1, 5)) {
        for turn in 0..servers.len() {
            let server = &servers[(at + turn) % servers.len()];
            // The same arrivals for all.
            match round(server, &message, cores, (size, at as u64 * 1_000 + 1)) {
                Ok((round, rps)) => {
                    let of = found.skewed.entry(server.name.clone()).or_default();
                    of.rounds.push(round);
                    of.rps_rounds.push(rps);
                }
                Err(why) => found.notes.push(format!("{}, round {at}: {why}", server.name)),
            }
        }
    }
    for of in found.skewed.values_mut() {
        let every = |value: fn(&Round) -> f64| {
            median(&of.rounds.iter().map(value).collect::<Vec<_>>()).unwrap_or_default()
        };
        (of.p50_us, of.p99_us) = (every(|it| it.short.p50_us), every(|it| it.short.p99_us));
        of.rps = median(&of.rps_rounds).unwrap_or_default();
    }
    Ok(found)
}

impl Skew {
    /// As people read it: medians over the rounds.
    #[must_use]
    pub fn text(&self) -> String {
        let rounds = self.skewed.values().map(|of| of.rounds.len()).max().unwrap_or(0);
        let heads = ["", "p50 µs", "p99 µs", "requests/s"].map(str::to_owned);
        let mut rows = vec![heads.to_vec()];
        for (name, of) in SERVERS.iter().filter_map(|(name, _)| self.skewed.get_key_value(*name)) {
            let cells = [of.p50_us, of.p99_us, of.rps].map(|value| show(Some(value)));
            rows.push(std::iter::once(name.clone()).chain(cells).collect());
        }
        format!(
            "== skew ==\n{}\n{HOT} of {CONNECTIONS} connections have {SHARE} of the work, requests \
             of {SERVICE:?}; load {} of two cores, which the client shares; requests/s in a closed \
             loop; medians of {rounds} rounds\n\n{}",
            self.machine.cpu.as_deref().unwrap_or("an unknown processor"),
            self.load,
            table(&rows)
        )
    }
}
