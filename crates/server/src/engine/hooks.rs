//! An engine as the request knows it that runs on it: [`EngineHooks`].

use super::Engine;
use curtail_rt::calls::EngineHooks;
use curtail_rt::cancel::Cause;
use curtail_rt::context::Facts;
use curtail_rt::thread::Tcb;

impl Engine {
    /// For what runs on the engine at `this`.
    pub(super) fn hooks(this: *mut Self) -> EngineHooks {
        EngineHooks { engine: this.cast(), expired, waits, served, cause, facts }
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
        (*engine).attend();
        tcb.cancel.cause().or_else(|| (*engine).cause_of_running())
    }
}

unsafe fn facts(engine: *mut ()) -> Option<Facts> {
    let engine: *mut Engine = engine.cast();
    // SAFETY: by contract; nothing else touches it meanwhile.
    unsafe { (*engine).facts_of_running() }
}
