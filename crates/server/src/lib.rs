//! Curtail's servers: requests from transports to handlers, under a policy, and what is known of them.
//!
//! Programs depend on `curtail`, which has all of this that is for them; the rest is for Curtail's other
//! crates, and changes from version to version.
//!
//! A request's way: `transport_loop` → `ask` → `dispatcher`, which has the scheduler → ring → `engine` (a task
//! runs the handler) → ring → `dispatcher`.
//!
//! Under a policy without a dispatcher: `server::threads` (the calling thread takes requests in) →
//! a thread's way ([`curtail_rt`]) → inbox → `server::threads`.

#[doc(hidden)]
pub mod app;
mod ask;
mod classify;
mod control;
mod dispatched;
mod dispatcher;
mod engine;
mod jobs;
mod losses;
mod message;
mod record;
mod remote;
mod report;
mod response;
mod serve;
#[doc(hidden)]
pub mod server;
#[cfg(all(test, curtail_virtual_time))]
mod simulation;
mod spread;
#[doc(hidden)]
pub mod stats;
mod transport_loop;

pub use app::{App, Class, ClassifyFn};
pub use response::Response;
pub use server::{
    ChangeError, DispatcherMode, Handle, RunError, Server, ServerBuilder, StartError,
};
pub use stats::{ClassStats, Cpu, Noise, Report, RequestState, RequestStats, Stats, WorkerStats};

// No kthread runs without the functions of C that it defines.
#[cfg(test)]
use curtail_libc as _;
