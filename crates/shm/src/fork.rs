//! The child of a fork writes none of its parent's memory.
//!
//! What a process writes for the daemon is shared, so a child has it, too: a thread that the child
//! wakes would be counted in its parent's inbox, for ever. So all of it is on a list, and
//! [`leave_to_parent`] puts memory of the child's own in its place. (What a thread of the child's has there
//! itself, it keeps: `Safepoint::keep_block`.)
//!
//! The list only grows, and its places are used again: a child walks it without a lock, which another
//! thread may have held.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Where memory is mapped that a child is to leave alone.
pub(crate) struct Place {
    /// 0: none; 1: it is being filled in.
    start: AtomicUsize,
    bytes: AtomicUsize,
    next: Option<&'static Self>,
}

static FIRST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

fn first() -> Option<&'static Place> {
    // SAFETY: null, or leaked by `enter`.
    unsafe { FIRST.load(Ordering::Acquire).as_ref() }
}

fn places() -> impl Iterator<Item = &'static Place> {
    std::iter::successors(first(), |place| place.next)
}

/// Children leave it alone from now on.
pub(crate) fn enter(start: NonNull<u8>, bytes: usize) -> &'static Place {
    let take = |place: &&Place| {
        place.start.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let place = places().find(take).unwrap_or_else(add);
    place.bytes.store(bytes, Ordering::Relaxed);
    place.start.store(start.as_ptr().expose_provenance(), Ordering::Release);
    place
}

/// One more, which is being filled in.
fn add() -> &'static Place {
    let mut next = first();
    loop {
        let (start, bytes) = (AtomicUsize::new(1), AtomicUsize::new(0));
        let place: &'static mut Place = Box::leak(Box::new(Place { start, bytes, next }));
        let new = ptr::from_mut(place);
        let old = next.map_or(ptr::null_mut(), |next| ptr::from_ref(next).cast_mut());
        match FIRST.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked above, and never written but by its atomics.
            Ok(_) => return unsafe { &*new },
            // SAFETY: leaked above, and never published: this thread alone has the pointer.
            Err(_) => drop(unsafe { Box::from_raw(new) }),
        }
        next = first();
    }
}

impl Place {
    /// It is about to be unmapped.
    pub(crate) fn leave(&self) {
        self.start.store(0, Ordering::Release);
    }
}

/// In the child of a fork, before it does anything else: what its parent writes for the daemon is its
/// parent's; memory of the child's own, all zeroes, lies where it was. Async-signal-safe.
pub fn leave_to_parent() {
    for place in places() {
        let start = place.start.load(Ordering::Acquire);
        let bytes = place.bytes.load(Ordering::Relaxed);
        if start <= 1 {
            continue;
        }
        let at = ptr::with_exposed_provenance_mut(start);
        // SAFETY: takes the place of a mapping of that size, which is of atomics, or of plain words that
        // their thread, if it lives here, puts back: zeroes are values.
        let mapped = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(at, bytes, access, MapFlags::PRIVATE | MapFlags::FIXED)
        };
        // Only where the system has no memory for tables: better none than the parent's.
        if mapped.is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let at = |address: usize| NonNull::new(ptr::without_provenance_mut(address)).unwrap();
        let count = || places().count();
        let kept = enter(at(4096), 0);
        let one = enter(at(8192), 0);
        let before = count();
        one.leave();
        let again = enter(at(12_288), 0);
        // Tests beside this one enter and leave, too.
        assert!(count() >= before);
        assert_eq!(again.start.load(Ordering::Relaxed), 12_288);
        again.leave();
        kept.leave();
        assert!(places().all(|place| place.start.load(Ordering::Relaxed) != 12_288));
    }
}
