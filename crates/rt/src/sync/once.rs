//! [`Once`]: as `std::sync::Once`.

use crate::block::{self, Place, Queue, Wait};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};

const INCOMPLETE: u32 = 0;
const POISONED: u32 = 1;
const RUNNING: u32 = 2;
const COMPLETE: u32 = 3;

/// Runs something once, as [`std::sync::Once`]. For threads, handlers and plain threads.
#[derive(Default)]
pub struct Once {
    state: AtomicU32,
    queue: Queue,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// What [`Once::call_once_force`] tells its closure.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// An earlier closure panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

/// The one that runs has ended, also by a panic.
struct Running<'a> {
    once: &'a Once,
    leave_as: u32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.once.state.store(self.leave_as, Ordering::Release);
        block::wake_all(&self.once.queue);
    }
}

impl Once {
    /// Nothing has run yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(INCOMPLETE), queue: Queue::new() }
    }

    /// Runs `f` if nothing has run yet; waits while something runs.
    ///
    /// # Panics
    /// If `f` panics, or an earlier closure did.
    #[inline]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(false, &mut |_| f.take().map_or((), crate::user::call));
        }
    }

    /// [`Once::call_once`], also after a closure panicked.
    ///
    /// # Panics
    /// If `f` panics.
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(true, &mut |state| {
                if let Some(f) = f.take() {
                    crate::user::call_with(f, state);
                }
            });
        }
    }

    /// Whether something has run to its end.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Waits until something has run.
    ///
    /// # Panics
    /// If a closure panicked.
    pub fn wait(&self) {
        self.wait_until_complete(false);
    }

    /// [`Once::wait`], also after a closure panicked.
    pub fn wait_force(&self) {
        self.wait_until_complete(true);
    }

    fn wait_until_complete(&self, force: bool) {
        loop {
            let state = self.state.load(Ordering::Acquire);
            match state {
                COMPLETE => return,
                POISONED if !force => panic!("{POISONED_BEFORE}"),
                _ => self.wait_while(state),
            }
        }
    }

    #[cold]
    fn call(&self, force: bool, f: &mut dyn FnMut(&OnceState)) {
        loop {
            let state = self.state.load(Ordering::Acquire);
            match state {
                COMPLETE => return,
                RUNNING => {
                    self.wait_while(RUNNING);
                    continue;
                }
                POISONED if !force => panic!("{POISONED_BEFORE}"),
                _ => {}
            }
            let (order, or) = (Ordering::Acquire, Ordering::Relaxed);
            if self.state.compare_exchange(state, RUNNING, order, or).is_err() {
                continue;
            }
            let mut running = Running { once: self, leave_as: POISONED };
            f(&OnceState { poisoned: state == POISONED });
            running.leave_as = COMPLETE;
            return;
        }
    }

    fn wait_while(&self, state: u32) {
        let still = || self.state.load(Ordering::Acquire) == state;
        if block::wait_at(&self.queue, Place::Last, 0, None, still, || {}) == Wait::Expired {
            block::end_by_limit();
        }
    }
}

const POISONED_BEFORE: &str = "what was to run once panicked before";

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
