//! [`Barrier`]: as `std::sync::Barrier`.

use crate::block::{self, Queue, Wait};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A place where a number of threads wait for each other, as [`std::sync::Barrier`]. For threads,
/// handlers and plain threads.
pub struct Barrier {
    parties: usize,
    /// How many have come in this round. Changes under the queue's lock, as does `round`.
    here: AtomicUsize,
    round: AtomicU32,
    queue: Queue,
}

/// What [`Barrier::wait`] returns.
#[derive(Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for one of those who waited for each other.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// For so many threads. For 0 as for 1: no thread waits.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        Self {
            parties: n,
            here: AtomicUsize::new(0),
            round: AtomicU32::new(0),
            queue: Queue::new(),
        }
    }

    /// Waits until all have come. Then the next round begins.
    pub fn wait(&self) -> BarrierWaitResult {
        loop {
            let round = self.round.load(Ordering::Relaxed);
            let complete = Cell::new(false);
            let still = || {
                let here = self.here.load(Ordering::Relaxed) + 1;
                let is_over = self.round.load(Ordering::Relaxed) != round;
                complete.set(!is_over && here >= self.parties);
                if complete.get() {
                    self.here.store(0, Ordering::Relaxed);
                    self.round.store(round.wrapping_add(1), Ordering::Relaxed);
                } else if !is_over {
                    self.here.store(here, Ordering::Relaxed);
                }
                !is_over && !complete.get()
            };
            match block::wait_in(&self.queue, round, None, still, || {}) {
                Wait::Woken(_) => return BarrierWaitResult(false),
                Wait::NotNeeded if complete.get() => {
                    self.let_go(round);
                    return BarrierWaitResult(true);
                }
                Wait::NotNeeded => {} // A round ended in between.
                Wait::Expired => {
                    self.withdraw(round);
                    block::end_by_limit();
                }
            }
        }
    }

    /// Wakes those of a round. Others of the next one may be in the queue behind them.
    fn let_go(&self, round: u32) {
        block::wake_each(&self.queue, |locked| locked.pop_if(|node| node.note() == round));
    }

    /// One of a round does not wait any longer.
    fn withdraw(&self, round: u32) {
        block::with_queue(&self.queue, |_| {
            if self.round.load(Ordering::Relaxed) == round {
                self.here.store(self.here.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            }
            None
        });
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}
