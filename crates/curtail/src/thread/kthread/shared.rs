//! What other kthreads may touch of one: its inbox, what could be stolen, how it is woken.

use crate::clock;
use crate::thread::parker::Parker;
use crate::thread::tcb::{Overflow, Tcb};
use curtail_ring::{CachePadded, Inbox, StealRing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What the watchdog sees from whether the kthread goes on. Written by the kthread.
#[derive(Default)]
pub(in crate::thread) struct Progress {
    /// How often a thread or request was picked.
    pub picks: AtomicU32,
    /// How many more were ready then.
    pub ready: AtomicUsize,
    /// When the first timer was due, as it was when threads began to run (TSC); 0: none was set.
    pub timer: AtomicU64,
}

/// What other kthreads may touch.
pub(crate) struct Shared {
    /// Threads and requests of this kthread that were made ready elsewhere.
    pub(super) inbox: CachePadded<Inbox<Tcb>>,
    /// Threads that have not started, and those for which the ring had no room.
    pub(super) fresh: StealRing<Tcb>,
    pub(super) overflow: CachePadded<Overflow>,
    pub(crate) parker: Arc<CachePadded<Parker>>,
    pub(in crate::thread) progress: CachePadded<Progress>,
    /// The kernel's number of it; 0: it does not live.
    tid: AtomicI32,
    pub(super) ended: AtomicBool,
}

impl Shared {
    pub(crate) fn new(parker: Arc<CachePadded<Parker>>) -> Arc<Self> {
        Arc::new(Self {
            inbox: CachePadded::new(Inbox::default()),
            fresh: StealRing::default(),
            overflow: CachePadded::new(Overflow::new()),
            parker,
            progress: CachePadded::default(),
            tid: AtomicI32::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// The calling kernel thread is it, from now on (or no more).
    pub(super) fn set_lives(&self, lives: bool) {
        // SAFETY: no arguments, always succeeds.
        let tid = if lives { unsafe { libc::gettid() } } else { 0 };
        self.tid.store(tid, Ordering::Release);
        self.ended.store(!lives, Ordering::Release);
    }

    /// The kernel's number of it; `None`: it does not live.
    pub(in crate::thread) fn tid(&self) -> Option<libc::pid_t> {
        Some(self.tid.load(Ordering::Acquire)).filter(|&tid| tid != 0)
    }

    /// Whether something waits for it to pick.
    pub(in crate::thread) fn keeps_waiting(&self) -> bool {
        let timer = self.progress.timer.load(Ordering::Relaxed);
        !self.inbox.is_empty()
            || self.stealable() > 0
            || self.progress.ready.load(Ordering::Relaxed) > 0
            || (timer != 0 && timer <= clock::now())
    }

    /// It runs no thread any more, ever.
    pub(in crate::thread) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How many threads could be stolen.
    #[inline]
    pub(in crate::thread) fn stealable(&self) -> usize {
        self.fresh.len() + self.overflow.len()
    }

    #[inline]
    pub(super) fn push_fresh(&self, tcb: &Tcb) {
        if self.overflow.len() > 0 || !self.fresh.push(tcb.as_ptr()) {
            self.overflow.push(tcb);
        }
    }
}
