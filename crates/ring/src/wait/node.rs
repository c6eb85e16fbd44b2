//! One wait: see the head of [`super`].

use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use std::ptr;

const WAITING: u32 = 0;
const WOKEN: u32 = 1;
const EXPIRED: u32 = 2;

/// Who waits.
pub trait Waiter: Copy {
    /// It will never run again (its runtime has ended): it is not to be woken.
    fn is_gone(self) -> bool;

    /// It goes on as soon as its wait is over, and not when the waker makes it ready.
    fn goes_on_by_itself(self) -> bool;
}

pub(super) struct Links<W> {
    pub(super) next: *const Node<W>,
    pub(super) previous: *const Node<W>,
    pub(super) queued: bool,
}

/// A waiter whose wait a waker has ended, and which that waker is to make ready.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Woken<W> {
    /// The waiter.
    pub who: W,
    /// The node's state, by which a plain thread sleeps in the kernel. Only its address is of use:
    /// the node may be gone.
    pub word: *const AtomicU32,
}

/// One wait.
pub struct Node<W> {
    pub(super) state: AtomicU32,
    pub(super) who: W,
    /// Which of several things that share a queue is waited for.
    pub(super) key: usize,
    /// What the waiter wants, and what the waker answers: for the object that is waited for.
    note: AtomicU32,
    pub(super) links: UnsafeCell<Links<W>>,
}

// SAFETY: `state` and `note` are atomics, `who` is a copy, and `links` is touched only under the
// queue's lock.
unsafe impl<W: Send> Send for Node<W> {}
// SAFETY: as above.
unsafe impl<W: Send> Sync for Node<W> {}

impl<W: Waiter> Node<W> {
    /// A wait of `who`, not in a queue yet.
    #[inline]
    pub fn new(who: W, note: u32) -> Self {
        Self::keyed(who, 0, note)
    }

    /// A wait of `who` for `key`, in a queue of those that wait for several things.
    #[inline]
    pub fn keyed(who: W, key: usize, note: u32) -> Self {
        let links = Links { next: ptr::null(), previous: ptr::null(), queued: false };
        Self {
            state: AtomicU32::new(WAITING),
            who,
            key,
            note: AtomicU32::new(note),
            links: UnsafeCell::new(links),
        }
    }

    /// Whose wait it is.
    #[inline]
    pub fn who(&self) -> W {
        self.who
    }

    /// What it waits for, where several things share a queue.
    #[inline]
    pub fn key(&self) -> usize {
        self.key
    }

    /// What the waiter wanted, or the waker answered.
    #[inline]
    pub fn note(&self) -> u32 {
        self.note.load(Ordering::Relaxed)
    }

    /// Answers, or wants something else: under the queue's lock.
    #[inline]
    pub fn set_note(&self, note: u32) {
        self.note.store(note, Ordering::Relaxed);
    }

    /// A waker has ended the wait.
    #[inline]
    pub fn is_woken(&self) -> bool {
        self.state.load(Ordering::Acquire) == WOKEN
    }

    /// The wait has ended, one way or the other.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) != WAITING
    }

    /// Ends the wait because its time is over; true: the caller makes the waiter ready. Called by
    /// the waiter's own kthread.
    #[must_use]
    pub fn expire(&self) -> bool {
        self.end(EXPIRED)
    }

    /// Ends the wait for good; true: the caller makes the waiter ready. While the node cannot go
    /// away: under the queue's lock, or by an owner of the waiter.
    #[inline]
    #[must_use]
    pub fn claim(&self) -> bool {
        self.end(WOKEN)
    }

    #[inline]
    fn end(&self, how: u32) -> bool {
        self.state.compare_exchange(WAITING, how, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The word by which a plain thread sleeps in the kernel: 0 as long as it waits.
    #[cfg(not(loom))]
    pub fn word(&self) -> &std::sync::atomic::AtomicU32 {
        &self.state
    }

    /// Makes it as new, for another wait of the same waiter. When it is in no queue.
    pub fn reset(&self, note: u32) {
        self.note.store(note, Ordering::Relaxed);
        self.state.store(WAITING, Ordering::Relaxed);
    }
}
