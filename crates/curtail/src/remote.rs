//! What other threads may touch of a worker: its words and its wake queue.
//!
//! Lines are kept apart by writer: `running`/`serviced` are the worker's, `contended`/`epoch` the
//! dispatcher's, `parked` is both's. Every word is a hint or a counter that is right on its own;
//! data passes through rings only.

use curtail_fiber::safepoint::Poll;
use curtail_fiber::signal::Ticker;
use curtail_policy::JobId;
use curtail_ring::{CachePadded, Doze, mpsc};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread::Thread;
use std::time::Duration;

/// Written by the worker.
#[derive(Default)]
pub(crate) struct Progress {
    /// TSC at which the present quantum began; 0: nothing runs that could be pre-empted by flag.
    pub running: AtomicU64,
    /// Whole quanta that its unfinished jobs have had (Tiny Quanta §3.2).
    pub serviced: AtomicU64,
    /// Pre-emptions so far.
    pub preemptions: AtomicU64,
}

/// Written by the dispatcher.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Jobs wait centrally that could run here.
    pub contended: AtomicBool,
    /// When the poll word was last raised (TSC).
    pub raised: AtomicU64,
    /// Raised when the worker is to look at its new configuration.
    pub epoch: AtomicU32,
    /// End: the jobs have left, or are given up.
    pub stop: AtomicBool,
}

pub(crate) struct Remote {
    pub progress: CachePadded<Progress>,
    pub wishes: CachePadded<Wishes>,
    pub parker: CachePadded<Parker>,
    /// Set by the worker before it takes its first job.
    pub poll: OnceLock<Poll>,
    /// Set by the worker when it is first to be pre-empted by signal.
    pub ticker: OnceLock<Ticker>,
    wakes: mpsc::Sender<JobId>,
}

impl Remote {
    /// `jobs`: at most so many wake-ups are under way at once, one a job.
    pub(crate) fn new(jobs: usize) -> (Self, mpsc::Receiver<JobId>) {
        let (wakes, receiver) = mpsc::channel(jobs);
        let remote = Self {
            progress: CachePadded::default(),
            wishes: CachePadded::default(),
            parker: CachePadded::default(),
            poll: OnceLock::new(),
            ticker: OnceLock::new(),
            wakes,
        };
        (remote, receiver)
    }

    /// What the job on this worker was blocked for has come. From any thread.
    pub(crate) fn wake(&self, job: JobId) {
        let mut job = job;
        // A blocked job has one wake-up under way, so there is room; a full queue can only mean
        // that the receiver is about to take one out.
        while let Err(full) = self.wakes.push(job) {
            job = full.into_inner();
            self.parker.unpark();
            std::thread::yield_now();
        }
        self.parker.unpark();
    }
}

/// Lets a thread sleep until somebody has work for it, without losing a wake-up (see [`Doze`]).
#[derive(Default)]
pub(crate) struct Parker {
    doze: Doze,
    sleeper: OnceLock<Sleeper>,
}

/// How a sleeper is woken.
pub(crate) enum Sleeper {
    /// It sleeps in `thread::park`.
    Thread(Thread),
    /// It sleeps in its transports' epoll.
    Epoll(curtail_net::Waker),
}

impl Parker {
    /// Says who sleeps here. Once, by the sleeper.
    pub(crate) fn set_sleeper(&self, sleeper: Sleeper) {
        let _ = self.sleeper.set(sleeper);
    }

    /// Sleeps by `sleep` unless `work` finds some after the announcement.
    pub(crate) fn sleep(&self, work: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.doze.unless(work, sleep);
    }

    /// Sleeps in `thread::park`, at most `timeout`.
    pub(crate) fn park(&self, work: impl FnOnce() -> bool, timeout: Duration) {
        self.sleep(work, || std::thread::park_timeout(timeout));
    }

    /// Wakes the sleeper if it sleeps. What it is to find must have been made visible before.
    #[inline]
    pub(crate) fn unpark(&self) {
        if self.doze.rouse() {
            match self.sleeper.get() {
                Some(Sleeper::Thread(thread)) => thread.unpark(),
                Some(Sleeper::Epoll(waker)) => waker.wake(),
                None => {}
            }
        }
    }
}
