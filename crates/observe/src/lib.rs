//! Shows a program of Curtail's while it runs: one call on a builder, of a server, of a pool or of a
//! runtime of threads.
//!
//! ```no_run
//! use curtail_observe::Observable;
//!
//! curtail::Runtime::builder().observable("worker").run(|| { /* … */ });
//! ```
//!
//! Then `curtail top` shows it: requests by class with their latencies, those that have been there for
//! longest with age and state, workers, and where code ran for long without a safepoint, with its
//! stack. `curtail top --stacks` prints the stacks of all threads, and of the threads and requests
//! that are suspended; `curtail top --metrics` what Prometheus reads. [`metrics_at`] serves that
//! over HTTP, and [`stacks_on`] prints stacks when a signal comes.
//!
//! The program is looked at over a Unix socket in the abstract namespace, which leaves no file; only
//! the program's own user and root are answered. Nothing here is on a request's way: a look is asked
//! of the dispatcher, which copies its figures.
#![forbid(unsafe_code)]

mod http;
mod look;
mod metrics;
mod shown;
mod signal;
mod socket;
mod stacks;
mod trace;

use curtail::{RuntimeBuilder, ServerBuilder, pool};
pub use http::metrics_at;
pub use look::ticks;
pub use shown::metrics;
use shown::{Source, show};
pub use signal::stacks_on;
pub use socket::{NAME, address, is_trusted};

/// What can be looked at while it runs.
pub trait Observable {
    /// Shows it, under that name, from its start to its end.
    #[must_use]
    fn observable(self, name: &str) -> Self;
}

impl Observable for ServerBuilder {
    fn observable(self, name: &str) -> Self {
        let name = name.to_owned();
        self.on_build(move |handle, listen| {
            show(&name, listen, Source::Server(handle.clone()));
        })
    }
}

impl Observable for pool::Builder {
    fn observable(self, name: &str) -> Self {
        let name = name.to_owned();
        self.on_build(move |handle, listen| show(&name, listen, Source::Server(handle.clone())))
    }
}

impl Observable for RuntimeBuilder {
    fn observable(self, name: &str) -> Self {
        let name = name.to_owned();
        self.on_start(move |look| show(&name, "", Source::Threads(look.clone())))
    }
}
