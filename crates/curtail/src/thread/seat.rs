//! A kthread's place in a runtime: its own loop, and how kthreads find work for each other.
//!
//! `idle` has a bit for each kthread that sleeps or is about to: whoever has a thread that could be
//! stolen takes a bit out and wakes its owner; an owner looks at all queues once more between setting
//! its bit and sleeping. The fences on both sides make one see the other.

use super::kthread::{KThread, Shared};
use super::tcb::Tcb;
use crate::clock;
use curtail_policy::{Load, Loot, Thief, WorkerId};
use curtail_ring::{CachePadded, StealRing};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// What all kthreads of a runtime share.
pub(super) struct Common {
    pub peers: Box<[Arc<Shared>]>,
    pub idle: CachePadded<AtomicU64>,
    pub stop: AtomicBool,
    pub spin_cycles: u64,
    /// How many kthreads live.
    pub live: AtomicUsize,
    /// Those that were started at the beginning; the others are spare.
    pub usual: usize,
}

impl Common {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.peers.iter().for_each(|peer| peer.parker.unpark());
    }
}

/// A kthread's place in its runtime.
pub(crate) struct Seat {
    pub(super) index: usize,
    pub(super) common: Arc<Common>,
    pub(super) thief: RefCell<Thief>,
}

impl Seat {
    /// Somebody who sleeps may steal something now.
    #[inline]
    pub(super) fn wake_idle(&self) {
        if self.common.live.load(Ordering::Relaxed) > 1 {
            fence(Ordering::SeqCst);
            if self.common.idle.load(Ordering::Relaxed) != 0 {
                self.wake_one();
            }
        }
    }

    #[cold]
    fn wake_one(&self) {
        let mut idle = self.common.idle.load(Ordering::Relaxed);
        while idle != 0 {
            let bit = 1 << idle.trailing_zeros();
            let before = self.common.idle.fetch_and(!bit, Ordering::AcqRel);
            if before & bit != 0 {
                self.common.peers[bit.trailing_zeros() as usize].parker.unpark();
                return;
            }
            idle = before & !bit;
        }
    }

    /// Whether it is the runtime's only kthread.
    pub(super) fn is_alone(&self) -> bool {
        self.common.peers.len() == 1
    }

    pub(super) fn is_to_stop(&self) -> bool {
        self.common.stop.load(Ordering::Acquire)
    }

    /// The kthread's life, until the first thread has ended.
    pub(super) fn live(&self, kthread: &KThread) {
        while !self.is_to_stop() {
            kthread.look_around(clock::now());
            if kthread.run_threads(u32::MAX) || self.steal(kthread) {
                continue;
            }
            if self.index >= self.common.usual && kthread.alive() == 0 {
                break; // A spare one is no longer needed.
            }
            self.idle(kthread);
        }
    }

    /// Takes threads that have not started from another kthread; true: there was one.
    fn steal(&self, kthread: &KThread) -> bool {
        let peers = &self.common.peers;
        if self.common.live.load(Ordering::Relaxed) == 1 {
            return false;
        }
        let load = |kthread: WorkerId| Load {
            ready: peers[kthread.index()].stealable() as u32,
            ..Load::default()
        };
        for _ in 0..peers.len() {
            // Somebody else may have been quicker: then it is asked again.
            let Some(theft) = self.thief.borrow_mut().next(load) else { return false };
            let victim = &peers[theft.victim.index()];
            let most = match theft.loot {
                Loot::Half => StealRing::<Tcb>::MOST,
                Loot::One | Loot::Incoming => 1,
            };
            if kthread.steal_from(victim, most) > 0 {
                // Each that finds more than it needs wakes one more.
                if kthread.has_spare_threads() || victim.stealable() > 0 {
                    self.wake_idle();
                }
                return true;
            }
        }
        false
    }

    fn someone_has_work(&self) -> bool {
        self.common.peers.iter().any(|peer| peer.stealable() > 0)
    }

    /// Looks for work for a while, then sleeps until there is some.
    fn idle(&self, kthread: &KThread) {
        let since = clock::now();
        let mut now = since;
        loop {
            kthread.look_closely(now);
            if kthread.has_threads() {
                return;
            }
            for _ in 0..16 {
                if kthread.has_mail() || self.someone_has_work() || self.is_to_stop() {
                    return;
                }
                std::hint::spin_loop();
            }
            now = clock::now();
            if now - since > self.common.spin_cycles {
                break;
            }
        }
        let bit = 1 << self.index;
        self.common.idle.fetch_or(bit, Ordering::SeqCst);
        kthread.rest(|| self.someone_has_work() || self.is_to_stop(), None);
        self.common.idle.fetch_and(!bit, Ordering::AcqRel);
    }
}
