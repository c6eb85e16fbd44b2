//! The unbounded queue of many senders and one receiver, linked through what is sent.
//!
//! A sender links its item before the newest and makes it the newest, by one compare-and-swap; the
//! receiver takes all at once and turns them round. Nothing is allocated, and it is never full: an
//! item is in one inbox at a time.

use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// What can be sent: it holds the link.
///
/// # Safety
/// `link` is the same cell each time, and nothing but the queue that holds the item uses it.
pub unsafe trait Linked {
    /// The cell.
    fn link(&self) -> &AtomicPtr<Self>
    where
        Self: Sized;
}

/// An unbounded queue of many senders and one receiver.
#[derive(Debug)]
pub struct Inbox<T> {
    newest: AtomicPtr<T>,
}

impl<T: Linked> Default for Inbox<T> {
    fn default() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T: Linked> Inbox<T> {
    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Puts one in. From any thread.
    ///
    /// # Safety
    /// `item` is alive until it has been taken out, and in no other queue.
    #[inline]
    pub unsafe fn push(&self, item: *mut T) {
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: alive by contract.
            unsafe { (*item).link().store(newest, Ordering::Relaxed) };
            match self.newest.compare_exchange_weak(
                newest,
                item,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => newest = now,
            }
        }
    }

    /// Takes all that are there, and gives them to `take`, oldest first. By the receiver only.
    pub fn drain(&self, mut take: impl FnMut(*mut T)) {
        if self.is_empty() {
            return;
        }
        let mut from = self.newest.swap(ptr::null_mut(), Ordering::AcqRel);
        let mut oldest: *mut T = ptr::null_mut();
        while !from.is_null() {
            // SAFETY: in the queue, so it is alive, and ours alone since the swap.
            let link = unsafe { (*from).link() };
            let next = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            (oldest, from) = (from, next);
        }
        while !oldest.is_null() {
            // SAFETY: as above; read before `take`, which may use the link.
            let next = unsafe { (*oldest).link().load(Ordering::Relaxed) };
            take(oldest);
            oldest = next;
        }
    }
}
