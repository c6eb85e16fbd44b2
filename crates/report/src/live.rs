//! A look at a running server: one line of JSON, and the table that `curtail top` shows.

mod cores;
mod more;

pub use cores::{CoresBefore, LiveCore, LiveCores, LiveProgram};
pub use more::{LiveRequest, LiveStall};

use crate::schema::{maybe, schema};
use crate::units::count;
use crate::{Error, Quantiles, SCHEMA, Ticks, duration, figures, rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A running server at one moment, and what happened since the look before (or, at the first one,
/// since its start).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// [`SCHEMA`].
    #[serde(default = "schema")]
    pub schema: u32,
    /// `top`.
    pub verb: String,
    /// The server's process.
    pub pid: u32,
    /// What it serves.
    #[serde(default)]
    pub app: String,
    /// Where it listens.
    #[serde(default)]
    pub listen: String,
    /// How long it has run, in seconds.
    #[serde(default)]
    pub uptime_s: f64,
    /// How long ago the look before was, in seconds.
    #[serde(default)]
    pub recent_s: f64,
    /// The policy in force.
    pub policy: String,
    /// Its quantum; `None`: to completion.
    #[serde(default)]
    pub quantum_ns: Option<u64>,
    /// `never`, `flag`, `clock` or `signal`.
    #[serde(default)]
    pub preempt: String,
    /// Why that is not what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_note: Option<String>,
    /// What the policy has decided for itself, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<String>,
    /// Requests in the system.
    #[serde(default)]
    pub in_system: u64,
    /// Of these, waiting at a dispatcher.
    #[serde(default)]
    pub waiting: u64,
    /// Inputs that were no requests.
    #[serde(default)]
    pub malformed: u64,
    /// Responses that could not be sent.
    #[serde(default)]
    pub unsent: u64,
    /// Pre-emptions since the start.
    #[serde(default)]
    pub preemptions: u64,
    /// By signal: what became of the signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Ticks>,
    /// By class, in the application's order; the last row is for requests of no class.
    #[serde(default)]
    pub classes: Vec<LiveClass>,
    /// By worker.
    #[serde(default)]
    pub workers: Vec<LiveWorker>,
    /// The core allocator from which it has its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<LiveCores>,
    /// The requests that have been there for longest.
    #[serde(default)]
    pub requests: Vec<LiveRequest>,
    /// Where code ran for long without a safepoint.
    #[serde(default)]
    pub stalls: Vec<LiveStall>,
    /// What the transports counted.
    #[serde(default)]
    pub transports: BTreeMap<String, u64>,
}

/// A class of requests in a running server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveClass {
    /// Its name.
    pub name: String,
    /// Since the start.
    #[serde(default)]
    pub total: Counted,
    /// Since the look before.
    #[serde(default)]
    pub recent: Counted,
}

/// What was counted of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// Requests that were served.
    pub completed: u64,
    /// Requests whose handler failed.
    pub failed: u64,
    /// Requests for which there was no room.
    pub dropped: u64,
    /// From arrival to the end.
    #[serde(with = "maybe")]
    pub sojourn_ns: Option<Quantiles>,
    /// From arrival to the first run.
    #[serde(with = "maybe")]
    pub queueing_ns: Option<Quantiles>,
    /// On a core.
    #[serde(with = "maybe")]
    pub service_ns: Option<Quantiles>,
}

/// A worker of a running server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveWorker {
    /// Its number.
    pub worker: u16,
    /// The core on which it was last; `None`: the kernel does not tell, or the worker has given its core
    /// back to the core allocator.
    pub core: Option<u32>,
    /// Requests that it holds.
    pub holds: u64,
    /// Pre-emptions since the start.
    pub preemptions: u64,
    /// Pre-emptions since the look before.
    pub recent_preemptions: u64,
    /// The share of the time since then that it was on a core, waiting for requests included.
    pub cpu_share: Option<f64>,
    /// The share of it that it was kept from its core.
    pub kept_share: Option<f64>,
}

impl Live {
    /// Reads a look that the process `pid` sent.
    ///
    /// # Errors
    /// What came is no look, not of that process, or of a newer schema; in one line.
    pub fn parse(pid: u32, line: &[u8]) -> Result<Self, Error> {
        let bad =
            |what: String| Error::new(format!("process {pid} sent no look at a server: {what}"));
        // The version first: a newer one may look otherwise.
        let value: serde_json::Value =
            serde_json::from_slice(line).map_err(|error| bad(error.to_string()))?;
        let schema = value["schema"].as_u64().unwrap_or(0);
        if schema > u64::from(SCHEMA) {
            let what = format!("written with schema {schema}, this program knows up to {SCHEMA}");
            return Err(bad(what));
        }
        let live: Self = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        if (live.verb.as_str(), live.pid) != ("top", pid) {
            return Err(bad(format!("it says `{}`, process {}", printable(&live.verb), live.pid)));
        }
        Ok(live)
    }

    /// The look on one line of JSON, with its line break.
    ///
    /// # Errors
    /// None that a look can cause.
    pub fn line(&self) -> Result<String, Error> {
        json_line(self)
    }

    /// What a person reads: the server in two lines, its policy's own words, its classes as they
    /// were recently, its workers.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = self.heading();
        out.push('\n');
        let head = ["class", "served", "", "failed", "dropped", "p50", "p99", "p99.9", "queue p99"];
        let head = head.into_iter().chain(["service", "since start", "p99"]);
        let rows = self.classes.iter().filter(|class| !class.is_idle_unknown(&self.classes));
        let rows = rows.map(|class| class.row(self.recent_s));
        columns(std::iter::once(head.map(str::to_owned).collect()).chain(rows), &mut out);
        out.push('\n');
        let head = ["worker", "core", "holds", "pre-emptions", "", "on a core", "kept from it"];
        let rows = self.workers.iter().map(|worker| worker.row(self.recent_s));
        columns(std::iter::once(head.map(str::to_owned).to_vec()).chain(rows), &mut out);
        if let Some(allocator) = &self.allocator {
            out.push('\n');
            out.push_str(&allocator.table());
        }
        self.requests_table(&mut out);
        self.stalls_table(&mut out);
        out
    }

    fn heading(&self) -> String {
        let by = printable(&self.preempt);
        let cut = match (self.quantum_ns, self.preempt.as_str()) {
            (None, "never") => "each runs to completion".to_owned(),
            (Some(_), "never") => "nothing is pre-empted".to_owned(),
            (None, _) => format!("no quantum, pre-empted by {by}"),
            (Some(ns), _) => format!("quantum {}, pre-empted by {by}", duration(ns as f64)),
        };
        // A runtime of threads has no address of its own.
        let on = match printable(&self.listen) {
            none if none.is_empty() => none,
            address => format!(", on {address}"),
        };
        let mut out = format!(
            "{}, process {}{on}, up {}\n{}, {cut}; {} in the system, {} of \
             them waiting\n",
            printable(&self.app),
            self.pid,
            duration(self.uptime_s * 1e9),
            printable(&self.policy),
            count(self.in_system),
            count(self.waiting),
        );
        for note in self.decided.iter().chain(&self.preempt_note) {
            out.push_str(&printable(note));
            out.push('\n');
        }
        if self.malformed + self.unsent > 0 {
            let (malformed, unsent) = (count(self.malformed), count(self.unsent));
            out.push_str(&format!("{malformed} malformed requests, {unsent} responses not sent\n"));
        }
        self.losses(&mut out);
        out
    }
}

impl LiveClass {
    /// The row for requests of no class is shown where there were some.
    fn is_idle_unknown(&self, classes: &[Self]) -> bool {
        let is_last = classes.last().is_some_and(|last| std::ptr::eq(last, self));
        is_last && self.total.all() == 0
    }

    fn row(&self, seconds: f64) -> Vec<String> {
        let of = |times: &Option<Quantiles>, get: fn(&Quantiles) -> f64| {
            times.as_ref().map_or_else(|| "–".to_owned(), |times| duration(get(times)))
        };
        let Counted { completed, failed, dropped, sojourn_ns, queueing_ns, service_ns } =
            &self.recent;
        vec![
            printable(&self.name),
            count(*completed),
            per_second(*completed, seconds),
            count(*failed),
            count(*dropped),
            of(sojourn_ns, |times| times.p50 as f64),
            of(sojourn_ns, |times| times.p99 as f64),
            of(sojourn_ns, |times| times.p99_9 as f64),
            of(queueing_ns, |times| times.p99 as f64),
            of(service_ns, |times| times.mean),
            count(self.total.completed),
            of(&self.total.sojourn_ns, |times| times.p99 as f64),
        ]
    }
}

impl Counted {
    fn all(&self) -> u64 {
        self.completed.saturating_add(self.failed).saturating_add(self.dropped)
    }
}

impl LiveWorker {
    fn row(&self, seconds: f64) -> Vec<String> {
        let share = |share: Option<f64>| {
            share.map_or_else(|| "–".to_owned(), |share| format!("{:.0}%", share * 100.0))
        };
        vec![
            self.worker.to_string(),
            self.core.map_or_else(|| "–".to_owned(), |core| core.to_string()),
            count(self.holds),
            count(self.recent_preemptions),
            per_second(self.recent_preemptions, seconds),
            share(self.cpu_share),
            share(self.kept_share),
        ]
    }
}

/// A look on one line of JSON, with its line break.
fn json_line(look: &impl Serialize) -> Result<String, Error> {
    let line = serde_json::to_string(look);
    line.map(|line| line + "\n").map_err(|error| Error::new(error.to_string()))
}

fn per_second(events: u64, seconds: f64) -> String {
    rate(if seconds > 0.0 { events as f64 / seconds } else { f64::NAN })
}

/// Without what would steer a terminal: the text is another process's.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Adds a table of figures.
fn columns(rows: impl Iterator<Item = Vec<String>>, out: &mut String) {
    out.push_str(&figures(&rows.collect::<Vec<_>>()));
}

#[cfg(test)]
mod tests;
