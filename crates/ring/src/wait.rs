//! The queue of those who wait for one thing: nodes on the waiters' own stacks.
//!
//! **The protocol.** A waiter makes a [`Node`], locks the [`WaitQueue`], checks once more that it
//! has to wait, pushes the node, unlocks, and sleeps until its node is woken. A waker locks the
//! queue, changes what is waited for, takes a waiter out with [`Locked::pop`], unlocks, and makes
//! ready whom it got. A timer may end the wait instead: [`Node::expire`]. Each wait ends once, by
//! the one compare-and-swap on the node's state that succeeds.
//!
//! **Lifetimes.** A node is touched by others only under the queue's lock, while it is in the queue,
//! and by [`Node::expire`], which its owner's own kthread calls. A waiter whose wait expired locks
//! the queue and [removes](Locked::remove) its node before it returns, so no waker holds it then. A
//! waiter that was woken has been taken out before.
//!
//! The lock is held for a few instructions, never across a switch, and never while anything is
//! woken.

mod node;

pub use node::{Node, Waiter, Woken};

use crate::sync::{AtomicU32, Ordering, UnsafeCell, spin_loop, yield_now};
use node::Links;
use std::ptr;

/// Where a waiter enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front of all others.
    First,
    /// Behind them.
    Last,
}

struct Ends<W> {
    first: *const Node<W>,
    last: *const Node<W>,
}

/// A queue of those who wait for one thing.
pub struct WaitQueue<W> {
    lock: AtomicU32,
    ends: UnsafeCell<Ends<W>>,
}

// SAFETY: `ends` is touched only under the lock.
unsafe impl<W: Send> Send for WaitQueue<W> {}
// SAFETY: as above.
unsafe impl<W: Send> Sync for WaitQueue<W> {}

impl<W> std::fmt::Debug for WaitQueue<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WaitQueue(..)")
    }
}

impl<W> Default for WaitQueue<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W> WaitQueue<W> {
    /// An empty queue.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        let ends = Ends { first: ptr::null(), last: ptr::null() };
        Self { lock: AtomicU32::new(0), ends: UnsafeCell::new(ends) }
    }

    /// An empty queue.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        let ends = Ends { first: ptr::null(), last: ptr::null() };
        Self { lock: AtomicU32::new(0), ends: UnsafeCell::new(ends) }
    }

    /// Locks it. The caller must not be suspended before it unlocks (on a thread: in a critical
    /// section).
    #[inline]
    pub fn lock(&self) -> Locked<'_, W> {
        if self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slowly();
        }
        Locked { queue: self }
    }

    /// A wait, from its beginning to its end: the waiter's side of the protocol. `still`, asked under the
    /// lock, says whether there is something to wait for; then `release` is called, with the node in the
    /// queue and the queue unlocked, and `sleep`, which returns when the node's wait is over. Whether a
    /// waker has ended it; `None`: there was nothing to wait for.
    ///
    /// # Safety
    /// The node is in no queue. None of the three unwinds.
    #[inline]
    pub unsafe fn wait(
        &self,
        (node, place): (&Node<W>, Place),
        still: impl FnOnce() -> bool,
        release: impl FnOnce(),
        sleep: impl FnOnce(),
    ) -> Option<bool>
    where
        W: Waiter,
    {
        let mut locked = self.lock();
        if !still() {
            return None;
        }
        // SAFETY: this does not return, or unwind by contract, before the node has been taken out.
        unsafe {
            match place {
                Place::First => locked.push_first(node),
                Place::Last => locked.push(node),
            }
        }
        drop(locked);
        release();
        sleep();
        let woken = node.is_woken();
        if !woken {
            self.lock().remove(node);
        } else if node.who.goes_on_by_itself() {
            // The waker still has the queue locked. That may be gone when this returns, so the waker must
            // have let go of it.
            drop(self.lock());
        }
        Some(woken)
    }

    /// Makes it empty and unlocked, whoever held it. Its nodes are forgotten, not looked at.
    ///
    /// # Safety
    /// Nobody else reaches it, and no node that was in it takes itself out: this is the one thread of
    /// a fork's child.
    pub unsafe fn renew(&self) {
        // SAFETY: by contract.
        self.ends.with_mut(|ends| unsafe {
            *ends = Ends { first: ptr::null(), last: ptr::null() };
        });
        self.lock.store(0, Ordering::Release);
    }

    #[cold]
    fn lock_slowly(&self) {
        const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };
        let mut spins = 0;
        loop {
            if self.lock.load(Ordering::Relaxed) == 0
                && self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else {
                // Its holder has lost its core.
                yield_now();
            }
        }
    }
}

/// A queue, locked until this is dropped.
pub struct Locked<'a, W> {
    queue: &'a WaitQueue<W>,
}

impl<W> Drop for Locked<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.queue.lock.store(0, Ordering::Release);
    }
}

impl<W: Waiter> Locked<'_, W> {
    #[inline]
    fn ends<R>(&mut self, f: impl FnOnce(&mut Ends<W>) -> R) -> R {
        // SAFETY: under the lock.
        self.queue.ends.with_mut(|ends| f(unsafe { &mut *ends }))
    }

    /// Whether it has no waiter.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.ends(|ends| ends.first.is_null())
    }

    /// The first in it.
    pub fn first(&mut self) -> Option<&Node<W>> {
        let first = self.ends(|ends| ends.first);
        // SAFETY: in the queue, so it is alive while the queue is locked.
        unsafe { first.as_ref() }
    }

    /// The first whose wait has not ended; those before it are taken out. It stays alive as long as
    /// it is in the queue and the queue is locked.
    pub fn first_live(&mut self) -> Option<*const Node<W>> {
        loop {
            let first = self.ends(|ends| ends.first);
            // SAFETY: in the queue, so it is alive while the queue is locked.
            let node = unsafe { first.as_ref()? };
            if !node.who.is_gone() && !node.is_over() {
                return Some(first);
            }
            self.remove(node);
        }
    }

    /// Puts a node last.
    ///
    /// # Safety
    /// The node is in no queue, and stays alive and where it is until it has been taken out.
    #[inline]
    pub unsafe fn push(&mut self, node: &Node<W>) {
        self.ends(|ends| {
            // SAFETY: under the lock.
            node.links.with_mut(|links| unsafe {
                *links = Links { next: ptr::null(), previous: ends.last, queued: true };
            });
            match ends.last.is_null() {
                true => ends.first = node,
                // SAFETY: the last is in the queue, so it is alive; under the lock.
                false => unsafe { (*ends.last).links.with_mut(|links| (*links).next = node) },
            }
            ends.last = node;
        });
    }

    /// Puts a node first.
    ///
    /// # Safety
    /// As for [`Locked::push`].
    pub unsafe fn push_first(&mut self, node: &Node<W>) {
        self.ends(|ends| {
            // SAFETY: under the lock.
            node.links.with_mut(|links| unsafe {
                *links = Links { next: ends.first, previous: ptr::null(), queued: true };
            });
            match ends.first.is_null() {
                true => ends.last = node,
                // SAFETY: the first is in the queue, so it is alive; under the lock.
                false => unsafe { (*ends.first).links.with_mut(|links| (*links).previous = node) },
            }
            ends.first = node;
        });
    }

    /// Takes a node out; false: it is in the queue no more.
    pub fn remove(&mut self, node: &Node<W>) -> bool {
        // SAFETY: under the lock.
        let (next, previous, queued) = node.links.with_mut(|links| unsafe {
            let was = ((*links).next, (*links).previous, (*links).queued);
            (*links).queued = false;
            was
        });
        if !queued {
            return false;
        }
        self.ends(|ends| {
            match previous.is_null() {
                true => ends.first = next,
                // SAFETY: in the queue, so it is alive; under the lock.
                false => unsafe { (*previous).links.with_mut(|links| (*links).next = next) },
            }
            match next.is_null() {
                true => ends.last = previous,
                // SAFETY: as above.
                false => unsafe { (*next).links.with_mut(|links| (*links).previous = previous) },
            }
        });
        true
    }

    /// Ends the wait of the first node whose wait has not ended yet, after telling `answer` of it
    /// (which may leave a note, read what it wants, or refuse: then no node is taken out). The
    /// caller makes the waiter ready when it has unlocked.
    #[inline]
    pub fn pop_if(&mut self, mut answer: impl FnMut(&Node<W>) -> bool) -> Option<Woken<W>> {
        loop {
            let first = self.ends(|ends| ends.first);
            // SAFETY: in the queue, so it is alive while the queue is locked.
            let node = unsafe { first.as_ref()? };
            let who = node.who;
            let word = &raw const node.state;
            if who.is_gone() || node.is_over() {
                self.remove(node);
                continue;
            }
            if !answer(node) {
                return None;
            }
            self.remove(node);
            // From here on the node may be gone.
            if node.claim() {
                return Some(Woken { who, word });
            }
        }
    }

    /// Ends the wait of the first whose wait has not ended yet.
    #[inline]
    pub fn pop(&mut self) -> Option<Woken<W>> {
        self.pop_if(|_| true)
    }

    /// Ends the wait of the first that waits for `key`.
    pub fn pop_key(&mut self, key: usize) -> Option<Woken<W>> {
        let mut at = self.ends(|ends| ends.first);
        // SAFETY: in the queue, so it is alive while the queue is locked.
        while let Some(node) = unsafe { at.as_ref() } {
            // SAFETY: under the lock.
            let next = node.links.with(|links| unsafe { (*links).next });
            let (who, word) = (node.who, &raw const node.state);
            if who.is_gone() || node.is_over() {
                self.remove(node);
            } else if node.key == key {
                self.remove(node);
                // From here on the node may be gone.
                if node.claim() {
                    return Some(Woken { who, word });
                }
            }
            at = next;
        }
        None
    }

    /// Takes out those for which `leave` says so. Their waits do not end by this.
    pub fn remove_where(&mut self, mut leave: impl FnMut(&Node<W>) -> bool) {
        let mut at = self.ends(|ends| ends.first);
        // SAFETY: in the queue, so it is alive while the queue is locked.
        while let Some(node) = unsafe { at.as_ref() } {
            // SAFETY: under the lock.
            let next = node.links.with(|links| unsafe { (*links).next });
            if leave(node) {
                self.remove(node);
            }
            at = next;
        }
    }
}
