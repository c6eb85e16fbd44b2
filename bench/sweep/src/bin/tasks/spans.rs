//! Spans: what a thread entered is current for it and for no other.

use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Once, OnceLock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Span, Subscriber, info, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

static SENT: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static BROKEN: OnceLock<String> = OnceLock::new();

fn all_seen() -> Result<(), String> {
    let (seen, sent) = (SEEN.load(Relaxed), SENT.load(Relaxed));
    must!(BROKEN.get().is_none(), "{}", BROKEN.get().map_or("", String::as_str));
    must!(seen == sent, "{sent} events, {seen} came out");
    Ok(())
}

/// Two spans, one in the other, with events in both.
fn in_spans() -> Outcome {
    let id = ticket();
    let outer = info_span!("outer", own = id);
    let entered = outer.enter();
    for _ in 0..5 {
        compute();
        SENT.fetch_add(2, Relaxed);
        info!(own = id, "outer");
        info_span!("inner", own = id).in_scope(|| {
            compute();
            info!(own = id, "inner");
        });
        must!(Span::current().id() == outer.id(), "the current span is another's");
    }
    drop(entered);
    must!(Span::current().is_none(), "a span is current outside");
    must!(BROKEN.get().is_none(), "{}", BROKEN.get().map_or("", String::as_str));
    Ok("own".to_owned())
}

/// Compares an event's `own` with those of the spans around it.
struct Compare;

#[derive(Default)]
struct Own(u64);

impl Visit for Own {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "own" {
            self.0 = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Compare {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut own = Own::default();
        attributes.record(&mut own);
        context.span(id).expect("it is new").extensions_mut().insert(own);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Own::default();
        event.record(&mut own);
        let spans: Vec<u64> = context
            .event_scope(event)
            .into_iter()
            .flatten()
            .map(|span| span.extensions().get::<Own>().map_or(0, |own| own.0))
            .collect();
        compute();
        if (1..=2).contains(&spans.len()) && spans.iter().all(|of| *of == own.0) {
            SEEN.fetch_add(1, Relaxed);
        } else {
            let _ = BROKEN.set(format!("an event of {} is in the spans of {spans:?}", own.0));
        }
    }
}

pub fn tracing() -> Outcome {
    static SET: Once = Once::new();
    SET.call_once(|| tracing_subscriber::registry().with(Compare).init());
    in_spans()
}

pub fn tracing_end() -> Result<(), String> {
    all_seen()
}

/// Reads what the formatter writes, a line at a time:
/// `INFO outer{own=1}:inner{own=1}: sweep_tasks::spans: inner own=1`.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let numbers: Vec<&str> = line
            .split("own=")
            .skip(1)
            .map(|rest| rest.trim_end_matches('\n').split('}').next().unwrap_or_default())
            .collect();
        let depth = if line.contains(": inner ") { 3 } else { 2 };
        let is_whole = line.ends_with('\n') && numbers.len() == depth;
        if is_whole && numbers.iter().all(|number| *number == numbers[0]) {
            SEEN.fetch_add(1, Relaxed);
        } else {
            let _ = BROKEN.set(format!("a line is broken: {line}"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn subscriber() -> Outcome {
    static SET: Once = Once::new();
    SET.call_once(|| {
        tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(|| Lines).init();
    });
    in_spans()
}

pub fn subscriber_end() -> Result<(), String> {
    all_seen()
}
