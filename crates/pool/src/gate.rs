//! A class's gate: how many jobs of it are under way, and what became of the others.

use super::shared::locked;
use curtail_server::stats::histogram;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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

/// A class's gate, which counts its jobs.
pub(super) struct Gate {
    pub name: Arc<str>,
    pub limit: usize,
    pub max_age: Option<Duration>,
    pub max_age_cycles: u64,
    under_way: AtomicUsize,
    pub in_progress: AtomicUsize,
    pub counts: Counts,
    /// Queueing, service and sojourn times in nanoseconds.
    times: Mutex<[Histogram<u64>; 3]>,
}

impl Gate {
    pub(super) fn new(
        name: &str,
        limit: usize,
        max_age: Option<Duration>,
        max_age_cycles: u64,
    ) -> Self {
        Self {
            name: name.into(),
            limit,
            max_age,
            max_age_cycles,
            under_way: AtomicUsize::new(0),
            in_progress: AtomicUsize::new(0),
            counts: Counts::default(),
            // Two digits: some kilobytes each.
            times: Mutex::new([(); 3].map(|()| histogram(2))),
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

    /// A job has ended on a worker, after these queueing, service and sojourn times.
    pub(super) fn record(&self, ns: [u64; 3]) {
        locked(&self.times, |times| {
            times.iter_mut().zip(ns).for_each(|(times, ns)| times.saturating_record(ns));
        });
    }

    pub(super) fn stats(&self) -> ClassStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [queueing_ns, service_ns, sojourn_ns] = locked(&self.times, |times| times.clone());
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
