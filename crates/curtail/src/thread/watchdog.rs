//! The watchdog: tells of a kthread that is stuck, while it is stuck.
//!
//! A plain thread looks at all kthreads of a runtime every half limit. A kthread is stuck if it has
//! picked nothing for the limit although something waits for it there: it is in a system call that
//! blocks, or in code without safepoints. What has not started goes on elsewhere: others steal it,
//! and where all kthreads are stuck, a spare one is started.

use super::kthread::Shared;
use super::stack_of::stack_of;
use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A kthread is stuck.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// Which kthread, from 0.
    pub kthread: usize,
    /// For how long it has picked nothing, at least.
    pub duration: Duration,
    /// What it is doing: the functions on its stack, innermost first. Empty where it did not answer.
    pub stack: Vec<String>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kthread {} is stuck since {:?}, in", self.kthread, self.duration)?;
        self.stack.iter().try_for_each(|frame| write!(f, "\n    {frame}"))
    }
}

/// Tells of it in the log, or on standard error where nobody listens to that; once a second at most.
pub(crate) fn default_on_stall() -> OnStall {
    let told = Mutex::new(None::<Instant>);
    Arc::new(move |stall| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.elapsed() < Duration::from_secs(1)) {
            return;
        }
        *told = Some(Instant::now());
        if tracing::enabled!(tracing::Level::WARN) {
            tracing::warn!("{stall}");
        } else {
            // Where it can't be written, there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "curtail: {stall}");
        }
    })
}

/// What is done with a [`Stall`].
pub(crate) type OnStall = Arc<dyn Fn(&Stall) + Send + Sync>;

/// What the watchdog knows of one kthread.
#[derive(Clone, Copy)]
struct Seen {
    picks: u32,
    since: Instant,
    /// When to tell of it again: after twice as long each time.
    tell_after: Duration,
}

/// See the module's head.
struct Watchdog {
    limit: Duration,
    on_stall: OnStall,
    seen: Vec<Seen>,
}

impl Watchdog {
    fn new(limit: Duration, on_stall: OnStall) -> Self {
        Self { limit, on_stall, seen: Vec::new() }
    }

    /// From one look to the next.
    fn pause(&self) -> Duration {
        self.limit / 2
    }

    /// Looks at all kthreads, and tells of those that are stuck; true: all that live are.
    fn look(&mut self, kthreads: &[Arc<Shared>]) -> bool {
        let now = Instant::now();
        let fresh = Seen { picks: 0, since: now, tell_after: self.limit };
        self.seen.resize(kthreads.len(), fresh);
        let mut all = true;
        for (index, (kthread, seen)) in kthreads.iter().zip(&mut self.seen).enumerate() {
            let Some(tid) = kthread.tid() else { continue };
            let picks = kthread.progress.picks.load(Ordering::Relaxed);
            if picks != seen.picks || !kthread.keeps_waiting() {
                *seen = Seen { picks, ..fresh };
            }
            let stuck_for = now - seen.since;
            all &= stuck_for >= self.limit;
            if stuck_for >= seen.tell_after {
                seen.tell_after = stuck_for * 2;
                let stack = stack_of(tid);
                (self.on_stall)(&Stall { kthread: index, duration: stuck_for, stack });
            }
        }
        all
    }
}

/// A watchdog's thread; it ends when this is dropped.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    /// Watches `kthreads`; `all_stuck` is called at each look that finds all of them stuck. Where
    /// the system gives no thread, nothing is watched, and that is told.
    pub(crate) fn over(
        kthreads: impl AsRef<[Arc<Shared>]> + Send + 'static,
        limit: Duration,
        on_stall: OnStall,
        all_stuck: impl Fn() + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut watchdog = Watchdog::new(limit, on_stall);
        let body = move || {
            while !stopped.load(Ordering::Acquire) {
                if watchdog.look(kthreads.as_ref()) {
                    all_stuck();
                }
                std::thread::park_timeout(watchdog.pause());
            }
        };
        let thread = std::thread::Builder::new().name("curtail-watchdog".to_owned()).spawn(body);
        let thread = thread.map_err(|error| tracing::warn!(%error, "no watchdog")).ok();
        Self { stop, thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics if `on_stall` does: that was told.
            let _ = thread.join();
        }
    }
}
