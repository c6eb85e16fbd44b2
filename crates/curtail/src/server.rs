//! A server: an application, a policy, transports, and the threads that bring them together.

mod builder;
mod workers;

pub(crate) use builder::knowing;
pub use builder::{DispatcherMode, ServerBuilder};

use crate::app::{App, ClassifyFn};
use crate::classify::Classifier;
use crate::clock::{self, Clock};
use crate::control::{Command, Control};
use crate::dispatcher::{Dispatcher, Line, Parts, own_config};
use crate::engine::{Engine, Surroundings};
use crate::message::Envelopes;
use crate::preempt::Choice;
use crate::record::Recorder;
use crate::remote::Remote;
use crate::stats::{ClassStats, Report, Stats};
use crate::topology::{Layout, pin};
use curtail_fiber::safepoint::Kind as SafepointKind;
use curtail_net::Waiter;
use curtail_policy::record::Tap;
use curtail_policy::{JobId, Nanos, Spec, SpecError, WorkerId};
use curtail_ring::mpsc;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The policy does not fit.
    #[error("policy: {0}")]
    Policy(#[from] SpecError),
    /// No way in.
    #[error("a server needs at least one transport")]
    NoTransport,
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
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
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChangeError {
    /// The policy does not fit.
    #[error("policy: {0}")]
    Policy(#[from] SpecError),
    /// Nobody is there to obey.
    #[error("the server has ended")]
    Ended,
}

/// Why a server ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A thread could not be started.
    #[error("cannot start {worker}: {error}")]
    Worker {
        /// Which.
        worker: WorkerId,
        /// Why.
        error: String,
    },
    /// The thread that writes the record could not be started.
    #[error("cannot start the recorder: {0}")]
    Recorder(std::io::Error),
}

/// A server that is ready to run.
pub struct Server {
    settings: ServerBuilder,
    layout: Layout,
    cores: usize,
    control: Arc<Control>,
    waiter: Waiter,
    /// The file for the record, where there is to be one.
    recording: Option<File>,
    remote: Arc<Remote>,
    /// Until `run` takes it.
    wakes: Option<mpsc::Receiver<JobId>>,
}

impl Server {
    /// Settings for serving `app`.
    pub fn builder(app: impl App) -> ServerBuilder {
        ServerBuilder::new(Arc::new(app))
    }

    /// By which other threads look at and steer the running server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { control: self.control.clone(), workers: self.layout.workers.len() }
    }

    /// Runs: the dispatcher on the calling thread, the workers on threads of their own. Returns when
    /// all transports have closed and their requests are done, or after [`Handle::shutdown`].
    ///
    /// # Errors
    /// When a worker cannot be started.
    pub fn run(self) -> Result<Report, RunError> {
        let affinity = rustix::thread::sched_getaffinity(None);
        let result = self.run_here();
        if let Ok(affinity) = affinity {
            let _ = rustix::thread::sched_setaffinity(None, &affinity);
        }
        result
    }

    fn is_busy(&self) -> bool {
        let pollable = self.settings.transports.iter().all(|line| !line.wait_fds().is_empty());
        match self.settings.dispatcher {
            DispatcherMode::Busy => true,
            DispatcherMode::Blocking => !pollable,
            DispatcherMode::Auto => !pollable || (self.layout.dedicated && self.cores >= 4),
        }
    }

    fn run_here(mut self) -> Result<Report, RunError> {
        let clock = Clock::get();
        let busy = self.is_busy();
        let mut notes: Vec<String> = self.layout.note.clone().into_iter().collect();
        let transports = std::mem::take(&mut self.settings.transports);
        let around = Surroundings {
            app: self.settings.app.clone(),
            envelopes: Arc::new(Envelopes::new(self.settings.capacity)),
            replies: transports.iter().map(|line| line.reply()).collect(),
            clock,
            stack_size: self.settings.stack_size,
            jobs: self.settings.capacity,
        };
        let kind = match self.settings.by_hand {
            true => SafepointKind::Clock,
            false => curtail_fiber::safepoint::kind(),
        };
        let choice = Choice::make(self.settings.preempt, self.settings.spec.preempt, kind, busy);
        let mut own = Engine::new(
            WorkerId::DISPATCHER,
            around.clone(),
            own_config(&choice),
            self.settings.spec.build_core(self.settings.capacity),
            None,
            (self.remote.clone(), self.wakes.take().expect("taken once, here")),
        )
        .map_err(|error| RunError::Worker {
            worker: WorkerId::DISPATCHER,
            error: error.to_string(),
        })?;
        let (links, started) = self.start_workers(&around, &choice)?;
        if let Some(Err(problem)) = self.layout.dispatcher.map(pin) {
            notes.push(problem);
        }
        let (tap, recorder) = self.record()?.unzip();
        let classes = around.app.classes();
        let classifier = Classifier::new(around.app.clone(), classes.len());
        let names = classes.into_iter().map(|class| class.name).chain(["unknown".to_owned()]);
        let mut dispatcher = Dispatcher::new(Parts {
            around,
            spec: self.settings.spec,
            wished: self.settings.preempt,
            choice,
            kind,
            busy,
            migratable: self.settings.migratable,
            shares_core: !self.layout.dedicated,
            workers: links,
            lines: transports.into_iter().map(|transport| Line { transport, open: true }).collect(),
            classifier,
            classes: names.map(ClassStats::new).collect(),
            control: self.control.clone(),
            waiter: self.waiter,
            own: &raw mut *own,
            own_remote: self.remote,
            seed: self.settings.seed,
            tap,
        });
        let begun = clock::now();
        dispatcher.run(self.settings.drain);
        let watched = clock::now() - begun;
        self.control.close();
        let reports = workers::stop(started, &mut notes);
        let own_counts = own.take_counts();
        let mut report = crate::report::make(dispatcher, reports, own_counts, watched, notes);
        // The tap went with the dispatcher.
        report.notes.extend(recorder.map(Recorder::finish));
        Ok(report)
    }

    fn record(&mut self) -> Result<Option<(Tap, Recorder)>, RunError> {
        let (Some(file), Some(path)) = (self.recording.take(), &self.settings.record) else {
            return Ok(None);
        };
        Recorder::start(path, file).map(Some).map_err(RunError::Recorder)
    }
}

/// Looks at and steers a running server, from any thread.
#[derive(Clone)]
pub struct Handle {
    control: Arc<Control>,
    workers: usize,
}

impl Handle {
    /// No more requests are taken; [`Server::run`] returns when those under way are done.
    pub fn shutdown(&self) {
        self.control.post(Command::Shutdown);
    }

    /// How it stands; `None`: it has ended, or has not begun within a second.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        let (answer, stats) = sync_channel(1);
        self.control.post(Command::Stats(answer));
        stats.recv_timeout(Duration::from_secs(1)).ok()
    }

    /// Changes the policy while requests are being served; none is lost.
    ///
    /// # Errors
    /// When the policy does not fit the server's workers, or the server has ended.
    pub fn switch(&self, spec: Spec) -> Result<(), ChangeError> {
        spec.validate(self.workers)?;
        self.post(Command::Switch(spec))
    }

    /// Changes the quantum; `None`: to completion.
    ///
    /// # Errors
    /// For a quantum of zero, and when the server has ended.
    pub fn set_quantum(&self, quantum: Option<Nanos>) -> Result<(), ChangeError> {
        if quantum == Some(Nanos::ZERO) {
            return Err(SpecError::ZeroQuantum.into());
        }
        self.post(Command::Quantum(quantum))
    }

    /// Has requests classified by `classify` from now on, in place of [`App::classify`]; `None`: by
    /// that again. It is called on the dispatcher, as that is. Requests in the system keep the class
    /// that they have; a [`Handle::stats`] that is asked for later is answered when it is in force.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn classify_by(&self, classify: Option<Box<ClassifyFn>>) -> Result<(), ChangeError> {
        self.post(Command::Classify(classify))
    }

    fn post(&self, command: Command) -> Result<(), ChangeError> {
        if self.control.post(command) { Ok(()) } else { Err(ChangeError::Ended) }
    }
}
