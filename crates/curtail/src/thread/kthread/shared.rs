//! What other kthreads may touch of one: its inbox, what could be stolen, how it is woken.

use crate::thread::parker::Parker;
use crate::thread::tcb::{Overflow, Tcb};
use curtail_ring::{CachePadded, Inbox, StealRing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What other kthreads may touch.
pub(crate) struct Shared {
    /// Threads and requests of this kthread that were made ready elsewhere.
    pub(super) inbox: CachePadded<Inbox<Tcb>>,
    /// Threads that have not started, and those for which the ring had no room.
    pub(super) fresh: StealRing<Tcb>,
    pub(super) overflow: CachePadded<Overflow>,
    pub(crate) parker: Arc<CachePadded<Parker>>,
    /// How often a thread was picked: the watchdog sees from it whether the kthread goes on.
    pub(in crate::thread) picks: CachePadded<AtomicU32>,
    pub(super) ended: AtomicBool,
}

impl Shared {
    pub(crate) fn new(parker: Arc<CachePadded<Parker>>) -> Arc<Self> {
        Arc::new(Self {
            inbox: CachePadded::new(Inbox::default()),
            fresh: StealRing::default(),
            overflow: CachePadded::new(Overflow::new()),
            parker,
            picks: CachePadded::new(AtomicU32::new(0)),
            ended: AtomicBool::new(false),
        })
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
