//! A server: an application, a policy, transports, and the threads that bring them together.

mod builder;
mod domain;
mod handle;
mod rules;
mod threads;
mod workers;

pub(crate) use builder::knowing;
pub use builder::{DispatcherMode, ServerBuilder};
pub use handle::Handle;
#[cfg(all(test, curtail_virtual_time))]
pub(crate) use rules::ClassRule;
pub(crate) use rules::Rules;
pub(crate) use workers::WorkerReports;

use crate::app::App;
use crate::record::Recorder;
use crate::report::merge;
use crate::stats::Report;
use curtail_fiber::safepoint::Kind as SafepointKind;
use curtail_net::{OpenError, Transport};
use curtail_policy::{SpecError, WorkerId};
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::thread::DaemonError;
use curtail_rt::topology::Layout;
use curtail_sched::record::Tap;
use domain::{Domain, Settings};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// The target of what is logged here.
const LOG: &str = "curtail::server";

/// Why a server does not start.
#[derive(thiserror::Error)]
pub enum StartError {
    /// The policy does not fit.
    #[error("policy: {0}")]
    Policy(#[from] SpecError),
    /// No way in.
    #[error("a server needs at least one transport")]
    NoTransport,
    /// Sockets for several dispatchers can't be had.
    #[error(transparent)]
    Transport(#[from] OpenError),
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
    /// There is no core allocator where there is to be one, or it refuses.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The application's own `setup` failed.
    #[error("the application's setup: {0}")]
    Setup(String),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// What it said.
        error: std::io::Error,
    },
}

/// Why a running server is not changed.
#[derive(thiserror::Error, PartialEq, Eq)]
pub enum ChangeError {
    /// The policy does not fit.
    #[error("policy: {0}")]
    Policy(#[from] SpecError),
    /// There is no server any more that could be changed.
    #[error("the server has ended")]
    Ended,
}

/// Why a server ended without a report.
#[derive(thiserror::Error)]
pub enum RunError {
    /// A thread could not be started.
    #[error("cannot start {worker}: {error}")]
    Worker {
        /// The worker whose thread it is.
        worker: WorkerId,
        /// What went wrong.
        error: String,
    },
    /// The thread of one of several dispatchers could not be started.
    #[error("cannot start dispatcher {dispatcher}: {error}")]
    Dispatcher {
        /// Which, counted from 0.
        dispatcher: usize,
        /// What the system says.
        error: std::io::Error,
    },
    /// The thread that writes the record could not be started.
    #[error("cannot start the recorder: {0}")]
    Recorder(std::io::Error),
}

/// What `main` prints of an error that it returns: a sentence.
macro_rules! debug_as_sentence {
    ($($error:ty),*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )*};
}
debug_as_sentence!(StartError, ChangeError, RunError);

/// A note of a report.
const LEFT: &str = "requests were left behind: what they borrow, the application and the workers' \
                    states, stays in memory";

/// A server that is ready to run.
pub struct Server {
    settings: ServerBuilder,
    layout: Layout,
    cores: usize,
    /// The files for the dispatchers' records, where there are to be some.
    records: Vec<(PathBuf, File)>,
    /// Of cancelled requests.
    rules: Arc<Rules>,
    /// At least one. The first becomes the calling thread's.
    domains: Vec<Domain>,
    /// The transports of each but the first.
    others: Vec<Vec<Box<dyn Transport>>>,
}

impl Server {
    /// Settings for serving `app`.
    pub fn builder(app: impl App) -> ServerBuilder {
        ServerBuilder::new(Arc::new(app))
    }

    /// By which other threads look at and steer the running server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        handle(&self.domains, &self.settings)
    }

    /// Where it listens: URLs with commas between them, with the ports that the kernel chose.
    #[must_use]
    pub fn listens(&self) -> String {
        let urls: Vec<_> = self.settings.transports.iter().map(|line| line.describe()).collect();
        urls.join(",")
    }

    /// Runs: the (first) dispatcher on the calling thread, the others and the workers on threads of
    /// their own; under a policy without a dispatcher the calling thread brings the requests in. Returns when all transports have closed and their requests are done, or after
    /// [`Handle::shutdown`].
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn run(self) -> Result<Report, RunError> {
        let affinity = rustix::thread::sched_getaffinity(None);
        let result = self.run_here();
        if let Ok(affinity) = affinity {
            let _ = rustix::thread::sched_setaffinity(None, &affinity);
        }
        result
    }

    /// How running requests will be pre-empted, and why that is not what was asked for, where it is
    /// not.
    #[must_use]
    pub fn preempt(&self) -> (Preempt, Option<String>) {
        let choice = self.choice();
        (choice.effective, choice.note)
    }

    fn choice(&self) -> Choice {
        let Self { settings, .. } = self;
        // Without a dispatcher the workers' time is not watched.
        let watches = self.is_busy() && !settings.spec.is_dispatcherless();
        Choice::make(settings.preempt, &settings.spec, self.kind(), watches)
    }

    fn kind(&self) -> SafepointKind {
        if let Err(reason) = curtail_rt::own_thread_locals() {
            tracing::warn!(
                target: LOG, reason, "no pre-emption: requests have no thread-locals of their own"
            );
            return SafepointKind::None;
        }
        match self.settings.by_hand {
            true => SafepointKind::Clock,
            false => curtail_fiber::safepoint::kind(),
        }
    }

    fn is_busy(&self) -> bool {
        let pollable = self.settings.transports.iter().all(|line| !line.wait_fds().is_empty());
        match self.settings.dispatcher {
            DispatcherMode::Busy => true,
            DispatcherMode::Blocking => !pollable,
            DispatcherMode::Auto => {
                !pollable || { self.layout.dedicated && !self.layout.floats && self.cores >= 4 }
            }
        }
    }

    fn run_here(mut self) -> Result<Report, RunError> {
        let (busy, kind, choice) = (self.is_busy(), self.kind(), self.choice());
        let (taps, recorders) = self.record()?;
        curtail_rt::unarmed::say_once(choice.note.is_some(), kind);
        let domains = std::mem::take(&mut self.domains);
        let handle = handle(&domains, &self.settings);
        let own = std::mem::take(&mut self.settings.transports);
        let lines = std::iter::once(own).chain(std::mem::take(&mut self.others));
        let common = Settings {
            app: self.settings.app.clone(),
            spec: &self.settings.spec,
            layout: &self.layout,
            wished: self.settings.preempt,
            capacity: self.settings.capacity,
            memory: self.settings.memory,
            keeps_room: self.settings.keeps_room,
            tasks: self.settings.tasks,
            migratable: self.settings.migratable,
            drain: self.settings.drain,
            seed: self.settings.seed,
            watchdog: &self.settings.watchdog,
            allocator_config: &self.settings.allocator_config,
            rules: self.rules.clone(),
            thread_quanta: &self.settings.thread_quanta,
            kind,
            choice,
            busy,
        };
        let mut domains = lines.zip(domains);
        let mut report = if common.spec.is_dispatcherless() {
            let (lines, domain) = domains.next().expect("there is one at least");
            threads::run(domain, &common, lines)?
        } else {
            merge(domain::run_all(domains.collect(), &common, &handle, taps)?)
        };
        report.notes.splice(0..0, self.layout.note.take());
        if self.rules.leaves_requests() {
            report.notes.push(LEFT.to_owned());
        }
        // The taps went with the dispatchers.
        report.notes.extend(recorders.into_iter().map(Recorder::finish));
        Ok(report)
    }

    fn record(&mut self) -> Result<(Vec<Tap>, Vec<Recorder>), RunError> {
        let records = std::mem::take(&mut self.records).into_iter();
        let start = |(path, file): (PathBuf, File)| Recorder::start(&path, file);
        records.map(start).collect::<Result<_, _>>().map_err(RunError::Recorder)
    }
}

fn handle(domains: &[Domain], settings: &ServerBuilder) -> Handle {
    let spec = &settings.spec;
    let of = |domain: &Domain| (domain.control.0.clone(), domain.workers.len());
    let fixed = spec.is_dispatcherless().then(|| spec.name.as_str().into());
    Handle::new(domains.iter().map(of).collect(), fixed, settings.watchdog.stalls())
}
