//! What is known of the request that the caller works for: [`context`].
//!
//! A [`Case`] is made when it is first asked for, or when the request spawns a thread. The
//! request's control block has it from then on ([`CaseCell`]), and so have those of threads that it
//! spawns; the holder of a [`Context`] keeps it. The cell is its home's; in a case, `cause` and
//! `wished` are atomics that any thread may look at, and nothing else changes.

use crate::cancel::{Cancelled, Cause};
use crate::clock::{self, Clock};
use crate::thread::{KThread, Shared, Task};
use curtail_net::{Kept, Peer, Reply};
use curtail_policy::ClassId;
use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// No deadline, in TSC cycles.
pub const NEVER: u64 = u64::MAX;

/// A request of a server in progress, for [`Handle::cancel`](../curtail/struct.Handle.html#method.cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Its place in the server, which it has for itself while it is there.
    #[doc(hidden)]
    pub place: u64,
    /// When it came, which no other in that place did.
    #[doc(hidden)]
    pub arrived_tsc: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.place, self.arrived_tsc)
    }
}

/// By which way the request's home learns that it is to be cancelled.
pub trait Route: Send + Sync {
    /// Its [`Case`] says so already.
    fn cancel(&self, id: RequestId, cause: Cause);
}

/// Its kthread looks by itself.
impl Route for Shared {
    fn cancel(&self, _: RequestId, _: Cause) {
        self.notify();
    }
}

/// What is known of a request.
pub struct Facts {
    pub id: RequestId,
    pub class: ClassId,
    pub peer: Peer,
    /// [`NEVER`]: it has none.
    pub deadline_tsc: u64,
    pub reply: Option<Arc<dyn Reply>>,
    pub route: Arc<dyn Route>,
}

/// What is known of a request, for all that work for it.
pub(crate) struct Case {
    facts: Facts,
    /// It is cancelled: [`Cause`], or 0. Written by its home.
    cause: AtomicU8,
    /// A [`Context`] was asked to cancel it.
    wished: AtomicU8,
}

impl Case {
    fn cause(&self) -> Option<Cause> {
        let told = Cause::of(self.cause.load(Ordering::Acquire)).or_else(|| self.wished());
        told.or_else(|| {
            let Facts { peer, deadline_tsc, reply, .. } = &self.facts;
            let gone = reply.as_ref().is_some_and(|reply| reply.is_gone(*peer));
            let late = *deadline_tsc != NEVER && clock::now() >= *deadline_tsc;
            gone.then_some(Cause::Departed).or(late.then_some(Cause::Deadline))
        })
    }

    fn wished(&self) -> Option<Cause> {
        Cause::of(self.wished.load(Ordering::Acquire))
    }
}

/// A control block's case; its home's alone.
pub(crate) struct CaseCell(Cell<*const Case>);

impl CaseCell {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(ptr::null()))
    }

    fn get(&self) -> Option<&Case> {
        // SAFETY: the cell has a count of it, which only `clear` gives up: on the same thread, and no
        // reference is kept across a call of the program's.
        unsafe { self.0.get().as_ref() }
    }

    fn shared(&self) -> Option<Arc<Case>> {
        let case = self.0.get();
        (!case.is_null()).then(|| {
            // SAFETY: the cell has a count of it.
            unsafe {
                Arc::increment_strong_count(case);
                Arc::from_raw(case)
            }
        })
    }

    pub(crate) fn set(&self, case: Arc<Case>) {
        self.clear();
        self.0.set(Arc::into_raw(case));
    }

    /// The request or thread has ended.
    #[inline]
    pub(crate) fn clear(&self) {
        if !self.0.get().is_null() {
            // SAFETY: the count that `set` left here.
            drop(unsafe { Arc::from_raw(self.0.replace(ptr::null())) });
        }
    }

    /// Whether a [`Context`] was asked to cancel it.
    pub(crate) fn wished(&self) -> Option<Cause> {
        self.get()?.wished()
    }

    /// It is cancelled.
    pub(crate) fn tell(&self, cause: Cause) {
        if let Some(case) = self.get() {
            case.cause.store(cause as u8, Ordering::Release);
        }
    }

    /// Whether the request is cancelled.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.get()?.cause()
    }
}

impl Drop for CaseCell {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The request that the caller works for, anywhere on its thread, and on threads that it has spawned,
/// also when it has ended; `None`: there is none.
#[must_use]
pub fn context() -> Option<Context> {
    let tcb = KThread::current_tcb()?;
    if let Some(case) = tcb.case.shared() {
        return Some(Context { case });
    }
    let case = Arc::new(Case {
        facts: tcb.task()?.facts()?,
        cause: AtomicU8::new(Cause::code(tcb.cancel.cause())),
        wished: AtomicU8::new(0),
    });
    tcb.case.set(case.clone());
    Some(Context { case })
}

/// The class of the request that the caller works for, as its classifier said: cheap enough for every
/// request, so that a handler need not look for it again (Perséphone §4.3.4). `None`: the caller works
/// for none. [`context`] knows more.
#[must_use]
pub fn class() -> Option<ClassId> {
    let tcb = KThread::current_tcb()?;
    if tcb.task().is_some_and(Task::is_request) {
        return Some(ClassId(tcb.class.get()));
    }
    tcb.case.get().map(|case| case.facts.class)
}

/// The case that a thread gets which the caller spawns.
#[inline]
pub(crate) fn inherited() -> Option<Arc<Case>> {
    let tcb = KThread::current_tcb()?;
    if tcb.is_thread() {
        return tcb.case.shared();
    }
    context().map(|context| context.case)
}

/// What is known of a request of a server or a job of a pool: see [`context`]. A handle, which any
/// thread may keep.
#[derive(Clone)]
pub struct Context {
    case: Arc<Case>,
}

impl Context {
    /// Its name, for [`Handle::cancel`](../curtail/struct.Handle.html#method.cancel).
    #[must_use]
    pub fn id(&self) -> RequestId {
        self.case.facts.id
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> ClassId {
        self.case.facts.class
    }

    /// Where it came from.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.case.facts.peer
    }

    /// When it arrived.
    #[must_use]
    pub fn arrived(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.age()).unwrap_or(now)
    }

    /// How long ago it arrived.
    #[must_use]
    pub fn age(&self) -> Duration {
        cycles(clock::now().saturating_sub(self.case.facts.id.arrived_tsc))
    }

    /// When it is cancelled, if it has not ended by then; `None`: never for that.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let left = self.time_left()?;
        Instant::now().checked_add(left)
    }

    /// How long there is until its deadline; zero: it has passed. `None`: it has none.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = Some(self.case.facts.deadline_tsc).filter(|&tsc| tsc != NEVER)?;
        Some(cycles(deadline.saturating_sub(clock::now())))
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cause().is_some()
    }

    /// Why it was cancelled; `None`: it was not.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.case.cause()
    }

    /// Nothing, unless it was cancelled: [`check`](crate::check) for another thread's request.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cause().map_or(Ok(()), |cause| Err(Cancelled::by(cause)))
    }

    /// Cancels it. Without effect where it has ended.
    pub fn cancel(&self) {
        self.cancel_by(Cause::Asked);
    }

    #[doc(hidden)]
    pub fn cancel_by(&self, cause: Cause) {
        self.case.wished.store(cause as u8, Ordering::Release);
        self.case.facts.route.cancel(self.id(), cause);
    }

    /// What the server keeps of the connection that the request came by: made by the first request
    /// that asks, shared by all of them, dropped when the connection is closed. `None`: it came by
    /// none (a datagram, a call within the process), the connection has gone, or another type is kept
    /// there.
    ///
    /// `T`'s destructor runs where the connection ends, on a thread of the runtime's: it must be
    /// short.
    #[must_use]
    pub fn connection<T: Default + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let reply = self.case.facts.reply.as_ref()?;
        let look = |new: Option<Arc<T>>| {
            let mut found: Option<Arc<T>> = None;
            let mut is_empty = false;
            // Nothing is pre-empted under the connection's lock, and no code of the program's runs.
            curtail_fiber::safepoint::enter_critical();
            reply.with_state(self.peer(), &mut |kept: &mut Kept| {
                if let (None, Some(new)) = (&kept, &new) {
                    *kept = Some(new.clone());
                }
                is_empty = kept.is_none();
                found = kept.clone().and_then(|kept| kept.downcast().ok());
            });
            curtail_fiber::safepoint::leave_critical();
            (found, is_empty)
        };
        match look(None) {
            (None, true) => look(Some(Arc::new(T::default()))).0,
            (found, _) => found,
        }
    }
}

fn cycles(cycles: u64) -> Duration {
    Duration::from_nanos(Clock::get().ns(cycles))
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &format_args!("{}", self.id()))
            .field("class", &self.class())
            .field("peer", &self.peer())
            .field("age", &self.age())
            .field("time_left", &self.time_left())
            .field("cause", &self.cause())
            .finish()
    }
}
