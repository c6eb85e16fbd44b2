//! [`Semaphore`]: permits, first come, first served.
//!
//! The state is the number of free permits and a bit that says that there are waiters; while that
//! is set, the state is changed under the queue's lock only. Permits are handed over: a waiter in
//! front that wants many is not passed by those that want few.

use crate::block::{self, Deadline, Queue, Wait};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WAITERS: u64 = 1;
const PERMIT: u64 = 2;
/// The answer; what a waiter wants is the number of permits, which is less.
const GRANTED: u32 = u32::MAX;

/// A number of permits, for threads, handlers and plain threads. The holder of a permit may block,
/// and is pre-empted like others.
#[derive(Debug)]
pub struct Semaphore {
    state: AtomicU64,
    queue: Queue,
}

/// Permits of a [`Semaphore`], returned when it is dropped.
#[derive(Debug)]
#[must_use = "the permit is given back at once where it is not kept"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: u32,
}

impl Permit<'_> {
    /// Does not give the permits back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count as usize);
    }
}

impl Semaphore {
    /// The most permits that there can be.
    pub const MAX_PERMITS: usize = (u32::MAX - 1) as usize;

    /// With so many permits.
    ///
    /// # Panics
    /// If they are more than [`Semaphore::MAX_PERMITS`].
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        assert!(permits <= Self::MAX_PERMITS, "more permits than a semaphore can have");
        Self { state: AtomicU64::new(permits as u64 * PERMIT), queue: Queue::new() }
    }

    /// Waits for a permit.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1)
    }

    /// Waits until there are so many permits at once.
    ///
    /// # Panics
    /// If they are more than [`Semaphore::MAX_PERMITS`].
    #[inline]
    pub fn acquire_many(&self, count: u32) -> Permit<'_> {
        if !self.take(count) && !self.wait(count, None) {
            block::end_by_limit();
        }
        Permit { semaphore: self, count }
    }

    /// [`Semaphore::acquire`], for `duration` at most; `None`: it was over.
    #[inline]
    pub fn acquire_timeout(&self, duration: Duration) -> Option<Permit<'_>> {
        if !self.take(1) && !self.wait(1, Some(duration)) {
            if block::over_limit() {
                block::end_by_limit();
            }
            return None;
        }
        Some(Permit { semaphore: self, count: 1 })
    }

    /// A permit, if one is free and there are no waiters.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// So many permits, if they are free and there are no waiters.
    #[inline]
    pub fn try_acquire_many(&self, count: u32) -> Option<Permit<'_>> {
        self.take(count).then(|| Permit { semaphore: self, count })
    }

    /// Free permits.
    pub fn available_permits(&self) -> usize {
        (self.state.load(Ordering::Relaxed) / PERMIT) as usize
    }

    /// Gives permits to it, new ones or those of a [forgotten](Permit::forget) one.
    ///
    /// # Panics
    /// If there are then more than [`Semaphore::MAX_PERMITS`].
    #[inline]
    pub fn add_permits(&self, count: usize) {
        let state = self.state.load(Ordering::Relaxed);
        let next = state + count as u64 * PERMIT;
        if state & WAITERS != 0
            || next / PERMIT > Self::MAX_PERMITS as u64
            || self
                .state
                .compare_exchange(state, next, Ordering::Release, Ordering::Relaxed)
                .is_err()
        {
            self.add_slowly(count as u64 * PERMIT);
        }
    }

    #[inline]
    fn take(&self, count: u32) -> bool {
        let wanted = u64::from(count) * PERMIT;
        let mut state = self.state.load(Ordering::Relaxed);
        while state & WAITERS == 0 && state >= wanted {
            let next = state - wanted;
            match self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes them; or marks that there is a waiter, and returns false. Under the queue's lock.
    fn take_or_mark(&self, count: u32) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & WAITERS != 0 {
                return false;
            }
            let left = state.checked_sub(u64::from(count) * PERMIT);
            let next = left.unwrap_or(state | WAITERS);
            match self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return left.is_some(),
                Err(now) => state = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, count: u32, most: Option<Duration>) -> bool {
        assert!(count as usize <= Self::MAX_PERMITS, "more permits than a semaphore can have");
        let still = || !self.take_or_mark(count);
        let deadline = most.and_then(Deadline::after);
        match block::wait_in(&self.queue, count, deadline, still, || {}) {
            Wait::NotNeeded | Wait::Woken(_) => true,
            Wait::Expired => {
                self.add_slowly(0); // Others may have waited behind this one only.
                false
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn add_slowly(&self, permits: u64) {
        enter_critical();
        let mut locked = self.queue.lock();
        let before = self.state.fetch_add(permits, Ordering::AcqRel);
        let fits = (before + permits) / PERMIT <= Self::MAX_PERMITS as u64;
        if !fits {
            self.state.fetch_sub(permits, Ordering::Relaxed);
        }
        loop {
            // While there are waiters, the state is changed under this lock only.
            let mut granted = 0;
            let woken = locked.pop_if(|node| {
                granted = u64::from(node.note()) * PERMIT;
                let enough = self.state.load(Ordering::Relaxed) >= granted;
                if enough {
                    node.set_note(GRANTED);
                }
                enough
            });
            if woken.is_some() {
                self.state.fetch_sub(granted, Ordering::AcqRel);
            }
            if locked.is_empty() {
                self.state.fetch_and(!WAITERS, Ordering::Release);
            }
            drop(locked);
            let Some(woken) = woken else { break };
            block::wake(woken);
            locked = self.queue.lock();
        }
        leave_critical();
        assert!(fits, "more permits than a semaphore can have");
    }
}
