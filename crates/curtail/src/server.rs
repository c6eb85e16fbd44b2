//! A server: an application, a policy, transports, and the threads that bring them together.

use crate::app::{App, ErasedApp};
use crate::clock::{self, Clock};
use crate::control::{Command, Control};
use crate::dispatcher::{Dispatcher, Line, Parts, WorkerLink, config_of, own_config};
use crate::engine::{Engine, Surroundings};
use crate::message::Envelopes;
use crate::preempt::{Choice, Preempt};
use crate::remote::{Remote, Sleeper};
use crate::stats::{ClassStats, Report, Stats};
use crate::topology::{Layout, allowed_cores, pin};
use crate::worker::{Links, Orders, WorkerReport, work};
use curtail_fiber::safepoint::Kind as SafepointKind;
use curtail_net::{Transport, Waiter};
use curtail_policy::{Nanos, Spec, SpecError, WorkerId};
use curtail_ring::{mpsc, spsc};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Messages under way to a worker; more wait at the dispatcher.
const INBOX: usize = 512;
/// News under way to the dispatcher; more wait at the worker.
const OUTBOX: usize = 512;

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
}

/// How the dispatcher waits for work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatcherMode {
    /// Polls where it has a core to itself and another is left for the kernel, or where a transport
    /// can't be waited for; sleeps otherwise.
    #[default]
    Auto,
    /// Polls all the time.
    Busy,
    /// Sleeps in epoll when there is nothing to do.
    Blocking,
}

/// Settings of a server to be.
pub struct ServerBuilder {
    app: Arc<dyn ErasedApp>,
    spec: Spec,
    preempt: Preempt,
    workers: usize,
    cores: Option<Vec<usize>>,
    transports: Vec<Box<dyn Transport>>,
    stack_size: usize,
    capacity: usize,
    dispatcher: DispatcherMode,
    migratable: bool,
    by_hand: bool,
    drain: Duration,
    seed: u64,
}

impl ServerBuilder {
    fn new(app: Arc<dyn ErasedApp>) -> Self {
        Self {
            app,
            spec: Spec::preset("tq").expect("tq is in the catalogue"),
            preempt: Preempt::Auto,
            workers: 0,
            cores: None,
            transports: Vec::new(),
            stack_size: 64 * 1024,
            capacity: 16 * 1024,
            dispatcher: DispatcherMode::Auto,
            migratable: false,
            by_hand: false,
            drain: Duration::from_secs(5),
            seed: 1,
        }
    }

    /// The scheduling policy. Default: `tq`.
    #[must_use]
    pub fn policy(mut self, spec: Spec) -> Self {
        self.spec = spec;
        self
    }

    /// How running requests are pre-empted. Default: as the policy wants it.
    #[must_use]
    pub fn preempt(mut self, preempt: Preempt) -> Self {
        self.preempt = preempt;
        self
    }

    /// Worker threads. Default: the cores there are, less one for the dispatcher.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The cores to use, the dispatcher's first. Default: those the process may use.
    #[must_use]
    pub fn cores(mut self, cores: Vec<usize>) -> Self {
        self.cores = Some(cores);
        self
    }

    /// Adds a way for requests to come in.
    #[must_use]
    pub fn transport(mut self, transport: Box<dyn Transport>) -> Self {
        self.transports.push(transport);
        self
    }

    /// Bytes of stack for each request being served, from 16 KiB to 1 GiB. Default: 64 KiB.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// At most so many requests in the system; more are refused. Default: 16,384.
    #[must_use]
    pub fn capacity(mut self, jobs: usize) -> Self {
        self.capacity = jobs;
        self
    }

    /// How the dispatcher waits. Default: as fits the machine.
    #[must_use]
    pub fn dispatcher(mut self, mode: DispatcherMode) -> Self {
        self.dispatcher = mode;
        self
    }

    /// The handlers call [`crate::safepoint`] often enough by themselves: pre-empt there, although
    /// the program is not instrumented.
    #[must_use]
    pub fn safepoints_by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// After a shutdown, wait so long for requests under way. Default: 5 s.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Seed of the policy's random choices.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets central policies continue a pre-empted request on another worker's thread.
    ///
    /// # Safety
    /// Handlers, and everything they call that has safepoints, must not keep anything tied to a
    /// thread across a safepoint: no address of a thread-local, no `Rc` shared through one, no
    /// thread id, no lock guard that must be dropped on its own thread; and `App::Worker`, which is
    /// shared by reference, must be `Sync`.
    #[must_use]
    pub unsafe fn migratable(mut self) -> Self {
        self.migratable = true;
        self
    }

    /// Checks the settings and sets the application up. No thread runs yet.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn build(self) -> Result<Server, StartError> {
        let cores = self.cores.clone().unwrap_or_else(allowed_cores);
        if cores.is_empty() {
            return Err(StartError::Setting("no cores to run on".to_owned()));
        }
        let workers = if self.workers == 0 { cores.len().max(2) - 1 } else { self.workers };
        self.spec.validate(workers)?;
        if self.transports.is_empty() {
            return Err(StartError::NoTransport);
        }
        if !(1..=1 << 22).contains(&self.capacity) {
            return Err(StartError::Setting("capacity: from 1 to 4,194,304 requests".to_owned()));
        }
        curtail_fiber::StackPool::new(self.stack_size)
            .map_err(|error| StartError::Setting(error.to_string()))?;
        let fds: Vec<_> = self.transports.iter().flat_map(|line| line.wait_fds()).collect();
        let waiter =
            Waiter::new(&fds).map_err(|error| StartError::System { what: "epoll", error })?;
        self.app.setup().map_err(StartError::Setup)?;
        let (remote, wakes) = Remote::new(self.capacity);
        let remote = Arc::new(remote);
        remote.parker.set_sleeper(Sleeper::Epoll(waiter.waker()));
        Ok(Server {
            control: Arc::new(Control::new(remote.clone())),
            layout: Layout::plan(&cores, workers),
            spare_cores: cores.len().saturating_sub(workers + 1),
            settings: self,
            waiter,
            remote,
            wakes,
        })
    }
}

/// A server that is ready to run.
pub struct Server {
    settings: ServerBuilder,
    layout: Layout,
    spare_cores: usize,
    control: Arc<Control>,
    waiter: Waiter,
    remote: Arc<Remote>,
    wakes: mpsc::Receiver<curtail_policy::JobId>,
}

/// A started worker thread.
struct Started {
    report: Receiver<WorkerReport>,
    thread: thread::JoinHandle<()>,
    remote: Arc<Remote>,
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
            DispatcherMode::Auto => !pollable || (self.layout.dedicated && self.spare_cores > 0),
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
        let (links, started) = self.start_workers(&around, &choice)?;
        if let Some(Err(problem)) = self.layout.dispatcher.map(pin) {
            notes.push(problem);
        }
        let mut own = Engine::new(
            WorkerId::DISPATCHER,
            around.clone(),
            own_config(&choice),
            self.settings.spec.build_core(self.settings.capacity),
            None,
            (self.remote.clone(), self.wakes),
        )
        .map_err(|error| RunError::Worker {
            worker: WorkerId::DISPATCHER,
            error: error.to_string(),
        })?;
        let classes = around.app.classes();
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
            classes: classes.into_iter().map(|class| ClassStats::new(class.name)).collect(),
            control: self.control.clone(),
            waiter: self.waiter,
            own: &raw mut *own,
            own_remote: self.remote,
            seed: self.settings.seed,
        });
        let begun = clock::now();
        dispatcher.run(self.settings.drain);
        let watched = clock::now() - begun;
        self.control.close();
        let reports = stop(started, &mut notes);
        let own_counts = own.take_counts();
        Ok(crate::report::make(dispatcher, reports, own_counts, watched, notes))
    }

    fn start_workers(
        &self,
        around: &Surroundings,
        choice: &Choice,
    ) -> Result<(Vec<WorkerLink>, Vec<Started>), RunError> {
        let mut links = Vec::new();
        let mut started = Vec::new();
        for (index, &core) in self.layout.workers.iter().enumerate() {
            let worker = WorkerId(index as u16);
            match self.start_worker(worker, core, around, choice) {
                Ok((link, thread)) => {
                    links.push(link);
                    started.push(thread);
                }
                Err(error) => {
                    stop(started, &mut Vec::new());
                    return Err(RunError::Worker { worker, error });
                }
            }
        }
        Ok((links, started))
    }

    fn start_worker(
        &self,
        id: WorkerId,
        core: usize,
        around: &Surroundings,
        choice: &Choice,
    ) -> Result<(WorkerLink, Started), String> {
        let (messages, inbox) = spsc::channel(INBOX);
        let (events, news) = spsc::channel(OUTBOX);
        let (remote, wakes) = Remote::new(self.settings.capacity);
        let remote = Arc::new(remote);
        let orders: Arc<Orders> = Arc::new(Mutex::new(None));
        let links = Links {
            events,
            remote: remote.clone(),
            orders: orders.clone(),
            dispatcher: self.remote.clone(),
        };
        let core_policy = self.settings.spec.build_core(self.settings.capacity);
        let config = config_of(&self.settings.spec, choice, self.layout.workers.len());
        let (around, idle) = (around.clone(), self.layout.idle(&around.clock));
        let mailbox = (remote.clone(), wakes);
        let (ready, is_ready) = sync_channel(1);
        let (report, reported): (SyncSender<WorkerReport>, _) = sync_channel(1);
        let life = move || {
            if let Err(problem) = pin(core) {
                tracing::warn!(%problem, worker = id.0);
            }
            match Engine::new(id, around, config, core_policy, Some(inbox), mailbox) {
                Ok(engine) => {
                    let _ = ready.send(Ok(()));
                    let _ = report.send(work(engine, links, idle));
                }
                Err(error) => drop(ready.send(Err(error.to_string()))),
            }
        };
        let thread = thread::Builder::new()
            .name(format!("curtail-{}", id.0))
            .spawn(life)
            .map_err(|error| error.to_string())?;
        match is_ready.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err("its setup_worker panicked".to_owned()),
        }
        let link = WorkerLink::new(messages, news, remote.clone(), orders);
        Ok((link, Started { report: reported, thread, remote }))
    }
}

/// Ends the workers and collects what they report. One that never comes back (a handler in an
/// endless loop without a safepoint) is left behind, and that is said.
fn stop(started: Vec<Started>, notes: &mut Vec<String>) -> Vec<WorkerReport> {
    for worker in &started {
        worker.remote.wishes.stop.store(true, Ordering::Release);
        worker.remote.parker.unpark();
    }
    let mut reports = Vec::new();
    for (index, worker) in started.into_iter().enumerate() {
        match worker.report.recv_timeout(Duration::from_secs(2)) {
            Ok(report) => {
                reports.push(report);
                let _ = worker.thread.join();
            }
            Err(RecvTimeoutError::Disconnected) => {
                let _ = worker.thread.join();
                notes.push(format!("worker {index} ended by a panic of the runtime"));
            }
            Err(RecvTimeoutError::Timeout) => {
                notes.push(format!("worker {index} is stuck in a request and was left behind"));
            }
        }
    }
    reports
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
    /// When the policy does not fit the server's workers.
    pub fn switch(&self, spec: Spec) -> Result<(), SpecError> {
        spec.validate(self.workers)?;
        self.control.post(Command::Switch(spec));
        Ok(())
    }

    /// Changes the quantum; `None`: to completion.
    ///
    /// # Errors
    /// For a quantum of zero.
    pub fn set_quantum(&self, quantum: Option<Nanos>) -> Result<(), SpecError> {
        if quantum == Some(Nanos::ZERO) {
            return Err(SpecError::ZeroQuantum);
        }
        self.control.post(Command::Quantum(quantum));
        Ok(())
    }
}
