//! The lock of [`Mutex`](super::Mutex), without the value; [`Condvar`](super::Condvar) moves its
//! waiters into this lock's queue.
//!
//! **State.** [`HELD`] belongs to the holder; [`WAITERS`] is set, under the queue's lock, by a
//! thread that is about to enter the queue while the lock is held. A holder that finds it cannot
//! leave by the short way. It may be set with an empty queue (the waiter has expired): then the
//! next holder that leaves clears it.
//!
//! **Who comes next.** A lock that is released is free for the first that tries, so that a holder
//! that wants it again at once does not have to switch each time. The first in the queue is woken
//! to try. If it finds the lock taken, it enters the queue again, in front, as one that has
//! [`LOST`]: the next release hands the lock over to it, and no other thread can come in between.
//!
//! While the lock is held, only its holder clears [`HELD`]: handing over leaves it set.

use crate::block::{self, Locked, Node, Place, Queue, Wait, Who};
use curtail_fiber::safepoint::{enter_lock, leave_lock};
use std::sync::atomic::{AtomicU32, Ordering};

const HELD: u32 = 1;
const WAITERS: u32 = 2;

/// Waits for the first time.
pub(super) const FIRST: u32 = 0;
/// Was woken, and found the lock taken.
const LOST: u32 = 1;
/// The answer: the lock is yours.
pub(super) const OWNS: u32 = 2;

/// Looks at a lock whose holder runs on another core before waiting.
const SPINS: u32 = 40;

/// The lock of a mutex, without the value.
#[derive(Debug)]
pub(super) struct RawMutex {
    state: AtomicU32,
    queue: Queue,
}

/// The limit of a [`crate::time::timeout`] was over while waiting.
#[derive(Debug)]
#[must_use]
pub(super) struct OverLimit;

impl RawMutex {
    pub(super) const fn new() -> Self {
        Self { state: AtomicU32::new(0), queue: Queue::new() }
    }

    /// Waits until no other thread holds it. The holder has its grace.
    #[inline(always)]
    pub(super) fn lock(&self) {
        enter_lock();
        if self.state.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_or_unwind();
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_or_unwind(&self) {
        if !block::may_wait() {
            leave_lock();
            block::refuse_to_wait();
        }
        if self.acquire(false).is_err() {
            leave_lock();
            block::end_by_limit();
        }
    }

    /// Takes it if it is free; true: the caller holds it, and has its grace.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        enter_lock();
        let taken = self.take();
        if !taken {
            leave_lock();
        }
        taken
    }

    #[inline(always)]
    fn take(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & HELD == 0 {
            let held = state | HELD;
            match self.state.compare_exchange(state, held, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes it; or marks that there is a waiter, and returns false. Under the queue's lock.
    fn take_or_mark(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state == HELD | WAITERS {
                return false;
            }
            let next = if state & HELD == 0 { state | HELD } else { state | WAITERS };
            match self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return state & HELD == 0,
                Err(now) => state = now,
            }
        }
    }

    /// Waits for it, in the caller's grace. `lost`: the caller was woken to take
    /// it already.
    ///
    /// # Errors
    /// The caller's limit is over: it does not have the lock.
    pub(super) fn acquire(&self, lost: bool) -> Result<(), OverLimit> {
        if lost && self.take() {
            return Ok(());
        }
        if block::runs_beside_others() {
            for _ in 0..SPINS {
                match self.state.load(Ordering::Relaxed) {
                    0 if self.take() => return Ok(()),
                    HELD => std::hint::spin_loop(),
                    _ => break, // Others wait: there is a queue.
                }
            }
        }
        let (mut place, mut note) = if lost { (Place::First, LOST) } else { (Place::Last, FIRST) };
        loop {
            let still = || !self.take_or_mark();
            match block::wait_at(&self.queue, place, note, None, still, || {}) {
                Wait::NotNeeded | Wait::Woken(OWNS) => return Ok(()),
                Wait::Woken(_) => (place, note) = (Place::First, LOST),
                Wait::Expired => return Err(OverLimit),
            }
        }
    }

    /// Lets go of it, and of the grace.
    ///
    /// # Safety
    /// The caller holds it.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        if self.state.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_slowly(false);
        }
        leave_lock();
    }

    /// Lets go of it and keeps the grace. `waits`: the caller is about to wait, so
    /// there is nothing to be won by coming in before the next one.
    ///
    /// # Safety
    /// The caller holds it.
    #[inline]
    pub(super) unsafe fn release(&self, waits: bool) {
        if self.state.load(Ordering::Relaxed) != HELD
            || self.state.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_err()
        {
            self.release_slowly(waits);
        }
    }

    #[inline(never)]
    fn release_slowly(&self, waits: bool) {
        let mut locked = self.queue.lock();
        let mut handed_over = false;
        let woken = locked.pop_if(|node| {
            handed_over = waits || node.note() != FIRST;
            if handed_over {
                node.set_note(OWNS);
            }
            true
        });
        let held = if woken.is_some() && handed_over { HELD } else { 0 };
        let waiters = if locked.is_empty() { 0 } else { WAITERS };
        // A plain store: while it is held and has waiters, others change nothing but under the
        // queue's lock. The next holder may run already; it cannot leave before the queue is
        // unlocked, since it finds WAITERS set until this store.
        self.state.store(held | waiters, Ordering::Release);
        drop(locked);
        if let Some(woken) = woken {
            block::wake(woken);
        }
    }

    /// Moves a waiter of a condition variable into this lock's queue, so that it runs when it can
    /// have the lock; false: the lock is free, and it had better be woken.
    ///
    /// # Safety
    /// The node is in `from`, and its owner, before it goes, takes it out of this queue as well.
    pub(super) unsafe fn adopt(&self, from: &mut Locked<'_, Who>, node: *const Node<Who>) -> bool {
        let mut queue = self.queue.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        while state != HELD | WAITERS {
            if state & HELD == 0 {
                return false;
            }
            let marked = HELD | WAITERS;
            match self.state.compare_exchange(state, marked, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: in a queue that is locked, so it is alive, until its owner has taken it out of
        // this queue.
        unsafe {
            from.remove(&*node);
            (*node).set_note(FIRST);
            queue.push(&*node);
        }
        true
    }

    /// Takes out a node that [`RawMutex::adopt`] may have put in.
    pub(super) fn forget(&self, node: &Node<Who>) {
        self.queue.lock().remove(node);
    }
}
