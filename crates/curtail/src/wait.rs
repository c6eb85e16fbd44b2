//! Who waits for what: a table of waiting fibers and threads by address, under locks and condition
//! variables of every kind.
//!
//! From any thread. Each bucket has a lock that is held for a few instructions and never across a
//! switch: this code is native, so no safepoint is inside. A waiter enters itself while it can
//! still check its condition (under the bucket's lock, or before it lets go of the lock that
//! protects the condition) and leaves the processor afterwards; who wakes it in between finds it
//! here.

use crate::calls;
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};

const BUCKETS: usize = 64;

/// One wait. Taken out of the table, and woken, at most once.
struct Ticket {
    address: usize,
    who: Who,
    woken: AtomicBool,
}

enum Who {
    /// It has blocked, or will at once: its worker is told.
    Blocked(calls::Waker),
    /// It looks at `woken` from time to time: it has a deadline.
    Looking,
    Thread(Thread),
}

type Bucket = VecDeque<Arc<Ticket>>;

static TABLE: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(VecDeque::new()) }; BUCKETS];
/// How many wait: lets a wake-up that nobody waits for cost one load.
static WAITING: AtomicUsize = AtomicUsize::new(0);

fn bucket(address: usize) -> MutexGuard<'static, Bucket> {
    // Fibonacci hashing of the address without its alignment bits.
    let hash = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    TABLE[hash >> 58].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Enters the caller if `still` holds, which is asked under the bucket's lock.
fn enter(address: usize, who: Who, still: impl FnOnce() -> bool) -> Option<Arc<Ticket>> {
    let mut bucket = bucket(address);
    // Before `still`: a waker changes the condition first and then asks whether anybody waits.
    WAITING.fetch_add(1, Ordering::SeqCst);
    if !still() {
        WAITING.fetch_sub(1, Ordering::SeqCst);
        return None;
    }
    let ticket = Arc::new(Ticket { address, who, woken: AtomicBool::new(false) });
    bucket.push_back(ticket.clone());
    Some(ticket)
}

/// Waits until somebody wakes `address`; returns at once if `still` does not hold. Once entered,
/// lets go of the caller's lock by `release`.
pub(crate) fn wait(address: usize, still: impl FnOnce() -> bool, release: impl FnOnce()) {
    if let Some(waker) = calls::waker() {
        // A pre-emption between entering and blocking would make the wake-up find a job that does
        // not block.
        enter_critical();
        if enter(address, Who::Blocked(waker), still).is_some() {
            release();
            calls::block();
        }
        leave_critical();
        return;
    }
    if let Some(ticket) = enter(address, Who::Thread(thread::current()), still) {
        release();
        while !ticket.woken.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

/// As [`wait`], on a fiber, but gives up when `expired` says so: false then. The fiber does not
/// block: it yields and looks again, so that others run in between.
pub(crate) fn wait_until(
    address: usize,
    release: impl FnOnce(),
    mut expired: impl FnMut() -> bool,
) -> bool {
    let Some(ticket) = enter(address, Who::Looking, || true) else { return true };
    release();
    loop {
        if ticket.woken.load(Ordering::Acquire) {
            return true;
        }
        if expired() {
            let mut bucket = bucket(address);
            let before = bucket.len();
            bucket.retain(|waiting| !Arc::ptr_eq(waiting, &ticket));
            let in_time = bucket.len() == before; // Somebody took it out to wake it just now.
            if !in_time {
                WAITING.fetch_sub(1, Ordering::SeqCst);
            }
            return in_time;
        }
        calls::let_others_run();
    }
}

/// Wakes the one that has waited longest for `address`; false: none waits.
pub(crate) fn wake_one(address: usize) -> bool {
    if WAITING.load(Ordering::SeqCst) == 0 {
        return false;
    }
    let mut bucket = bucket(address);
    let first = bucket.iter().position(|ticket| ticket.address == address);
    let ticket = first.and_then(|index| bucket.remove(index));
    drop(bucket);
    ticket.is_some_and(|ticket| {
        wake(&ticket);
        true
    })
}

/// Wakes all that wait for `address`.
pub(crate) fn wake_all(address: usize) {
    while wake_one(address) {}
}

fn wake(ticket: &Ticket) {
    WAITING.fetch_sub(1, Ordering::SeqCst);
    ticket.woken.store(true, Ordering::Release);
    match &ticket.who {
        Who::Blocked(waker) => waker.clone().wake(),
        Who::Looking => {}
        Who::Thread(thread) => thread.unpark(),
    }
}
