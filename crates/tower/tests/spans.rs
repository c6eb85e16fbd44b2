//! Behind the layer, the request's span is entered, and the caller's subscriber is the one in force.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use bytes::Bytes;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use http_body::Frame;
use http_body_util::BodyExt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::task::yield_now;
use tower::ServiceExt;
use tower_http::trace::TraceLayer;
use tracing::{Subscriber, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let log = self.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || log.clone()).without_time();
        let lines = lines.with_ansi(false).with_target(false).with_level(false);
        lines.with_span_events(FmtSpan::CLOSE).finish()
    }
}

/// Its one piece is logged.
struct Piece(bool);

impl http_body::Body for Piece {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        info!("a look");
        let piece = std::mem::take(&mut self.0).then(|| Ok(Frame::data(Bytes::from("piece"))));
        Poll::Ready(piece)
    }
}

struct Drops;

impl Drop for Drops {
    fn drop(&mut self) {
        info!("dropped");
    }
}

async fn handler() -> Body {
    let _drops = Drops;
    info!("begins");
    yield_now().await;
    info_span!("inner").in_scope(|| info!("goes on"));
    Body::new(Piece(true))
}

fn routes() -> Router {
    let pool = Pool::builder().workers(1).class(Class::named("all")).build().unwrap();
    let site = Router::new().route("/", get(handler));
    let site = site.layer(PoolLayer::new(pool, |_: &Request<Body>| ClassId(0)));
    let named = |request: &Request<Body>| info_span!("request", id = request.uri().query());
    site.layer(TraceLayer::new_for_http().make_span_with(named))
}

async fn ask(routes: &Router, id: &str) {
    let request = Request::builder().uri(format!("/?{id}")).body(Body::empty()).unwrap();
    let response = routes.clone().oneshot(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "piece");
}

fn expected(id: &str) -> Vec<String> {
    [
        ": begins",
        ":inner: goes on",
        ":inner: close",
        ": dropped",
        ": a look",
        ": a look",
        // Nothing keeps it longer than the answer.
        ": close",
    ]
    .map(|text| format!("request{{id=\"{id}\"}}{text}"))
    .to_vec()
}

/// One test: a subscriber for all threads is set once.
#[tokio::test]
async fn handlers_and_bodies_log_in_the_span_of_their_request() {
    let routes = routes();
    // The calling thread's subscriber.
    let log = Log::default();
    {
        let _here = tracing::subscriber::set_default(log.subscriber());
        ask(&routes, "scoped").await;
    }
    assert_eq!(log.lines(), expected("scoped"));
    // One for all.
    let all = Log::default();
    tracing::subscriber::set_global_default(all.subscriber()).unwrap();
    for id in ["one", "two"] {
        ask(&routes, id).await;
        assert_eq!(all.lines(), expected(id));
    }
    // Another one for the calling thread beside it.
    {
        let _here = tracing::subscriber::set_default(log.subscriber());
        ask(&routes, "three").await;
    }
    ask(&routes, "four").await;
    assert_eq!(log.lines(), expected("three"));
    assert_eq!(all.lines(), expected("four"));
}
