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
    /// `unpark` came before `park`. Changes under the lock of `parked`.
    token: AtomicBool,
    /// The thread itself, if it is parked.
    parked: Queue,
}

impl Inner {
    pub(super) fn new(name: Option<Arc<str>>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, name, token: AtomicBool::new(false), parked: Queue::new() })
    }

    fn park(&self, deadline: Option<Deadline>) -> Wait {
        let still = || !self.token.swap(false, Ordering::Acquire);
        block::wait_in(&self.parked, 0, deadline, still, || {})
    }

    fn unpark(&self) {
        curtail_fiber::safepoint::enter_critical();
        let mut locked = self.parked.lock();
        let parked = locked.pop();
        if parked.is_none() {
            self.token.store(true, Ordering::Release);
        }
        drop(locked);
        if let Some(parked) = parked {
            block::wake(parked);
        }
        curtail_fiber::safepoint::leave_critical();
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
            Kind::Ours(inner) => inner.unpark(),
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
        Some(tcb) => {
            if tcb.identity().park(None) == Wait::Expired {
                block::end_by_limit();
            }
        }
        None => std::thread::park(),
    }
}

/// [`park`], for `duration` at most.
pub fn park_timeout(duration: Duration) {
    match KThread::current_tcb() {
        Some(tcb) => {
            let deadline = Deadline::after(duration);
            if tcb.identity().park(deadline) == Wait::Expired && block::over_limit() {
                block::end_by_limit();
            }
        }
        None => std::thread::park_timeout(duration),
    }
}
