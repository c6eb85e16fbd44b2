//! What a thread looks at by itself at the end of a quantum.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

/// `struct curtail_watch`: what the owning thread looks at by itself at the end of a quantum, with
/// general registers only. As long as the words are as usual, it is not yet `until`, and the quantum
/// ended in time, another one begins, and the hook is not called.
#[repr(C)]
#[derive(Debug)]
pub struct Watch {
    words: [Cell<*const AtomicU32>; 3],
    usual: [Cell<u32>; 3],
    until: Cell<u64>,
    beat: Cell<u64>,
    most_late: Cell<u64>,
    passed: Cell<u64>,
}

impl Watch {
    /// For [`Watch::new`]: the hook need not know how late a quantum ends.
    pub const ANY: u64 = u64::MAX / 4;

    /// With quanta of `beat` cycles; the hook sees each that ends more than `most_late` cycles late. It
    /// watches nothing yet: every end of one calls the hook.
    #[must_use]
    pub const fn new(beat: u64, most_late: u64) -> Self {
        Self {
            words: [const { Cell::new(std::ptr::null()) }; 3],
            usual: [const { Cell::new(0) }; 3],
            until: Cell::new(0),
            beat: Cell::new(beat),
            most_late: Cell::new(most_late),
            passed: Cell::new(0),
        }
    }

    /// Quanta have so many cycles from now on.
    #[inline]
    pub fn set_beat(&self, beat: u64) {
        self.beat.set(beat);
    }

    /// How many quanta have ended without a call of the hook, since this was asked last.
    #[inline]
    pub fn take_passed(&self) -> u64 {
        self.passed.take()
    }

    /// Until that time (TSC) the hook is called only if one of the words is another than this.
    ///
    /// # Safety
    /// The words are alive until that time, or until other ones are set.
    #[inline]
    pub unsafe fn set(&self, words: [(*const AtomicU32, u32); 3], until: u64) {
        for (at, (word, usual)) in words.into_iter().enumerate() {
            self.words[at].set(word);
            self.usual[at].set(usual);
        }
        self.until.set(until);
    }
}

const _: () = {
    assert!(offset_of!(Watch, usual) == 24 && offset_of!(Watch, until) == 40);
    assert!(offset_of!(Watch, passed) == 64 && size_of::<Watch>() == 72);
};
