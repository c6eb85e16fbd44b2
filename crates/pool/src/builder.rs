//! Settings of a pool to be.

use super::gate::Gate;
use super::kernel::{Asks, Placing};
use super::line::Line;
use super::serve::Serve;
use super::shared::Shared;
use super::{Owner, Pool};
use curtail_net::Local;
use curtail_policy::{Nanos, Spec};
use curtail_rt::cancel::OnCancel;
use curtail_rt::clock::Clock;
use curtail_rt::preempt::Preempt;
use curtail_rt::thread::{Grace, Stall};
use curtail_rt::topology::{Usable, allowed_cores, check_cores};
use curtail_server::server::{DispatcherMode, Handle, Server, ServerBuilder, StartError};
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Jobs of a class under way, unless it says how many.
const LIMIT: usize = 1_024;
/// In the server, for each job that may be under way: jobs that were given up stay there until a
/// worker comes across them.
const PLACES: usize = 2;
/// The most places that the server has.
const MOST_PLACES: usize = 1 << 20;
/// What a worker asks the kernel for at a time.
const SLICE: Duration = Duration::from_millis(20);
/// See [`Builder::kernel_nice`].
const NICE: u32 = 10;
/// How long the server waits for what has just ended, when nothing is under way any more.
const DRAIN: Duration = Duration::from_millis(50);

/// A class of jobs: its name, and what it may have.
#[derive(Clone, Debug)]
#[must_use]
pub struct Class {
    name: String,
    limit: usize,
    max_age: Option<Duration>,
    expected: Option<Duration>,
    deadline: Option<Duration>,
    on_cancel: OnCancel,
}

impl Class {
    /// A class of that name, of which 1,024 jobs may be under way, however old.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            limit: LIMIT,
            max_age: None,
            expected: None,
            deadline: None,
            on_cancel: OnCancel::default(),
        }
    }

    /// How many jobs may be under way, that is wait or be in progress. More are refused.
    pub fn limit(mut self, jobs: usize) -> Self {
        self.limit = jobs;
        self
    }

    /// How long a job may wait before it begins. One that waits longer is refused then, and not run.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Within which time from its submission a job is wanted: then it is cancelled, whether it waits or
    /// is in progress.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// What becomes of jobs that are cancelled while they are in progress: by their deadline, or
    /// because their [`Job`](super::Job) was dropped. Default: [`OnCancel::End`].
    pub fn on_cancel(mut self, what: OnCancel) -> Self {
        self.on_cancel = what;
        self
    }

    /// How long a job takes, for policies that go by that (`sjf`, `darc-static`).
    pub fn expected(mut self, service: Duration) -> Self {
        self.expected = Some(service);
        self
    }
}

/// Settings of a pool to be: [`Pool::builder`].
#[must_use]
pub struct Builder {
    workers: Option<usize>,
    cores: Option<Vec<usize>>,
    classes: Vec<Class>,
    spec: Spec,
    quantum: Option<Duration>,
    asks: Asks,
    /// What the server is told as it is.
    more: Vec<Box<dyn FnOnce(ServerBuilder) -> ServerBuilder>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            workers: None,
            cores: None,
            classes: Vec::new(),
            spec: Spec::preset("shenango-ps").expect("it is in the catalogue"),
            quantum: None,
            asks: Asks { slice: Some(SLICE), nice: NICE },
            more: Vec::new(),
        }
    }
}

impl Builder {
    /// How many workers. Default: as many as the cores that the process may use, and its quota of
    /// them.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Pins the workers to these cores, in turn. Default: they float, so that the kernel keeps them
    /// and the executor's threads out of each other's way.
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = Some(cores.into());
        self
    }

    /// Adds a class. The first is number 0, and so on. Default: one, `job`.
    pub fn class(mut self, class: Class) -> Self {
        self.classes.push(class);
        self
    }

    /// The scheduling policy, any of the catalogue or of your own. Default: `shenango-ps`: first
    /// come, first served by the workers; what runs longer than a quantum takes turns with the
    /// others.
    pub fn policy(mut self, spec: Spec) -> Self {
        self.spec = spec;
        self
    }

    /// How long a job runs while others are ready. Default: 20 µs under the default policy, and
    /// otherwise what the policy has.
    pub fn quantum(mut self, quantum: Duration) -> Self {
        self.quantum = Some(quantum);
        self
    }

    /// How jobs are pre-empted. Default: as the policy wants it, if the program was built for that.
    pub fn preempt(mut self, preempt: Preempt) -> Self {
        self.more.push(Box::new(move |server| server.preempt(preempt)));
        self
    }

    /// The jobs call [`curtail::safepoint`](curtail_fiber::safepoint::here) often enough by themselves: they are pre-empted there,
    /// although the program is not instrumented.
    pub fn safepoints_by_hand(mut self) -> Self {
        self.more.push(Box::new(ServerBuilder::safepoints_by_hand));
        self
    }

    /// Bytes of stack for each job in progress, from 16 KiB to 1 GiB. Default: 1 MiB. What is never
    /// touched costs address space only.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.more.push(Box::new(move |server| server.stack_size(bytes)));
        self
    }

    /// What becomes of a quantum that ends while its job holds a lock. Default: [`Grace::Quantum`].
    pub fn lock_grace(mut self, grace: Grace) -> Self {
        self.more.push(Box::new(move |server| server.lock_grace(grace)));
        self
    }

    /// What a worker asks the kernel's scheduler for at a time (Linux 6.12 and later); `None`: what
    /// other threads have. Default: 20 ms, so that a thread of the executor that wakes up runs at
    /// once on a core that a worker has.
    pub fn kernel_slice(mut self, slice: Option<Duration>) -> Self {
        self.asks.slice = slice;
        self
    }

    /// What is added to the workers' nice values: the kernel gives them what the process's other
    /// threads leave. At most 19 in all. Default: 10, so that a thread of the executor that has just run
    /// need not wait for a worker when its next packet comes. (Where each service is a group of the
    /// kernel's scheduler, as systemd and containers have it, that ranks them within the service only.)
    pub fn kernel_nice(mut self, nice: u32) -> Self {
        self.asks.nice = nice.min(39);
        self
    }

    /// As [`ServerBuilder::on_build`].
    pub fn on_build(mut self, f: impl FnOnce(&Handle, &str) + Send + 'static) -> Self {
        self.more.push(Box::new(move |server| server.on_build(f)));
        self
    }

    /// As [`ServerBuilder::watchdog`].
    pub fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.more.push(Box::new(move |server| server.watchdog(limit)));
        self
    }

    /// As [`ServerBuilder::on_stall`].
    pub fn on_stall(mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.more.push(Box::new(move |server| server.on_stall(f)));
        self
    }

    /// Starts the pool. Returns when the workers are there.
    ///
    /// # Errors
    /// Where a setting makes no sense, or the system gives no threads, memory or descriptors.
    pub fn build(mut self) -> Result<Pool, StartError> {
        if self.classes.is_empty() {
            self.classes.push(Class::named("job"));
        }
        let places = self.check()?;
        let workers = self.workers.unwrap_or_else(|| Usable::now().cores.len().max(1));
        let spec = self.spec()?;
        let local = Local::new(places).map_err(|error| setting(error.to_string()))?;
        let (local, client) = local;
        let shared = Arc::new(Shared::new(self.gates(), client));
        let (begun, has_begun) = sync_channel(1);
        let line = Line::new(local, shared.clone(), begun);
        let line = line.map_err(|error| StartError::System { what: "timerfd", error })?;
        let server = self.server(&shared, places, (spec, workers), line)?;
        let (handle, preempt) = (server.handle(), server.preempt());
        let (failed, failure) = sync_channel(1);
        let life = {
            let shared = shared.clone();
            move || {
                if let Err(error) = server.run() {
                    let _ = failed.send(error.to_string());
                }
                shared.end();
            }
        };
        let thread = std::thread::Builder::new().name("curtail-pool".to_owned()).spawn(life);
        let thread =
            thread.map_err(|error| StartError::System { what: "the pool's thread", error })?;
        // Its sender goes when the server's loop begins, or with the server.
        let _ = has_begun.recv();
        if let Ok(error) = failure.try_recv() {
            let _ = thread.join();
            return Err(StartError::System { what: "workers", error: io::Error::other(error) });
        }
        let thread = Mutex::new(Some(thread));
        Ok(Pool { owner: Arc::new(Owner { shared, handle, preempt, workers, thread }) })
    }

    /// Settings that make no sense; and how many places the server needs.
    fn check(&self) -> Result<usize, StartError> {
        if self.classes.len() > Spec::MAX_CLASSES {
            return Err(setting(format!("at most {} classes", Spec::MAX_CLASSES)));
        }
        for (index, class) in self.classes.iter().enumerate() {
            if class.limit == 0 || class.max_age == Some(Duration::ZERO) {
                return Err(setting(format!("class {} would take no job", class.name)));
            }
            if self.classes[..index].iter().any(|other| other.name == class.name) {
                return Err(setting(format!("two classes are called {}", class.name)));
            }
        }
        if self.workers == Some(0) {
            return Err(setting("a pool of 0 workers".to_owned()));
        }
        check_cores(self.cores.as_deref().unwrap_or_default()).map_err(setting)?;
        let jobs = self.classes.iter().fold(0_usize, |sum, class| sum.saturating_add(class.limit));
        match jobs.checked_mul(PLACES).filter(|&places| places <= MOST_PLACES) {
            Some(places) => Ok(places),
            None => Err(setting(format!("{} jobs under way at most", MOST_PLACES / PLACES))),
        }
    }

    fn spec(&self) -> Result<Spec, StartError> {
        let usual = Spec::preset("shenango-ps").is_ok_and(|usual| usual.name == self.spec.name);
        let quantum = self.quantum.or(usual.then_some(Duration::from_micros(20)));
        match quantum {
            None => Ok(self.spec.clone()),
            Some(quantum) => {
                Ok(self.spec.clone().with_quantum(Nanos(quantum.as_nanos() as u64))?)
            }
        }
    }

    fn gates(&self) -> Box<[Gate]> {
        let cycles = |age: Duration| Clock::get().cycles(age.as_nanos() as u64);
        let gate = |class: &Class| {
            let age = class.max_age;
            Gate::new(&class.name, class.limit, age, age.map_or(u64::MAX, cycles))
        };
        self.classes.iter().map(gate).collect()
    }

    fn server(
        self,
        shared: &Arc<Shared>,
        places: usize,
        (spec, workers): (Spec, usize),
        line: Line,
    ) -> Result<Server, StartError> {
        let pinned = self.cores.is_some();
        let rule = |server: ServerBuilder, class: &Class| {
            let server = server.on_cancel(&class.name, class.on_cancel);
            match class.deadline {
                Some(limit) => server.deadline(&class.name, limit),
                None => server,
            }
        };
        let classes = self.classes.clone();
        let known = |class: Class| curtail_server::Class {
            name: class.name,
            hint: class.expected.map(|expected| Nanos(expected.as_nanos() as u64)),
        };
        let app = Serve {
            shared: shared.clone(),
            classes: self.classes.into_iter().map(known).collect(),
            placing: Placing::new(pinned, self.asks),
        };
        let cores = self.cores.filter(|cores| !cores.is_empty()).unwrap_or_else(allowed_cores);
        // No more than workers: then the server knows that it has no core to itself, and every
        // thread without work sleeps soon.
        let cores = cores.into_iter().take(workers).collect();
        let server = Server::builder(app)
            .workers(workers)
            .cores(cores)
            .policy(spec)
            .dispatcher(DispatcherMode::Blocking)
            .capacity(places)
            // Each class has a limit of its own.
            .keep_room(false)
            .drain(DRAIN)
            .transport(Box::new(line));
        let server = classes.iter().fold(server, rule);
        self.more.into_iter().fold(server, |server, more| more(server)).build()
    }
}

fn setting(text: String) -> StartError {
    StartError::Setting(text)
}
