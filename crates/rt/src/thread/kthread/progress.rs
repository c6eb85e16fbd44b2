//! Whether a kthread goes on, for the watchdog.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What the watchdog sees from whether the kthread goes on. Written by the kthread.
#[derive(Default)]
pub(in crate::thread) struct Progress {
    /// How often a thread or request was picked.
    pub picks: AtomicU32,
    /// How often a quantum ended at a safepoint without another thread being picked.
    pub ticks: AtomicU32,
    /// How many were ready then, itself included; 0: nothing runs.
    pub ready: AtomicUsize,
    /// When the first timer is due, or was when threads began to run (TSC); 0: none was set.
    pub timer: AtomicU64,
}

impl Progress {
    /// A quantum ended at a safepoint. By the kthread.
    #[inline]
    pub(super) fn tick(&self) {
        let ticks = self.ticks.load(Ordering::Relaxed).wrapping_add(1);
        self.ticks.store(ticks, Ordering::Relaxed);
    }

    /// A timer is set. By the kthread.
    #[inline]
    pub(super) fn note_timer(&self, tsc: u64) {
        let first = self.timer.load(Ordering::Relaxed);
        if first == 0 || tsc < first {
            self.timer.store(tsc, Ordering::Relaxed);
        }
    }

    /// It changes whenever what runs comes to the runtime.
    pub(in crate::thread) fn beats(&self) -> u32 {
        self.picks.load(Ordering::Relaxed).wrapping_add(self.ticks.load(Ordering::Relaxed))
    }
}
