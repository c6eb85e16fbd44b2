//! What the kthread's own loop does for a server's engine, where it has one ([`EngineHooks`]): the engine
//! runs what is ready, and is left alone while the kthread sleeps, or runs something else.

use super::kthread::{KThread, Shared};
use super::scheduler::KthreadScheduler;
use crate::calls::EngineHooks;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// The engine, for the kthread's own loop: nothing runs, and the caller holds no reference into it.
#[inline]
fn engine(kthread: &KThread) -> Option<EngineHooks> {
    kthread.engine.get()
}

/// Does what a core allocator asks, and tells it of the queues; true: the kthread may have had no core
/// meanwhile. Between two threads. `now`: TSC.
#[inline]
pub fn heed(kthread: &KThread, now: u64) -> bool {
    let Some(member) = &kthread.member else { return false };
    let looks = kthread.beat(now);
    if looks {
        away(kthread, || member.look(kthread));
    }
    looks
}

/// Runs what is ready here; true: something ran.
#[inline]
pub(super) fn run_ready(kthread: &KThread, now: u64) -> bool {
    match engine(kthread) {
        // SAFETY: see `engine`.
        Some(hooks) => unsafe { (hooks.serve)(hooks.engine) },
        None => {
            kthread.look_around(now);
            kthread.handle_notices();
            kthread.run_threads(u32::MAX)
        }
    }
}

/// Whether the engine has something to do that the kthread does not see by itself.
#[inline]
pub(super) fn has_reason(kthread: &KThread) -> bool {
    // SAFETY: see `engine`.
    engine(kthread).is_some_and(|hooks| unsafe { (hooks.has_reason)(hooks.engine) })
}

/// Calls what does not use the engine.
#[inline]
pub(super) fn away(kthread: &KThread, mut f: impl FnMut()) {
    match engine(kthread) {
        // SAFETY: see `engine`.
        Some(hooks) => unsafe { (hooks.away)(hooks.engine, &mut f) },
        None => f(),
    }
}

/// The kthread is about to sleep. For how long at most.
pub(super) fn rests(kthread: &KThread) -> Option<Duration> {
    // SAFETY: see `engine`.
    engine(kthread).and_then(|hooks| unsafe { (hooks.rests)(hooks.engine) })
}

/// How many requests are ready here that only this kthread can run. From within [`away`].
pub(super) fn stranded(kthread: &KThread) -> usize {
    // SAFETY: see `engine`; the engine comes back for that from what it is away for.
    engine(kthread).map_or(0, |hooks| unsafe { (hooks.stranded)(hooks.engine) })
}

/// The kthread has given its core back, or has one again. From within [`away`].
pub(super) fn moved(kthread: &KThread) {
    if let Some(hooks) = engine(kthread) {
        // SAFETY: see `engine`; the engine comes back for that from what it is away for.
        unsafe { (hooks.moved)(hooks.engine) }
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
    kthread.seat.as_ref().is_some_and(KthreadScheduler::is_to_stop)
}
