//! Looks at single requests, for people: the ingress loop asks, and each kthread answers with the oldest of
//! those that it has in progress, at its next notice.

use super::context::WorkerContext;
use super::request::Request;
use crate::stats::{RequestState, RequestStats};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_policy::{ClassId, Nanos, WorkerId};
use curtail_ring::CachePadded;
use curtail_rt::clock::Clock;
use curtail_rt::thread::InProgress;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

/// So many of each kthread, and of all.
const MOST: usize = 16;

/// Looks at single requests, for people.
pub(super) struct Looks {
    /// How often they were asked for.
    asked: AtomicU64,
    /// By kthread.
    answers: Box<[CachePadded<Answer>]>,
}

#[derive(Default)]
struct Answer {
    /// What `asked` was when this was written.
    to: AtomicU64,
    rows: Mutex<Rows>,
}

/// The oldest first.
type Rows = [Option<Row>; MOST];

/// A request in progress.
#[derive(Clone, Copy)]
struct Row {
    class: ClassId,
    arrived_tsc: u64,
    ran_cycles: u64,
    waits: bool,
}

impl Looks {
    /// Of so many kthreads.
    pub(super) fn new(kthreads: usize) -> Self {
        Self {
            asked: AtomicU64::new(0),
            answers: (0..kthreads).map(|_| CachePadded::default()).collect(),
        }
    }

    /// The kthreads are to answer, when they have been notified.
    pub(super) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Release);
    }

    /// Whether a kthread has answered what was asked last.
    pub(super) fn is_answered(&self, kthread: usize) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        self.answers[kthread].to.load(Ordering::Acquire) == asked
    }

    /// Answers, if that was asked for. By the kthread, in a critical section.
    fn answer(&self, kthread: usize, all: InProgress<'_>) {
        let (answer, asked) = (&self.answers[kthread], self.asked.load(Ordering::Acquire));
        if answer.to.load(Ordering::Relaxed) == asked {
            return;
        }
        // The ingress loop reads it just now: it does without.
        let mut rows = match answer.rows.try_lock() {
            Ok(rows) => rows,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        *rows = [None; MOST];
        for (task, waits, ran_cycles) in all {
            // SAFETY: a request's, in progress: it is the first field of one.
            let origin = unsafe { &(*std::ptr::from_ref(task).cast::<Request>()).origin };
            let (class, arrived_tsc) = (origin.class, origin.arrived_tsc);
            insert(&mut rows, Row { class, arrived_tsc, ran_cycles, waits });
        }
        answer.to.store(asked, Ordering::Release);
    }

    /// The oldest requests of those kthreads that have answered and still hold some.
    pub(super) fn oldest(&self, now: u64, holds: impl Fn(usize) -> bool) -> Vec<RequestStats> {
        let clock = Clock::get();
        let mut all: Vec<(u64, RequestStats)> = Vec::new();
        let answered = |&kthread: &usize| holds(kthread) && self.is_answered(kthread);
        for kthread in (0..self.answers.len()).filter(answered) {
            let rows = *self.answers[kthread].rows.lock().unwrap_or_else(PoisonError::into_inner);
            let on = WorkerId(kthread as u16);
            all.extend(rows.into_iter().flatten().map(|row| {
                let stats = RequestStats {
                    class: row.class,
                    age: Nanos(clock.ns(now.saturating_sub(row.arrived_tsc))),
                    attained: Nanos(clock.ns(row.ran_cycles)),
                    state: if row.waits { RequestState::Blocked(on) } else { RequestState::On(on) },
                };
                (row.arrived_tsc, stats)
            }));
        }
        all.sort_unstable_by_key(|&(arrived, _)| arrived);
        all.into_iter().take(MOST).map(|(_, stats)| stats).collect()
    }
}

/// A kthread's requests look after a notice: it answers.
pub(super) fn noticed(all: InProgress<'_>) {
    let here = WorkerContext::here();
    enter_critical();
    here.common.looks.answer(here.index, all);
    leave_critical();
}

/// Among those that came first, if it is one of them.
fn insert(rows: &mut Rows, row: Row) {
    let is_after = |other: &Option<Row>| other.is_none_or(|it| it.arrived_tsc > row.arrived_tsc);
    if let Some(place) = rows.iter().position(is_after) {
        rows[place..].rotate_right(1);
        rows[place] = Some(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stay_in_order() {
        let mut rows: Rows = [None; MOST];
        for arrived_tsc in (0..40_u64).map(|n| n * 7 % 40) {
            insert(&mut rows, Row { class: ClassId(0), arrived_tsc, ran_cycles: 0, waits: false });
        }
        let arrived: Vec<u64> = rows.iter().flatten().map(|row| row.arrived_tsc).collect();
        assert_eq!(arrived, (0..MOST as u64).collect::<Vec<_>>());
    }
}
