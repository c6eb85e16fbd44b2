//! Spans of [`tracing`](https://docs.rs/tracing) and contexts of OpenTelemetry follow a request of
//! Curtail's, or a thread, wherever it goes.
//!
//! Subscribers keep the spans that are entered for each of the kernel's threads. On Curtail many
//! requests take turns on one such thread, so spans of one would nest into those of another, and logs
//! would name the wrong request. [`follow`] wraps a subscriber so that a request that leaves its
//! kthread leaves its spans, and enters them again when it is back:
//!
//! ```
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! let subscriber = tracing_subscriber::fmt().finish();
//! curtail_tracing::follow(subscriber).init();
//! ```
//!
//! Layers see that as any other exit and entry: the busy time of a span is the time that
//! its request had on a core. A layer of OpenTelemetry's inside (`tracing-opentelemetry`) takes its
//! context along. Contexts that a program attaches by itself follow where it attaches them by
//! `curtail_tracing::attach` (feature `opentelemetry`).
//!
//! No call of the subscriber is pre-empted, so that its thread-locals are whole. What it waits for, it
//! waits for as usual.
//!
//! **Cost.** A request that has entered no span pays nothing at a switch; else the subscriber's exit
//! and entry for each span, twice for a whole switch.
//!
//! **Limits.** Subscribers that are set for one thread ([`tracing::subscriber::with_default`]) do not
//! move. Between the question whether an event is wanted and the event itself lie the program's own
//! expressions: where a request is pre-empted in there, filters of single layers (`with_filter`) may
//! decide by the answer that another request got.
//!
//! [`tracing::subscriber::with_default`]: https://docs.rs/tracing/0.1/tracing/subscriber/fn.with_default.html

mod entered;
#[cfg(feature = "opentelemetry")]
mod otel;

use curtail::sync::no_preempt;
#[cfg(feature = "opentelemetry")]
pub use otel::{Attached, attach};
use std::any::TypeId;
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};

/// A subscriber whose spans follow requests: see [`follow`].
#[derive(Debug)]
pub struct Following<S: 'static>(&'static S);

/// Has spans follow requests. The subscriber lives as long as the process: this is for the one that
/// is set for all threads.
pub fn follow<S: Subscriber>(subscriber: S) -> Following<S> {
    Following(Box::leak(Box::new(subscriber)))
}

impl<S: Subscriber> Subscriber for Following<S> {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.0.on_register_dispatch(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        no_preempt(|| self.0.register_callsite(metadata))
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        no_preempt(|| self.0.enabled(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        no_preempt(|| self.0.new_span(span))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        no_preempt(|| self.0.record(span, values));
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        no_preempt(|| self.0.record_follows_from(span, follows));
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        no_preempt(|| self.0.event_enabled(event))
    }

    fn event(&self, event: &Event<'_>) {
        no_preempt(|| self.0.event(event));
    }

    fn enter(&self, span: &Id) {
        no_preempt(|| {
            self.0.enter(span);
            entered::note_entry(self.0, span);
        });
    }

    fn exit(&self, span: &Id) {
        no_preempt(|| {
            entered::note_exit(self.0, span);
            self.0.exit(span);
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        no_preempt(|| self.0.clone_span(id))
    }

    fn try_close(&self, id: Id) -> bool {
        no_preempt(|| self.0.try_close(id))
    }

    fn current_span(&self) -> Current {
        no_preempt(|| self.0.current_span())
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        // SAFETY: passed on; the subscriber inside lives as long as any pointer to it.
        unsafe { self.0.downcast_raw(id) }
    }
}
