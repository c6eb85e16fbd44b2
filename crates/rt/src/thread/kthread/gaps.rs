//! Gaps: time in which a kthread got nothing done, and which no code of ours took.
//!
//! A gap is the machine's, unless a core allocator had a hand in it: it had asked for the core by the
//! gap's end, or the kthread gave its core back, or got one, meanwhile. What the allocator takes from a
//! request belongs into the figures, like everything else that it waits for. In doubt a gap is the
//! allocator's.

use super::KThread;
use crate::clock::{Clock, GAP_NS};
use curtail_fiber::safepoint::Mode;
use std::cell::Cell;

/// The machine's gaps on one kthread. The kthread's own.
pub(super) struct Gaps {
    /// A shorter one is none.
    least_cycles: u64,
    counted: Cell<GapCounts>,
    /// When the last one ended (TSC); 0: there was none.
    last_tsc: Cell<u64>,
}

/// How many gaps, and how long they were in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct GapCounts {
    pub gaps: u64,
    pub cycles: u64,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self {
            least_cycles: Clock::get().cycles(GAP_NS),
            counted: Cell::default(),
            last_tsc: Cell::new(0),
        }
    }

    fn note(&self, cycles: u64, end_tsc: u64) {
        let GapCounts { gaps, cycles: before } = self.counted.get();
        self.counted.set(GapCounts { gaps: gaps + 1, cycles: before + cycles });
        self.last_tsc.set(end_tsc);
    }
}

impl KThread {
    /// From `since` to `now` (TSC) there was next to nothing to do.
    #[inline]
    pub fn note_quiet(&self, since: u64, now: u64) {
        if now.saturating_sub(since) > self.gaps.least_cycles {
            self.note_gap(since, now);
        }
    }

    #[cold]
    fn note_gap(&self, since: u64, now: u64) {
        let asked = self.client.as_ref().is_some_and(|client| client.is_to_look());
        if !asked && !self.shared.is_disowned() && self.shared.moved_tsc() < since {
            self.gaps.note(now - since, now);
        }
    }

    /// A safepoint read the clock, `now` (TSC), and found that the quantum is over, in which one thread
    /// ran alone: safepoints are close, so one that is late was held up.
    pub(super) fn note_late(&self, now: u64) {
        if self.quanta.get().is_some_and(|quanta| quanta.mode == Mode::Clock) {
            self.note_quiet(self.safepoint.deadline(), now);
        }
    }

    /// When the machine's last gap here ended (TSC); 0: there was none.
    #[inline]
    pub fn last_gap(&self) -> u64 {
        self.gaps.last_tsc.get()
    }

    /// The machine's gaps so far.
    pub fn gaps(&self) -> GapCounts {
        self.gaps.counted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::thread::{Parker, Shared};
    use curtail_ring::CachePadded;
    use std::sync::Arc;

    #[test]
    fn a_gap_in_which_the_core_changed_hands_is_not_the_machines() {
        let parker = Arc::new(CachePadded::new(Parker::default()));
        let kthread = KThread::new(
            Shared::new(parker, None),
            crate::thread::TaskSettings::with_stack(64 << 10),
            None,
            None,
        )
        .unwrap();
        let (least, since) = (kthread.gaps.least_cycles, clock::now());
        kthread.note_quiet(since, since + least);
        assert_eq!((kthread.gaps().gaps, kthread.last_gap()), (0, 0), "it is too short");
        kthread.note_quiet(since, since + least + 1);
        let GapCounts { gaps, cycles } = kthread.gaps();
        assert_eq!((gaps, cycles, kthread.last_gap()), (1, least + 1, since + least + 1));
        kthread.shared.set_parked(true);
        kthread.shared.set_parked(false);
        kthread.note_quiet(since, since + 2 * least);
        assert_eq!(kthread.gaps().gaps, 1, "the core was given back meanwhile");
        let later = clock::now() + 1;
        kthread.note_quiet(later, later + 2 * least);
        assert_eq!(kthread.gaps().gaps, 2, "that was before");
    }
}
