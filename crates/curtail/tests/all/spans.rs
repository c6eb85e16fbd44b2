//! Spans of `tracing` and contexts of OpenTelemetry are kept in thread-locals: those of threads and
//! requests that take turns on one kthread do not nest into each other.

use curtail::net::Local;
use curtail::policy::Spec;
use curtail::{App, Nanos, Response, Server, WorkerId};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceId, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber, info, info_span};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// By what an event says: the spans that it was in.
static SEEN: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

struct Scopes;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Scopes {
    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let scope = context.event_scope(event).into_iter().flatten();
        let names = scope.map(|span| span.name().to_owned()).collect();
        SEEN.lock().unwrap().insert(text.0, names);
    }
}

/// One subscriber for all tests of this process.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tracer = SdkTracerProvider::builder().build().tracer("test");
        let otel = tracing_opentelemetry::layer().with_tracer(tracer);
        tracing_subscriber::registry().with(otel).with(Scopes).init();
    });
}

fn scope_of(event: &str) -> Vec<String> {
    SEEN.lock().unwrap().get(event).unwrap_or_else(|| panic!("no event `{event}`")).clone()
}

fn trace() -> TraceId {
    Context::current().span().span_context().trace_id()
}

#[test]
fn spans_of_threads_that_take_turns_do_not_nest() {
    listen();
    curtail::Runtime::builder().kthreads(1).run(|| {
        let begun = Arc::new(AtomicUsize::new(0));
        let life = |name: &'static str, begun: Arc<AtomicUsize>| {
            move || {
                let outer = match name {
                    "left" => info_span!("left"),
                    _ => info_span!("right"),
                };
                let _outer = outer.enter();
                let of_outer = trace();
                begun.fetch_add(1, Ordering::Relaxed);
                while begun.load(Ordering::Relaxed) < 2 {
                    curtail::yield_now();
                }
                info!("{name}, back");
                assert_eq!(trace(), of_outer);
                let inner = info_span!("inner");
                inner.in_scope(|| {
                    curtail::yield_now();
                    info!("{name}, deeper");
                });
                curtail::yield_now();
                info!("{name}, out again");
                of_outer
            }
        };
        let left = curtail::spawn(life("left", begun.clone()));
        let right = curtail::spawn(life("right", begun));
        let traces = [left.join().unwrap(), right.join().unwrap()];
        assert_ne!(traces[0], traces[1]);
        assert_ne!(traces[0], TraceId::INVALID);
        info!("outside");
        assert_eq!(trace(), TraceId::INVALID);
    });
    for name in ["left", "right"] {
        assert_eq!(scope_of(&format!("{name}, back")), [name]);
        assert_eq!(scope_of(&format!("{name}, deeper")), ["inner", name]);
        assert_eq!(scope_of(&format!("{name}, out again")), [name]);
    }
    assert!(scope_of("outside").is_empty());
}

/// Goes on as soon as both of its requests have begun: on one worker that takes a pre-emption.
#[derive(Default)]
struct Both {
    begun: AtomicUsize,
}

impl App for Both {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let name = if request == b"one" { "one" } else { "two" };
        let span = if request == b"one" { info_span!("one") } else { info_span!("two") };
        let _entered = span.enter();
        // One that the program attaches by itself, around spans of its own.
        let id = TraceId::from_bytes([request[0]; 16]);
        let own = SpanContext::new(
            id,
            opentelemetry::trace::SpanId::from_bytes([1; 8]),
            Default::default(),
            false,
            Default::default(),
        );
        let _attached = Context::new().with_remote_span_context(own).attach();
        self.begun.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        while self.begun.load(Ordering::Relaxed) < 2 {
            assert!(since.elapsed() < STUCK, "the other one never begins");
            curtail::safepoint();
        }
        info!("request {name}");
        assert_eq!(trace(), id);
        response.write(name.as_bytes());
    }
}

fn requests_do_not_nest(policy: &str, configure: impl Fn(Spec) -> Spec) {
    listen();
    let (local, user) = Local::new(16).unwrap();
    let spec = configure(Spec::preset(policy).unwrap());
    let server = Server::builder(Both::default())
        .policy(spec)
        .workers(1)
        .safepoints_by_hand()
        .transport(Box::new(local))
        .build()
        .unwrap();
    let handle = server.handle();
    let client = std::thread::spawn(move || {
        let tickets = ["one", "two"].map(|name| user.submit(name.into()).unwrap());
        let answers = tickets.map(|ticket| ticket.wait_timeout(STUCK).unwrap().unwrap());
        handle.shutdown();
        answers
    });
    server.run().unwrap();
    assert_eq!(client.join().unwrap(), [b"one", b"two"]);
    assert_eq!(scope_of("request one"), ["one"]);
    assert_eq!(scope_of("request two"), ["two"]);
    // The kthread has left all of them.
    SEEN.lock().unwrap().retain(|event, _| !event.starts_with("request"));
}

#[test]
fn spans_of_requests_that_were_preempted_do_not_nest() {
    requests_do_not_nest("tq", |spec| spec.with_quantum(Nanos(2_000)).unwrap());
    requests_do_not_nest("shinjuku", |spec| spec.with_quantum(Nanos(5_000)).unwrap());
    requests_do_not_nest("shenango-ps", |spec| spec);
}
