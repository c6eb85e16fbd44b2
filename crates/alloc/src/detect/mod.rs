//! Who is congested: what kthreads published, and detectors that judge it. A file for each.

mod age;
mod queues;

use crate::Nanos;

/// Counters of a queue: what was taken out so far, and put in. Both wrap. Any values are legal; more
/// than 2³¹ in the queue counts as none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Taken out so far.
    pub head: u32,
    /// Put in so far.
    pub tail: u32,
}

impl Queue {
    /// How many are in it.
    #[must_use]
    pub const fn len(self) -> u32 {
        let len = self.tail.wrapping_sub(self.head);
        if len > i32::MAX as u32 { 0 } else { len }
    }

    /// There are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// What a kthread said of itself: a copy of its line in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KthreadLook {
    /// It has given its core back, and sleeps.
    pub parked: bool,
    /// It has seen the word that was written to it last: the generation in its line is the word's.
    pub acknowledged: bool,
    /// Its run queue.
    pub run: Queue,
    /// Its inbox.
    pub inbox: Queue,
    /// Since when the oldest thread in its run queue has been ready.
    pub oldest_ready: Option<Nanos>,
    /// When its first timer is due.
    pub next_timer: Option<Nanos>,
    /// Ready threads, of those in its queues and its inbox, that only this kthread can run.
    pub stranded: u32,
}

impl KthreadLook {
    /// Parked, with nothing to do, and nothing to answer.
    pub const IDLE: Self = Self {
        parked: true,
        acknowledged: true,
        run: Queue { head: 0, tail: 0 },
        inbox: Queue { head: 0, tail: 0 },
        oldest_ready: None,
        next_timer: None,
        stranded: 0,
    };

    /// It has work that waits for this kthread, and for no other.
    pub(crate) fn has_own_work(&self, now: Nanos) -> bool {
        let due = self.next_timer.is_some_and(|at| at <= now);
        self.stranded > 0 || !self.inbox.is_empty() || due
    }
}

/// What counts as waiting for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detector {
    /// Shenango's Algorithm 1: what was in a queue at the last look and still is. Blind where threads
    /// share a kthread by quanta: a thread that ran for one goes to the tail.
    Queues,
    /// What has been ready for longer than the limit.
    Age {
        /// The limit.
        limit: Nanos,
    },
    /// One of the two.
    Either {
        /// For how long a thread may be ready.
        limit: Nanos,
    },
}

impl Detector {
    /// How many threads and messages of this kthread have waited for too long and could be run by
    /// another, given what it said at the last look for congestion.
    #[must_use]
    pub fn waiting(&self, now: Nanos, last: Option<&KthreadLook>, look: &KthreadLook) -> u32 {
        let queues = || last.map_or(0, |last| queues::waiting(last, look));
        let waiting = match *self {
            Self::Queues => queues(),
            Self::Age { limit } => age::waiting(now, limit, look),
            Self::Either { limit } => queues().max(age::waiting(now, limit, look)),
        };
        let all = look.run.len().saturating_add(look.inbox.len());
        waiting.min(all.saturating_sub(look.stranded))
    }
}
