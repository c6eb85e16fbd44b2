//! What other threads may touch of a worker: its words, and its kthread's shared part.
//!
//! Lines are kept apart by writer: [`Progress`] is the worker's, [`WorkerSignals`] the dispatcher's. Every
//! word of theirs is a hint or a counter that is right on its own. Data passes through rings; but names of
//! cancelled requests lie under a lock, and the dispatcher takes jobs back from a worker that is away
//! (`absence`).

use crate::engine::Engine;
use curtail_fiber::safepoint::Poll;
use curtail_policy::JobId;
use curtail_ring::{BiasedLock, CachePadded};
use curtail_rt::cancel::Cause;
use curtail_rt::signal::Ticker;
use curtail_rt::thread::{Parker, Shared};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

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
pub(crate) struct WorkerSignals {
    /// 1: jobs wait centrally that could run here. (A word: safepoints watch it.)
    pub contended: AtomicU32,
    /// When the poll word was last raised (TSC).
    pub raised: AtomicU64,
    /// Raised when the worker is to look at its new configuration.
    pub epoch: AtomicU32,
    /// Under a core allocator, why the worker is to keep its core although it has nothing to do: the
    /// dispatcher does not know yet that it has one, or has jobs that wait.
    pub stays: Stays,
}

/// See [`WorkerSignals::stays`].
#[derive(Default)]
pub(crate) struct Stays {
    pub thought_down: AtomicBool,
    pub jobs_wait: AtomicBool,
}

impl Stays {
    pub(crate) fn any(&self) -> bool {
        self.thought_down.load(Ordering::Acquire) || self.jobs_wait.load(Ordering::Acquire)
    }
}

pub(crate) struct Remote {
    pub progress: CachePadded<Progress>,
    pub signals: CachePadded<WorkerSignals>,
    /// It is in a handler, runs threads, or has no core, and does not touch its engine meanwhile.
    pub absence: CachePadded<BiasedLock>,
    /// The worker's engine, from when it begins to take jobs until it stops; null otherwise. Touched by
    /// the dispatcher in the worker's absence.
    pub engine: AtomicPtr<Engine>,
    /// Where its threads and requests are made ready from elsewhere.
    pub kthread: Arc<Shared>,
    pub parker: Arc<CachePadded<Parker>>,
    /// Requests there that are to be cancelled, by job number and arrival; a notice says that there are.
    pub cancels: Mutex<Vec<(JobId, u64, Cause)>>,
    /// Set by the worker before it takes its first job.
    pub poll: OnceLock<Poll>,
    /// Set by the worker when it is first to be pre-empted by signal.
    pub ticker: OnceLock<Ticker>,
}

impl Remote {
    /// Of a thread that is no kthread of a pool.
    pub(crate) fn new() -> Self {
        let parker = Arc::new(CachePadded::new(Parker::default()));
        Self::of(Shared::new(parker, None))
    }

    /// Of a kthread.
    pub(crate) fn of(kthread: Arc<Shared>) -> Self {
        let parker = kthread.parker.clone();
        Self {
            progress: CachePadded::default(),
            signals: CachePadded::default(),
            absence: CachePadded::default(),
            engine: AtomicPtr::default(),
            kthread,
            parker,
            cancels: Mutex::default(),
            poll: OnceLock::new(),
            ticker: OnceLock::new(),
        }
    }
}
