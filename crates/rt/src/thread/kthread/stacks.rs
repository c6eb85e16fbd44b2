//! A kthread's stacks, and when it gives their memory back.
//!
//! Stacks of requests are kept apart from those of threads: a request leaves its thread-locals as they
//! are for the next one, as on a pool's thread, and a thread finds new ones.

use super::KThread;
use crate::clock::{self, Clock};
use curtail_fiber::{FiberStack, Locals, StackError, StackPool};
use std::cell::{Cell, UnsafeCell};
use std::time::Duration;

/// Free stacks that a kthread without work keeps.
const KEEP: usize = 16;
/// It gives others back, not more often than this: they may be needed again soon.
const PAUSE: Duration = Duration::from_secs(1);
/// So many were a peak, after which the allocator has something to give back, too.
const PEAK: usize = 256;

/// The kthread's alone, and nothing in here calls anything of ours.
pub(super) struct Stacks {
    threads: UnsafeCell<StackPool>,
    requests: UnsafeCell<StackPool>,
    /// For threads of other sizes, or with other thread-locals.
    odd: UnsafeCell<Vec<StackPool>>,
    /// When stacks of a peak were last given back (TSC).
    gave_back: Cell<u64>,
}

impl Stacks {
    pub(super) fn new(size: usize, locals: Locals) -> Result<Self, StackError> {
        Ok(Self {
            threads: UnsafeCell::new(StackPool::new(size, locals)?),
            requests: UnsafeCell::new(StackPool::new(size, locals)?),
            odd: UnsafeCell::new(Vec::new()),
            gave_back: Cell::new(0),
        })
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "one call at a time uses it: see the type")]
    fn threads(&self) -> &mut StackPool {
        // SAFETY: this kthread's own; no other reference is alive, since the pool calls nothing of ours.
        unsafe { &mut *self.threads.get() }
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "one call at a time uses it: see the type")]
    fn requests(&self) -> &mut StackPool {
        // SAFETY: as in `threads`.
        unsafe { &mut *self.requests.get() }
    }

    /// A stack for a request, with thread-locals as the last one left them.
    #[inline]
    pub(super) fn take_for_request(&self) -> Result<FiberStack, StackError> {
        match self.requests().take_warm() {
            Some(stack) => Ok(stack),
            None => self.requests().take(),
        }
    }

    #[inline]
    pub(super) fn give_of_request(&self, stack: FiberStack) {
        if self.requests().fits(&stack) {
            self.requests().give(stack);
        }
    }

    /// Whether it is such as threads have for which nothing else is said.
    #[inline]
    pub(super) fn is_usual(&self, stack: &FiberStack) -> bool {
        self.threads().fits(stack)
    }
}

impl KThread {
    /// A stack of `size` bytes, or of the usual size, for a thread; with those thread-locals, or with the
    /// usual ones, and new.
    #[inline]
    pub(in crate::thread) fn take_stack(
        &self,
        size: Option<usize>,
        locals: Option<Locals>,
    ) -> Result<FiberStack, StackError> {
        let usual = self.stacks.threads();
        let stack = if size.is_none() && locals.is_none() {
            match usual.take_warm() {
                Some(stack) => Ok(stack),
                None => usual.take(),
            }
        } else {
            self.take_odd(size, locals.unwrap_or(usual.locals()))
        }?;
        // SAFETY: nothing runs on it; threads end their thread-locals before they leave their stacks.
        unsafe { stack.renew_locals() };
        Ok(stack)
    }

    #[cold]
    fn take_odd(&self, size: Option<usize>, locals: Locals) -> Result<FiberStack, StackError> {
        let usual = self.stacks.threads();
        let wanted = StackPool::new(size.unwrap_or(usual.asked()), locals)?;
        if usual.is_like(&wanted) {
            return usual.take();
        }
        // SAFETY: as in `Stacks::threads`.
        let odd = unsafe { &mut *self.stacks.odd.get() };
        let place = odd.iter().position(|pool| pool.is_like(&wanted)).unwrap_or_else(|| {
            odd.push(wanted);
            odd.len() - 1
        });
        odd[place].take()
    }

    /// A thread's stack that nothing runs on any more.
    #[inline]
    pub(in crate::thread) fn give_stack(&self, stack: FiberStack) {
        let usual = self.stacks.threads();
        if usual.fits(&stack) {
            return usual.give(stack);
        }
        // SAFETY: as in `Stacks::threads`.
        let odd = unsafe { &mut *self.stacks.odd.get() };
        match odd.iter_mut().find(|pool| pool.fits(&stack)) {
            Some(pool) => pool.give(stack),
            None => drop(stack), // To the reserve.
        }
    }

    /// A stack for a request, with thread-locals as the last one left them.
    ///
    /// # Errors
    /// There is no memory for one.
    #[inline]
    pub fn take_stack_for_request(&self) -> Result<FiberStack, StackError> {
        self.stacks.take_for_request()
    }

    /// A request's stack that nothing runs on any more.
    #[inline]
    pub fn give_stack_of_request(&self, stack: FiberStack) {
        self.stacks.give_of_request(stack);
    }

    /// There is nothing to do: gives the memory of stacks back that a peak needed, and where it is too
    /// early for that, says when to ask again.
    fn give_back(&self, stacks: &mut StackPool) -> Option<Duration> {
        if stacks.free() <= KEEP {
            return None;
        }
        let now = clock::now();
        let pause = Clock::get().cycles(PAUSE.as_nanos() as u64);
        if now.saturating_sub(self.stacks.gave_back.get()) < pause {
            return Some(PAUSE);
        }
        self.stacks.gave_back.set(now);
        if stacks.shrink(KEEP) >= PEAK {
            curtail_net::give_back_to_kernel();
        }
        None
    }

    /// [`KThread::give_back`] of its own stacks.
    pub(in crate::thread) fn give_own_back(&self) -> Option<Duration> {
        let threads = self.give_back(self.stacks.threads());
        let requests = self.give_back(self.stacks.requests());
        threads.into_iter().chain(requests).min()
    }
}
