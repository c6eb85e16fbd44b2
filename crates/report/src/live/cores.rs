//! A look at a core allocator: which program has which core, and what was granted and evicted
//! lately.

use super::{columns, json_line, per_second, printable};
use crate::schema::schema;
use crate::units::count;
use crate::{Error, SCHEMA, duration};
use serde::{Deserialize, Serialize};

/// A core allocator at one moment, and what happened since the look before (or, at the first one,
/// since its start).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveCores {
    /// [`SCHEMA`].
    #[serde(default = "schema")]
    pub schema: u32,
    /// `top`.
    pub verb: String,
    /// The daemon's process.
    pub pid: u32,
    /// How long it has run, in seconds.
    pub uptime_s: f64,
    /// How long ago the look before was, in seconds.
    pub recent_s: f64,
    /// How often it looks at the programs.
    pub interval_ns: u64,
    /// The cores that it manages.
    pub cores: Vec<LiveCore>,
    /// The programs that it serves.
    pub programs: Vec<LiveProgram>,
    /// Cores granted since the start.
    pub grants: u64,
    /// Cores granted since the look before.
    pub recent_grants: u64,
    /// Of these, taken from another program.
    pub recent_evictions: u64,
    /// Kthreads that did not leave a core and were moved away, since the start.
    pub moves: u64,
    /// Programs that wrote what can't be, since the start.
    pub demoted: u64,
}

/// A core that the daemon manages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveCore {
    /// The kernel's number.
    pub cpu: u32,
    /// `free` (batch work has it, or nothing), `held`, or `leaving`.
    pub state: String,
    /// The program that has it.
    pub program: Option<String>,
    /// The kthread of that program.
    pub kthread: Option<u32>,
    /// How long it has had the core, in seconds.
    pub for_s: Option<f64>,
}

/// A program that the daemon serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveProgram {
    /// What it calls itself.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// `latency-critical` or `batch`.
    pub class: String,
    /// How many kthreads it has.
    pub kthreads: u32,
    /// Cores that it has now.
    pub cores: u32,
    /// Cores that it gets whenever it needs them.
    pub guaranteed: u32,
    /// Cores that it may have besides.
    pub burstable: u32,
    /// It wrote what can't be, and is guaranteed nothing any more.
    pub demoted: bool,
    /// Cores granted since it came.
    pub grants: u64,
    /// Cores granted since the look before.
    pub recent_grants: u64,
    /// How often it had to leave a core for another program, since it came.
    pub evictions: u64,
    /// Evictions since the look before.
    pub recent_evictions: u64,
    /// Datagrams that the daemon received for it, since it came; `None`: it has no port.
    pub received: Option<u64>,
    /// Datagrams received since the look before.
    pub recent_received: Option<u64>,
}

/// What the daemon says of itself (`curtaild --status`), as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    pid: u32,
    up_ns: u64,
    interval_ns: u64,
    cores: Vec<StatusCore>,
    programs: Vec<StatusProgram>,
    counts: StatusCounts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusCore {
    cpu: u32,
    state: String,
    by: Option<StatusKthread>,
    for_ns: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusKthread {
    program: Option<String>,
    kthread: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusProgram {
    name: String,
    pid: u32,
    class: String,
    kthreads: u32,
    cores: u32,
    guaranteed: u32,
    burstable: u32,
    demoted: bool,
    grants: u64,
    evictions: u64,
    port: Option<StatusPort>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusPort {
    received: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusCounts {
    grants: u64,
    by_eviction: u64,
    moves: u64,
    demoted: u64,
}

/// What was counted up to a look.
#[derive(Clone, Debug, Default)]
pub struct CoresBefore {
    pid: u32,
    up_ns: u64,
    grants: u64,
    evictions: u64,
    programs: Vec<LiveProgram>,
}

impl LiveCores {
    /// From what the daemon says of itself, and what it said at the look before, which becomes this
    /// one.
    ///
    /// # Errors
    /// What it says is not of a daemon; in one line.
    pub fn parse(status: &str, before: &mut CoresBefore) -> Result<Self, Error> {
        let bad = |what: &dyn std::fmt::Display| {
            Error::new(format!("the core allocator says nonsense: {what}"))
        };
        let status: Status = serde_json::from_str(status).map_err(|error| bad(&error))?;
        if status.pid == 0 {
            return Err(bad(&"no process"));
        }
        if status.pid != before.pid {
            // Another daemon: all that it has done is new.
            *before = CoresBefore::default();
        }
        let program = |program: StatusProgram| LiveProgram::new(program, &before.programs);
        let programs: Vec<_> = status.programs.into_iter().map(program).collect();
        let core = |core: StatusCore| LiveCore {
            cpu: core.cpu,
            state: core.state,
            kthread: core.by.as_ref().map(|by| by.kthread),
            program: core.by.and_then(|by| by.program),
            for_s: core.for_ns.map(|ns| ns as f64 / 1e9),
        };
        let counts = status.counts;
        let live = Self {
            schema: SCHEMA,
            verb: "top".to_owned(),
            pid: status.pid,
            uptime_s: status.up_ns as f64 / 1e9,
            recent_s: status.up_ns.saturating_sub(before.up_ns) as f64 / 1e9,
            interval_ns: status.interval_ns,
            cores: status.cores.into_iter().map(core).collect(),
            grants: counts.grants,
            recent_grants: counts.grants.saturating_sub(before.grants),
            recent_evictions: counts.by_eviction.saturating_sub(before.evictions),
            moves: counts.moves,
            demoted: counts.demoted,
            programs,
        };
        *before = CoresBefore {
            pid: live.pid,
            up_ns: status.up_ns,
            grants: counts.grants,
            evictions: counts.by_eviction,
            programs: live.programs.clone(),
        };
        Ok(live)
    }

    /// The look on one line of JSON, with its line break.
    ///
    /// # Errors
    /// None that a look can cause.
    pub fn line(&self) -> Result<String, Error> {
        json_line(self)
    }

    /// What a person reads: the daemon in two lines, its programs, its cores.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "core allocator, process {}, up {}, looks each {}\n{} grants ({}), {} of them from \
             another program ({}); {} moved, {} demoted since the start\n\n",
            self.pid,
            duration(self.uptime_s * 1e9),
            duration(self.interval_ns as f64),
            count(self.recent_grants),
            per_second(self.recent_grants, self.recent_s),
            count(self.recent_evictions),
            per_second(self.recent_evictions, self.recent_s),
            count(self.moves),
            count(self.demoted),
        );
        let head = ["program", "process", "class", "kthreads", "cores", "guaranteed", "burstable"];
        let head = head.into_iter().chain(["grants", "", "evicted", "", "datagrams"]);
        let rows = self.programs.iter().map(|program| program.row(self.recent_s));
        columns(std::iter::once(head.map(str::to_owned).collect()).chain(rows), &mut out);
        out.push('\n');
        let head = ["core", "state", "program", "kthread", "for"];
        let rows = self.cores.iter().map(LiveCore::row);
        columns(std::iter::once(head.map(str::to_owned).to_vec()).chain(rows), &mut out);
        out
    }
}

impl LiveProgram {
    fn new(now: StatusProgram, before: &[Self]) -> Self {
        let was = before.iter().find(|was| was.pid == now.pid && was.name == now.name);
        let since = |now: u64, before: fn(&Self) -> u64| now.saturating_sub(was.map_or(0, before));
        let received = now.port.map(|port| port.received);
        Self {
            pid: now.pid,
            class: now.class,
            kthreads: now.kthreads,
            cores: now.cores,
            guaranteed: now.guaranteed,
            burstable: now.burstable,
            demoted: now.demoted,
            grants: now.grants,
            recent_grants: since(now.grants, |was| was.grants),
            evictions: now.evictions,
            recent_evictions: since(now.evictions, |was| was.evictions),
            received,
            recent_received: received.map(|now| since(now, |was| was.received.unwrap_or(0))),
            name: now.name,
        }
    }

    fn row(&self, seconds: f64) -> Vec<String> {
        let lies = if self.demoted { " (demoted)" } else { "" };
        vec![
            printable(&self.name),
            self.pid.to_string(),
            printable(&self.class) + lies,
            self.kthreads.to_string(),
            self.cores.to_string(),
            self.guaranteed.to_string(),
            self.burstable.to_string(),
            count(self.recent_grants),
            per_second(self.recent_grants, seconds),
            count(self.recent_evictions),
            per_second(self.recent_evictions, seconds),
            self.recent_received.map_or_else(|| "–".to_owned(), |n| per_second(n, seconds)),
        ]
    }
}

impl LiveCore {
    fn row(&self) -> Vec<String> {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        vec![
            self.cpu.to_string(),
            // Free for those who ask for one: batch work is not asked.
            if self.state == "free" {
                "batch work, or idle".to_owned()
            } else {
                printable(&self.state)
            },
            or_none(self.program.as_deref().map(printable)),
            or_none(self.kthread.map(|kthread| kthread.to_string())),
            or_none(self.for_s.map(|seconds| duration(seconds * 1e9))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(up_s: u64, grants: u64) -> String {
        format!(
            "{{\"pid\": 5, \"up_ns\": {}, \"interval_ns\": 5000, \"idlers\": null, \"cores\": \
             [{{\"cpu\": 3, \"state\": \"held\", \"by\": {{\"program\": \"a\\u001b\", \"kthread\": \
             1}}, \"for_ns\": 3000000000}}, {{\"cpu\": 4, \"state\": \"free\"}}], \"programs\": [{{\"name\": \"a\\u001b\", \
             \"pid\": 7, \"class\": \"latency-critical\", \"grants\": {grants}, \"evictions\": 2, \
             \"port\": {{\"received\": {grants}}}}}], \"counts\": {{\"grants\": {grants}, \
             \"by_eviction\": 2}}}}",
            up_s * 1_000_000_000
        )
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks_of_one_daemon() {
        let mut before = CoresBefore::default();
        let first = LiveCores::parse(&status(10, 100), &mut before).unwrap();
        assert_eq!((first.recent_s, first.recent_grants, first.recent_evictions), (10.0, 100, 2));
        let second = LiveCores::parse(&status(12, 500), &mut before).unwrap();
        assert_eq!((second.recent_s, second.recent_grants, second.grants), (2.0, 400, 500));
        let program = &second.programs[0];
        assert_eq!((program.recent_grants, program.recent_evictions), (400, 0));
        assert_eq!((program.recent_received, program.received), (Some(400), Some(500)));
        let again = status(1, 7).replace("\"pid\": 5", "\"pid\": 6");
        let other = LiveCores::parse(&again, &mut before).unwrap();
        assert_eq!((other.recent_s, other.recent_grants), (1.0, 7));
        assert_eq!(other.programs[0].recent_grants, 7);
    }

    #[test]
    fn the_table_names_programs_and_cores_and_steers_no_terminal() {
        let mut before = CoresBefore::default();
        let live = LiveCores::parse(&status(10, 100), &mut before).unwrap();
        let table = live.table();
        assert!(
            table.contains("core allocator, process 5, up 10.0 s, looks each 5.00 µs"),
            "{table}"
        );
        assert!(table.contains("latency-critical") && table.contains("held"), "{table}");
        assert!(table.contains("3.00 s"), "how long it has been held: {table}");
        assert!(!table.contains('\u{1b}'), "{table}");
        let line = live.line().unwrap();
        assert_eq!(serde_json::from_str::<LiveCores>(&line).unwrap(), live);
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        for text in ["", "[]", "{\"pid\": \"many\"}", "\u{1b}[2J"] {
            let error = LiveCores::parse(text, &mut CoresBefore::default()).unwrap_err();
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}
