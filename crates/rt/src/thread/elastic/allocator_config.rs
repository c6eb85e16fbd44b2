//! What the user asks of a core allocator.

use super::orders::are_followed;
use crate::clock::Clock;
use crate::thread::{Quanta, RuntimeBuilder};
use curtail_fiber::safepoint::{Kind, Mode};
use curtail_shm::{Class, Spec};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a thread that runs to completion goes on, at most, without a look at the word.
const HEARTBEAT: Duration = Duration::from_micros(5);
/// A deadline that does not come: a day away.
const NEVER_CYCLES: u64 = 1 << 47;

/// The runtime could not be registered with a core allocator.
#[derive(Debug, thiserror::Error)]
#[error("no core allocator at {}: {problem}", .path.display())]
pub struct DaemonError {
    path: PathBuf,
    problem: String,
}

impl DaemonError {
    pub(super) fn new(path: &Path, problem: String) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// What the user asks of a core allocator.
#[derive(Clone, Debug)]
pub struct AllocatorConfig {
    /// What the program says: see [`RuntimeBuilder::daemon`].
    pub daemon: Option<PathBuf>,
    /// What `$CURTAILD` says.
    inherited: Option<PathBuf>,
    /// See [`RuntimeBuilder::guaranteed`].
    pub guaranteed: usize,
    /// See [`RuntimeBuilder::burstable`].
    pub burstable: Option<usize>,
    pub(super) batch: bool,
    /// See [`RuntimeBuilder::heartbeat`].
    pub heartbeat: Duration,
    /// The port that the daemon is to have for the program: see `ServerBuilder::daemon_port`.
    pub port: Option<String>,
    /// See [`RuntimeBuilder::poll_page`].
    pub poll_pages: bool,
}

impl Default for AllocatorConfig {
    fn default() -> Self {
        let inherited = std::env::var_os("CURTAILD").filter(|path| !path.is_empty());
        Self {
            daemon: None,
            inherited: inherited.map(Into::into),
            guaranteed: 0,
            burstable: None,
            batch: false,
            heartbeat: HEARTBEAT,
            port: None,
            poll_pages: true,
        }
    }
}

impl AllocatorConfig {
    /// The heartbeat in cycles.
    pub fn heartbeat_cycles(&self) -> u64 {
        Clock::get().cycles(self.heartbeat.as_nanos() as u64).max(1)
    }

    /// Where the daemon is to be; `None`: there is to be none.
    pub fn path(&self) -> Option<PathBuf> {
        self.daemon.clone().or_else(|| self.inherited.clone())
    }

    /// The program can't do without it.
    pub fn is_must(&self) -> bool {
        self.daemon.is_some() || self.port.is_some()
    }

    /// Threads run to completion, and look now and then whether the core is wanted elsewhere; where
    /// safepoints do not time themselves, when the daemon has raised what they poll, or a signal has.
    pub fn beats(&self, kind: Kind) -> Option<Quanta> {
        self.beat(kind).map(|(mode, cycles)| Quanta::of_all(mode, cycles, false))
    }

    /// By what threads look whether the core is wanted elsewhere, and after how many cycles each
    /// time.
    pub fn beat(&self, kind: Kind) -> Option<(Mode, u64)> {
        match kind {
            Kind::Clock => Some((Mode::Clock, self.heartbeat_cycles())),
            Kind::Flag => Some((Mode::Flag, NEVER_CYCLES)),
            Kind::None => None,
        }
    }

    pub(super) fn spec(&self, kthreads: usize) -> Spec {
        let cores = |cores: usize| u32::try_from(cores).unwrap_or(u32::MAX);
        let burstable = self.burstable.unwrap_or(kthreads.saturating_sub(self.guaranteed));
        Spec {
            class: match self.batch {
                true => Class::Batch { looks: are_followed() },
                false => Class::LatencyCritical,
            },
            kthreads: cores(kthreads),
            guaranteed: cores(self.guaranteed),
            burstable: cores(burstable),
        }
    }
}

/// Under a core allocator.
impl RuntimeBuilder {
    /// The kthreads get their cores from the `curtaild` that listens at `path`: each has one while it
    /// has work (Shenango §4), and gives it back within microseconds of being asked, in a program with
    /// safepoints. If the daemon ends, the kthreads run on without it. [`RuntimeBuilder::cores`] has
    /// no effect then.
    ///
    /// Default: the one at `$CURTAILD`, if that is set; if it is not there, a warning, and none.
    pub fn daemon(mut self, path: impl Into<PathBuf>) -> Self {
        self.allocator_config.daemon = Some(path.into());
        self
    }

    /// How many cores the daemon is to have for the program whenever it needs them; it refuses to
    /// promise one twice. Default: 0.
    pub fn guaranteed(mut self, cores: usize) -> Self {
        self.allocator_config.guaranteed = cores;
        self
    }

    /// How many cores it may have besides, as long as no other program is guaranteed them. Default:
    /// as many as it has kthreads, less those that are guaranteed.
    pub fn burstable(mut self, cores: usize) -> Self {
        self.allocator_config.burstable = Some(cores);
        self
    }

    /// To the daemon the program is batch work: its kthreads run whenever a core is free, and rank
    /// below all other programs' (`SCHED_IDLE`; the thread that calls [`RuntimeBuilder::run`] stays
    /// so). They are granted nothing. If the program has safepoints that time themselves, its kthreads
    /// run on the daemon's cores and hand each over at the next heartbeat after it was ordered for
    /// another program; otherwise the kernel takes it.
    pub fn batch(mut self) -> Self {
        self.allocator_config.batch = true;
        self
    }

    /// Under a daemon, how long a thread without a quantum runs at most until it looks whether its
    /// kthread is to give its core back, if the program was built with safepoints that time
    /// themselves. Default: 5 µs. Flag builds look when the daemon says so
    /// ([`RuntimeBuilder::poll_page`]); programs without safepoints between two threads only.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.allocator_config.heartbeat = heartbeat;
        self
    }

    /// Under a daemon, in a program built with `--safepoint=flag`: whether the daemon may write the word
    /// that a kthread's safepoints poll, so that the thread that runs there yields at once. Where it may
    /// not, it sends a signal after its `--grace`. The word shares its page with what safepoints call, so
    /// only a daemon of the program's own user gets it. Default: true.
    pub fn poll_page(mut self, is_lent: bool) -> Self {
        self.allocator_config.poll_pages = is_lent;
        self
    }
}

/// What the program calls itself to the daemon.
pub(super) fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}
