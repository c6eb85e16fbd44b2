//! What follows a thread or request through its switches: state that a library keeps for each of the
//! kernel's threads, such as the stack of entered spans, and that belongs to what runs there.
//!
//! The value is one of the thread's own locals ([`crate::uthread_local!`]), and its control block
//! points to it. A thread without one pays a look at a field of its control block for each switch.

use super::kthread::KThread;
use super::locals::UthreadKey;
use crate::contain::contain;
use curtail_fiber::safepoint::{Safepoint, enter_critical};
use std::cell::Cell;
use std::ptr::NonNull;

/// Is told when the thread or request that has it leaves its kthread (the kernel's thread), and when
/// it is back, there or on another one: see [`UthreadKey::follow`].
///
/// Both are called with nothing else of that kthread's running: what they wait for, they wait for in
/// the kernel, and nothing is pre-empted. They should be short. A panic in them ends there.
pub trait Follow: 'static {
    /// It leaves: it is pre-empted, waits or yields.
    fn leaves(&self);
    /// It goes on.
    fn is_back(&self);
}

/// A control block's part of it.
pub(crate) struct Followed(Cell<Option<NonNull<dyn Follow>>>);

impl Followed {
    pub(super) const fn new() -> Self {
        Self(Cell::new(None))
    }

    fn set<T: Follow>(&self, value: NonNull<T>) {
        self.0.set(Some(value));
    }

    /// Nothing is notified any more.
    pub(super) fn clear(&self) {
        self.0.set(None);
    }

    /// The same, if it is the value at that address, which is about to go.
    pub(super) fn clear_if(&self, address: *const ()) {
        if self.0.get().is_some_and(|value| value.as_ptr().cast_const().cast::<()>() == address) {
            self.clear();
        }
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.get().is_some()
    }

    /// The thread is about to leave. On its own stack.
    pub(crate) fn leaves(&self) {
        self.tell(|value| value.leaves());
    }

    /// It is back. On its own stack. The caller begins a quantum: what fell due meanwhile is not
    /// asked for any more.
    pub(crate) fn is_back(&self) {
        self.tell(|value| value.is_back());
    }

    fn tell(&self, tell: impl FnOnce(&dyn Follow)) {
        let Some(value) = self.0.get() else { return };
        let safepoint = Safepoint::this_thread();
        enter_critical();
        KThread::here().as_plain_thread(|| {
            // SAFETY: it is cleared before the value goes, by this thread.
            let _ = contain(|| tell(unsafe { value.as_ref() }));
        });
        // Not by `leave_critical`: a quantum that is over by now must not end here, on the way out or
        // in, where the next one would do the same.
        safepoint.replace_depth(safepoint.depth() - 1);
    }
}

impl<T: Follow> UthreadKey<T> {
    /// From now on the calling thread's, or request's, value is notified of its switches; one value at a
    /// time, and this one from now on. False: a plain thread calls, which has none.
    pub fn follow(&'static self) -> bool {
        let Some(tcb) = KThread::current_tcb() else { return false };
        self.with(|value| tcb.followed.set(NonNull::from(value)));
        true
    }
}

/// The calling thread's, or request's, value is notified of nothing any more.
pub fn unfollow() {
    if let Some(tcb) = KThread::current_tcb() {
        tcb.followed.clear();
    }
}

/// Whether no thread or request of Curtail's calls, but a thread of the program's own.
#[must_use]
pub fn is_plain_thread() -> bool {
    KThread::current_tcb().is_none()
}
