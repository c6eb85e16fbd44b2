//! One operation that a ring carries out, and the thread that waits for its end.

use super::{Asks, Uring};
use crate::block::{self, Deadline, Node, Place, Queue, Wait};
use crate::thread::{KThread, without_limit};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::io::Errno;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// No result of the kernel's.
const PENDING: i64 = i64::MIN;
/// How long a thread waits for the end of an operation that it has cancelled before it looks into the
/// ring itself, whose kthread may have ended.
const SOON: Duration = Duration::from_millis(1);

/// It lies on the stack of the thread that waits.
pub(super) struct Op {
    /// Changes under the lock of `waiter`.
    result: AtomicI64,
    waiter: Queue,
}

impl Op {
    fn new() -> Self {
        Self { result: AtomicI64::new(PENDING), waiter: Queue::new() }
    }

    /// What its completion carries.
    fn number(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }

    /// The operation with that number has ended. It is gone after this.
    ///
    /// # Safety
    /// The number is that of an operation whose completion was taken just now, and once; or 0.
    pub(super) unsafe fn finish(number: u64, result: i32) {
        let op = ptr::with_exposed_provenance::<Self>(number as usize);
        // SAFETY: by contract; its thread waits until this has let go of the lock.
        let Some(op) = (unsafe { op.as_ref() }) else { return };
        block::with_queue(&op.waiter, |locked| {
            op.result.store(result.into(), Ordering::Relaxed);
            locked.pop()
        });
    }

    fn is_pending(&self) -> bool {
        self.result.load(Ordering::Relaxed) == PENDING
    }

    fn result(&self) -> i32 {
        self.result.load(Ordering::Relaxed) as i32
    }

    /// Waits until it has ended, or that time has passed; nothing else ends the wait.
    fn wait(&self, until: Option<Deadline>, here: &Section) -> Wait {
        let still = || self.is_pending();
        let wait = || block::wait_at(&self.waiter, Place::Last, 0, until, still, || here.leave());
        without_limit(wait)
    }

    /// Waits until it has ended; expired: the deadline has passed, or the limit of the caller's
    /// [`crate::time::timeout`], or the caller's request was cancelled.
    fn wait_or_expire(&self, until: Option<Deadline>, here: &Section) -> Wait {
        let node = Node::new(block::me(), 0);
        let still = || self.is_pending();
        let leave = || here.leave();
        block::wait_with(&self.waiter, Place::Last, &node, until, true, still, leave)
    }

    /// Ends it early, and waits until it has ended.
    #[cold]
    fn cancel(&self, ring: &Uring, here: &Section) {
        let mut said = false;
        loop {
            let cancel = opcode::AsyncCancel::new(self.number()).build();
            // SAFETY: it names no memory.
            said = said || unsafe { ring.push(&cancel) };
            ring.turn();
            if self.wait(Deadline::after(SOON), here) != Wait::Expired {
                return;
            }
        }
    }
}

/// From an operation's beginning until its thread waits in a queue: they are on the same kthread, which
/// does not end then before the thread has gone on.
struct Section(Cell<bool>);

impl Section {
    fn enter() -> Self {
        enter_critical();
        Self(Cell::new(true))
    }

    fn leave(&self) {
        if self.0.replace(false) {
            leave_critical();
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        self.leave();
    }
}

/// How an operation went.
pub(crate) enum Outcome {
    /// What the kernel says.
    Done(Result<u32, Errno>),
    /// Its wait was over before it had an effect: ask `block::over_limit`.
    Early,
}

/// Hands an operation to the ring of the calling thread's kthread, and waits for its
/// end, at most until the deadline, or its time is over otherwise; `None`: there is no ring here, or
/// no room in it. It begins when the kthread next looks around.
///
/// # Safety
/// What the entry names is the operation's alone, as it needs it, until this returns.
///
/// # Panics
/// Where the caller must not wait.
#[inline]
pub(crate) unsafe fn interruptible(
    asks: Asks,
    entry: Entry,
    until: impl FnOnce() -> Option<Deadline>,
) -> Option<Outcome> {
    // Later would be too late: what is in flight must not be unwound from.
    block::assert_may_wait();
    let op = Op::new();
    let entry = entry.user_data(op.number());
    let here = Section::enter();
    // Its end may be seen on another kthread.
    let epoll = KThread::here().ring(asks)?.clone();
    let ring = epoll.ring()?;
    // SAFETY: by contract, and `op` stays until it has ended.
    if !unsafe { ring.push(&entry) } {
        return None;
    }
    if op.wait_or_expire(until(), &here) != Wait::Expired {
        return Some(Outcome::Done(result_of(op.result())));
    }
    op.cancel(ring, &here);
    let given_up = [Errno::CANCELED, Errno::INTR].map(|error| -error.raw_os_error());
    Some(if given_up.contains(&op.result()) {
        Outcome::Early
    } else {
        Outcome::Done(result_of(op.result()))
    })
}

/// As [`interruptible`], for what cannot be given up; it begins at once.
///
/// # Safety
/// As there.
///
/// # Panics
/// As there.
pub(crate) unsafe fn uninterruptible(asks: Asks, entry: Entry) -> Option<Result<u32, Errno>> {
    block::assert_may_wait();
    let op = Op::new();
    let entry = entry.user_data(op.number());
    let here = Section::enter();
    let ring = KThread::here().ring(asks)?.ring()?;
    // SAFETY: as above.
    if !unsafe { ring.push(&entry) } {
        return None;
    }
    ring.turn();
    while op.wait(None, &here) == Wait::Expired {}
    Some(result_of(op.result()))
}

/// What the kernel says, as a number or an error.
fn result_of(result: i32) -> Result<u32, Errno> {
    u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

/// Cancels what is in flight there.
pub(super) fn cancel_all(ring: &Uring) {
    let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
    // SAFETY: it names no memory.
    if unsafe { ring.push(&cancel) } {
        ring.turn();
    }
}
