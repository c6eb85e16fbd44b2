//! What a kthread counts of the requests that it serves.
//!
//! The kthread writes; the ingress loop looks, now and then. The counters are the kthread's own and can be
//! looked at any time. The classes' rows have a lock, which the kthread finds free but for the looks,
//! and takes between two threads, where nothing is pre-empted.

use super::request::Request;
use crate::stats::{ClassStats, row};
use curtail_policy::ClassId;
use curtail_rt::clock::Clock;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a kthread counts of the requests that it serves.
pub(super) struct KthreadCounters {
    /// Requests that connections have brought here.
    handed_in: AtomicU64,
    started: AtomicU64,
    ended: AtomicU64,
    /// In handlers.
    ran_cycles: AtomicU64,
    locked: AtomicBool,
    rows: UnsafeCell<Box<[ClassStats]>>,
}

// SAFETY: `rows` is touched under the lock only.
unsafe impl Sync for KthreadCounters {}

/// Adds to a counter that only the caller's thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl KthreadCounters {
    /// `names`: of the classes, and at the end that of unknown requests.
    pub(super) fn new(names: impl Iterator<Item = String>) -> Self {
        Self {
            handed_in: AtomicU64::new(0),
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            ran_cycles: AtomicU64::new(0),
            locked: AtomicBool::new(false),
            rows: UnsafeCell::new(names.map(ClassStats::new).collect()),
        }
    }

    /// A connection has brought a request here.
    pub(super) fn submit(&self) {
        add(&self.handed_in, 1);
    }

    /// There was no room for a request.
    pub(super) fn refuse(&self, class: ClassId) {
        self.with(|rows| row(rows, class).dropped += 1);
    }

    /// A request starts here.
    pub(super) fn start(&self) {
        add(&self.started, 1);
    }

    /// A request has found no stack.
    pub(super) fn end_unserved(&self, class: ClassId) {
        add(&self.ended, 1);
        self.refuse(class);
    }

    /// A request that started here has ended.
    pub(super) fn end(&self, request: &Request, clock: Clock) {
        add(&self.ended, 1);
        add(&self.ran_cycles, request.body.ran_cycles);
        let ended = request.completion(0);
        let class = request.origin.class;
        self.with(|rows| row(rows, class).note_end(&ended, request.body.began, clock));
    }

    fn with<R>(&self, f: impl FnOnce(&mut [ClassStats]) -> R) -> R {
        let mut spins = 0_u32;
        while self.locked.swap(true, Ordering::Acquire) {
            spins += 1;
            match spins.is_multiple_of(64) {
                true => rustix::thread::sched_yield(),
                false => std::hint::spin_loop(),
            }
        }
        // SAFETY: under the lock.
        let result = f(unsafe { &mut *self.rows.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    /// Adds what was counted to `rows`, of the same classes.
    pub(super) fn add_to(&self, rows: &mut [ClassStats]) {
        self.with(|own| rows.iter_mut().zip(&*own).for_each(|(all, own)| all.add(own)));
    }

    /// Requests that connections have brought here so far.
    pub(super) fn handed_in(&self) -> u64 {
        self.handed_in.load(Ordering::Relaxed)
    }

    /// Requests that have started here so far.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Requests that have started here and have not ended.
    pub(super) fn holds(&self) -> usize {
        let ended = self.ended.load(Ordering::Relaxed);
        self.started().saturating_sub(ended) as usize
    }

    /// Cycles in handlers.
    pub(super) fn ran_cycles(&self) -> u64 {
        self.ran_cycles.load(Ordering::Relaxed)
    }
}
