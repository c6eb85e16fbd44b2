//! Where sources live: slots that are never freed, so that an event which is on its way while its
//! source is closed finds a slot, and sees by the generation that it is for the slot's next owner.
//!
//! Any thread takes and gives back slots, without a lock: free ones form a stack, whose head has a
//! counter beside the index so that a compare-and-swap can't mistake one state for another.

use super::slot::Slot;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Slots of the first chunk; each further one has as many as all before it, and these.
const FIRST: u32 = 64;
const CHUNKS: usize = 26;
pub(super) const NO_SLOT: u32 = u32::MAX;

static CHUNK: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
/// Slots that were ever taken.
static USED: AtomicU32 = AtomicU32::new(0);
/// The first free slot's index, and in the upper half how often it has changed.
static FREE: AtomicU64 = AtomicU64::new(NO_SLOT as u64);

/// Chunk and place in it.
fn place(index: u32) -> (usize, usize) {
    let shifted = index + FIRST;
    let chunk = (shifted / FIRST).ilog2();
    (chunk as usize, (shifted - (FIRST << chunk)) as usize)
}

fn len(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

/// The slot of that index; `None`: there was never one.
pub(super) fn find(index: u32) -> Option<&'static Slot> {
    let (chunk, offset) = place(index);
    let slots = CHUNK.get(chunk)?.load(Ordering::Acquire);
    // SAFETY: a chunk, once there, stays, and has that many slots.
    (!slots.is_null()).then(|| unsafe { &*slots.add(offset) })
}

/// Calls `f` with each slot that was ever taken.
pub(super) fn each(mut f: impl FnMut(&'static Slot)) {
    let used = USED.load(Ordering::Acquire);
    (0..used).filter_map(find).for_each(&mut f);
}

/// A slot for the caller alone.
pub(super) fn take() -> &'static Slot {
    let mut head = FREE.load(Ordering::Acquire);
    while head as u32 != NO_SLOT {
        let slot = find(head as u32).expect("a free slot is there");
        let next = slot.next_free.load(Ordering::Relaxed);
        let changed = advance(head, next);
        match FREE.compare_exchange_weak(head, changed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return slot,
            Err(now) => head = now,
        }
    }
    let index = USED.fetch_add(1, Ordering::AcqRel);
    let (chunk, offset) = place(index);
    let slots = CHUNK.get(chunk).expect("the kernel has fewer descriptors");
    // SAFETY: as in `find`.
    unsafe { &*grow(slots, chunk).add(offset) }
}

/// Gives a slot back. Nothing refers to it any more, except for events on their way.
pub(super) fn give(slot: &'static Slot) {
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        slot.next_free.store(head as u32, Ordering::Relaxed);
        let changed = advance(head, slot.index);
        match FREE.compare_exchange_weak(head, changed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

fn advance(head: u64, index: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(index)
}

/// The chunk, made if it is not there.
fn grow(chunk: &AtomicPtr<Slot>, number: usize) -> *mut Slot {
    let found = chunk.load(Ordering::Acquire);
    if !found.is_null() {
        return found;
    }
    let first = (FIRST << number) - FIRST;
    let made: Box<[Slot]> = (0..len(number)).map(|n| Slot::new(first + n as u32)).collect();
    let made = Box::into_raw(made);
    match chunk.compare_exchange(ptr::null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire)
    {
        Ok(_) => made.cast(),
        Err(other) => {
            // SAFETY: made above, and never published: this thread alone has the pointer.
            drop(unsafe { Box::from_raw(made) });
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place(index), expected, "slot {index}");
            expected.1 += 1;
            if expected.1 == len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX - FIRST).0 < CHUNKS);
    }

    #[test]
    fn nobody_gets_a_slot_that_is_taken() {
        use std::collections::HashSet;
        use std::sync::Mutex;
        let taken = Mutex::new(HashSet::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let slots: Vec<_> = (0..round % 7).map(|_| take()).collect();
                        for slot in &slots {
                            assert!(taken.lock().unwrap().insert(slot.index), "taken twice");
                            assert!(std::ptr::eq(find(slot.index).unwrap(), *slot));
                        }
                        for slot in slots {
                            taken.lock().unwrap().remove(&slot.index);
                            give(slot);
                        }
                    }
                });
            }
        });
    }
}
