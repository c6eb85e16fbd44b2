//! A queue of control blocks, linked through them.

use super::tcb::Tcb;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

/// A queue of blocks, linked through them; one kthread's own.
pub(super) struct Fifo {
    first: Cell<*mut Tcb>,
    last: Cell<*mut Tcb>,
    length: Cell<usize>,
}

impl Fifo {
    pub(super) const fn new() -> Self {
        Self {
            first: Cell::new(ptr::null_mut()),
            last: Cell::new(ptr::null_mut()),
            length: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    pub(super) fn len(&self) -> usize {
        self.length.get()
    }

    /// Puts a block last. It is alive, and in no other queue.
    #[inline]
    pub(super) fn push(&self, tcb: &Tcb) {
        tcb.link().store(ptr::null_mut(), Ordering::Relaxed);
        let last = self.last.replace(tcb.as_ptr());
        match last.is_null() {
            true => self.first.set(tcb.as_ptr()),
            // SAFETY: blocks in the queue are alive.
            false => unsafe { (*last).link().store(tcb.as_ptr(), Ordering::Relaxed) },
        }
        self.length.set(self.length.get() + 1);
    }

    /// Puts a block first.
    pub(super) fn push_first(&self, tcb: &Tcb) {
        let first = self.first.replace(tcb.as_ptr());
        tcb.link().store(first, Ordering::Relaxed);
        if first.is_null() {
            self.last.set(tcb.as_ptr());
        }
        self.length.set(self.length.get() + 1);
    }

    /// Takes the first.
    #[inline]
    pub(super) fn pop(&self) -> Option<&'static Tcb> {
        let first = self.first.get();
        // SAFETY: blocks in the queue are alive, and a block lives until its thread has ended; the
        // caller has the thread from here on.
        let tcb = unsafe { first.as_ref()? };
        let next = tcb.link().load(Ordering::Relaxed);
        self.first.set(next);
        if next.is_null() {
            self.last.set(ptr::null_mut());
        }
        self.length.set(self.length.get() - 1);
        Some(tcb)
    }
}
