//! The queue behind a kthread's ring of threads that have not started.

use super::tcb::{Fifo, Tcb};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A queue of blocks that several kthreads take from: where a ring had no room. Its lock is held
/// for a few instructions, by kthreads' own code, in which nothing is pre-empted.
pub(super) struct Overflow {
    locked: AtomicBool,
    length: AtomicUsize,
    blocks: Fifo,
}

// SAFETY: `blocks` is touched under the lock only.
unsafe impl Send for Overflow {}
// SAFETY: as above.
unsafe impl Sync for Overflow {}

impl Overflow {
    pub(super) const fn new() -> Self {
        Self { locked: AtomicBool::new(false), length: AtomicUsize::new(0), blocks: Fifo::new() }
    }

    fn with<R>(&self, f: impl FnOnce(&Fifo) -> R) -> R {
        let mut spins = 0_u32;
        while self.locked.swap(true, Ordering::Acquire) {
            spins += 1;
            match spins.is_multiple_of(64) {
                true => rustix::thread::sched_yield(), // Its holder has lost its core.
                false => std::hint::spin_loop(),
            }
        }
        let result = f(&self.blocks);
        self.length.store(self.blocks.len(), Ordering::Relaxed);
        self.locked.store(false, Ordering::Release);
        result
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn push(&self, tcb: &Tcb) {
        self.with(|blocks| blocks.push(tcb));
    }

    /// Takes up to `most`, oldest first, as long as `take` has room for them: it gives back what
    /// it has none for. Returns how many were taken.
    #[cold]
    pub(super) fn take(&self, most: usize, mut take: impl FnMut(&Tcb) -> bool) -> usize {
        self.with(|blocks| {
            let mut taken = 0;
            while taken < most
                && let Some(tcb) = blocks.pop()
            {
                if !take(tcb) {
                    blocks.push_first(tcb);
                    break;
                }
                taken += 1;
            }
            taken
        })
    }
}
