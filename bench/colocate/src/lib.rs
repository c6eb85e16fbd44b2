//! Latency-critical and batch programs on the same cores.
//!
//! * `handover`: how long it takes until a core that another program has runs a kthread, by each way
//!   to hand it over;
//! * `role`: the processes of that: who gets the core, and who has it before; `looks`: how these see that
//!   they are to give it up, and what that costs them;
//! * `share`: a service and batch work on one core, by each way to share it; `burst`: the same under a
//!   load that steps; `interval`: the same by how often the core allocator looks;
//! * `realloc`: round trips for which the core changes hands; `orders`: how many orders the core
//!   allocator carries out;
//! * `service`, `dispatched`, `generator`: the service, that with a dispatcher, and their load; `stage`, `talk`: how it, the core allocator and
//!   batch work are started;
//! * `figures`: quantiles.
#![forbid(unsafe_code)]

pub mod burst;
pub mod dispatched;
mod figures;
mod generator;
pub mod handover;
pub mod interval;
pub mod looks;
pub mod orders;
pub mod realloc;
pub mod role;
pub mod service;
pub mod share;
mod stage;
mod talk;

pub use figures::Quantiles;
pub use generator::Steps;
pub use stage::{How, Programs};
pub use talk::become_batch;

use curtail_report::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `colocate.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Colocate {
    /// From the order to the kthread's first instruction, in µs, by the way in which the core changes
    /// hands.
    pub handover_us: BTreeMap<String, Quantiles>,
    /// What the process that orders pays for that, in ns.
    pub asker_ns: BTreeMap<String, Quantiles>,
    /// What it costs a kthread that computes to look whether it is evicted, by the way in which it does.
    #[serde(default)]
    pub evict_cost: BTreeMap<String, looks::Cost>,
    /// Orders that the core allocator carries out in a second, each the answer to the end of another.
    pub orders_per_s: f64,
    /// Orders that one thread can write in a second, without deciding anything.
    #[serde(default)]
    pub stores_per_s: f64,
    /// How often the holder of the core looked for orders, in ns.
    pub looks_ns: u64,
    /// Hand-overs of each way.
    pub rounds: usize,
    /// A service and batch work on one core.
    #[serde(default)]
    pub share: Vec<share::Share>,
    /// A service and batch work on one core, under a load that steps up and down.
    #[serde(default)]
    pub burst: Vec<burst::Burst>,
    /// A service and batch work on one core, by how often the core allocator looks.
    #[serde(default)]
    pub interval: Vec<interval::Interval>,
    /// A round trip for which the core changes hands, in µs, by what has the core before.
    #[serde(default)]
    pub realloc_us: BTreeMap<String, Quantiles>,
    /// Where it was measured.
    pub machine: Machine,
}

impl Colocate {
    /// Nothing yet, on this machine.
    #[must_use]
    pub fn here() -> Self {
        Self { machine: Machine::gather(), ..Self::default() }
    }

    /// Of what was measured here and now.
    #[must_use]
    pub fn of(measured: handover::Measured) -> Self {
        Self {
            handover_us: measured.handover_us,
            asker_ns: measured.asker_ns,
            evict_cost: measured.evict_cost,
            stores_per_s: measured.stores_per_s,
            looks_ns: measured.looks_ns,
            rounds: measured.rounds,
            ..Self::here()
        }
    }
}
