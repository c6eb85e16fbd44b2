//! A thread's identity for others, and its token: [`park`], [`Thread::unpark`], [`current`].

use super::kthread::KThread;
use crate::block::{self, Deadline, Queue, Wait};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a [`Thread`] of Curtail's refers to.
#[derive(Debug)]
pub(super) struct Inner {
    id: u64,
    name: Option<Arc<str>>,
    pub(super) token: Token,
}

impl Inner {
    pub(super) fn new(name: Option<Arc<str>>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, name, token: Token::default() })
    }
}

/// One thread's wait, and its end, which may come before it.
#[derive(Debug, Default)]
pub(crate) struct Token {
    /// The end came first: the token is there. Changes under the lock of `parked`.
    left: AtomicBool,
    /// The thread, if it waits.
    parked: Queue,
}

impl Token {
    /// Waits for the token, and takes it; false: the deadline has passed.
    pub(crate) fn take(&self, deadline: Option<Deadline>) -> bool {
        let still = || !self.left.swap(false, Ordering::Acquire);
        let expired = block::wait_in(&self.parked, 0, deadline, still, || {}) == Wait::Expired;
        if expired && (deadline.is_none() || block::over_limit()) {
            block::end_by_limit();
        }
        !expired
    }

    /// Ends the wait, the present one or the next.
    pub(crate) fn leave(&self) {
        block::with_queue(&self.parked, |locked| {
            let parked = locked.pop();
            if parked.is_none() {
                self.left.store(true, Ordering::Release);
            }
            parked
        });
    }
}

/// A thread, for others: Curtail's own, a request in progress, or a plain thread. As
/// [`std::thread::Thread`].
#[derive(Clone)]
pub struct Thread(Kind);

#[derive(Clone)]
enum Kind {
    Ours(Arc<Inner>),
    Plain(std::thread::Thread),
}

impl Thread {
    pub(super) fn of(inner: Arc<Inner>) -> Self {
        Self(Kind::Ours(inner))
    }

    /// Lets its [`park`] return, the present one or the next.
    pub fn unpark(&self) {
        match &self.0 {
            Kind::Ours(inner) => inner.token.leave(),
            Kind::Plain(thread) => thread.unpark(),
        }
    }

    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Ours(inner) => inner.name.as_deref(),
            Kind::Plain(thread) => thread.name(),
        }
    }

    /// A number of its own, as long as the process lives.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        match &self.0 {
            Kind::Ours(inner) => ThreadId(Id::Ours(inner.id)),
            Kind::Plain(thread) => ThreadId(Id::Plain(thread.id())),
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish()
    }
}

/// Tells threads apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(Id);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Id {
    Ours(u64),
    Plain(std::thread::ThreadId),
}

/// The calling thread.
#[must_use]
pub fn current() -> Thread {
    match KThread::current_tcb() {
        Some(tcb) => Thread::of(tcb.identity()),
        None => Thread(Kind::Plain(std::thread::current())),
    }
}

/// Waits until the calling thread is [unparked](Thread::unpark). Unlike [`std::thread::park`] it
/// does not return for nothing.
pub fn park() {
    match KThread::current_tcb() {
        Some(tcb) => _ = tcb.identity().token.take(None),
        None => std::thread::park(),
    }
}

/// [`park`], for `duration` at most.
pub fn park_timeout(duration: Duration) {
    match KThread::current_tcb() {
        Some(tcb) => _ = tcb.identity().token.take(Deadline::after(duration)),
        None => std::thread::park_timeout(duration),
    }
}
