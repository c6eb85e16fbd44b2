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
    /// What the program says.
    daemon: Option<PathBuf>,
    /// What `$CURTAILD` says.
    inherited: Option<PathBuf>,
    guaranteed: u32,
    burstable: Option<u32>,
    batch: bool,
    heartbeat: Duration,
    port: Option<String>,
    poll_pages: bool,
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
    /// See [`RuntimeBuilder::daemon`].
    pub fn set_daemon(&mut self, path: PathBuf) {
        self.daemon = Some(path);
    }

    /// See [`RuntimeBuilder::guaranteed`].
    pub fn set_guaranteed(&mut self, cores: usize) {
        self.guaranteed = u32::try_from(cores).unwrap_or(u32::MAX);
    }

    /// So many are guaranteed, or more.
    pub fn guarantee_at_least(&mut self, cores: usize) {
        self.guaranteed = self.guaranteed.max(u32::try_from(cores).unwrap_or(u32::MAX));
    }

    /// See [`RuntimeBuilder::burstable`].
    pub fn set_burstable(&mut self, cores: usize) {
        self.burstable = Some(u32::try_from(cores).unwrap_or(u32::MAX));
    }

    /// See [`RuntimeBuilder::heartbeat`].
    pub fn set_heartbeat(&mut self, heartbeat: Duration) {
        self.heartbeat = heartbeat;
    }

    /// See [`RuntimeBuilder::poll_page`].
    pub fn set_poll_pages(&mut self, are_lent: bool) {
        self.poll_pages = are_lent;
    }

    /// The heartbeat in cycles.
    pub fn heartbeat_cycles(&self) -> u64 {
        Clock::get().cycles(self.heartbeat.as_nanos() as u64).max(1)
    }

    pub(super) fn has_poll_pages(&self) -> bool {
        self.poll_pages
    }

    /// See `ServerBuilder::daemon_port`.
    pub fn set_port(&mut self, url: String) {
        self.port = Some(url);
    }

    /// The port that the daemon is to have for the program.
    pub fn port(&self) -> Option<&str> {
        self.port.as_deref()
    }

    /// Where the daemon is to be; `None`: there is to be none.
    pub fn path(&self) -> Option<PathBuf> {
        self.daemon.clone().or_else(|| self.inherited.clone())
    }

    /// The program can't do without it.
    pub fn is_must(&self) -> bool {
        self.daemon.is_some() || self.port.is_some()
    }

    pub(super) fn is_batch(&self) -> bool {
        self.batch
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
        let kthreads = kthreads as u32;
        Spec {
            class: match self.batch {
                true => Class::Batch { looks: are_followed() },
                false => Class::LatencyCritical,
            },
            kthreads,
            guaranteed: self.guaranteed,
            burstable: self.burstable.unwrap_or(kthreads.saturating_sub(self.guaranteed)),
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
        self.allocator_config.set_daemon(path.into());
        self
    }

    /// How many cores the daemon is to have for the program whenever it needs them; it refuses to
    /// promise one twice. Default: 0.
    pub fn guaranteed(mut self, cores: usize) -> Self {
        self.allocator_config.set_guaranteed(cores);
        self
    }

    /// How many cores it may have besides, as long as no other program is guaranteed them. Default:
    /// as many as it has kthreads, less those that are guaranteed.
    pub fn burstable(mut self, cores: usize) -> Self {
        self.allocator_config.set_burstable(cores);
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
        self.allocator_config.set_heartbeat(heartbeat);
        self
    }

    /// Under a daemon, in a program built with `--safepoint=flag`: whether the daemon may write the word
    /// that a kthread's safepoints poll, so that the thread that runs there yields at once. Where it may
    /// not, it sends a signal after its `--grace`. The word shares its page with what safepoints call, so
    /// only a daemon of the program's own user gets it. Default: true.
    pub fn poll_page(mut self, is_lent: bool) -> Self {
        self.allocator_config.set_poll_pages(is_lent);
        self
    }
}

/// What the program calls itself to the daemon.
pub(super) fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}
