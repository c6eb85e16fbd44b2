//! The layer under axum's router: what runs where, and what a client is answered.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tower::ServiceExt;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);
const LONG: ClassId = ClassId(1);

fn pool() -> Pool {
    let long = Class::named("long").limit(1);
    Pool::builder().workers(1).class(Class::named("short")).class(long).build().unwrap()
}

fn class_of(request: &Request<Body>) -> ClassId {
    ClassId(u16::from(request.uri().path().starts_with("/long")))
}

fn on_pool(pool: &Pool, routes: Router) -> Router {
    routes.layer(PoolLayer::new(pool.clone(), class_of))
}

async fn ask(routes: &Router, request: Request<Body>) -> (StatusCode, Bytes) {
    let response = routes.clone().oneshot(request).await.unwrap();
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

fn to(path: &str) -> Request<Body> {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

fn here() -> String {
    format!("{:?}", thread::current().id())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_run_on_the_pool_by_class() {
    let pool = pool();
    let routes = Router::new()
        .route("/here", get(|| async { here() }))
        .route("/long", post(|body: String| async move { body + "!" }));
    let routes = on_pool(&pool, routes);
    let worker = pool.run(ClassId(0), here).await.unwrap();
    assert_eq!(ask(&routes, to("/here")).await, (StatusCode::OK, worker.into()));
    let posted = Request::post("/long").body(Body::from("text")).unwrap();
    assert_eq!(ask(&routes, posted).await, (StatusCode::OK, "text!".into()));
    assert_eq!(ask(&routes, to("/nowhere")).await.0, StatusCode::NOT_FOUND);
    let stats = pool.stats();
    assert_eq!((stats[0].completed, stats[1].completed), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_wait_for_what_a_later_one_does() {
    let pool = pool();
    let (sender, comes) = tokio::sync::oneshot::channel::<u32>();
    let (sender, comes) = (Arc::new(Mutex::new(Some(sender))), Arc::new(Mutex::new(Some(comes))));
    let routes = Router::new()
        .route(
            "/wait",
            get(move || async move {
                let comes = comes.lock().unwrap().take().unwrap();
                comes.await.unwrap().to_string()
            }),
        )
        .route(
            "/send",
            get(move || async move {
                sender.lock().unwrap().take().unwrap().send(7).unwrap();
            }),
        );
    // One worker: the first handler leaves it to the second.
    let routes = on_pool(&pool, routes);
    let (waited, sent) = tokio::join!(ask(&routes, to("/wait")), ask(&routes, to("/send")));
    assert_eq!((waited.1, sent.0), (Bytes::from("7"), StatusCode::OK));
}

/// Pieces that are computed as they are sent, each on some thread.
struct Pieces {
    left: usize,
    threads: Arc<Mutex<Vec<ThreadId>>>,
    waited: bool,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.waited = !self.waited;
        if self.waited {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.threads.lock().unwrap().push(thread::current().id());
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"piece ")))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_computed_on_the_pool() {
    let pool = pool();
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = threads.clone();
    let routes =
        Router::new().route(
            "/pieces",
            get(move || async move {
                Body::new(Pieces { left: 3, threads: seen.clone(), waited: false })
            }),
        );
    let routes = on_pool(&pool, routes);
    let worker = pool.run(ClassId(0), || thread::current().id()).await.unwrap();
    let answer = ask(&routes, to("/pieces")).await;
    assert_eq!(answer, (StatusCode::OK, "piece piece piece ".into()));
    assert_eq!(*threads.lock().unwrap(), vec![worker; 4]);
    // The pool ends amid a body: the body fails, and says why.
    let response = routes.clone().oneshot(to("/pieces")).await.unwrap();
    tokio::task::spawn_blocking(move || pool.shutdown(STUCK)).await.unwrap();
    let mut body = response.into_body();
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("the pool is shut down"), "{error}");
    assert!(body.frame().await.is_none() && body.is_end_stream());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_class_and_a_panic_are_answered() {
    let pool = pool();
    let (begins, began) = channel();
    let (go, goes): (_, Receiver<()>) = channel();
    let held = pool.run(LONG, move || {
        begins.send(()).unwrap();
        let _ = goes.recv();
    });
    let began = tokio::task::spawn_blocking(move || began.recv_timeout(STUCK));
    began.await.unwrap().unwrap();
    let routes = Router::new()
        .route("/long", get(|| async { "done" }))
        .route("/panic", get(|| async { panic!("a secret") as () }));
    let routes = on_pool(&pool, routes);
    let full = "class long: it has 1 jobs under way already, which is its limit";
    assert_eq!(ask(&routes, to("/long")).await, (StatusCode::SERVICE_UNAVAILABLE, full.into()));
    go.send(()).unwrap();
    held.await.unwrap();
    assert_eq!(ask(&routes, to("/long")).await, (StatusCode::OK, "done".into()));
    let failed = (StatusCode::INTERNAL_SERVER_ERROR, "the handler failed".into());
    assert_eq!(ask(&routes, to("/panic")).await, failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_given_up_is_not_run() {
    let pool = pool();
    let (begun, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, goes) = (begun.clone(), go.clone());
    // It keeps the only worker: nothing here has safepoints.
    let held = pool.run(LONG, move || {
        begins.store(true, Ordering::SeqCst);
        let until = Instant::now() + STUCK;
        while !goes.load(Ordering::SeqCst) && Instant::now() < until {
            std::hint::spin_loop();
        }
    });
    while !begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let handler = move || async move {
        counts.fetch_add(1, Ordering::SeqCst);
    };
    let routes = on_pool(&pool, Router::new().route("/never", get(handler)));
    let limit = Duration::from_millis(5);
    assert!(tokio::time::timeout(limit, ask(&routes, to("/never"))).await.is_err());
    assert_eq!(pool.stats()[0].given_up, 1);
    go.store(true, Ordering::SeqCst);
    held.await.unwrap();
    pool.run(ClassId(0), || ()).await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}
