//! [`Condvar`]: as `std::sync::Condvar`.
//!
//! A waiter that is notified while the mutex is held is not woken but moved into the mutex's queue,
//! under both queues' locks (this one's first): it runs when it can have the mutex. A waiter whose
//! time is over looks for its node in both.
//!
//! `mutex` changes under the queue's lock: the mutex of those in the queue, or null where the queue
//! is empty. A notifier that changed what is waited for while it held the mutex sees it without the
//! lock: a waiter sets it before it lets go of the mutex.

use super::mutex::{Mutex, MutexGuard, Waiting};
use super::raw_mutex::{FIRST, OWNS, OverLimit, RawMutex};
use crate::block::{self, Deadline, Locked, Node, Queue, Who};
use curtail_fiber::safepoint::{enter_critical, leave_critical, leave_lock};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

/// In a condition variable's queue.
const WAITS: u32 = u32::MAX;

/// A condition variable for [`Mutex`], as [`std::sync::Condvar`]. One mutex at a time.
#[derive(Default)]
pub struct Condvar {
    queue: Queue,
    mutex: AtomicPtr<RawMutex>,
}

/// Whether a wait ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Its time was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// How a wait went, with the mutex held again.
#[derive(PartialEq, Eq)]
enum Ended {
    Notified,
    TimedOut,
    /// Not begun: others wait here with another mutex.
    OtherMutex,
}

impl Condvar {
    /// One without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: Queue::new(), mutex: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Lets go of the lock and waits for a notification; takes it again before it returns. May
    /// return for nothing: check the condition in a loop.
    ///
    /// # Errors
    /// A holder of the mutex panicked; the guard is in the error.
    ///
    /// # Panics
    /// If others wait here with another mutex.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        block::assert_may_wait();
        let (mutex, waiting) = guard.into_parts();
        let ended = self.wait_until(&waiting, None);
        match back(mutex, ended) {
            Ok((guard, _)) => Ok(guard),
            Err(error) => Err(PoisonError::new(error.into_inner().0)),
        }
    }

    /// [`Condvar::wait`] as long as the condition holds.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    pub fn wait_while<'a, T: ?Sized, F: FnMut(&mut T) -> bool>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// [`Condvar::wait`], for `duration` at most, beside the time to get the lock.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_timeout_until(guard, Deadline::after(duration))
    }

    /// [`Condvar::wait_timeout`] as long as the condition holds, `duration` in all.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    pub fn wait_timeout_while<'a, T: ?Sized, F: FnMut(&mut T) -> bool>(
        &self,
        mut guard: MutexGuard<'a, T>,
        duration: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let deadline = Deadline::after(duration);
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if deadline.is_some_and(Deadline::has_passed) {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = self.wait_timeout_until(guard, deadline)?.0;
        }
    }

    pub(super) fn wait_timeout_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Deadline>,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        block::assert_may_wait();
        let (mutex, waiting) = guard.into_parts();
        let ended = self.wait_until(&waiting, deadline);
        back(mutex, ended)
    }

    /// Wakes one that waits.
    #[inline]
    pub fn notify_one(&self) {
        if !self.mutex.load(Ordering::Relaxed).is_null() {
            self.notify(1);
        }
    }

    /// Wakes all that wait.
    #[inline]
    pub fn notify_all(&self) {
        if !self.mutex.load(Ordering::Relaxed).is_null() {
            self.notify(usize::MAX);
        }
    }

    /// The mutex is held before and after, with one critical section.
    fn wait_until(&self, waiting: &Waiting<'_>, deadline: Option<Deadline>) -> Ended {
        let raw = waiting.raw;
        let node = Node::new(block::me(), WAITS);
        let mut locked = self.queue.lock();
        if !self.may_enter(&mut locked, raw) {
            return Ended::OtherMutex;
        }
        self.mutex.store(ptr::from_ref(raw).cast_mut(), Ordering::Relaxed);
        // SAFETY: this does not return or unwind before the node has been taken out.
        unsafe { locked.push(&node) };
        drop(locked);
        // SAFETY: held, by contract.
        unsafe { raw.release(true) };
        block::sleep(&node, deadline, true);
        if node.is_woken() {
            let note = node.note();
            if note != OWNS && raw.acquire(note == FIRST).is_err() {
                self.pass_on();
            }
            return Ended::Notified;
        }
        // In this queue, or moved to the mutex's: under this one's lock the note tells.
        let mut locked = self.queue.lock();
        let timed_out = node.note() == WAITS;
        if timed_out {
            locked.remove(&node);
        }
        drop(locked);
        if !timed_out {
            raw.forget(&node);
        }
        if timed_out && block::over_limit() {
            leave_lock();
            block::end_by_limit();
        }
        match raw.acquire(false) {
            Ok(()) if timed_out => Ended::TimedOut,
            Ok(()) => Ended::Notified,
            Err(OverLimit) if timed_out => {
                leave_lock();
                block::end_by_limit()
            }
            Err(OverLimit) => self.pass_on(),
        }
    }

    /// The caller was notified, and its own limit ends it before it can make use of that.
    #[cold]
    fn pass_on(&self) -> ! {
        self.notify_one();
        leave_lock();
        block::end_by_limit()
    }

    /// Whether those in the queue, if any, have this mutex.
    fn may_enter(&self, locked: &mut Locked<'_, Who>, raw: &RawMutex) -> bool {
        let theirs = self.mutex.load(Ordering::Relaxed);
        theirs.is_null() || ptr::eq(theirs, raw) || locked.first_live().is_none()
    }

    #[cold]
    #[inline(never)]
    fn notify(&self, mut most: usize) {
        enter_critical();
        while most > 0 && self.notify_first() {
            most -= 1;
        }
        leave_critical();
    }

    /// False: there was no waiter.
    fn notify_first(&self) -> bool {
        let mut locked = self.queue.lock();
        let Some(first) = locked.first_live() else {
            self.mutex.store(ptr::null_mut(), Ordering::Relaxed);
            return false;
        };
        let raw = self.mutex.load(Ordering::Relaxed);
        // SAFETY: a waiter is in the queue, which is locked, and it borrows the mutex; `wait_until`
        // takes its node out of both queues.
        let moved = unsafe { (*raw).adopt(&mut locked, first) };
        let woken = if moved { None } else { locked.pop() };
        if locked.is_empty() {
            self.mutex.store(ptr::null_mut(), Ordering::Relaxed);
        }
        drop(locked);
        match woken {
            Some(woken) => {
                block::wake(woken);
                true
            }
            None => moved,
        }
    }
}

/// After a wait.
fn back<T: ?Sized>(
    mutex: &Mutex<T>,
    ended: Ended,
) -> LockResult<(MutexGuard<'_, T>, WaitTimeoutResult)> {
    let guard = MutexGuard::back(mutex);
    if ended == Ended::OtherMutex {
        drop(guard);
        panic!("a condition variable is used with two mutexes");
    }
    let result = WaitTimeoutResult(ended == Ended::TimedOut);
    match guard {
        Ok(guard) => Ok((guard, result)),
        Err(error) => Err(PoisonError::new((error.into_inner(), result))),
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
