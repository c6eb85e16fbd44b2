//! Whether this process is a fork's child, since something was made that needs its parent's threads.
//!
//! A child has the thread that forked and no other: workers, a pool's threads and those for what blocks
//! are its parent's. What is made anew in the child works.

use std::sync::atomic::{AtomicU32, Ordering};

/// Changes in a child. What needs threads keeps the value of its beginning.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A process's number among its forefathers.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// In the child, before anything else runs there.
pub(crate) fn note_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
