//! A part of `pool`: an HTTP service with one SQLite connection behind one mutex, short and long
//! queries, on a pool of Curtail's and on `spawn_blocking`.

use crate::Size;
use crate::figures::Spread;
use crate::http;
use crate::program::Cores;
use crate::servers::{Round, Rounds, Server, p99s, rows, spans};
use curtail_workload::{Arrivals, Class, Mix, Request, Requests, Service, Until};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The contestants: the name, and the program with its arguments.
const SERVERS: [(&str, &str); 2] =
    [("curtail", "sqlite_safepoints curtail"), ("spawn_blocking", "sqlite spawn_blocking")];
/// A row, and as many rows as take some milliseconds.
const PATHS: [&str; 2] = ["/short/4711", "/long/50000"];
/// Of all requests, those that are long.
const LONG: f64 = 0.01;
const RATE_RPS: f64 = 3_000.0;
const PATIENCE: Duration = Duration::from_secs(2);
const COLUMN: &str = "short p99 µs";

/// What is written into `pool.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sqlite {
    /// 99% of the short queries took no longer: by contestant, the median of the rounds.
    pub short_p99_us: BTreeMap<String, f64>,
    /// Every round.
    pub rounds: Rounds,
    /// Requests a second that were due.
    pub rate_rps: f64,
}

fn plan(span: Duration, seed: u64) -> Vec<Request> {
    let class = |(name, share): (&str, f64)| Class {
        name: name.to_owned(),
        share,
        service: Service::Constant(1),
    };
    let mix = Mix::new([("short", 1.0 - LONG), ("long", LONG)].map(class).to_vec());
    let mix = mix.expect("both have a share");
    let until = Until::Time(span.as_nanos() as u64);
    Requests::new(&mix, Arrivals::Poisson, RATE_RPS, seed, until).collect()
}

fn round(server: &Server, cores: Cores, size: Size, seed: u64) -> Result<Round, String> {
    let (_running, port) = server.start(&[], &[cores.program])?;
    let failed = |error: std::io::Error| error.to_string();
    let paths = PATHS.map(str::to_owned);
    let [warm, span] = spans(size);
    http::offer(port, &paths, &plan(warm, seed + 500), PATIENCE).map_err(failed)?;
    let due = plan(span, seed);
    let found = http::offer(port, &paths, &due, PATIENCE).map_err(failed)?;
    let lost = found.sojourn_ns.iter().filter(|ns| ns.is_none()).count();
    let short = due.iter().zip(&found.sojourn_ns).filter(|(due, _)| due.class == 0);
    let short = short.map(|(_, ns)| ns.unwrap_or(PATIENCE.as_nanos() as u64)).collect();
    let short = Spread::of(short).ok_or("too few requests")?;
    Ok(Round { short, lost, sent_late: found.sent_late, beside: 0 })
}

/// Measures both, and says what could not be measured.
#[must_use]
pub fn run(
    programs: &Path,
    cores: Cores,
    size: Size,
    rounds: usize,
    notes: &mut Vec<String>,
) -> Sqlite {
    let mut found = Sqlite { rate_rps: RATE_RPS, ..Sqlite::default() };
    let mut servers = Vec::new();
    for (name, line) in SERVERS {
        match Server::find(programs, "pool", name, line) {
            Ok(server) => servers.push(server),
            Err(why) => notes.push(format!("sqlite, {name}: left out, {why}")),
        }
    }
    for at in 0..rounds {
        for turn in 0..servers.len() {
            let server = &servers[(at + turn) % servers.len()];
            // The same arrivals for both.
            match round(server, cores, size, at as u64 * 1_000 + 1) {
                Ok(round) => {
                    let of = found.rounds.entry(server.name.clone()).or_default();
                    of.entry(COLUMN.to_owned()).or_default().push(round);
                }
                Err(why) => notes.push(format!("sqlite, {}, round {at}: {why}", server.name)),
            }
        }
    }
    for (name, of) in p99s(&found.rounds) {
        found.short_p99_us.extend(of.into_values().map(|p99| (name.clone(), p99)));
    }
    found
}

impl Sqlite {
    /// As people read it; nothing where nothing was measured.
    #[must_use]
    pub fn text(&self) -> String {
        if self.rounds.is_empty() {
            return String::new();
        }
        let table = rows(&SERVERS.map(|(name, _)| name), &[COLUMN], &p99s(&self.rounds));
        format!(
            "\none SQLite connection behind one mutex, {:.0} requests/s, 1% of them long\n\n{table}",
            self.rate_rps
        )
    }
}
