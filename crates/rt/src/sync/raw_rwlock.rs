//! The lock of [`RwLock`](super::RwLock), without the value.
//!
//! **State.** [`WRITER`], or a count of readers in units of [`READER`]; and [`WAITERS`], set under
//! the queue's lock by a thread that is about to enter the queue. While it is set, the state is
//! changed under that lock only, but for holders that leave; a thread that comes enters the queue
//! as well, unless the lock is free. So readers do not pass a writer that waits.
//!
//! **Who comes next.** The last to leave looks at the queue. Readers in front get the lock handed
//! over, all of them. A writer in front is woken to take it, so that others may come in before; if
//! it finds the lock taken, it enters the queue again, in front, and has it handed over next time.

use crate::block::{self, Place, Queue, Wait};
use curtail_fiber::safepoint::{enter_lock, leave_lock};
use std::sync::atomic::{AtomicU32, Ordering};

const WRITER: u32 = 1;
const WAITERS: u32 = 2;
const READER: u32 = 4;
/// More readers than threads can be.
const MOST: u32 = u32::MAX - 4 * READER;

/// What a waiter wants, and the answer.
pub(super) const READ: u32 = 0;
pub(super) const WRITE: u32 = 1;
/// A writer that was woken and found the lock taken.
const LOST: u32 = 2;
const OWNS: u32 = 3;

/// The lock of a [`RwLock`](super::RwLock), without the value.
#[derive(Debug)]
pub(super) struct RawRwLock {
    state: AtomicU32,
    queue: Queue,
}

impl RawRwLock {
    pub(super) const fn new() -> Self {
        Self { state: AtomicU32::new(0), queue: Queue::new() }
    }

    #[inline(always)]
    pub(super) fn read(&self) {
        enter_lock();
        let state = self.state.load(Ordering::Relaxed);
        if state & (WRITER | WAITERS) != 0 || state > MOST || !self.change(state, state + READER) {
            self.wait(READ);
        }
    }

    #[inline(always)]
    pub(super) fn write(&self) {
        enter_lock();
        if !self.change(0, WRITER) {
            self.wait(WRITE);
        }
    }

    #[inline(always)]
    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// What the state becomes if `want` is served; `None`: it has to wait.
    fn served(state: u32, want: u32) -> Option<u32> {
        let free = state & !WAITERS == 0;
        match want {
            READ if state > MOST => None,
            READ if free || state & (WRITER | WAITERS) == 0 => Some(state + READER),
            READ => None,
            _ if free => Some(state | WRITER),
            _ => None,
        }
    }

    /// Takes it if there is no need to wait. Only where there are no waiters: else the state is
    /// changed under the queue's lock.
    pub(super) fn try_take(&self, want: u32) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & WAITERS == 0
            && let Some(next) = Self::served(state, want)
        {
            match self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes it; or marks that there is a waiter, and returns false. Under the queue's lock.
    fn take_or_mark(&self, want: u32) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let served = Self::served(state, want);
            if served.is_none() && state & WAITERS != 0 {
                return false;
            }
            let next = served.unwrap_or(state | WAITERS);
            match self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return served.is_some(),
                Err(now) => state = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, want: u32) {
        if !block::may_wait() {
            leave_lock();
            block::refuse_to_wait();
        }
        let (mut place, mut note) = (Place::Last, want);
        loop {
            let still = || !self.take_or_mark(want);
            match block::wait_at(&self.queue, place, note, None, still, || {}) {
                Wait::NotNeeded | Wait::Woken(OWNS) => return,
                Wait::Woken(_) => (place, note) = (Place::First, LOST),
                Wait::Expired => {
                    // Readers may have waited behind this writer only.
                    self.wake_next();
                    leave_lock();
                    block::end_by_limit();
                }
            }
        }
    }

    /// # Safety
    /// The caller has it as a reader.
    #[inline(always)]
    pub(super) unsafe fn leave_read(&self) {
        if self.state.fetch_sub(READER, Ordering::Release) == READER | WAITERS {
            self.wake_next();
        }
        leave_lock();
    }

    /// # Safety
    /// The caller has it as the writer.
    #[inline(always)]
    pub(super) unsafe fn leave_write(&self) {
        if self.state.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.state.fetch_and(!WRITER, Ordering::Release);
            self.wake_next();
        }
        leave_lock();
    }

    /// # Safety
    /// The caller has it as the writer; from now on it has it as a reader.
    pub(super) unsafe fn downgrade(&self) {
        let before = self.state.fetch_add(READER - WRITER, Ordering::Release);
        if before & WAITERS != 0 {
            self.wake_next();
        }
    }

    /// Serves the queue as far as it can be served now.
    #[cold]
    #[inline(never)]
    fn wake_next(&self) {
        while self.wake_one() {}
    }

    /// Serves the first in the queue, if that can be; true: the next may be served as well.
    fn wake_one(&self) -> bool {
        let mut locked = self.queue.lock();
        let state = self.state.load(Ordering::Acquire);
        if state & WRITER != 0 {
            return false; // It looks here when it leaves.
        }
        let free = state & !WAITERS == 0;
        let mut granted = 0;
        let woken = locked.pop_if(|node| {
            // The one before has expired just now.
            self.state.fetch_sub(std::mem::take(&mut granted), Ordering::Relaxed);
            granted = match node.note() {
                READ => READER,
                // While WAITERS is set, the state is changed under the queue's lock only, but for
                // readers that leave.
                LOST if free => WRITER,
                WRITE if free => 0,
                _ => return false,
            };
            // Before the node's wait ends: its owner may leave at once.
            self.state.fetch_add(granted, Ordering::Relaxed);
            if granted != 0 {
                node.set_note(OWNS);
            }
            true
        });
        if woken.is_none() {
            self.state.fetch_sub(granted, Ordering::Relaxed);
        }
        let empty = locked.is_empty();
        if empty {
            self.state.fetch_and(!WAITERS, Ordering::Relaxed);
        }
        drop(locked);
        let Some(woken) = woken else { return false };
        block::wake(woken);
        granted == READER && !empty
    }
}
