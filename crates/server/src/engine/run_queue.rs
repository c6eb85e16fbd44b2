//! An engine as its kthread's run queue.

use super::{Engine, Links};
use curtail_rt::thread::RunQueue;
use std::sync::atomic::AtomicU32;

impl Engine {
    /// For the kthread of the engine at `this`.
    pub(super) fn run_queue(this: *mut Self) -> RunQueue {
        // SAFETY: each is called as `RunQueue` says, with the engine that was given here.
        unsafe {
            RunQueue {
                owner: this.cast(),
                waits: |this| Self::back(this.cast(), |engine| engine.has_requests()),
                run_ready: |this, now| Self::run_ready(this.cast(), now),
                has_reason: |this| (*this.cast::<Self>()).has_reason(),
                away: |this, f| Self::away(this.cast(), f),
                stranded: |this| Self::back(this.cast(), |engine| engine.stranded()),
                moved: |this| Self::back(this.cast(), Self::tell_dispatcher),
                sent: |this| Self::back(this.cast(), |engine| watched(engine.links.as_ref())),
            }
        }
    }
}

/// What says that something was sent, and what it is until then.
fn watched(links: Option<&Links>) -> (*const AtomicU32, u32) {
    static NOTHING: AtomicU32 = AtomicU32::new(0);
    links.map_or((&raw const NOTHING, 0), |links| links.inbox.watched())
}
