//! Behind the layer, handlers have the runtime that they have without it.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use bytes::Bytes;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use futures_util::stream;
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};
use tokio::time::{interval, sleep, timeout};
use tower::ServiceExt;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);

fn pool() -> Pool {
    Pool::builder().workers(1).class(Class::named("all")).build().unwrap()
}

fn behind(pool: &Pool, routes: Router) -> Router {
    routes.layer(PoolLayer::new(pool.clone(), |_: &Request<Body>| ClassId(0)))
}

async fn ask(routes: &Router, path: &str) -> (StatusCode, Bytes) {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let response = routes.clone().oneshot(request).await.unwrap();
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

async fn echo() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let client = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"over a socket").await
    });
    let (mut stream, _) = listener.accept().await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    client.await??;
    Ok(text)
}

async fn many() -> String {
    let mut tasks: JoinSet<u32> = (0..20).map(|n| async move { n }).collect();
    let mut sum = 0;
    while let Some(n) = tasks.join_next().await {
        sum += n.unwrap();
    }
    sum.to_string()
}

async fn ticks() -> &'static str {
    let mut ticks = interval(SHORT);
    for _ in 0..3 {
        ticks.tick().await;
    }
    "three"
}

const PATHS: [&str; 10] = [
    "/sleep",
    "/timeout",
    "/timely",
    "/ticks",
    "/spawn",
    "/blocking",
    "/file",
    "/echo",
    "/many",
    "/id",
];

fn routes() -> Router {
    Router::new()
        .route("/sleep", get(|| async { sleep(SHORT).await }))
        .route(
            "/timeout",
            get(|| async { format!("{:?}", timeout(SHORT, std::future::pending::<()>()).await) }),
        )
        .route("/timely", get(|| async { format!("{:?}", timeout(STUCK, async { 1 }).await) }))
        .route("/ticks", get(ticks))
        .route("/spawn", get(|| async { tokio::spawn(async { "spawned" }).await.unwrap() }))
        .route("/blocking", get(|| async { spawn_blocking(|| "blocked").await.unwrap() }))
        .route(
            "/file",
            get(|| async {
                tokio::fs::read_to_string("Cargo.toml").await.map_err(|e| e.to_string())
            }),
        )
        .route("/echo", get(|| async { echo().await.map_err(|e| e.to_string()) }))
        .route("/many", get(many))
        .route("/id", get(|| async { Handle::current().id().to_string() }))
}

async fn answers_alike() {
    let (plain, behind) = (routes(), behind(&pool(), routes()));
    for path in PATHS {
        let right = ask(&plain, path).await;
        assert_eq!(right.0, StatusCode::OK, "{path}");
        assert_eq!(ask(&behind, path).await, right, "{path}");
    }
}

#[tokio::test]
async fn handlers_have_the_runtime_of_one_thread() {
    answers_alike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_have_the_runtime_of_many_threads() {
    answers_alike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_block_in_place() {
    let handler = || async {
        block_in_place(|| Handle::current().block_on(async { sleep(SHORT).await }));
        Handle::current().id().to_string()
    };
    let routes = behind(&pool(), Router::new().route("/", get(handler)));
    let id = Handle::current().id().to_string();
    assert_eq!(ask(&routes, "/").await, (StatusCode::OK, id.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_has_the_runtime() {
    let (go, goes) = tokio::sync::oneshot::channel::<()>();
    let goes = Arc::new(Mutex::new(Some(goes)));
    // An event that comes when the client has seen a comment, which a timer of the body's sends.
    let handler = move || async move {
        let goes = goes.lock().unwrap().take().unwrap();
        let event = async move {
            goes.await.unwrap();
            Ok::<_, Infallible>(Event::default().data("event"))
        };
        let quiet = KeepAlive::new().interval(SHORT).text("quiet");
        Sse::new(stream::once(event)).keep_alive(quiet)
    };
    let routes = behind(&pool(), Router::new().route("/", get(handler)));
    let request = Request::builder().uri("/").body(Body::empty()).unwrap();
    let mut body = routes.oneshot(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, ": quiet\n\n");
    go.send(()).unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(rest.ends_with(b"data: event\n\n"), "{rest:?}");
}

/// Waits amid a poll, as one does that is pre-empted there.
fn wait_for(flag: &AtomicBool) {
    let until = Instant::now() + STUCK;
    while !flag.load(Ordering::SeqCst) {
        assert!(Instant::now() < until, "stuck");
        curtail::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_that_overlap_end_in_any_order() {
    let flags: Arc<[AtomicBool; 4]> = Arc::default();
    let (one, two) = (flags.clone(), flags.clone());
    let spawns = || async { tokio::spawn(async { "spawned" }).await.unwrap() };
    let routes = Router::new()
        .route(
            "/one",
            get(move || async move {
                one[0].store(true, Ordering::SeqCst);
                wait_for(&one[1]);
                spawns().await
            }),
        )
        .route(
            "/two",
            get(move || async move {
                wait_for(&two[0]);
                two[1].store(true, Ordering::SeqCst);
                wait_for(&two[2]);
                spawns().await
            }),
        );
    let routes = behind(&pool(), routes);
    let first = async {
        let answer = ask(&routes, "/one").await;
        flags[2].store(true, Ordering::SeqCst);
        answer
    };
    let spawned = (StatusCode::OK, "spawned".into());
    let answers = tokio::join!(first, ask(&routes, "/two"));
    assert_eq!(answers, (spawned.clone(), spawned));
}

#[test]
fn each_call_has_the_runtime_it_comes_from() {
    let current = || async {
        match Handle::try_current() {
            Ok(runtime) => runtime.id().to_string(),
            Err(_) => "none".to_owned(),
        }
    };
    let routes = behind(&pool(), Router::new().route("/", get(current)));
    let runtimes = [(); 2].map(|()| Builder::new_current_thread().build().unwrap());
    for runtime in runtimes.iter().chain(&runtimes) {
        let id = runtime.handle().id().to_string();
        assert_eq!(runtime.block_on(ask(&routes, "/")), (StatusCode::OK, id.into()));
        // An executor of another kind: on the same worker, which keeps nothing.
        assert_eq!(curtail::block_on(ask(&routes, "/")), (StatusCode::OK, "none".into()));
    }
}

#[test]
fn a_call_may_begin_while_another_is_amid_the_runtime() {
    /// A task that its runtime drops, amid the call that spawns it.
    struct Waits(Arc<[AtomicBool; 2]>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0[0].store(true, Ordering::SeqCst);
            wait_for(&self.0[1]);
        }
    }
    let flags: Arc<[AtomicBool; 2]> = Arc::default();
    let (one, two) = (Waits(flags.clone()), flags.clone());
    let one = Arc::new(Mutex::new(Some(one)));
    let spawns = move || async move {
        let waits = one.lock().unwrap().take();
        let task = tokio::spawn(async move { drop(waits) });
        task.await.unwrap_err().is_cancelled().to_string()
    };
    let goes = move || async move {
        wait_for(&two[0]);
        two[1].store(true, Ordering::SeqCst);
    };
    let routes = Router::new().route("/spawns", get(spawns)).route("/goes", get(goes));
    let routes = behind(&pool(), routes);
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    drop(runtime);
    let both = async { tokio::join!(ask(&routes, "/spawns"), ask(&routes, "/goes")) };
    let (spawned, gone) = curtail::block_on(both);
    assert_eq!(spawned, (StatusCode::OK, "true".into()));
    assert_eq!(gone, (StatusCode::OK, "".into()));
}
