//! One place of the in-process transport: the request, then its answer, and the waiter for it.
//!
//! Touched by the ticket's thread, the dispatcher and the answering worker, under its mutex.

use super::lock;
use crate::NoResponse;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    /// `bytes` is the request; its number is in the ring.
    Submitted,
    /// The dispatcher has taken it.
    Running,
    /// `bytes` is the response.
    Answered,
    /// There is no response.
    Without(NoResponse),
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) bytes: Vec<u8>,
    /// The ticket's thread sleeps on the condition variable.
    waiting: bool,
    /// The ticket is awaited.
    waker: Option<Waker>,
    /// The ticket was dropped.
    abandoned: bool,
}

#[derive(Default)]
pub(super) struct Slot {
    pub(super) inner: Mutex<Inner>,
    changed: Condvar,
    /// The generation whose ticket was dropped last, and [`GIVEN_UP`]; for looks without the lock.
    given_up: AtomicU64,
}

const GIVEN_UP: u64 = 1 << 32;

impl Inner {
    fn under_way(&self) -> bool {
        matches!(self.state, State::Submitted | State::Running)
    }

    /// What there is of an answer, and frees the slot.
    fn take(&mut self) -> Result<Vec<u8>, NoResponse> {
        let state = self.state;
        let bytes = self.release();
        match state {
            State::Without(why) => Err(why),
            _ => Ok(bytes),
        }
    }

    fn release(&mut self) -> Vec<u8> {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Free;
        self.abandoned = false;
        mem::take(&mut self.bytes)
    }
}

impl Slot {
    /// Puts a request into a free slot; its generation.
    pub(super) fn occupy(&self, payload: Vec<u8>) -> u32 {
        let mut inner = lock(&self.inner);
        debug_assert_eq!(inner.state, State::Free);
        inner.state = State::Submitted;
        inner.bytes = payload;
        inner.generation
    }

    /// Ends a request that is under way. `None`: it is not under way, or of another generation.
    /// `Some`: whether the slot is free now, because its ticket was dropped.
    pub(super) fn resolve(
        &self,
        generation: Option<u32>,
        how: impl FnOnce(&mut Inner),
    ) -> Option<bool> {
        let mut inner = lock(&self.inner);
        if !inner.under_way() || generation.is_some_and(|wanted| wanted != inner.generation) {
            return None;
        }
        how(&mut inner);
        let released = inner.abandoned && !inner.under_way();
        if released {
            inner.release();
        } else if inner.waiting {
            self.changed.notify_one();
        }
        let ended = !inner.under_way();
        let waker = ended.then(|| inner.waker.take()).flatten();
        drop(inner);
        // Another runtime's code: not under the lock.
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(released)
    }

    /// Waits for the end of the request and frees the slot; `None`: not by the deadline.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Option<Result<Vec<u8>, NoResponse>> {
        let mut inner = lock(&self.inner);
        while inner.under_way() {
            inner.waiting = true;
            inner = match deadline {
                None => self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        inner.waiting = false;
                        return None;
                    }
                    let woken = self.changed.wait_timeout(inner, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            inner.waiting = false;
        }
        Some(inner.take())
    }

    /// Frees the slot, if the request has ended; else `waker` is woken when it has.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Result<Vec<u8>, NoResponse>> {
        let mut inner = lock(&self.inner);
        if !inner.under_way() {
            return Poll::Ready(inner.take());
        }
        if !inner.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            let old = inner.waker.replace(waker.clone());
            drop(inner);
            drop(old);
        }
        Poll::Pending
    }

    /// Whether the ticket of that generation was dropped while its request was under way.
    pub(super) fn is_given_up(&self, generation: u32) -> bool {
        self.given_up.load(Ordering::Relaxed) == GIVEN_UP | u64::from(generation)
    }

    /// The ticket is dropped; `cancels`: the request is to be cancelled, too. Returns whether the
    /// slot is free now; else it will be when the request ends.
    pub(super) fn abandon(&self, cancels: bool) -> bool {
        let mut inner = lock(&self.inner);
        inner.abandoned = inner.under_way();
        if cancels && inner.abandoned {
            let generation = u64::from(inner.generation);
            self.given_up.store(GIVEN_UP | generation, Ordering::Relaxed);
        }
        let (waker, free) = (inner.waker.take(), !inner.abandoned);
        if free {
            inner.release();
        }
        drop(inner);
        drop(waker);
        free
    }
}
