//! An engine as the request knows it that runs on it: [`EngineHooks`].

use super::{Engine, Links};
use curtail_rt::calls::EngineHooks;
use curtail_rt::cancel::Cause;
use curtail_rt::context::Facts;
use curtail_rt::thread::Tcb;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

impl Engine {
    /// For what runs on the engine at `this`.
    pub(super) fn hooks(this: *mut Self) -> EngineHooks {
        EngineHooks {
            engine: this.cast(),
            expired,
            waits,
            served,
            cause,
            facts,
            serve,
            has_reason,
            rests,
            away,
            stranded,
            moved,
            sent,
        }
    }
}

// Each is called as `EngineHooks` says, with an engine that `Engine::hooks` was given.

unsafe fn expired(engine: *mut ()) -> bool {
    // SAFETY: by contract.
    unsafe { Engine::back(engine.cast(), Engine::expired) }
}

unsafe fn waits(engine: *mut ()) -> bool {
    // SAFETY: by contract.
    unsafe { Engine::back(engine.cast(), |engine| engine.has_requests()) }
}

unsafe fn served(engine: *mut (), now: u64) -> Option<u64> {
    // SAFETY: by contract.
    unsafe { Engine::served(engine.cast(), now) }
}

unsafe fn cause(engine: *mut (), tcb: &Tcb) -> Option<Cause> {
    let engine: *mut Engine = engine.cast();
    // SAFETY: by contract; nothing else touches it meanwhile.
    unsafe {
        (*engine).handle_notices();
        tcb.cancel.cause().or_else(|| (*engine).cause_of_running())
    }
}

unsafe fn facts(engine: *mut ()) -> Option<Facts> {
    let engine: *mut Engine = engine.cast();
    // SAFETY: by contract; nothing else touches it meanwhile.
    unsafe { (*engine).facts_of_running() }
}

unsafe fn serve(engine: *mut ()) -> bool {
    // SAFETY: by contract.
    unsafe { Engine::serve(engine.cast()) }
}

unsafe fn has_reason(engine: *mut ()) -> bool {
    // SAFETY: by contract.
    unsafe { (*engine.cast::<Engine>()).has_reason() }
}

unsafe fn rests(engine: *mut ()) -> Option<Duration> {
    // SAFETY: by contract.
    unsafe { (*engine.cast::<Engine>()).give_back() }
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
