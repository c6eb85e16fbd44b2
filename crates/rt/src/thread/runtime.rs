//! A runtime of threads: its kthreads, how they find work for each other, and its end.
//!
//! The calling thread becomes the first kthread; the others are started. Each runs its own loop
//! ([`KthreadScheduler::live`]): look around, run what is ready, steal what has not started elsewhere, and sleep
//! when there is nothing.

mod io;
mod quanta;

use super::common::Common;
use super::elastic::{AllocatorConfig, DaemonError, Elastic};
use super::grace::TaskSettings;
use super::kthread::KThread;
use super::look::Look;
use super::scheduler::KthreadScheduler;
use super::spares::{SPARES, Spares};
use super::spawn::Builder;
use super::watchdog::{Stall, Watch, Watched, Watching};
use crate::clock::Clock;
use crate::socket::uring::Io;
use crate::topology::{Usable, check_cores, pin};
use curtail_fiber::safepoint::{Kind, Mode, kind};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::thread::runtime";

/// Each has a bit of `idle`.
const MOST_KTHREADS: usize = 64 - SPARES;
const STACK: usize = 1 << 20;
/// How long a kthread without work looks for some, and under a core allocator.
const SPIN: Duration = Duration::from_micros(20);
pub(super) const SPIN_ELASTIC: Duration = Duration::from_micros(2);
/// How long a thread runs while others are ready, in a program with safepoints that time themselves.
const QUANTUM: Duration = Duration::from_micros(20);
/// How long the end waits for kthreads that run threads of their own still.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads without a server: see [`run`] and [`Runtime::builder`].
#[derive(Debug)]
pub struct Runtime(());

impl Runtime {
    /// How it is to be.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            kthreads: None,
            cores: None,
            tasks: TaskSettings::with_stack(STACK),
            quantum: Some(QUANTUM),
            is_quantum_asked: false,
            class_quanta: Vec::new(),
            by_signal: None,
            spin: None,
            allocator_config: AllocatorConfig::default(),
            watchdog: Watching::default(),
            io: None,
            refusal: None,
            on_start: OnStart::default(),
            on_kthread: None,
        }
    }
}

/// Runs `f` as a thread of Curtail's: the calling thread becomes a kthread, and others are started,
/// one for each core that the process may use. Ends when `f` has ended, with its result; threads
/// that run still are left where they are, as when a process ends. (Shenango §4: ordinary blocking
/// code, on threads that cost tens of nanoseconds.)
///
/// # Panics
/// If `f` panics; if the calling thread is a kthread already; where the system gives no threads or
/// memory.
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Runtime::builder().run(f)
}

/// How a runtime is to be.
#[derive(Clone, Debug)]
#[must_use]
pub struct RuntimeBuilder {
    kthreads: Option<usize>,
    cores: Option<Vec<usize>>,
    pub(super) tasks: TaskSettings,
    quantum: Option<Duration>,
    /// Somebody said which: then it is told where there can be none.
    is_quantum_asked: bool,
    class_quanta: Vec<(u16, Option<Duration>)>,
    /// Signals end quanta of this length.
    by_signal: Option<Duration>,
    spin: Option<Duration>,
    pub(super) allocator_config: AllocatorConfig,
    watchdog: Watching,
    pub(super) io: Option<Io>,
    pub(super) refusal: Option<i32>,
    on_start: OnStart,
    on_kthread: Option<fn()>,
}

/// Whom to tell of a runtime that has started.
#[derive(Clone, Default)]
struct OnStart(Vec<Tell>);

type Tell = Arc<dyn Fn(&Look) + Send + Sync>;

impl std::fmt::Debug for OnStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} closures", self.0.len())
    }
}

impl RuntimeBuilder {
    /// How many kthreads, from 1 to 60. Default: `$CURTAIL_KTHREADS`, or one for each core that the
    /// process may use, by its affinity and by the quota of its control group.
    pub fn kthreads(mut self, count: usize) -> Self {
        self.kthreads = Some(count);
        self
    }

    /// Pins the kthreads to these cores, in turn: each named once, and only such as the process may
    /// use. Default: they float.
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = Some(cores.into());
        self
    }

    /// Bytes of a thread's stack, from 16 KiB to 1 GiB. Default: 1 MiB. Memory that is never
    /// touched costs address space only.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.tasks.stack_size = bytes;
        self
    }

    /// How long a thread runs at most while others are ready, if the program was built with
    /// safepoints that time themselves (`cargo curtail build`). A thread that comes in during
    /// another's quantum has the rest of that and then its own. Default: 20 µs.
    pub fn quantum(mut self, quantum: Duration) -> Self {
        (self.quantum, self.is_quantum_asked) = (Some(quantum), true);
        self
    }

    /// Threads run until they block, yield or end, as Shenango's do; those of a class with a quantum of
    /// its own excepted.
    pub fn run_to_completion(mut self) -> Self {
        (self.quantum, self.is_quantum_asked) = (None, true);
        self
    }

    /// The quantum of threads of one class ([`Builder::class`]), in whole multiples of the smallest
    /// of all quanta; `None`: they run to completion.
    pub fn class_quantum(mut self, class: u16, quantum: Option<Duration>) -> Self {
        self.class_quanta.retain(|(other, _)| *other != class);
        self.class_quanta.push((class, quantum));
        self
    }

    /// How long a kthread without work looks for some before it sleeps. Default: 20 µs, and 2 µs
    /// under a core allocator.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = Some(spin);
        self
    }

    /// After how long a kthread that picks nothing, although something waits for it, counts as
    /// stuck; `None`: kthreads are not watched. Default: 10 ms where there are quanta, and
    /// otherwise 100 ms, since threads then run to completion. It is reported while it is stuck
    /// ([`RuntimeBuilder::on_stall`]), and what has not started goes on elsewhere.
    pub fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.watchdog.set_limit(limit);
        self
    }

    /// Tells `f` when the runtime has started, by what it can be looked at. For what looks at programs,
    /// such as `curtail-observe`.
    pub fn on_start(mut self, f: impl Fn(&Look) + Send + Sync + 'static) -> Self {
        self.on_start.0.push(Arc::new(f));
        self
    }

    /// Calls `f` on each kthread when it begins, before it runs a thread: others know its number
    /// then. For what the kernel keeps for each of its threads, such as the mask of signals.
    pub fn on_kthread(mut self, f: fn()) -> Self {
        self.on_kthread = Some(f);
        self
    }

    /// What to do when a kthread is stuck: called on the watchdog's thread, at the limit and then
    /// after twice as long each time. Default: a warning in the log (`tracing`), or on standard
    /// error where the log takes no warnings.
    pub fn on_stall(mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.watchdog.set_on_stall(f);
        self
    }

    /// A kthread that is stuck is neither reported nor looked at, which takes some milliseconds of
    /// processor time; what has not started still goes on elsewhere.
    pub fn ignore_stalls(mut self) -> Self {
        self.watchdog.ignore_stalls();
        self
    }

    /// Runs `f` as the first thread: see [`run`].
    ///
    /// # Panics
    /// As [`run`], where the settings make no sense, and where [`RuntimeBuilder::try_run`] is an
    /// error.
    pub fn run<F, T>(self, f: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_run(f).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs `f` as the first thread: see [`run`].
    ///
    /// # Errors
    /// There is no core allocator where [`RuntimeBuilder::daemon`] says, or it refuses. Then `f` has
    /// not been called.
    ///
    /// # Panics
    /// As [`run`], and where the settings make no sense.
    pub fn try_run<F, T>(self, f: F) -> Result<T, DaemonError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        assert!(KThread::try_here().is_none(), "curtail::run inside of a runtime");
        let started = self.start()?;
        let kthread = take_seat(&started.common, 0, &self);
        let main = Builder::new().name("main");
        let main = main.start_here(f, true).expect("memory for the first thread");
        kthread.scheduler().end_with(main.block());
        kthread.scheduler().live(&kthread);
        assert!(main.is_finished(), "kthreads live until the first thread has ended");
        let result = main.join();
        drop(kthread);
        started.end();
        Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// Started kthreads.
struct Started {
    common: Arc<Common>,
    threads: Vec<std::thread::JoinHandle<()>>,
    spares: Arc<Spares<std::thread::JoinHandle<()>>>,
    _watch: Option<Watch>,
}

impl RuntimeBuilder {
    fn start(&self) -> Result<Started, DaemonError> {
        let count = self.kthreads.or_else(inherited_kthreads);
        let count = count.unwrap_or_else(|| Usable::now().cores.len().min(MOST_KTHREADS));
        assert!(
            (1..=MOST_KTHREADS).contains(&count),
            "{count} kthreads: from 1 to {MOST_KTHREADS}"
        );
        if let Err(reason) = check_cores(self.cores.as_deref().unwrap_or_default()) {
            panic!("{reason}");
        }
        let elastic = Elastic::register(&self.allocator_config, count)?;
        let usual = if elastic.is_some() { SPIN_ELASTIC } else { SPIN };
        let spin_cycles = Clock::get().cycles(self.spin.unwrap_or(usual).as_nanos() as u64);
        let common = Common::new((count, SPARES), spin_cycles, false, elastic, self.plan());
        if let Some(elastic) = &common.elastic {
            elastic.watch(&common);
        }
        let mut threads = Vec::new();
        for index in 1..count {
            match start_kthread(&common, index, self) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    common.stop();
                    if let Some(elastic) = &common.elastic {
                        elastic.end();
                    }
                    panic!("kthread {index} could not be started: {error}");
                }
            }
        }
        let has_quanta = self.is_quantum_asked && self.quantum.is_some();
        let has_quanta = has_quanta || !self.class_quanta.is_empty();
        let mode = match (has_quanta || kind() == Kind::Clock, kind()) {
            (false, _) => Mode::Off,
            (true, Kind::Clock) => Mode::Clock,
            // Its threads yield nowhere by themselves: only those that wait make one stuck.
            (true, _) => Mode::Flag,
        };
        let (of, settings) = (common.clone(), self.clone());
        let spares = Spares::new(&common, move |index| start_kthread(&of, index, &settings));
        let (looking, calls) = (spares.clone(), common.clone());
        let kthreads = common.peers.clone();
        let watched = Watched { kthreads, usual: count, first: 0, first_spare: count };
        let is_stuck = move |_, _| calls.call_one();
        let watch = self.watchdog.watch(watched, mode, is_stuck, move |stuck| looking.look(stuck));
        let look = Look::new(common.peers.clone(), self.watchdog.stalls(), self.quantum);
        self.on_start.0.iter().for_each(|f| f(&look));
        Ok(Started { common, threads, spares, _watch: watch })
    }
}

fn start_kthread(
    common: &Arc<Common>,
    index: usize,
    settings: &RuntimeBuilder,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (common, settings) = (common.clone(), settings.clone());
    let thread = std::thread::Builder::new().name(format!("curtail-{index}"));
    thread.spawn(move || {
        let kthread = take_seat(&common, index, &settings);
        kthread.scheduler().live(&kthread);
    })
}

/// Makes the calling thread kthread `index`.
fn take_seat(common: &Arc<Common>, index: usize, settings: &RuntimeBuilder) -> Box<KThread> {
    if common.elastic.is_none()
        && let Some(cores) = &settings.cores
        && let Err(problem) = pin(cores[index % cores.len()])
    {
        tracing::warn!(target: LOG, %problem, kthread = index);
    }
    let beats = || common.elastic.as_ref().and_then(|_| settings.allocator_config.beats(kind()));
    let quanta = settings.quanta().or_else(beats);
    let kthread = KthreadScheduler::take(common, index, settings.tasks, quanta);
    let kthread = kthread.expect("memory for stacks");
    if let Some(f) = settings.on_kthread {
        f();
    }
    kthread
}

impl Started {
    /// Waits for the other kthreads. One that runs a thread without end is left behind.
    fn end(self) {
        let until = std::time::Instant::now() + PATIENCE;
        for thread in self.threads.into_iter().chain(self.spares.take()) {
            while !thread.is_finished() && std::time::Instant::now() < until {
                self.common.wake_parked();
                std::thread::park_timeout(Duration::from_micros(50));
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                tracing::warn!(target: LOG, "a kthread is stuck in a thread and was left behind");
            }
        }
        if let Some(elastic) = &self.common.elastic {
            elastic.end();
        }
    }
}

/// What `curtail run` says.
pub fn inherited_kthreads() -> Option<usize> {
    let text = std::env::var("CURTAIL_KTHREADS").ok().filter(|text| !text.is_empty())?;
    let count = text.parse().ok().filter(|count| (1..=MOST_KTHREADS).contains(count));
    if count.is_none() {
        tracing::warn!(
            target: LOG, %text, "$CURTAIL_KTHREADS is no number from 1 to {MOST_KTHREADS}"
        );
    }
    count
}
