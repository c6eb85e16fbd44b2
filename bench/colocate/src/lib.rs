//! Latency-critical and batch programs on the same cores.
//!
//! * `handover`: how long it takes until a core that another program has runs a kthread, by each way
//!   to hand it over;
//! * `role`: the processes of that: who gets the core, and who has it before;
//! * `share`: a service and batch work on one core, by each way to share it; `service`: that
//!   service;
//! * `figures`: quantiles.
#![forbid(unsafe_code)]

mod figures;
pub mod handover;
pub mod role;
pub mod service;
pub mod share;

pub use figures::Quantiles;

use curtail_report::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `colocate.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Colocate {
    /// From the order to the kthread's first instruction, in µs, by the way in which the core changes
    /// hands.
    pub handover_us: BTreeMap<String, Quantiles>,
    /// What the one who orders pays for that, in ns.
    pub asker_ns: BTreeMap<String, Quantiles>,
    /// Orders that one thread can write in a second.
    pub orders_per_s: f64,
    /// How often the holder of the core looked for orders, in ns.
    pub looks_ns: u64,
    /// Hand-overs of each way.
    pub rounds: usize,
    /// A service and batch work on one core.
    #[serde(default)]
    pub share: Vec<share::Share>,
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
            orders_per_s: measured.orders_per_s,
            looks_ns: measured.looks_ns,
            rounds: measured.rounds,
            ..Self::here()
        }
    }
}
