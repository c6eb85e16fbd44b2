//! A request that no other waits for. As long as only a word can say that another one has come, its
//! safepoints look at these words before they save any vector register; the hook looks at everything at
//! least every `CLOSELY_NS`.

use crate::dispatched::DispatchedRequest;
use curtail_fiber::safepoint::{Safepoint, Watch};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// What says that another job wants the place.
pub(super) struct Words<'a> {
    /// The inbox's, and what it was when nothing was in there.
    pub inbox: (*const AtomicU32, u32),
    /// 0 until something is made ready for the kthread.
    pub attention: *const AtomicU32,
    /// Not 0: jobs wait centrally. `None`: none do under this policy.
    pub contended: Option<&'a AtomicU32>,
}

pub(super) struct Alone {
    watch: Watch,
    closely_cycles: u64,
    /// The hook sees all from then on; 0: it sees all.
    until: Cell<u64>,
}

impl Alone {
    /// The hook sees each quantum that ends `gap_cycles` late, and one in `closely_cycles`.
    pub(super) fn new(gap_cycles: u64, closely_cycles: u64) -> Self {
        Self { watch: Watch::new(0, gap_cycles), closely_cycles, until: Cell::new(0) }
    }

    /// Has this thread's safepoints look at the words, in quanta of so many cycles.
    ///
    /// # Safety
    /// They live, and `self` stays where it is, until [`Alone::end`].
    pub(super) unsafe fn begin(
        &self,
        safepoint: Safepoint,
        words: Words<'_>,
        now: u64,
        quantum_cycles: u64,
    ) {
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        let contended = ptr::from_ref(words.contended.unwrap_or(&NOTHING));
        let until = now + self.closely_cycles;
        self.until.set(until);
        self.watch.set_beat(quantum_cycles);
        // SAFETY: by contract.
        unsafe {
            let words = [words.inbox, (words.attention, 0), (contended, 0)];
            self.watch.set(words, until);
            safepoint.set_watch(&raw const self.watch);
        }
    }

    /// Every end of a quantum calls the hook again.
    pub(super) fn end(&self, safepoint: Safepoint) {
        self.until.set(0);
        // SAFETY: none is watched.
        unsafe { safepoint.set_watch(ptr::null()) };
    }

    /// Whether only some quanta's ends call the hook at `now`. Those that end late all do, so a sample
    /// of lateness takes none of these.
    pub(super) fn is_selective(&self, now: u64) -> bool {
        now < self.until.get()
    }

    /// Counts the quanta that have ended without a call of the hook.
    ///
    /// # Safety
    /// `running` is the request that runs, or has just left the processor.
    pub(super) unsafe fn count(&self, running: *const DispatchedRequest, quanta: &mut u64) {
        let passed = self.watch.take_passed();
        if passed != 0 {
            // SAFETY: by contract.
            unsafe { (*running).task.count_cuts(passed as u32) };
            *quanta += passed;
        }
    }
}
