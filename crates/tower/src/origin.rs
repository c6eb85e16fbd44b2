//! Where a call comes from: what its handler finds *current* on the executor's thread, it finds on
//! the pool.
//!
//! An [`Origin`] is taken on the executor's thread, goes along with the job, and is entered around
//! each poll and each destructor there. So is what a job holds that nobody asks for any more:
//! [`Held`].

use curtail::sync::no_preempt;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::runtime::{EnterGuard, Handle};
use tracing::dispatcher::{self, Dispatch};
use tracing::{Span, subscriber::DefaultGuard};

/// tokio's runtime, tracing's span, and the subscriber where it is one of the calling thread's only.
pub(crate) struct Origin {
    runtime: Option<Handle>,
    span: Span,
    subscriber: Option<Dispatch>,
}

impl Origin {
    /// The calling thread's.
    pub(crate) fn here() -> Self {
        Self {
            runtime: Handle::try_current().ok(),
            span: Span::current(),
            subscriber: dispatcher::get_default(|now| (!is_global(now)).then(|| now.clone())),
        }
    }

    /// Whether nothing is to be entered for it.
    fn is_current(&self) -> bool {
        let id = |runtime: &Handle| runtime.id();
        let current = Handle::try_current().ok();
        self.subscriber.is_none() && self.runtime.as_ref().map(id) == current.as_ref().map(id)
    }

    /// Calls `f` there.
    pub(crate) fn with<T>(&self, f: impl FnOnce() -> T) -> T {
        let _guards = Guards::enter(self);
        let _span = self.span.enter();
        f()
    }

    /// Runs the future that `make` makes to its end, there, and drops it there.
    pub(crate) fn block_on<F: Future>(&self, make: impl FnOnce() -> F) -> F::Output {
        let future = pin!(Some(self.with(make)));
        curtail::block_on(There { future, origin: self })
    }
}

/// A subscriber that is set for all threads is found on the pool without help. Where this is wrong
/// because the text has changed, the subscriber is set again for each poll: slower, and the same.
fn is_global(subscriber: &Dispatch) -> bool {
    struct Begins(bool);
    impl Write for Begins {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = text.starts_with("Dispatch::Global");
            // The rest is not wanted.
            Err(fmt::Error)
        }
    }
    let mut begins = Begins(false);
    let _ = write!(begins, "{subscriber:?}");
    begins.0
}

/// A future that is polled and dropped at its origin.
struct There<'a, F> {
    /// None: it has been dropped.
    future: Pin<&'a mut Option<F>>,
    origin: &'a Origin,
}

impl<F: Future> Future for There<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, origin } = &mut *self;
        let future = future.as_mut().as_pin_mut().expect("it is dropped with this only");
        origin.with(|| future.poll(context))
    }
}

impl<F> Drop for There<'_, F> {
    fn drop(&mut self) {
        self.origin.with(|| self.future.set(None));
    }
}

/// A value that is dropped at its origin, wherever that happens.
pub(crate) struct Held<T> {
    value: Option<T>,
    origin: Option<Origin>,
}

impl<T> Held<T> {
    pub(crate) fn new(value: T, origin: Origin) -> Self {
        Self { value: Some(value), origin: Some(origin) }
    }

    /// The caller takes care of it.
    pub(crate) fn open(mut self) -> (T, Origin) {
        let taken = self.value.take().zip(self.origin.take());
        taken.expect("it is opened once")
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if let Some((value, origin)) = self.value.take().zip(self.origin.take()) {
            origin.with(|| drop(value));
        }
    }
}

/// What is entered on this thread, by jobs that have its thread-locals in common.
#[derive(Clone, Copy, Default)]
struct Inside {
    /// Jobs that are amid an [`Origin::with`].
    jobs: usize,
    /// Guards that have not been dropped.
    guards: usize,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside { jobs: 0, guards: 0 }) };
}

/// The runtime and the subscriber, while they are entered.
///
/// Jobs that share their kthread's thread-locals may wait or be pre-empted amid a poll, and tokio's
/// guards panic if they are dropped out of order, or while anyone is amid a call to the runtime. So
/// with others inside, a runtime that is current already is not entered again, and a guard stays.
struct Guards<'a> {
    entered: Option<Entered<'a>>,
    /// Of [`Inside::guards`], with this one.
    depth: usize,
}

type Entered<'a> = (Option<EnterGuard<'a>>, Option<DefaultGuard>);

impl<'a> Guards<'a> {
    fn enter(origin: &'a Origin) -> Self {
        // A job that is pre-empted between the guards and their count would mix them up.
        no_preempt(|| {
            let mut inside = INSIDE.get();
            let entered = (inside.jobs == 0 || !origin.is_current()).then(|| {
                inside.guards += 1;
                let runtime = origin.runtime.as_ref().map(Handle::enter);
                (runtime, origin.subscriber.as_ref().map(dispatcher::set_default))
            });
            inside.jobs += 1;
            INSIDE.set(inside);
            Self { entered, depth: inside.guards }
        })
    }
}

impl Drop for Guards<'_> {
    fn drop(&mut self) {
        no_preempt(|| {
            let mut inside = INSIDE.get();
            // None: it began on another kthread.
            inside.jobs = inside.jobs.saturating_sub(1);
            let entered = self.entered.take();
            if inside.jobs == 0 && inside.guards == self.depth && entered.is_some() {
                inside.guards -= 1;
                drop(entered);
            } else {
                mem::forget(entered);
            }
            INSIDE.set(inside);
        });
    }
}
