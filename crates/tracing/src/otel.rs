//! Contexts of OpenTelemetry that a program attaches by itself.

use crate::entered::{ENTERED, Entry as Any};
use curtail::sync::no_preempt;
use opentelemetry::{Context, ContextGuard};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

/// A context in a thread's list.
pub(crate) struct Entry(Rc<Slot>);

struct Slot {
    context: Context,
    /// While its thread is on a core.
    guard: RefCell<Option<ContextGuard>>,
}

impl Entry {
    pub(crate) fn leave(&self) {
        drop(self.0.guard.take());
    }

    pub(crate) fn enter(&self) {
        *self.0.guard.borrow_mut() = Some(self.0.context.clone().attach());
    }
}

/// Makes `context` the current one of the calling request or thread, until the answer is dropped, as
/// [`Context::attach`] does for a kernel's thread.
#[must_use = "the context is current as long as this lives"]
pub fn attach(context: Context) -> Attached {
    no_preempt(|| {
        let slot = Rc::new(Slot { guard: RefCell::new(Some(context.clone().attach())), context });
        if ENTERED.follow() {
            ENTERED.with(|entered| entered.push(Any::Context(Entry(slot.clone()))));
        }
        Attached { slot, _stays: PhantomData }
    })
}

/// A context is current as long as this lives.
pub struct Attached {
    slot: Rc<Slot>,
    /// It is its thread's.
    _stays: PhantomData<*const ()>,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Attached").field(&self.slot.context).finish()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let is_it =
            |entry: &Any| matches!(entry, Any::Context(entry) if Rc::ptr_eq(&entry.0, &self.slot));
        no_preempt(|| {
            if !curtail::is_plain_thread() {
                ENTERED.with(|entered| drop(entered.remove(is_it)));
            }
            drop(self.slot.guard.take());
        });
    }
}
