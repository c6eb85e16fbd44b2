//! An engine as its kthread's run queue.

use super::{Engine, Links};
use curtail_rt::thread::RunQueue;
use std::sync::atomic::AtomicU32;

impl Engine {
    /// For the kthread of the engine at `this`.
    pub(super) fn run_queue(this: *mut Self) -> RunQueue {
        RunQueue { owner: this.cast(), waits, run_ready, has_reason, away, stranded, moved, sent }
    }
}

// Each is called as `RunQueue` says, with an engine that `Engine::run_queue` was given.

unsafe fn waits(engine: *mut ()) -> bool {
    // SAFETY: by contract.
    unsafe { Engine::back(engine.cast(), |engine| engine.has_requests()) }
}

unsafe fn run_ready(engine: *mut (), now: u64) -> bool {
    // SAFETY: by contract.
    unsafe { Engine::run_ready(engine.cast(), now) }
}

unsafe fn has_reason(engine: *mut ()) -> bool {
    // SAFETY: by contract.
    unsafe { (*engine.cast::<Engine>()).has_reason() }
}

unsafe fn away(engine: *mut (), f: &mut dyn FnMut()) {
    // SAFETY: by contract.
    unsafe { Engine::away(engine.cast(), f) }
}

unsafe fn stranded(engine: *mut ()) -> usize {
    // SAFETY: by contract.
    unsafe { Engine::back(engine.cast(), |engine| engine.stranded()) }
}

unsafe fn moved(engine: *mut ()) {
    // SAFETY: by contract.
    unsafe { Engine::back(engine.cast(), Engine::tell_dispatcher) }
}

/// What says that something was sent, and what it is until then.
fn watched(links: Option<&Links>) -> (*const AtomicU32, u32) {
    static NOTHING: AtomicU32 = AtomicU32::new(0);
    links.map_or((&raw const NOTHING, 0), |links| links.inbox.watched())
}

unsafe fn sent(engine: *mut ()) -> (*const AtomicU32, u32) {
    // SAFETY: by contract.
    unsafe { Engine::back(engine.cast(), |engine| watched(engine.links.as_ref())) }
}
