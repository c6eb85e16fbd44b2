//! A class's gate: how many jobs of it are under way, and what became of the others.

use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_server::stats::histogram;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is counted of one class.
#[derive(Clone, Debug)]
pub struct ClassStats {
    /// The class's name.
    pub name: Arc<str>,
    /// Jobs that wait or are in progress now.
    pub under_way: usize,
    /// Of these, those in progress.
    pub in_progress: usize,
    /// Jobs that were let in.
    pub submitted: u64,
    /// Jobs that returned a value.
    pub completed: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs that were given up before they began, and were not run.
    pub given_up: u64,
    /// Jobs that were cancelled, before they began or in progress, and brought no value.
    pub cancelled: u64,
    /// Jobs that were cancelled in progress and left where they were, for ever
    /// ([`OnCancel::Abandon`](curtail_rt::OnCancel)).
    pub abandoned: u64,
    /// Jobs that were not let in, because the class had as many as it may have.
    pub refused_full: u64,
    /// Jobs that had waited too long and were not run.
    pub refused_too_old: u64,
    /// Jobs that were refused because the pool was shut down.
    pub refused_shut_down: u64,
    /// From the submission to the first instruction, in nanoseconds.
    pub queueing_ns: Histogram<u64>,
    /// On a worker, all quanta together, in nanoseconds.
    pub service_ns: Histogram<u64>,
    /// From the submission to the end, in nanoseconds.
    pub sojourn_ns: Histogram<u64>,
}

/// A class's counters. One that only grows is a sum of what many threads did.
#[derive(Default)]
pub(super) struct Counts {
    pub submitted: AtomicU64,
    pub completed: AtomicU64,
    pub panicked: AtomicU64,
    pub given_up: AtomicU64,
    pub cancelled: AtomicU64,
    pub abandoned: AtomicU64,
    pub refused_full: AtomicU64,
    pub refused_too_old: AtomicU64,
    pub refused_shut_down: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Times {
    queueing_ns: Histogram<u64>,
    service_ns: Histogram<u64>,
    sojourn_ns: Histogram<u64>,
}

/// A class's gate, which counts its jobs.
pub(super) struct Gate {
    pub name: Arc<str>,
    pub limit: usize,
    pub max_age: Option<Duration>,
    pub max_age_cycles: u64,
    under_way: AtomicUsize,
    pub in_progress: AtomicUsize,
    pub counts: Counts,
    times: Mutex<Times>,
}

impl Gate {
    pub(super) fn new(
        name: &str,
        limit: usize,
        max_age: Option<Duration>,
        max_age_cycles: u64,
    ) -> Self {
        // Two digits: some kilobytes each.
        let times =
            Times { queueing_ns: histogram(2), service_ns: histogram(2), sojourn_ns: histogram(2) };
        Self {
            name: name.into(),
            limit,
            max_age,
            max_age_cycles,
            under_way: AtomicUsize::new(0),
            in_progress: AtomicUsize::new(0),
            counts: Counts::default(),
            times: Mutex::new(times),
        }
    }

    /// One more is under way, if it may be.
    pub(super) fn enter(&self) -> bool {
        let more = |under_way| (under_way < self.limit).then_some(under_way + 1);
        self.under_way.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    pub(super) fn leave(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// A job has ended on a worker.
    pub(super) fn record(&self, queueing_ns: u64, service_ns: u64, sojourn_ns: u64) {
        enter_critical();
        {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.queueing_ns.saturating_record(queueing_ns);
            times.service_ns.saturating_record(service_ns);
            times.sojourn_ns.saturating_record(sojourn_ns);
        }
        leave_critical();
    }

    pub(super) fn stats(&self) -> ClassStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (queueing_ns, service_ns, sojourn_ns) = {
            let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            (times.queueing_ns.clone(), times.service_ns.clone(), times.sojourn_ns.clone())
        };
        ClassStats {
            name: self.name.clone(),
            under_way: self.under_way(),
            in_progress: self.in_progress.load(Ordering::Relaxed),
            submitted: of(&self.counts.submitted),
            completed: of(&self.counts.completed),
            panicked: of(&self.counts.panicked),
            given_up: of(&self.counts.given_up),
            cancelled: of(&self.counts.cancelled),
            abandoned: of(&self.counts.abandoned),
            refused_full: of(&self.counts.refused_full),
            refused_too_old: of(&self.counts.refused_too_old),
            refused_shut_down: of(&self.counts.refused_shut_down),
            queueing_ns,
            service_ns,
            sojourn_ns,
        }
    }
}
