//! Bodies of responses, computed on the pool where they are computed as they are sent.

use crate::BoxError;
use crate::origin::{Held, Origin};
use bytes::Bytes;
use curtail::ClassId;
use curtail::pool::{Job, Pool};
use http_body::{Body, Frame, SizeHint};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The body of a response: see the [crate](crate#what-runs-where).
pub struct PoolBody<D>(Inner<D>);

enum Inner<D> {
    /// The layer's own; taken when it is sent.
    Text(Option<Bytes>),
    /// Its length is known, so it is there already.
    Known(D),
    Computed(Computed<D>),
}

/// A body that is computed as it is sent.
struct Computed<D> {
    pool: Pool,
    class: ClassId,
    stage: Stage<D>,
}

enum Stage<D> {
    Rests(D),
    /// A job looks for the next piece, and brings the body back.
    Looks(Job<Held<(D, Piece)>>, Arc<Signal>),
    /// It has failed.
    Ended,
}

/// There may be a piece. It may come before the body is back from the job that looked too early.
struct Signal {
    came: AtomicBool,
    task: Waker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.came.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

type Piece = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

impl<D: Body> PoolBody<D> {
    pub(crate) fn new(body: D, pool: Pool, class: ClassId) -> Self {
        Self(if body.is_end_stream() || body.size_hint().exact().is_some() {
            Inner::Known(body)
        } else {
            Inner::Computed(Computed { pool, class, stage: Stage::Rests(body) })
        })
    }
}

impl<D> PoolBody<D> {
    pub(crate) fn text(text: String) -> Self {
        Self(Inner::Text(Some(text.into())))
    }
}

/// One look for the next piece. If there is none yet, `waker` is woken when there is.
fn look<D>(mut body: D, waker: &Waker) -> (D, Piece)
where
    D: Body<Data = Bytes> + Unpin,
    D::Error: Into<BoxError>,
{
    let piece = Pin::new(&mut body).poll_frame(&mut Context::from_waker(waker));
    (body, piece.map_err(Into::into))
}

impl<D> Computed<D>
where
    D: Body<Data = Bytes> + Send + Unpin + 'static,
    D::Error: Into<BoxError>,
{
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Piece {
        loop {
            let (mut job, signal) = match mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Ended => return Poll::Ready(None),
                Stage::Looks(job, signal) => (job, signal),
                Stage::Rests(body) => self.look(body, context.waker()),
            };
            match Pin::new(&mut job).poll(context) {
                Poll::Pending => {
                    self.stage = Stage::Looks(job, signal);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(looked)) => {
                    let ((body, piece), _) = looked.open();
                    self.stage = Stage::Rests(body);
                    // What came before now may have woken the task for nothing: it looks again.
                    if piece.is_ready() || !signal.came.load(Ordering::SeqCst) {
                        return piece;
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    fn look(&self, body: D, task: &Waker) -> (Job<Held<(D, Piece)>>, Arc<Signal>) {
        let signal = Arc::new(Signal { came: AtomicBool::new(false), task: task.clone() });
        let waker = Waker::from(signal.clone());
        let body = Held::new(body, Origin::here());
        let job = self.pool.run(self.class, move || {
            let (body, origin) = body.open();
            let looked = origin.with(|| look(body, &waker));
            Held::new(looked, origin)
        });
        (job, signal)
    }
}

impl<D> Body for PoolBody<D>
where
    D: Body<Data = Bytes> + Send + Unpin + 'static,
    D::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Piece {
        match &mut self.0 {
            Inner::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Inner::Known(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Inner::Computed(computed) => computed.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Text(text) => text.is_none(),
            Inner::Known(body) | Inner::Computed(Computed { stage: Stage::Rests(body), .. }) => {
                body.is_end_stream()
            }
            Inner::Computed(Computed { stage, .. }) => matches!(stage, Stage::Ended),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Inner::Known(body) | Inner::Computed(Computed { stage: Stage::Rests(body), .. }) => {
                body.size_hint()
            }
            Inner::Computed(_) => SizeHint::default(),
        }
    }
}

impl<D> fmt::Debug for PoolBody<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Text(_) => "PoolBody(text)",
            Inner::Known(_) => "PoolBody(known)",
            Inner::Computed(_) => "PoolBody(computed)",
        })
    }
}
