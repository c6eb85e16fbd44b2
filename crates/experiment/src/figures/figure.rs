//! What a figure is: plain data. The tables of them stand beside this, a file for each paper.

use super::drawn::{Drawn, Finding};
use super::sharing::{self, Sharing};
use super::system::System;
use curtail_chart::Unit;

/// A simulated figure of a paper.
pub(crate) struct Figure {
    /// What `--figure` calls it.
    pub(crate) name: &'static str,
    /// Which figure of which paper it is.
    pub(crate) source: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    /// What the paper says it simulates.
    pub(crate) setting: &'static str,
    /// What it leaves open, and what was taken.
    pub(crate) chosen: &'static str,
    /// Requests of each run, unless `--requests` says otherwise.
    pub(crate) jobs: u64,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    /// A horizontal line.
    pub(crate) line: Option<(f64, &'static str)>,
    pub(crate) curves: &'static [Curve],
    pub(crate) statements: &'static [Statement],
}

/// What is on an axis.
pub(crate) struct Scale {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) log: bool,
    pub(crate) most: Option<f64>,
}

/// A curve: what it is called, and where its points come from.
pub(crate) struct Curve {
    pub(crate) label: &'static str,
    pub(crate) sweep: Sweep,
}

/// Points.
pub(crate) enum Sweep {
    /// At each load: the rate, and the p99.9 slowdown.
    Loads { system: System, loads: &'static [f64], of: Of },
    /// For each quantum: its length, and the highest rate at which all requests' p99.9 slowdown
    /// is within the limit.
    Rates { system: System, quanta_ns: &'static [u64], limit: f64 },
    /// For each number of workers that one class has for itself: that, and the p99.9 slowdown.
    Reserved { system: System, reserved: &'static [u16], load: f64 },
    /// For each quantum: its length, and with how many workers requests of 1 ms get quanta that are on
    /// average at most a tenth of it longer than with one worker.
    Workers { system: System, quanta_ns: &'static [u64] },
    /// For each rate in thousands a second: the rate, and the efficiency of the fewest cores that
    /// hold the p99.9 sojourn time, allocated by intervals.
    Intervals { workload: &'static str, rates_k: &'static [u32], interval_ns: u64, limit_ns: u64 },
    /// For each rate in thousands a second: one program on cores that come and go.
    Shared { how: Sharing, rates_k: &'static [u32], of: sharing::Of },
    /// For each number of programs: those, which together load the machine so much.
    Among { how: Sharing, programs: &'static [u32], load: f64, of: sharing::Of },
}

/// Whose slowdown.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// All requests'.
    All,
    /// One class's.
    Class(&'static str),
    /// The class's that has the highest: an objective for each type of requests.
    Worst,
}

/// What a paper says of its figure, in words of our own, and how ours is held against it.
pub(crate) struct Statement {
    pub(crate) says: &'static str,
    pub(crate) check: fn(&Drawn) -> Finding,
}
