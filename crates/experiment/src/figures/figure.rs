//! What a figure is: plain data. The tables of them stand beside this, a file for each paper.

use super::drawn::{Drawn, Finding};
use super::sharing::{self, Sharing};
use crate::{Error, Length, Offer, Setting, Source};
use curtail_policy::{Nanos, PreemptKind, Spec, Ties};
use curtail_report::Unit;
use curtail_sim::Costs;
use curtail_workload::{Arrivals, named};

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

/// A simulated system.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub(crate) workload: &'static str,
    pub(crate) workers: usize,
    pub(crate) policy: &'static str,
    /// `None`: the policy's own.
    pub(crate) quantum_ns: Option<u64>,
    pub(crate) ties: Option<Ties>,
    /// Makes what runs yield to what ranks before it, where the policy leaves that open.
    pub(crate) preemptive: bool,
    /// Workers for the shortest class alone, where the policy asks for their number.
    pub(crate) reserved: Option<u16>,
    pub(crate) costs: Costs,
}

/// What a paper says of its figure, in words of our own, and how ours is held against it.
pub(crate) struct Statement {
    pub(crate) says: &'static str,
    pub(crate) check: fn(&Drawn) -> Finding,
}

impl System {
    /// Sixteen workers, no costs.
    pub(crate) const fn new(workload: &'static str, policy: &'static str) -> Self {
        Self {
            workload,
            workers: 16,
            policy,
            quantum_ns: None,
            ties: None,
            preemptive: false,
            reserved: None,
            costs: Costs::IDEAL,
        }
    }

    pub(crate) const fn quantum(self, ns: u64) -> Self {
        Self { quantum_ns: Some(ns), ..self }
    }

    pub(crate) const fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    pub(crate) const fn ties(self, ties: Ties) -> Self {
        Self { ties: Some(ties), ..self }
    }

    pub(crate) const fn costs(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }

    pub(crate) const fn reserved(self, workers: u16) -> Self {
        Self { reserved: Some(workers), ..self }
    }

    pub(crate) const fn preemptive(self) -> Self {
        Self { preemptive: true, ..self }
    }

    pub(super) fn spec(&self) -> Result<Spec, Error> {
        let mut spec = Spec::preset(self.policy).map_err(Error::usage)?;
        if self.preemptive {
            spec = spec.with_preemptive(true).map_err(Error::usage)?;
            spec = spec.with_preempt(PreemptKind::Flag);
        }
        if let Some(ns) = self.quantum_ns {
            spec = spec.with_quantum(Nanos(ns)).map_err(Error::usage)?;
        }
        if let Some(workers) = self.reserved {
            spec = spec.with_reserved(workers).map_err(Error::usage)?;
        }
        match self.ties {
            Some(ties) => spec.with_ties(ties).map_err(Error::usage),
            None => Ok(spec),
        }
    }

    /// Policies that profile their workload know it from the start: what is drawn is a steady state.
    pub(super) fn setting(&self, jobs: u64) -> Result<Setting, Error> {
        let mix = named(self.workload).map_err(Error::usage)?.mix();
        let source = Source::Mix(mix);
        let arrivals = Arrivals::Poisson;
        let offer = Offer::new(self.workload.to_owned(), source, arrivals, Length::Jobs(jobs));
        Ok(Setting { costs: self.costs, known: true, ..Setting::ideal(offer, self.workers) })
    }
}
