//! A job under way, for the caller that wants its value.

use super::error::{Error, Refused};
use super::shared::Shared;
use super::state::State;
use curtail_policy::ClassId;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A job under way: a future of its value.
///
/// Dropping it gives the job up. A job that waits is dropped without being run. One that is in
/// progress is cancelled: it goes on when nothing else is ready, [`check`](curtail_rt::check) tells it, and
/// the calls in which it waits end ([`OnCancel`](curtail_rt::OnCancel) of its class); a value that it brings
/// nevertheless is dropped on its worker.
#[must_use = "dropping it gives the job up"]
pub struct Job<T> {
    shared: Arc<Shared>,
    state: Arc<State>,
    value: PhantomData<fn() -> T>,
}

impl<T: 'static> Job<T> {
    pub(super) fn new(shared: Arc<Shared>, state: Arc<State>) -> Self {
        Self { shared, state, value: PhantomData }
    }

    pub(super) fn refused(shared: Arc<Shared>, class: ClassId, refused: Refused) -> Self {
        Self::new(shared, Arc::new(State::refused(class.0, refused.into())))
    }

    /// Blocks the calling thread until the job has ended: a plain thread, a thread of Curtail's (its
    /// kthread goes on with others), or a job of another pool.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn wait(self) -> Result<T, Error> {
        curtail_rt::block_on(self)
    }

    /// [`Job::wait`], for `timeout` at most.
    ///
    /// # Errors
    /// The job, where the time was over: it goes on. Else the outer `Ok` has what [`Job::wait`] gives.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<T, Error>, Self> {
        curtail_rt::future::block_on_for(&mut self, timeout).ok_or(self)
    }
}

impl<T: 'static> Future for Job<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.shared.is_parents()
            && let Some(gate) = self.shared.gates.get(usize::from(self.state.class))
        {
            return match self.state.poll(context.waker()) {
                Poll::Pending => Poll::Ready(Err(Error::LeftBehind { class: gate.name.clone() })),
                Poll::Ready(ended) => Poll::Ready(ended.map(unboxed)),
            };
        }
        self.state.poll(context.waker()).map_ok(unboxed)
    }
}

fn unboxed<T: 'static>(value: super::state::Value) -> T {
    *value.downcast::<T>().expect("`Pool::run` boxed a value of this type")
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if self.state.give_up() {
            self.shared.given_up(&self.state);
        }
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("class", &self.state.class).finish_non_exhaustive()
    }
}

/// A job that was refused at once: [`super::Pool::try_run`].
pub struct TryRun<F> {
    /// The job's class, and why it was refused.
    pub refused: Refused,
    /// What was to be run.
    pub f: F,
}

impl<F> fmt::Debug for TryRun<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryRun").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for TryRun<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refused.fmt(f)
    }
}

impl<F> std::error::Error for TryRun<F> {}
