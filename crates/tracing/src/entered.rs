//! What a thread or request has entered and not left: spans, and contexts of OpenTelemetry, in order.
//!
//! Only the thread itself touches its list, where nothing is pre-empted, and nothing waits while the
//! list is borrowed.

#[cfg(feature = "opentelemetry")]
use crate::otel::Entry as ContextEntry;
use curtail::{Follow, uthread_local};
use std::cell::RefCell;
use tracing_core::Subscriber;
use tracing_core::span::Id;

uthread_local! {
    pub(crate) static ENTERED: Entered = Entered::default();
}

#[derive(Default)]
pub(crate) struct Entered(RefCell<Vec<Entry>>);

pub(crate) enum Entry {
    Span(&'static dyn Subscriber, Id),
    #[cfg(feature = "opentelemetry")]
    Context(ContextEntry),
}

/// The caller has entered a span.
pub(crate) fn note_entry<S: Subscriber>(subscriber: &'static S, span: &Id) {
    // A plain thread's stay with it anyway.
    if ENTERED.follow() {
        ENTERED.with(|entered| entered.push(Entry::Span(subscriber, span.clone())));
    }
}

/// The caller is about to leave a span, which need not be the innermost.
pub(crate) fn note_exit<S: Subscriber>(subscriber: &'static S, span: &Id) {
    if curtail::is_plain_thread() {
        return;
    }
    let address = std::ptr::from_ref(subscriber).cast::<()>();
    let is_it = |entry: &Entry| match entry {
        Entry::Span(other, id) => std::ptr::from_ref(*other).cast::<()>() == address && id == span,
        #[cfg(feature = "opentelemetry")]
        Entry::Context(_) => false,
    };
    ENTERED.with(|entered| drop(entered.remove(is_it)));
}

impl Entered {
    pub(crate) fn push(&self, entry: Entry) {
        self.0.borrow_mut().push(entry);
    }

    /// Takes out the latest that `is_it`. Where none is left, switches cost nothing again.
    pub(crate) fn remove(&self, is_it: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut list = self.0.borrow_mut();
        let at = list.iter().rposition(is_it)?;
        let entry = list.remove(at);
        if list.is_empty() {
            curtail::unfollow();
        }
        Some(entry)
    }
}

impl Entry {
    fn leave(&self) {
        match self {
            Self::Span(subscriber, id) => subscriber.exit(id),
            #[cfg(feature = "opentelemetry")]
            Self::Context(entry) => entry.leave(),
        }
    }

    fn enter(&self) {
        match self {
            Self::Span(subscriber, id) => subscriber.enter(id),
            #[cfg(feature = "opentelemetry")]
            Self::Context(entry) => entry.enter(),
        }
    }
}

impl Follow for Entered {
    fn leaves(&self) {
        self.0.borrow().iter().rev().for_each(Entry::leave);
    }

    fn is_back(&self) {
        self.0.borrow().iter().for_each(Entry::enter);
    }
}

impl Drop for Entered {
    /// What its thread has not left when it ends (a guard that was forgotten).
    fn drop(&mut self) {
        self.0.borrow().iter().rev().for_each(Entry::leave);
    }
}
