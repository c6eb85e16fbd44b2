//! `threads`: what a lock, a yield, a hand-over and a start cost, all on one core.
//!
//! A contestant is a program `threads-NAME OP COUNT` that does `COUNT` operations, after a tenth as
//! many to warm up, and prints the nanoseconds of one. How many it does is found first, so that all
//! take about as long. Then rounds: in each, for every operation, every contestant once, each round
//! beginning with another.

use crate::Size;
use crate::figures::{least, median, show, table};
use crate::program::{self, Cores, Running};
use curtail_report::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The operations, as the programs know them; `_ns` is added where they are keys.
pub const OPS: [&str; 4] = ["mutex", "yield", "condvar", "spawn_join"];
/// The peers, in the order of the table.
pub const PEERS: [&str; 6] = ["pthread", "go", "tokio", "glommio", "boost_fiber", "may"];
/// Curtail's program with a quantum; built with safepoints.
const QUANTUM: &str = "curtail_quantum_2us";
/// Curtail's program with light threads.
const LIGHT: &str = "curtail_light";

/// Nanoseconds by operation.
pub type Ops = BTreeMap<String, f64>;

/// What is written to `threads.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// Curtail's medians; empty where its program is not built.
    pub ops: Ops,
    /// Its medians with a quantum of 2 µs armed, in a program with safepoints.
    pub ops_quantum_2us: Ops,
    /// Its medians with light threads.
    pub ops_light: Ops,
    /// The others' medians. A peer that is not built, or fails, is left out, and a note says why.
    pub peers: BTreeMap<String, Ops>,
    /// The least of all rounds, for each contestant.
    pub minima: BTreeMap<String, Ops>,
    /// Every round's value, in order.
    pub rounds: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// Nothing here is to be taken for a measurement.
    pub smoke: bool,
    /// What could not be measured.
    pub notes: Vec<String>,
    /// The machine on which it was measured.
    pub machine: Machine,
}

struct Contestant {
    name: &'static str,
    program: PathBuf,
    /// Operations a run, by operation; 0 for what it can't do.
    counts: [u64; OPS.len()],
    values: [Vec<f64>; OPS.len()],
}

impl Contestant {
    fn run(&self, op: &str, count: u64, core: usize) -> Result<f64, String> {
        let count = count.to_string();
        let mut args = vec![op, &count];
        match self.name {
            QUANTUM => args.push("--quantum-2us"),
            LIGHT => args.push("--light"),
            _ => {}
        }
        let ns: f64 =
            Running::start(&self.program, &args, core)?.number(Duration::from_secs(60))?;
        if ns.is_finite() && ns > 0.0 { Ok(ns) } else { Err(format!("said {ns} ns")) }
    }

    fn ops(&self, pick: fn(&[f64]) -> Option<f64>) -> Ops {
        let each = OPS.iter().zip(&self.values);
        each.filter_map(|(op, values)| Some((format!("{op}_ns"), pick(values)?))).collect()
    }
}

/// How many operations take about `span`: from 20 to 50 million.
fn count_for(span: Duration, ns: f64) -> u64 {
    (span.as_nanos() as f64 / ns).clamp(20.0, 5e7) as u64
}

/// Measures all programs that were built; `rounds`: default 7.
///
/// # Errors
/// Where the system does not let programs be pinned.
pub fn run(programs: &Path, size: Size, rounds: Option<usize>) -> Result<Threads, String> {
    let cores = Cores::pick()?;
    // Not the core that interrupts go to first, where there is another.
    let core = cores.client;
    let rounds = rounds.unwrap_or(size.pick(1, 7));
    let span = size.pick(Duration::from_millis(1), Duration::from_millis(60));
    let mut notes = Vec::new();
    let mut contestants = Vec::new();
    for name in ["curtail", LIGHT, QUANTUM].into_iter().chain(PEERS) {
        let program = if name == LIGHT { "curtail" } else { name };
        match program::find(programs, "threads", program) {
            Err(why) => notes.push(format!("{name}: left out, {why}")),
            Ok(program) => {
                let mut it = Contestant {
                    name,
                    program,
                    counts: [0; OPS.len()],
                    values: Default::default(),
                };
                for (at, op) in OPS.into_iter().enumerate() {
                    match it.run(op, 1_000, core) {
                        Ok(ns) => it.counts[at] = count_for(span, ns),
                        Err(why) => notes.push(format!("{name}: no {op}, it {why}")),
                    }
                }
                contestants.push(it);
            }
        }
    }
    for round in 0..rounds {
        for (at, op) in OPS.into_iter().enumerate() {
            for turn in 0..contestants.len() {
                let all = contestants.len();
                let it = &mut contestants[(round + turn) % all];
                if it.counts[at] == 0 {
                    continue;
                }
                match it.run(op, it.counts[at], core) {
                    Ok(ns) => it.values[at].push(ns),
                    Err(why) => {
                        notes.push(format!("{}: round {round} of {op}: it {why}", it.name));
                    }
                }
            }
        }
    }
    Ok(summary(&contestants, size, notes))
}

fn summary(contestants: &[Contestant], size: Size, notes: Vec<String>) -> Threads {
    let mut found = Threads {
        smoke: size == Size::Smoke,
        notes,
        machine: Machine::gather(),
        ..Threads::default()
    };
    for it in contestants {
        let medians = it.ops(median);
        if medians.is_empty() {
            continue;
        }
        match it.name {
            "curtail" => found.ops = medians,
            QUANTUM => found.ops_quantum_2us = medians,
            LIGHT => found.ops_light = medians,
            name => drop(found.peers.insert(name.to_owned(), medians)),
        }
        found.minima.insert(it.name.to_owned(), it.ops(least));
        let each = OPS.iter().zip(&it.values);
        let rounds = each.map(|(op, values)| (format!("{op}_ns"), values.clone()));
        found.rounds.insert(it.name.to_owned(), rounds.collect());
    }
    found
}

impl Threads {
    /// As people read it: medians, and minima in brackets.
    #[must_use]
    pub fn text(&self) -> String {
        let head = ["ns on one core", "mutex", "yield", "condvar", "spawn+join"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let ours =
            [("curtail", &self.ops), (LIGHT, &self.ops_light), (QUANTUM, &self.ops_quantum_2us)];
        let peers = PEERS.iter().filter_map(|name| Some((*name, self.peers.get(*name)?)));
        for (name, medians) in ours.into_iter().chain(peers) {
            let Some(minima) = self.minima.get(name) else { continue };
            let mut row = vec![name.to_owned()];
            for op in OPS.map(|op| format!("{op}_ns")) {
                let (median, least) = (medians.get(&op), minima.get(&op));
                row.push(format!("{} ({})", show(median.copied()), show(least.copied())));
            }
            rows.push(row);
        }
        format!("== threads ==\nmedian (least) of the rounds\n\n{}", table(&rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_take_about_as_long() {
        assert_eq!(count_for(Duration::from_millis(60), 6.0), 10_000_000);
        assert_eq!(count_for(Duration::from_millis(60), 20_000.0), 3_000);
        assert_eq!(count_for(Duration::from_millis(1), 1e9), 20);
        assert_eq!(count_for(Duration::from_secs(60), 0.001), 50_000_000);
    }
}
