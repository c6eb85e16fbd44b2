//! How kthreads are asked to come for what another one has to spare.
//!
//! `Bits::idle` has a bit for each kthread that sleeps or is about to. A thread that has made
//! something ready that could be stolen takes a bit out and wakes its owner; an owner looks at all
//! queues once more between setting its bit and sleeping. The fences on both sides make one see the
//! other. `Bits::batch` is the same for kthreads that run batch threads, which are called rather
//! than woken.

use super::common::Common;
use curtail_fiber::safepoint::{Kind, kind};
use curtail_policy::Call;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Kthreads that others may ask to come: one bit each.
#[derive(Default)]
pub(super) struct Bits {
    /// Kthreads that sleep, or are about to.
    pub idle: AtomicU64,
    /// Kthreads that run batch threads, or are about to.
    pub batch: AtomicU64,
}

/// A kthread's bit; 0: it has none, and comes by itself only, or where the watchdog has it look. The first
/// 64 have one.
pub(super) fn bit(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0)
}

/// Whether safepoints cut batch threads.
fn cuts_batch() -> bool {
    kind() == Kind::Clock
}

impl Common {
    /// Something was put into the queue of a kthread by another thread: wakes that kthread, or one
    /// that may take it from there.
    pub(super) fn wake_for(&self, index: usize) {
        // A kthread that sets its bit after this sees what lies in the queue.
        fence(Ordering::SeqCst);
        if cuts_batch() && self.bits.batch.load(Ordering::Relaxed) & bit(index) != 0 {
            return; // It looks at its own queue.
        }
        if self.bits.idle.load(Ordering::Relaxed) & bit(index) != 0 && self.wake(index) {
            return;
        }
        self.call_one();
    }

    /// Something lies in a queue that others may take: has one come for it.
    #[inline]
    pub(super) fn call_one(&self) {
        fence(Ordering::SeqCst);
        let load = |bits: &AtomicU64| bits.load(Ordering::Relaxed);
        if load(&self.bits.batch) | load(&self.bits.idle) != 0 {
            self.call_any();
        }
    }

    #[cold]
    fn call_any(&self) {
        let load = |bits: &AtomicU64| bits.load(Ordering::Relaxed);
        // Others may be quicker: then the next one is called.
        let next = || Call::of(load(&self.bits.batch), load(&self.bits.idle), cuts_batch());
        while let Some(call) = next() {
            let called = match call {
                Call::Batch(kthread) => self.call(kthread.index()),
                Call::Sleeper(kthread) => self.wake(kthread.index()),
            };
            if called {
                return;
            }
        }
    }

    /// Calls a kthread that runs a batch thread, if no other thread has.
    fn call(&self, index: usize) -> bool {
        let bit = bit(index);
        let runs = self.bits.batch.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if runs {
            self.peers[index].call();
        }
        runs
    }

    /// Wakes a kthread, if no other thread has.
    fn wake(&self, index: usize) -> bool {
        let bit = bit(index);
        let slept = self.bits.idle.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        if slept {
            self.peers[index].parker.unpark();
        }
        slept
    }

    /// A batch thread may be taken: only by one that sleeps.
    #[cold]
    pub(super) fn wake_sleeper(&self) {
        fence(Ordering::SeqCst);
        let mut idle = self.bits.idle.load(Ordering::Relaxed);
        while idle != 0 {
            let index = idle.trailing_zeros();
            if self.wake(index as usize) {
                return;
            }
            idle &= !(1 << index);
        }
    }
}
