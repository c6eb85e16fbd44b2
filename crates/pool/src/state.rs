//! One job: what it is to do, then its value, and the waiter for that.
//!
//! **Protocol.** `Waits` is left once, by the worker that begins it, by the caller that gives it
//! up, by the line that finds it too old, or by the end of the pool.
//!
//! `Runs` is left once, by the worker on which it ended or by the end of the pool. What a stage
//! held is dropped outside of the lock, since that is the user's code. Nothing is pre-empted under
//! the lock, and nothing waits there: the other side is a thread of an executor, and a request that
//! waits may be left behind, with what it holds.

use super::error::Error;
use super::shared::locked;
use curtail_rt::cancel::Cause;
use curtail_rt::context::Context;
use curtail_rt::sync::no_preempt;
use std::any::Any;
use std::mem::replace;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// What a job brings.
pub(super) type Value = Box<dyn Any + Send>;
/// What a job does.
pub(super) type Body = Box<dyn FnOnce() -> Value + Send>;

pub(super) enum Stage {
    Waits(Body),
    Runs,
    Ended(Result<Value, Error>),
    /// The value was taken, or is not wanted.
    Gone,
}

struct Inner {
    stage: Stage,
    waker: Option<Waker>,
    /// Its [`super::Job`] was dropped while it ran.
    given_up: bool,
    /// The request that runs it.
    request: Option<Context>,
}

/// One job, shared by its caller and its worker.
pub(super) struct State {
    pub class: u16,
    pub submitted_tsc: u64,
    /// As long as it waits; a look without the lock.
    waits: AtomicBool,
    inner: Mutex<Inner>,
}

impl State {
    pub(super) fn new(class: u16, submitted_tsc: u64, body: Body) -> Self {
        let inner =
            Inner { stage: Stage::Waits(body), waker: None, given_up: false, request: None };
        Self { class, submitted_tsc, waits: AtomicBool::new(true), inner: Mutex::new(inner) }
    }

    /// One that has ended by being refused.
    pub(super) fn refused(class: u16, error: Error) -> Self {
        let stage = Stage::Ended(Err(error));
        let inner = Inner { stage, waker: None, given_up: false, request: None };
        Self { class, submitted_tsc: 0, waits: AtomicBool::new(false), inner: Mutex::new(inner) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        locked(&self.inner, f)
    }

    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// Leaves `Waits` for `next`, and answers with the body, if it was the one that did so. Then
    /// `left` is called before other threads see it.
    fn leave_waiting(&self, next: Stage, left: impl FnOnce()) -> Option<(Body, Option<Waker>)> {
        let (rest, waker) = self.with(|inner| match replace(&mut inner.stage, Stage::Gone) {
            Stage::Waits(body) => {
                self.waits.store(false, Ordering::Release);
                let ends = !matches!(next, Stage::Runs);
                inner.stage = next;
                left();
                (Ok(body), ends.then(|| inner.waker.take()).flatten())
            }
            other => {
                inner.stage = other;
                (Err(next), None)
            }
        });
        rest.ok().map(|body| (body, waker))
    }

    /// A worker begins it, which is counted; `None`: it is not to be run any more.
    pub(super) fn begin(&self, in_progress: &AtomicUsize) -> Option<Body> {
        let count = || {
            in_progress.fetch_add(1, Ordering::Relaxed);
        };
        self.leave_waiting(Stage::Runs, count).map(|(body, _)| body)
    }

    /// The request that runs it, which is cancelled when the job is given up.
    pub(super) fn runs_as(&self, request: Context) {
        let late = self.with(|inner| match inner.given_up {
            true => Some(request),
            false => {
                inner.request = Some(request);
                None
            }
        });
        if let Some(request) = late {
            request.cancel_by(Cause::Departed);
        }
    }

    /// Why the request that runs it is cancelled.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.with(|inner| inner.request.as_ref().and_then(Context::cause))
    }

    /// Ends it without running it, if it waits still. `left` is called before other threads see
    /// that.
    pub(super) fn refuse(&self, error: Error, left: impl FnOnce()) {
        if let Some((body, waker)) = self.leave_waiting(Stage::Ended(Err(error)), left) {
            wake(waker);
            drop(body);
        }
    }

    /// It has run, or will run no more, if it was in progress. `left` is called before other
    /// threads see that.
    pub(super) fn end(&self, result: Result<Value, Error>, left: impl FnOnce()) {
        let (unwanted, waker) = self.with(|inner| {
            if !matches!(inner.stage, Stage::Runs) {
                return (Some(result), None);
            }
            left();
            inner.request = None;
            if inner.given_up {
                inner.stage = Stage::Gone;
                return (Some(result), None);
            }
            inner.stage = Stage::Ended(result);
            (None, inner.waker.take())
        });
        wake(waker);
        super::serve::discard(unwanted);
    }

    /// The [`super::Job`] is dropped; true: it waited, and is not to be run.
    pub(super) fn give_up(&self) -> bool {
        if let Some((body, _)) = self.leave_waiting(Stage::Gone, || {}) {
            drop(body);
            return true;
        }
        let (value, waker, request) = self.with(|inner| {
            inner.given_up = true;
            let ended = matches!(inner.stage, Stage::Ended(_));
            let value = ended.then(|| replace(&mut inner.stage, Stage::Gone));
            (value, inner.waker.take(), inner.request.take())
        });
        if let Some(request) = request {
            request.cancel_by(Cause::Departed);
        }
        drop((value, waker));
        false
    }

    /// What it brought, or `waker` is woken when it has.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Result<Value, Error>> {
        let (result, old) = self.with(|inner| {
            if matches!(inner.stage, Stage::Waits(_) | Stage::Runs) {
                let known = inner.waker.as_ref().is_some_and(|known| known.will_wake(waker));
                let old = (!known).then(|| inner.waker.replace(waker.clone())).flatten();
                return (None, old);
            }
            match replace(&mut inner.stage, Stage::Gone) {
                Stage::Ended(result) => (Some(result), inner.waker.take()),
                _ => panic!("a job was polled after it had ended"),
            }
        });
        drop(old);
        result.map_or(Poll::Pending, Poll::Ready)
    }
}

/// An executor's waker takes locks of its threads: whole, too.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        no_preempt(|| waker.wake());
    }
}
