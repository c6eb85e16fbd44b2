//! The ring of one owner from which others steal: threads that have not started.
//!
//! The owner pushes at the tail and takes from the head; thieves take from the head, one or several
//! at once. `head` and `tail` only grow (modulo 2³²).
//!
//! * Only the owner writes `tail` and the slots. The Release store of `tail` hands a slot over.
//! * A take, by the owner or a thief, reads the slots first and then moves `head` by one
//!   compare-and-swap. If that succeeds, no other thread has taken them in between; and the owner,
//!   who writes a slot anew only when `head` has passed it, has not changed them. If it fails, what
//!   was read is forgotten: the slots are atomics, so a stale read is harmless.
//!
//! `head` could come round to the same value within one attempt only after 2³² takes.

use crate::CachePadded;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, spin_loop};
use std::ptr;

#[cfg(not(loom))]
const SLOTS: usize = 256;
#[cfg(loom)]
const SLOTS: usize = 2;

/// A ring of one owner from which others steal. Pointers go in and come out; what they point to is
/// the caller's business.
#[derive(Debug)]
pub struct StealRing<T> {
    head: CachePadded<AtomicU32>,
    tail: CachePadded<AtomicU32>,
    slots: [AtomicPtr<T>; SLOTS],
}

impl<T> Default for StealRing<T> {
    fn default() -> Self {
        Self {
            head: CachePadded::new(AtomicU32::new(0)),
            tail: CachePadded::new(AtomicU32::new(0)),
            slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }
}

impl<T> StealRing<T> {
    /// Pointers that one theft takes at most.
    pub const MOST: usize = SLOTS / 2;

    fn slot(&self, position: u32) -> &AtomicPtr<T> {
        &self.slots[position as usize % SLOTS]
    }

    /// How many there are, as far as the caller can see. From any thread.
    #[inline]
    pub fn len(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Acquire);
        // A head read before a tail is never ahead of it, but for a wrap of both.
        (tail.wrapping_sub(head) as usize).min(SLOTS)
    }

    /// Whether there are none, as far as the caller can see. From any thread.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts one in; false: there is no room. By the owner only.
    #[inline]
    #[must_use]
    pub fn push(&self, item: *mut T) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        // Acquire: the thread that moved the head has read the slot before.
        if tail.wrapping_sub(self.head.load(Ordering::Acquire)) as usize >= SLOTS {
            return false;
        }
        self.slot(tail).store(item, Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the oldest; null: there is none. By the owner only.
    #[inline]
    pub fn pop(&self) -> *mut T {
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        while head != tail {
            let item = self.slot(head).load(Ordering::Relaxed);
            let next = head.wrapping_add(1);
            match self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return item,
                Err(now) => head = now,
            }
        }
        ptr::null_mut()
    }

    /// Takes the oldest if it is `item`. By the owner only.
    #[inline]
    #[must_use]
    pub fn pop_if(&self, item: *mut T) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        head != self.tail.load(Ordering::Relaxed)
            && self.slot(head).load(Ordering::Relaxed) == item
            && self
                .head
                .compare_exchange(head, head.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes up to `most` (at most [`Self::MOST`], and at most half of what is there, rounded up),
    /// oldest first, and gives them to `take`. Returns how many. From any thread.
    pub fn steal(&self, most: usize, mut take: impl FnMut(*mut T)) -> usize {
        let mut loot = [ptr::null_mut(); SLOTS];
        loop {
            let head = self.head.load(Ordering::Acquire);
            let tail = self.tail.load(Ordering::Acquire);
            let there = tail.wrapping_sub(head) as usize;
            if there == 0 {
                return 0;
            }
            if there > SLOTS {
                spin_loop(); // The two were not read at one time.
                continue;
            }
            let count = there.div_ceil(2).min(most).min(Self::MOST);
            for (index, place) in loot[..count].iter_mut().enumerate() {
                *place = self.slot(head.wrapping_add(index as u32)).load(Ordering::Relaxed);
            }
            let next = head.wrapping_add(count as u32);
            if self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                loot[..count].iter().for_each(|&item| take(item));
                return count;
            }
        }
    }
}
