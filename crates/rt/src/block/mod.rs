//! Waiting: the one protocol for everything that waits. `block/README.md` states it.
//!
//! A waiter is a [`Who`]: a thread or request of Curtail's, whose kthread goes on with others, or a
//! plain thread, which sleeps in the kernel.

mod spin;
mod wheel;

use crate::cancel::Cancelled;
use crate::clock::{self, Clock};
use crate::thread::{KThread, Shared, Tcb};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
pub use curtail_ring::wait::Place;
pub(crate) use curtail_ring::wait::{Locked, Node, WaitQueue, Waiter, Woken};
pub use spin::Spin;
use std::num::NonZeroU64;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
pub(crate) use wheel::{Timer, Wheel};

/// The end of a wait by time.
#[derive(Clone, Copy)]
pub(crate) struct Expiry {
    pub node: *const Node<Who>,
    /// Not before that, by [`clock::monotonic_ns`].
    pub end_ns: u64,
}

/// A waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(
    /// Null: a plain thread.
    *const Tcb,
);

// SAFETY: a control block's cells that others touch are atomics; the rest is touched by its home
// only (see `thread::tcb`).
unsafe impl Send for Who {}
// SAFETY: as above.
unsafe impl Sync for Who {}

impl Waiter for Who {
    fn is_gone(self) -> bool {
        // SAFETY: asked of waiters in a queue only, whose control blocks are alive: a kthread that
        // ends leaks those that have not ended.
        !self.0.is_null() && unsafe { (*self.0).is_abandoned() }
    }

    /// A plain thread.
    #[inline]
    fn goes_on_by_itself(self) -> bool {
        self.0.is_null()
    }
}

impl Who {
    /// Whether it is at home there, and such a one.
    pub(crate) fn is_at(self, home: &Arc<Shared>, which: impl Fn(&Tcb) -> bool) -> bool {
        // SAFETY: asked of waiters in a queue only, whose control blocks are alive.
        unsafe { self.0.as_ref() }.is_some_and(|tcb| tcb.is_at(home) && which(tcb))
    }

    /// Its control block; null: a plain thread's.
    pub(crate) fn as_tcb(self) -> *const Tcb {
        self.0
    }
}

/// Those who wait for one thing.
pub type Queue = WaitQueue<Who>;

/// When to stop waiting, by both clocks: the wheel counts by the TSC, and nothing may end before its time
/// by the system's clock, however many waits have the same deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    tsc: u64,
    /// By [`clock::monotonic_ns`]. (That it is not zero leaves room for `None`.)
    ns: NonZeroU64,
}

impl Deadline {
    /// It never comes.
    pub(crate) const NEVER: Self = Self { tsc: u64::MAX, ns: NonZeroU64::MAX };

    /// After `duration`; `None`: so late that it never comes.
    #[inline]
    pub fn after(duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        // Cycles of more than a century are no deadline.
        (ns < u64::MAX / 8).then(|| Self {
            tsc: clock::now() + Clock::get().cycles(ns),
            ns: NonZeroU64::MIN.saturating_add(clock::monotonic_ns().saturating_add(ns)),
        })
    }

    /// The sooner of both.
    pub(crate) fn min(self, other: Self) -> Self {
        if other.ns < self.ns { other } else { self }
    }

    /// As the TSC is expected to show it.
    pub(crate) fn tsc(self) -> u64 {
        self.tsc
    }

    /// By [`clock::monotonic_ns`].
    pub(crate) fn ns(self) -> u64 {
        self.ns.get()
    }

    pub(crate) fn has_passed(self) -> bool {
        self.left().is_none()
    }

    /// What is left of it; `None`: it has passed.
    pub fn left(self) -> Option<Duration> {
        let left = self.ns.get().saturating_sub(clock::monotonic_ns());
        (left > 0).then(|| Duration::from_nanos(left))
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There was nothing to wait for.
    NotNeeded,
    /// A waker ended it, and left this note.
    Woken(u32),
    /// Its deadline passed, or that of the caller's [`crate::time::timeout`], or the caller's request
    /// was cancelled: ask [`over_limit`].
    Expired,
}

/// The caller.
#[inline]
pub(crate) fn me() -> Who {
    Who(KThread::current_tcb().map_or(ptr::null(), ptr::from_ref))
}

/// Whether the caller may wait: not while it reads what RCU protects, on a kthread, whose other
/// threads would seem to read as well.
#[inline]
pub fn may_wait() -> bool {
    !crate::sync::rcu::is_reading() || KThread::current_tcb().is_none()
}

/// # Panics
/// Where the caller must not wait.
#[inline]
pub(crate) fn assert_may_wait() {
    if !may_wait() {
        refuse_to_wait();
    }
}

/// # Panics
/// Always.
#[cold]
pub(crate) fn refuse_to_wait() -> ! {
    panic!("a thread waits while it reads what RCU protects");
}

/// Whether what the caller waits for may come about without the caller's kthread.
pub(crate) fn runs_beside_others() -> bool {
    KThread::try_here().is_none_or(KThread::runs_beside_others)
}

/// Waits in `queue` until a waker ends it or the deadline passes, unless `still`, asked under the
/// queue's lock, says that there is nothing to wait for. Then `release` is called, with the node in
/// the queue and the queue unlocked.
#[inline]
pub fn wait_in(
    queue: &Queue,
    note: u32,
    deadline: Option<Deadline>,
    still: impl FnOnce() -> bool,
    release: impl FnOnce(),
) -> Wait {
    assert_may_wait();
    wait_with(queue, Place::Last, &Node::new(me(), note), deadline, true, still, release)
}

/// [`wait_in`], at a place of the caller's choice, for what cannot fail: a lock. Cancellation does not
/// end it.
#[inline]
pub(crate) fn wait_at(
    queue: &Queue,
    place: Place,
    note: u32,
    deadline: Option<Deadline>,
    still: impl FnOnce() -> bool,
    release: impl FnOnce(),
) -> Wait {
    assert_may_wait();
    wait_with(queue, place, &Node::new(me(), note), deadline, false, still, release)
}

/// [`wait_at`], by a node of the caller's. `ends`: also where the caller's request is cancelled.
pub(crate) fn wait_with(
    queue: &Queue,
    place: Place,
    node: &Node<Who>,
    deadline: Option<Deadline>,
    ends: bool,
    still: impl FnOnce() -> bool,
    release: impl FnOnce(),
) -> Wait {
    // Pre-empted between entering the queue and blocking, it would be ready and waiting at once.
    enter_critical();
    // SAFETY: the caller's node is in no queue; neither `release` nor `sleep` unwinds.
    let ended =
        unsafe { queue.wait((node, place), still, release, || sleep(node, deadline, ends)) };
    leave_critical();
    match ended {
        None => Wait::NotNeeded,
        Some(true) => Wait::Woken(node.note()),
        Some(false) => Wait::Expired,
    }
}

/// Sleeps until the node's wait is over. If it expired, the node may still be in its queue. `ends`:
/// also where the caller's request is cancelled.
///
/// The caller is in a critical section since before the node was in a queue.
pub(crate) fn sleep(node: &Node<Who>, deadline: Option<Deadline>, ends: bool) {
    match KThread::current_tcb() {
        Some(tcb) => KThread::here().sleep(tcb, node, deadline, ends && ENDS),
        None => sleep_in_kernel(node, deadline),
    }
}

/// Where nothing can unwind, cancellation ends no wait.
const ENDS: bool = cfg!(panic = "unwind");

/// A plain thread's sleep, by the node's own word.
fn sleep_in_kernel(node: &Node<Who>, deadline: Option<Deadline>) {
    let end = deadline.map(Deadline::ns);
    while !node.is_over() {
        let left = match end.map(|end| end.saturating_sub(clock::monotonic_ns())) {
            None => None,
            Some(left) if left > 0 => Some(Duration::from_nanos(left)),
            Some(_) => {
                // A waker may be quicker.
                let _ = node.expire();
                return;
            }
        };
        crate::kernel::wait_in_kernel(node.word(), 0, left);
    }
}

/// Makes ready whom a waker has taken out of a queue. With the queue unlocked.
#[inline]
pub(crate) fn wake(woken: Woken<Who>) {
    match woken.who.0.is_null() {
        // The word may be gone with its thread: the kernel is given the address alone.
        true => crate::kernel::wake_in_kernel(woken.word.cast::<AtomicU32>()),
        // SAFETY: the wait was ended by us, so the thread does not run before we make it ready, and
        // its control block is alive.
        false => unsafe { KThread::make_ready(woken.who.0) },
    }
}

/// Calls `change` with `queue` locked, then unlocks it and makes ready whom `change` has taken out;
/// whether there was one. The queue may be gone with that one's wait.
#[inline]
pub(crate) fn with_queue(
    queue: &Queue,
    change: impl FnOnce(&mut Locked<'_, Who>) -> Option<Woken<Who>>,
) -> bool {
    // A waker is not pre-empted with the queue locked, nor before it has woken whom it took out.
    enter_critical();
    let woken = change(&mut queue.lock());
    let any = woken.is_some();
    if let Some(woken) = woken {
        wake(woken);
    }
    leave_critical();
    any
}

/// Wakes one after the other of those that `next` takes out of `queue`; how many.
pub(crate) fn wake_each(
    queue: &Queue,
    mut next: impl FnMut(&mut Locked<'_, Who>) -> Option<Woken<Who>>,
) -> usize {
    enter_critical();
    let mut count = 0;
    while with_queue(queue, &mut next) {
        count += 1;
    }
    leave_critical();
    count
}

/// Wakes all that are in `queue` now; how many.
pub(crate) fn wake_all(queue: &Queue) -> usize {
    // A waiter that enters later is behind those that are here now, and waiting is checked by the
    // waiters again, so one too many does no harm.
    wake_each(queue, |locked| locked.pop())
}

/// Whether the time of the caller's [`crate::time::timeout`] is over, or its request is cancelled.
pub(crate) fn over_limit() -> bool {
    KThread::current_tcb().is_some_and(|tcb| tcb.limit.get().has_passed() || is_cancelled(tcb))
}

fn is_cancelled(tcb: &Tcb) -> bool {
    ENDS && tcb.cancel.ends_waits()
}

/// After [`Wait::Expired`], for calls that can say so: the caller's request is cancelled.
pub(crate) fn cancelled() -> Option<Cancelled> {
    let tcb = KThread::current_tcb().filter(|tcb| is_cancelled(tcb))?;
    tcb.cancel.cause().map(Cancelled::by)
}

/// After [`Wait::Expired`] without a deadline of the caller's own: the time of its
/// [`crate::time::timeout`] is over, and the closure in it ends here, by unwinding; or its request is
/// cancelled, and ends here in the same way.
pub(crate) fn end_by_limit() -> ! {
    if let Some(tcb) = KThread::current_tcb()
        && is_cancelled(tcb)
        && !tcb.limit.get().has_passed()
    {
        crate::cancel::unwind(&tcb.cancel);
    }
    crate::time::elapse()
}
