//! Requests that wait without blocking: for a lock whose holder may be anybody, or with a time
//! limit. They give up their places and look again soon.
//!
//! To the policy such a request blocks, and is woken a little later: when nobody else waits for a
//! place, or when somebody else has had one. If it were queued at once, a policy that ranks requests
//! might give it its place back every time, and never run the one that it waits for.
//!
//! The dispatcher's alone. The invariant: what is in `looking` is blocked, for the policy and in the
//! table of jobs.

use super::Dispatcher;
use crate::jobs::Place;
use crate::message::{Event, What};
use curtail_policy::{Policy, WorkerId};
use std::collections::VecDeque;

/// Nobody looks more often: meanwhile the place is the others'.
const PAUSE_NS: u64 = 5_000;
/// Whatever the others do, it looks again after so many pauses.
const PATIENCE: u64 = 100;

/// A request that gave way.
struct Looking {
    on: WorkerId,
    event: Event,
    /// When it did (TSC).
    since: u64,
    /// What others had done by then.
    progress: u64,
}

/// All of them, in the order in which they gave way.
#[derive(Default)]
pub(super) struct Lookout {
    looking: VecDeque<Looking>,
    /// How often a request has left its place otherwise than by giving way.
    progress: u64,
}

impl Lookout {
    pub(super) fn is_empty(&self) -> bool {
        self.looking.is_empty()
    }

    /// A request has left its place on a worker.
    pub(super) fn note(&mut self, what: What) {
        self.progress += u64::from(matches!(what, What::Ended(_) | What::Yielded | What::Blocked));
    }
}

impl Dispatcher {
    pub(super) fn gave_way(&mut self, on: WorkerId, event: Event, now: u64) {
        self.jobs.get(event.job).place = Place::Blocked(on);
        let time = self.nanos(now);
        self.policy.blocked(time, on, event.job);
        let progress = self.lookout.progress;
        self.lookout.looking.push_back(Looking { on, event, since: now, progress });
    }

    /// Queues those whose time it is.
    pub(super) fn look_again(&mut self, now: u64) {
        let pause = self.clock().cycles(PAUSE_NS);
        while let Some(first) = self.lookout.looking.front() {
            let waited = now.saturating_sub(first.since);
            let may = first.progress != self.lookout.progress || self.policy.waiting() == 0;
            if waited < pause || !may && waited < PATIENCE * pause {
                return;
            }
            if let Some(Looking { on, event, .. }) = self.lookout.looking.pop_front() {
                self.woken(on, &event, self.nanos(now));
            }
        }
    }
}
