//! Rounds in which servers take turns, each started anew, and what is in common to their results.

use crate::Size;
use crate::figures::{Spread, median, show, table};
use crate::program::{self, Cores, Running};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A contestant: its name, its program, its arguments.
#[derive(Clone, Debug)]
pub struct Server {
    /// As the JSON calls it.
    pub name: String,
    /// Where it is.
    pub program: PathBuf,
    /// `{n}` is how many cores it has.
    pub args: Vec<String>,
}

/// Where servers run in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// One core, the client having the other.
    One,
    /// Both, the client sharing one of them.
    Two,
}

impl On {
    /// Cores of the server.
    #[must_use]
    pub fn cores(self, cores: Cores) -> Vec<usize> {
        match self {
            Self::One => vec![cores.program],
            Self::Two if cores.client == cores.program => vec![cores.program],
            Self::Two => vec![cores.program, cores.client],
        }
    }

    /// As the JSON says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one_core",
            Self::Two => "two_cores",
        }
    }
}

impl Server {
    /// `PROGRAM ARGS…`, if it was built.
    ///
    /// # Errors
    /// Why it was not.
    pub fn find(dir: &Path, bench: &str, name: &str, line: &str) -> Result<Self, String> {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let program = words.next().unwrap_or_default();
        let program = program::find(dir, bench, &program)?;
        Ok(Self { name: name.to_owned(), program, args: words.collect() })
    }

    /// Starts it with `first` ahead of its arguments; gives its port, too.
    ///
    /// # Errors
    /// Where it does not come up within 30 seconds.
    pub fn start(&self, first: &[&str], cores: &[usize]) -> Result<(Running, u16), String> {
        let count = cores.len().to_string();
        let own = self.args.iter().map(|arg| if arg == "{n}" { &count } else { arg }.as_str());
        let args: Vec<&str> = first.iter().copied().chain(own).collect();
        let mut running = Running::start_on(&self.program, &args, cores)?;
        let port = running.number(Duration::from_secs(30))?;
        Ok((running, port))
    }
}

/// One round's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Short requests; one that was not answered took as long as the client waited.
    pub short: Spread,
    /// Requests that were not answered.
    pub lost: usize,
    /// Requests that the client itself sent more than 100 µs late.
    pub sent_late: usize,
    /// Answers to what was asked beside.
    pub beside: usize,
}

/// Every round of each column of each contestant, by their names.
pub type Rounds = BTreeMap<String, BTreeMap<String, Vec<Round>>>;

/// Medians of the rounds' p99, in microseconds.
#[must_use]
pub fn p99s(rounds: &Rounds) -> BTreeMap<String, BTreeMap<String, f64>> {
    let middle = |rounds: &Vec<Round>| {
        median(&rounds.iter().map(|round| round.short.p99_us).collect::<Vec<_>>())
    };
    let columns = |of: &BTreeMap<String, Vec<Round>>| {
        of.iter().filter_map(|(name, rounds)| Some((name.clone(), middle(rounds)?))).collect()
    };
    rounds.iter().map(|(name, of)| (name.clone(), columns(of))).collect()
}

/// A table of such medians, contestants in the order of `names`.
#[must_use]
pub fn rows(
    names: &[&str],
    columns: &[&str],
    found: &BTreeMap<String, BTreeMap<String, f64>>,
) -> String {
    let head = std::iter::once("").chain(columns.iter().copied()).map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for (name, of) in names.iter().filter_map(|name| found.get_key_value(*name)) {
        let cells = columns.iter().map(|column| show(of.get(*column).copied()));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    table(&rows)
}

/// How long a round offers its load, after a warm-up.
#[must_use]
pub fn spans(size: Size) -> [Duration; 2] {
    size.pick([50, 200], [500, 3_000]).map(Duration::from_millis)
}
