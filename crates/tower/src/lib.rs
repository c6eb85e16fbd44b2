//! A [tower](https://docs.rs/tower) layer that runs handlers on a [pool](curtail::pool) of Curtail's,
//! each as a job of its request's class: for axum, hyper and whatever else speaks tower. The executor
//! keeps the sockets.
//!
//! ```no_run
//! use axum::{Router, routing::get};
//! use curtail::ClassId;
//! use curtail::pool::{Class, Pool};
//! use curtail_tower::PoolLayer;
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::builder().class(Class::named("short")).class(Class::named("long").limit(64)).build()?;
//! let layer = PoolLayer::new(pool, |request: &http::Request<_>| {
//!     ClassId(u16::from(request.uri().path().starts_with("/report")))
//! });
//! let routes = Router::new()
//!     .route("/price", get(|| async { "12.50" }))
//!     .route("/report", get(|| async { (0..1_000_000_u64).sum::<u64>().to_string() }))
//!     .layer(layer);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! axum::serve(listener, routes).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What runs where
//!
//! * **The handler**, extractors included, is one job: from the call of the inner service to the
//!   response. Where it awaits something (the rest of a request's body, a channel, a database's
//!   driver), its fiber waits and the worker goes on with other jobs.
//! * **A response body whose length is known** when the handler returns (text, bytes, JSON) has been
//!   computed by then, and the executor sends it.
//! * **Other bodies**, such as streams, are computed as they are sent. Each look for the next piece
//!   is a job of the same class; nothing is held in the pool while a body waits. If such a job is
//!   refused, the body ends with that error, and the connection is cut.
//! * **What is current at the call is current on the pool**: tokio's runtime, the span of `tracing`,
//!   and a subscriber that is set for one thread only. They are entered around each poll of the
//!   handler and of its body, and around their destructors. On an executor of another kind there is
//!   no runtime, as without the layer.
//!
//!   So timers, sockets, files, `tokio::spawn`, `spawn_blocking`, `block_in_place`, websockets, and
//!   clients that need a runtime (sqlx, reqwest) work as they do without the layer.
//! * **What a handler spawns** runs on the executor: tasks, and what a websocket does after its
//!   upgrade. What computes for long there is a [`Pool::run`] of its own.
//! * **What does not come along**: whatever else a caller keeps in thread-locals. Values of
//!   `tokio::task_local!` and contexts of OpenTelemetry's that are entered outside of the layer (a
//!   span's own context comes with the span): pass them in the request's extensions, or enter them
//!   inside of the layer. The task is none of tokio's: `tokio::task::id` and `spawn_local` panic, and
//!   tokio's budget of polls is not counted.
//!
//! # What a client gets
//!
//! | what happened to the job | answer |
//! |---|---|
//! | refused: its class is full, it waited too long, the pool is shut down | 503, with the reason |
//! | in progress when the pool ended | 503 |
//! | panicked | 500 |
//!
//! A client that hangs up gives its job up, as does a `timeout` layer outside of this one: what
//! waits is not run; what is in progress is cancelled, and goes on when nothing else is ready.
#![forbid(unsafe_code)]

mod body;
mod origin;

pub use body::PoolBody;

use bytes::Bytes;
use curtail::ClassId;
use curtail::pool::{Error, Job, Pool};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use origin::{Held, Origin};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// What bodies may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Runs handlers on a pool: see the [crate](self).
#[derive(Clone)]
pub struct PoolLayer<C> {
    pool: Pool,
    classify: C,
}

impl<C> PoolLayer<C> {
    /// `classify`: the class of a request, by which it is scheduled and limited. It is called on the
    /// executor's thread and must be quick.
    pub fn new<B>(pool: Pool, classify: C) -> Self
    where
        C: Fn(&Request<B>) -> ClassId,
    {
        Self { pool, classify }
    }
}

impl<C> fmt::Debug for PoolLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolLayer").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<S, C: Clone> Layer<S> for PoolLayer<C> {
    type Service = PoolService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        PoolService { inner, pool: self.pool.clone(), classify: self.classify.clone() }
    }
}

/// A service whose calls run on a pool: what [`PoolLayer`] makes.
#[derive(Clone)]
pub struct PoolService<S, C> {
    inner: S,
    pool: Pool,
    classify: C,
}

impl<S: fmt::Debug, C> fmt::Debug for PoolService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, C, B, D> Service<Request<B>> for PoolService<S, C>
where
    S: Service<Request<B>, Response = Response<D>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    C: Fn(&Request<B>) -> ClassId,
    B: Send + 'static,
    D: Body<Data = Bytes> + Send + Unpin + 'static,
    D::Error: Into<BoxError>,
{
    type Response = Response<PoolBody<D>>;
    type Error = S::Error;
    type Future = Answer<D, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let class = (self.classify)(&request);
        // The one that is ready goes along.
        let next = self.inner.clone();
        let inner = mem::replace(&mut self.inner, next);
        let call = Held::new((inner, request), Origin::here());
        let job = self.pool.run(class, move || {
            let ((mut inner, request), origin) = call.open();
            let answer = origin.block_on(move || inner.call(request));
            Held::new(answer, origin)
        });
        Answer { job, pool: self.pool.clone(), class }
    }
}

/// A response to come: of [`PoolService`].
#[must_use = "dropping it gives the request up"]
pub struct Answer<D, E> {
    job: Job<Held<Result<Response<D>, E>>>,
    pool: Pool,
    class: ClassId,
}

impl<D, E> fmt::Debug for Answer<D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("job", &self.job).finish_non_exhaustive()
    }
}

impl<D, E> Future for Answer<D, E>
where
    D: Body<Data = Bytes> + Send + Unpin + 'static,
    D::Error: Into<BoxError>,
    E: 'static,
{
    type Output = Result<Response<PoolBody<D>>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.job).poll(context).map(|brought| match brought.map(Held::open) {
            Ok((Ok(response), _)) => {
                Ok(response.map(|body| PoolBody::new(body, self.pool.clone(), self.class)))
            }
            Ok((Err(error), _)) => Err(error),
            Err(error) => Ok(told(&error)),
        })
    }
}

/// What a client learns of a job that brought no response.
fn told<D>(error: &Error) -> Response<PoolBody<D>> {
    // What it panicked with is none of the client's business.
    let (status, text) = match error {
        Error::Panicked(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the handler failed".to_owned()),
        other => (StatusCode::SERVICE_UNAVAILABLE, other.to_string()),
    };
    let mut response = Response::new(PoolBody::text(text));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
