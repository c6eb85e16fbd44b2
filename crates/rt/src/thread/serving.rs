//! The run queue of a kthread to which a dispatcher sends requests ([`RunQueue`]). It runs what is ready,
//! requests and threads, and is left alone while the kthread sleeps, or runs something else.

use super::kthread::{KThread, Shared};
use super::scheduler::KthreadScheduler;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The run queue of a kthread to which a dispatcher sends requests.
///
/// Each function is called by its kthread, and the caller holds no reference into what `owner` points to.
#[derive(Clone, Copy)]
pub struct RunQueue {
    /// The first argument of each function.
    pub owner: *mut (),
    /// While a thread runs: whether requests want the processor.
    pub waits: unsafe fn(*mut ()) -> bool,
    /// By the kthread's own loop, while nothing runs: runs what is ready, requests and threads, until
    /// nothing is or the kthread is asked for something; true: something ran. With a fresh TSC reading.
    pub run_ready: unsafe fn(*mut (), u64) -> bool,
    /// By the kthread's own loop, while nothing runs: whether `run_ready` would find something that the
    /// kthread does not see by itself.
    pub has_reason: unsafe fn(*mut ()) -> bool,
    /// By the kthread's own loop, while nothing runs: calls what runs or sleeps without the queue.
    pub away: unsafe fn(*mut (), &mut dyn FnMut()),
    /// From within `away`: how many requests are ready that only this kthread can run.
    pub stranded: unsafe fn(*mut ()) -> usize,
    /// From within `away`: the kthread has given its core back, or has one again.
    pub moved: unsafe fn(*mut ()),
    /// While a batch thread runs: the word that changes when something is sent, and what it is until
    /// then.
    pub sent: unsafe fn(*mut ()) -> (*const AtomicU32, u32),
}

/// Does what a core allocator asks, and tells it of the queues; true: the kthread may have had no core
/// meanwhile. Between two threads. `now`: TSC.
#[inline]
pub fn heed(kthread: &KThread, now: u64) -> bool {
    let Some(client) = &kthread.client else { return false };
    let looks = kthread.beat(now);
    if looks {
        away(kthread, || client.look(kthread));
    }
    looks
}

/// Runs what is ready here; true: something ran. `now`: a fresh TSC reading.
#[inline]
pub(super) fn run_ready(kthread: &KThread, now: u64) -> bool {
    match kthread.run_queue.get() {
        // SAFETY: this kthread calls, and runs nothing.
        Some(queue) => unsafe { (queue.run_ready)(queue.owner, now) },
        None => {
            kthread.poll(now);
            kthread.handle_notices();
            kthread.run_threads(u32::MAX)
        }
    }
}

/// Whether the run queue has something to do that the kthread does not see by itself.
#[inline]
pub(super) fn has_reason(kthread: &KThread) -> bool {
    // SAFETY: this kthread calls, and runs nothing.
    kthread.run_queue.get().is_some_and(|queue| unsafe { (queue.has_reason)(queue.owner) })
}

/// Calls what does not use the run queue.
#[inline]
pub(super) fn away(kthread: &KThread, mut f: impl FnMut()) {
    match kthread.run_queue.get() {
        // SAFETY: this kthread calls, and runs nothing.
        Some(queue) => unsafe { (queue.away)(queue.owner, &mut f) },
        None => f(),
    }
}

/// How many requests are ready here that only this kthread can run. From within [`away`].
pub(super) fn stranded(kthread: &KThread) -> usize {
    // SAFETY: this kthread calls, from what the queue is away for.
    kthread.run_queue.get().map_or(0, |queue| unsafe { (queue.stranded)(queue.owner) })
}

/// The kthread has given its core back, or has one again. From within [`away`].
pub(super) fn moved(kthread: &KThread) {
    if let Some(queue) = kthread.run_queue.get() {
        // SAFETY: this kthread calls, from what the queue is away for.
        unsafe { (queue.moved)(queue.owner) }
    }
}

/// Whether what runs on the kthread is to leave for the kthread's own loop: the core is wanted elsewhere,
/// or the kthread is to end. By the kthread. `now`: TSC.
#[inline]
pub fn is_wanted(kthread: &KThread, now: u64) -> bool {
    is_to_stop(kthread) || kthread.beat(now)
}

/// Something was sent to that kthread, and can be seen: a core allocator is to know if it has no core.
#[inline]
pub fn announce_if_parked(kthread: &Shared) {
    if kthread.line.is_some() {
        // It looks at what was sent after it has said that it is parked.
        fence(Ordering::SeqCst);
        if kthread.is_parked() {
            kthread.announce_packets();
        }
    }
}

/// Whether the kthread is to end.
#[inline]
pub fn is_to_stop(kthread: &KThread) -> bool {
    kthread.scheduler.as_ref().is_some_and(KthreadScheduler::is_to_stop)
}
