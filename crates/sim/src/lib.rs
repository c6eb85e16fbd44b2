//! A discrete-event simulator around the very scheduler that serves requests: virtual time, workers
//! and a dispatcher with a cost model, around [`curtail_sched::Scheduler`] and
//! [`curtail_policy::CorePolicy`], which the runtime's dispatcher and workers drive, too.
//!
//! One run is one thread's, deterministic from its seed, and its memory does not grow with its
//! length: results go into histograms, slots of jobs are reused. [`run`] does one;
//! [`sweep`] does many on all cores. [`replay`] plays what the runtime recorded of its scheduler.
//!
//! **Conventions**, so that curves can be compared. Slowdown is sojourn time over un-inflated
//! service time. A quantum that ends exactly with its job is a completion; a job whose quantum ends
//! while none waits goes on for another whole one; under central processor sharing a pre-empted
//! job goes to the tail after its overhead. Jobs of the warm-up are simulated and not counted; jobs
//! in flight at the end are drained. A job that started may go on anywhere ([`Config::pinned`]
//! makes it stay, as the runtime does by default), except one that started on a work-conserving
//! dispatcher, which stays there (Concord §3.3). All costs are zero unless [`Costs`] says otherwise.
//!
//! Jobs may block in their middle ([`Blocking`]) and workers lose their cores for a time
//! ([`Outages`]); both only where there is a dispatcher.
//!
//! **Simultaneous events**, in this order, the scheduler's own (`crates/sched/README.md`): jobs that
//! complete or block; the arrival; the dispatcher's business (deliveries, decisions) and jobs that
//! wake; ends of quanta; of equals, the lowest worker first. So a job that
//! arrives sees those that leave at that moment gone, and counts as waiting for a quantum that ends
//! at it.
#![forbid(unsafe_code)]

mod agenda;
mod config;
mod cores;
mod costs;
mod disturb;
mod domain;
mod engine;
mod jobs;
mod replay;
mod slow;
mod sweep;
mod threads;

pub use config::{Config, ConfigError, Hints};
pub use cores::{Batch, Cores, CoresError, Critical, HandOvers, Served, Shared, share};
pub use costs::{CostError, Costs};
pub use curtail_policy::Balance;
pub use disturb::{Blocking, Outages};
pub use engine::{Done, Observer, Outcome, Shares, run, run_observed};
pub use replay::{Difference, Replay, ReplayError, replay};
pub use slow::{Allocation, by_intervals};
pub use sweep::sweep;
pub use threads::Kthreads;
