//! A kthread's line of the board: what the daemon asks of it. The daemon writes, the kthread reads.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::word::{Ask, Word};

/// The number of a line of a kthread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// The number of a core's line; not the kernel's number of that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoreIndex(pub u32);

/// A kthread's line of the board.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct SlotLine {
    /// A [`Word`]: the futex.
    pub(crate) word: AtomicU32,
    /// Index of the core that [`Ask::Run`] is about, plus one.
    core: AtomicU32,
    /// Whom a kthread that is evicted wakes, plus one.
    heir: AtomicU32,
    /// Until when an eviction is to be carried out.
    grace_ns: AtomicU64,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<SlotLine>() == 64);
    assert!(std::mem::offset_of!(SlotLine, word) == 0);
};

/// By the daemon.
impl SlotLine {
    /// As the daemon knows it, which wrote it.
    pub(crate) fn written(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }

    /// The kthread has that core.
    pub fn grant(&self, core: CoreIndex) -> Word {
        self.core.store(core.0 + 1, Ordering::Relaxed);
        self.ask(Ask::Run)
    }

    /// The kthread is to park before `grace_ns` and then to wake `heir`.
    pub fn evict(&self, heir: Option<Slot>, grace_ns: u64) -> Word {
        self.heir.store(heir.map_or(0, |Slot(heir)| heir + 1), Ordering::Relaxed);
        self.grace_ns.store(grace_ns, Ordering::Relaxed);
        self.ask(Ask::Evict)
    }

    /// The kthread has no core.
    pub fn park(&self) -> Word {
        self.ask(Ask::Park)
    }

    fn ask(&self, ask: Ask) -> Word {
        let word = self.written().next(ask);
        // A reader that sees the word sees what belongs to it.
        self.word.store(word.0, Ordering::Release);
        word
    }
}

/// By the kthread.
impl SlotLine {
    /// What it is asked.
    #[inline]
    pub fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// The core that it was granted last, as it was written.
    pub fn core(&self) -> Option<CoreIndex> {
        self.core.load(Ordering::Relaxed).checked_sub(1).map(CoreIndex)
    }

    /// Whom it wakes after an eviction.
    pub fn heir(&self) -> Option<Slot> {
        self.heir.load(Ordering::Relaxed).checked_sub(1).map(Slot)
    }

    /// Until when it has for an eviction.
    pub fn grace_ns(&self) -> u64 {
        self.grace_ns.load(Ordering::Relaxed)
    }
}
