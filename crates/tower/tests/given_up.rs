//! What nobody waits for any more is dropped where it belongs: with the runtime of its caller.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use bytes::Bytes;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use futures_util::FutureExt;
use http_body::Frame;
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tower::ServiceExt;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

fn pool() -> Pool {
    Pool::builder().workers(1).class(Class::named("all")).build().unwrap()
}

fn behind(pool: &Pool, handler: Router) -> Router {
    handler.layer(PoolLayer::new(pool.clone(), |_: &Request<Body>| ClassId(0)))
}

fn request() -> Request<Body> {
    Request::builder().uri("/").body(Body::empty()).unwrap()
}

/// Says which runtime is current when it is dropped. Connections of pools spawn there.
#[derive(Clone)]
struct Says(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Said>);

struct Said(Mutex<Sender<Option<Id>>>);

impl Drop for Said {
    fn drop(&mut self) {
        let now = Handle::try_current().ok().map(|runtime| runtime.id());
        let _ = self.0.lock().unwrap().send(now);
    }
}

fn says() -> (Says, Receiver<Option<Id>>) {
    let (sender, says) = channel();
    (Says(Arc::new(Said(Mutex::new(sender)))), says)
}

async fn said(said: Receiver<Option<Id>>) -> Option<Id> {
    tokio::task::spawn_blocking(move || said.recv_timeout(STUCK)).await.unwrap().unwrap()
}

/// What a handler takes once.
type Taken<T> = Arc<Mutex<Option<T>>>;

fn taken<T>(value: T) -> Taken<T> {
    Arc::new(Mutex::new(Some(value)))
}

fn take<T>(from: &Taken<T>) -> T {
    from.lock().unwrap().take().unwrap()
}

#[tokio::test]
async fn a_handler_that_waits() {
    let (says, comes) = says();
    let (begins, begun) = oneshot::channel();
    let given = taken((says, begins));
    let handler = move || async move {
        let (_says, begins) = take(&given);
        begins.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    let pool = pool();
    let routes = behind(&pool, Router::new().route("/", get(handler)));
    tokio::select! {
        answer = routes.oneshot(request()) => panic!("{answer:?}"),
        begun = begun => begun.unwrap(),
    }
    assert_eq!(said(comes).await, Some(Handle::current().id()));
}

/// Keeps the only worker until the test goes on: nothing here has safepoints.
struct Keep {
    begins: oneshot::Sender<()>,
    go: Arc<AtomicBool>,
}

impl Keep {
    fn new() -> (Self, oneshot::Receiver<()>, Arc<AtomicBool>) {
        let (begins, begun) = oneshot::channel();
        let go = Arc::new(AtomicBool::new(false));
        (Self { begins, go: go.clone() }, begun, go)
    }

    fn keep(self) {
        self.begins.send(()).unwrap();
        let until = Instant::now() + STUCK;
        while !self.go.load(Ordering::SeqCst) && Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

#[tokio::test]
async fn a_request_that_waits_for_a_worker() {
    let (says, comes) = says();
    let (keep, begun, go) = Keep::new();
    let pool = pool();
    let held = pool.run(ClassId(0), move || keep.keep());
    begun.await.unwrap();
    let routes = behind(&pool, Router::new().route("/", get(|| async {})));
    let mut request = request();
    request.extensions_mut().insert(says);
    assert!(routes.oneshot(request).now_or_never().is_none());
    assert_eq!(said(comes).await, Some(Handle::current().id()));
    go.store(true, Ordering::SeqCst);
    held.await.unwrap();
    assert_eq!(pool.stats()[0].given_up, 1);
}

#[tokio::test]
async fn an_answer_that_comes_too_late() {
    let (says, comes) = says();
    let (keep, begun, go) = Keep::new();
    let given = taken((says, keep));
    let handler = move || async move {
        let (says, keep) = take(&given);
        keep.keep();
        axum::Extension(says)
    };
    let routes = behind(&pool(), Router::new().route("/", get(handler)));
    tokio::select! {
        answer = routes.oneshot(request()) => panic!("{answer:?}"),
        begun = begun => begun.unwrap(),
    }
    go.store(true, Ordering::SeqCst);
    assert_eq!(said(comes).await, Some(Handle::current().id()));
}

/// A body that takes its time with its second piece.
struct Looks {
    _says: Says,
    first: Option<Bytes>,
    keep: Option<Keep>,
}

impl http_body::Body for Looks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(piece) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        self.keep.take().unwrap().keep();
        Poll::Ready(None)
    }
}

#[tokio::test]
async fn a_body_that_is_looked_at() {
    let (says, comes) = says();
    let (keep, begun, go) = Keep::new();
    let given = taken(Looks { _says: says, first: Some("piece".into()), keep: Some(keep) });
    let handler = move || async move { Body::new(take(&given)) };
    let routes = behind(&pool(), Router::new().route("/", get(handler)));
    let mut body = routes.oneshot(request()).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "piece");
    // It looks for the second, and is hung up on.
    assert!(body.frame().now_or_never().is_none());
    begun.await.unwrap();
    drop(body);
    go.store(true, Ordering::SeqCst);
    assert_eq!(said(comes).await, Some(Handle::current().id()));
}
