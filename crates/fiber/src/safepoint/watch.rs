//! What a thread looks at by itself where its quanta are short.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

/// `struct curtail_watch`: what the owning thread looks at by itself where its quanta are short. As long
/// as both words are as usual and it is not yet `until`, the end of a quantum begins another one, and
/// the hook is not called.
#[repr(C)]
#[derive(Debug)]
pub struct Watch {
    words: [Cell<*const AtomicU32>; 2],
    usual: [Cell<u32>; 2],
    until: Cell<u64>,
    beat: Cell<u64>,
}

impl Watch {
    /// With quanta of so many cycles. It watches nothing yet: every end of one calls the hook.
    #[must_use]
    pub const fn new(beat: u64) -> Self {
        Self {
            words: [const { Cell::new(std::ptr::null()) }; 2],
            usual: [const { Cell::new(0) }; 2],
            until: Cell::new(0),
            beat: Cell::new(beat),
        }
    }

    /// Until that time (TSC) the hook is called only if one of the words is another than this.
    ///
    /// # Safety
    /// The words are alive until that time, or until other ones are set.
    #[inline]
    pub unsafe fn set(&self, words: [(*const AtomicU32, u32); 2], until: u64) {
        for (at, (word, usual)) in words.into_iter().enumerate() {
            self.words[at].set(word);
            self.usual[at].set(usual);
        }
        self.until.set(until);
    }
}

const _: () = {
    assert!(offset_of!(Watch, usual) == 16 && offset_of!(Watch, until) == 24);
    assert!(size_of::<Watch>() == 40);
};
