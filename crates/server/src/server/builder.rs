//! Settings of a server to be, and their checks.

mod daemon;
mod rules;

use super::domain::Domain;
use super::rules::ClassRule;
use super::threads::MOST_KTHREADS;
use super::{Handle, Server, StartError};
use crate::app::ErasedApp;
use crate::remote::Remote;
use crate::spread::spread;
use curtail_net::{Transport, Waiter};
use curtail_policy::Spec;
use curtail_rt::clock::Clock;
use curtail_rt::preempt::Preempt;
use curtail_rt::thread::{
    AllocatorConfig, Elastic, KthreadPool, Stall, TaskSettings, Watching, inherited_kthreads,
};
use curtail_rt::topology::{Layout, Usable, check_cores};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How the dispatcher waits for work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatcherMode {
    /// Polls where a transport can't be waited for, and where it has a core to itself on a machine
    /// of at least four, so that the kernel and the clients are not short of cores; sleeps in the
    /// transports' epoll otherwise.
    #[default]
    Auto,
    /// Polls all the time.
    Busy,
    /// Sleeps in epoll when there is nothing to do.
    Blocking,
}

/// Settings of a server to be.
pub struct ServerBuilder {
    pub(super) app: Arc<dyn ErasedApp>,
    pub(super) spec: Spec,
    pub(super) preempt: Preempt,
    pub(super) workers: Option<usize>,
    pub(super) dispatchers: usize,
    pub(super) cores: Option<Vec<usize>>,
    pub(super) transports: Vec<Box<dyn Transport>>,
    pub(super) tasks: TaskSettings,
    pub(super) capacity: usize,
    pub(super) memory: usize,
    pub(super) keeps_room: bool,
    pub(super) thread_quanta: Vec<(u16, Option<u64>)>,
    pub(super) dispatcher: DispatcherMode,
    pub(super) migratable: bool,
    pub(super) by_hand: bool,
    pub(super) keep_out: Vec<String>,
    pub(super) drain: Duration,
    pub(super) seed: u64,
    pub(super) watchdog: Watching,
    pub(super) record: Option<PathBuf>,
    pub(super) allocator_config: AllocatorConfig,
    pub(super) rules: Vec<ClassRule>,
    on_build: Vec<OnBuild>,
}

/// What is known of a server that was built: its handle, and where it listens.
type OnBuild = Box<dyn FnOnce(&Handle, &str) + Send>;

impl ServerBuilder {
    pub(super) fn new(app: Arc<dyn ErasedApp>) -> Self {
        Self {
            app,
            spec: Spec::preset("tq").expect("tq is in the catalogue"),
            preempt: Preempt::Auto,
            workers: None,
            dispatchers: 1,
            cores: None,
            transports: Vec::new(),
            tasks: TaskSettings::with_stack(1 << 20),
            capacity: 16 * 1024,
            memory: 256 << 20,
            keeps_room: true,
            thread_quanta: Vec::new(),
            dispatcher: DispatcherMode::Auto,
            migratable: false,
            by_hand: false,
            keep_out: Vec::new(),
            drain: Duration::from_secs(5),
            seed: 1,
            watchdog: Watching::default(),
            record: None,
            allocator_config: AllocatorConfig::default(),
            rules: Vec::new(),
            on_build: Vec::new(),
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

    /// Worker threads, one at least. Default: the cores there are, less one for each dispatcher.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Dispatchers, each with its share of the workers and a policy of its own: where one cannot keep
    /// up (Concord §6, Tiny Quanta §6). Each has sockets of its own, among which the kernel deals out peers;
    /// of other transports, who has time takes what has come. Default: one.
    #[must_use]
    pub fn dispatchers(mut self, dispatchers: usize) -> Self {
        self.dispatchers = dispatchers;
        self
    }

    /// The cores to use, the dispatchers' first: each once, and only such as the process may use.
    /// Default: all of these; under a quota of a control group, as many threads as that lets run all
    /// the time, on whatever cores.
    #[must_use]
    pub fn cores(mut self, cores: Vec<usize>) -> Self {
        self.cores = Some(cores);
        self
    }

    /// After how long a worker that picks nothing, although something waits for it there, counts as
    /// stuck; `None`: workers are not watched. Default: 10 ms where requests are pre-empted, and
    /// otherwise 100 ms. It is reported while it is stuck ([`ServerBuilder::on_stall`]), and where
    /// there is another worker, requests that have not started there go on elsewhere.
    #[must_use]
    pub fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.watchdog.set_limit(limit);
        self
    }

    /// What to do when a worker is stuck: called on the watchdog's thread, at the limit and then
    /// after twice as long each time. Default: a warning in the log (`tracing`), or on standard
    /// error where the log takes no warnings.
    #[must_use]
    pub fn on_stall(mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.watchdog.set_on_stall(f);
        self
    }

    /// Adds a way for requests to come in.
    #[must_use]
    pub fn transport(mut self, transport: Box<dyn Transport>) -> Self {
        self.transports.push(transport);
        self
    }

    /// Bytes of stack for each request being served, from 16 KiB to 1 GiB. Default: 1 MiB. Memory
    /// that is never touched costs address space only.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.tasks.stack_size = bytes;
        self
    }

    /// At most so many requests in the system (with several dispatchers, in the part of each); more
    /// are refused. Default: 16,384.
    #[must_use]
    pub fn capacity(mut self, jobs: usize) -> Self {
        self.capacity = jobs;
        self
    }

    /// Bytes that the requests in the system may have in all, by whatever transport they came (with
    /// several dispatchers, in the part of each); more are refused. TCP connections are slowed down
    /// before that, see [`curtail_net::TcpConfig::memory`]. Default: 256 MiB.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// How the dispatcher waits. Default: as fits the machine.
    #[must_use]
    pub fn dispatcher(mut self, mode: DispatcherMode) -> Self {
        self.dispatcher = mode;
        self
    }

    /// The handlers call [`curtail::safepoint`](curtail_fiber::safepoint::here) often enough by themselves: pre-empt there, although
    /// the program is not instrumented.
    #[must_use]
    pub fn safepoints_by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// Functions that are not interrupted by signal ([`Preempt::Signal`]): patterns, in which `*`
    /// stands for anything, for names as compilers mangle them or as people write them
    /// (`app::cache::*`). What such a function calls may be interrupted. The first server of a
    /// process that may be pre-empted by signal decides for all.
    #[must_use]
    pub fn keep_out(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.keep_out.extend(patterns);
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

    /// Records the policy's events and its decisions into a file, which is replaced: for
    /// `curtail sim --replay`. Some 30 bytes a request; where the disk does not keep up, the record
    /// ends early. Off by default. With several dispatchers it is a file of each, `FILE.0` and so on.
    #[must_use]
    pub fn record(mut self, file: impl Into<PathBuf>) -> Self {
        self.record = Some(file.into());
        self
    }

    /// Tells `f` of the server when it is built: its handle, and where its transports listen. For what
    /// looks at servers, such as `curtail-observe`.
    #[must_use]
    pub fn on_build(mut self, f: impl FnOnce(&Handle, &str) + Send + 'static) -> Self {
        self.on_build.push(Box::new(f));
        self
    }

    /// Lets central policies continue a pre-empted request on another worker's thread.
    ///
    /// # Safety
    /// Handlers, and everything they call that has safepoints, must not keep anything tied to a
    /// thread across a safepoint: no address of a thread-local, no `Rc` shared through one, no
    /// thread id, no lock guard that must be dropped on its own thread; and `App::Worker`, which is
    /// shared by reference, must be `Sync`. Without effect where requests are pre-empted by signal.
    #[must_use]
    pub unsafe fn migratable(mut self) -> Self {
        self.migratable = true;
        self
    }

    /// Checks the settings and sets the application up. No thread runs yet.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn build(mut self) -> Result<Server, StartError> {
        self.spec = knowing(self.spec, &*self.app);
        let named = self.cores.clone().map(|cores| Usable { cores, quota: None });
        let Usable { cores, quota } = named.unwrap_or_else(Usable::now);
        if cores.is_empty() {
            return Err(StartError::Setting("no cores to run on".to_owned()));
        }
        check_cores(&cores).map_err(StartError::Setting)?;
        let dispatchers = self.dispatchers;
        let elastic = self.is_elastic()?;
        let workers = self.workers_on(cores.len(), elastic)?;
        if !(1..=workers).contains(&dispatchers) {
            return Err(StartError::Setting(format!(
                "{dispatchers} dispatchers cannot share {workers} workers"
            )));
        }
        self.spec.validate(workers)?;
        if self.spec.is_dispatcherless() {
            super::threads::check(&self.spec, self.preempt, workers, dispatchers)?;
            if self.record.is_some() {
                return Err(StartError::Setting("a record is of a dispatcher".to_owned()));
            }
        }
        // The smallest part must do, too.
        self.spec.validate(workers / dispatchers)?;
        if self.transports.is_empty() && self.allocator_config.port.is_none() {
            return Err(StartError::NoTransport);
        }
        if !(1..=1 << 22).contains(&self.capacity) {
            return Err(StartError::Setting("capacity: from 1 to 4,194,304 requests".to_owned()));
        }
        curtail_fiber::StackPool::new(self.tasks.stack_size, curtail_fiber::Locals::Own)
            .map_err(|error| StartError::Setting(error.to_string()))?;
        if self.preempt == Preempt::Signal {
            curtail_rt::signal::interruptible(&self.keep_out).map_err(|reason| {
                StartError::Setting(format!("no pre-emption by signal: {reason}"))
            })?;
        }
        let elastic = if elastic { self.register(workers)? } else { None };
        let layout = match elastic {
            Some(_) => Layout::elastic(&cores, workers),
            None => Layout::plan(&cores, workers, dispatchers).under(quota),
        };
        let mut lines = spread(std::mem::take(&mut self.transports), dispatchers)?;
        let domains = self.domains((workers, &lines), &layout, elastic)?;
        self.transports = lines.remove(0);
        let rules = self.rules()?;
        let records = self.records()?;
        self.app.setup().map_err(StartError::Setup)?;
        let on_build = std::mem::take(&mut self.on_build);
        let listens: Vec<_> = self.transports.iter().map(|line| line.describe()).collect();
        let server = Server {
            layout,
            cores: cores.len(),
            settings: self,
            records,
            rules,
            domains,
            others: lines,
        };
        let (handle, listens) = (server.handle(), listens.join(","));
        on_build.into_iter().for_each(|f| f(&handle, &listens));
        Ok(server)
    }
}

impl ServerBuilder {
    /// The files for what each dispatcher records.
    fn records(&self) -> Result<Vec<(PathBuf, File)>, StartError> {
        let Some(path) = &self.record else { return Ok(Vec::new()) };
        let create = |index: usize| {
            let mut own = path.clone();
            if self.dispatchers > 1 {
                own.as_mut_os_string().push(format!(".{index}"));
            }
            let file = File::create(&own).map_err(|error| record_error(&own, error))?;
            Ok((own, file))
        };
        (0..self.dispatchers).map(create).collect()
    }

    /// How many workers there are, of so many cores.
    fn workers_on(&self, cores: usize, elastic: bool) -> Result<usize, StartError> {
        let dispatchers = self.dispatchers;
        match self.workers {
            // The ingress loop runs where there is room: no core is kept for it.
            None if elastic => {
                let kthreads = inherited_kthreads().unwrap_or(cores).min(MOST_KTHREADS);
                Ok(kthreads.saturating_sub(self.own_kthreads()).max(1))
            }
            None => Ok(cores.saturating_sub(dispatchers).max(dispatchers).max(1)),
            Some(0) => Err(StartError::Setting("a server of 0 workers".to_owned())),
            Some(workers) => Ok(workers),
        }
    }

    fn domains(
        &self,
        (workers, lines): (usize, &[Vec<Box<dyn Transport>>]),
        layout: &Layout,
        elastic: Option<Arc<Elastic>>,
    ) -> Result<Vec<Domain>, StartError> {
        let share = |n: usize| workers * n / self.dispatchers;
        let domain = |index: usize| {
            let fds: Vec<_> = lines[index].iter().flat_map(|line| line.wait_fds()).collect();
            let waiter =
                Waiter::new(&fds).map_err(|error| StartError::System { what: "epoll", error })?;
            let workers = share(index)..share(index + 1);
            let joined = usize::from(!self.spec.is_dispatcherless());
            let idle = layout.idle(&Clock::get());
            let kthreads = KthreadPool::new((workers.len(), joined), idle, elastic.clone());
            let remote = match joined {
                0 => Remote::new(),
                _ => Remote::of(kthreads.joined().clone()),
            };
            Ok(Domain::new((index, workers), (kthreads, remote), waiter))
        };
        (0..self.dispatchers).map(domain).collect()
    }
}

fn record_error(file: &Path, error: io::Error) -> StartError {
    StartError::Setting(format!("cannot record into {}: {error}", file.display()))
}

/// The policy knows the application's classes.
pub(crate) fn knowing(spec: Spec, app: &dyn ErasedApp) -> Spec {
    spec.knowing(app.classes().into_iter().map(|class| (class.name, class.hint)))
}
