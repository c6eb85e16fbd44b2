//! Who waits for what: a table of waiting fibers and threads by address, under locks and condition
//! variables of every kind.
//!
//! From any thread. Each bucket has a lock that is held for a few instructions and never across a
//! switch: this code is native, so no safepoint is inside, and what it calls waits in the kernel
//! ([`is_busy`]). A waiter enters itself while it can still check its condition (under the bucket's
//! lock, or before it lets go of the lock that protects the condition) and leaves the processor
//! afterwards; who wakes it in between finds it here.

use crate::block::{self, Waiter};
use crate::thread::{self, KThread, Shared};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_policy::JobId;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;

const BUCKETS: usize = 64;

/// One wait. Taken out of the table, and woken, at most once.
struct Ticket {
    address: usize,
    who: Who,
    woken: AtomicBool,
}

enum Who {
    /// It has blocked, or will at once: its worker is told.
    Blocked(block::Who),
    /// It looks at `woken` from time to time: it has a deadline.
    Looking(block::Who),
    Thread(Thread),
}

type Bucket = VecDeque<Arc<Ticket>>;

static TABLE: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(VecDeque::new()) }; BUCKETS];
/// How many wait: lets a wake-up that nobody waits for cost one load.
static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
    static MISSED: Cell<Missed> = const { Cell::new(Missed { words: [0; 4], count: 0 }) };
}

/// Addresses whose waiters were to be woken while the thread was busy.
#[derive(Clone, Copy)]
struct Missed {
    words: [usize; 4],
    /// More than there is room for: all that wait.
    count: usize,
}

/// Whether this thread is in here: with a bucket's lock, or about to block its fiber. What it waits
/// for now it must not wait for as a fiber, and whom it wakes it has to [`wake_later`]. (Both happen
/// where the program's allocator has a lock.)
pub(crate) fn is_busy() -> bool {
    BUSY.get()
}

/// Wakes all that wait for `address`, when this thread is no longer busy.
pub(crate) fn wake_later(address: usize) {
    let mut missed = MISSED.get();
    if let Some(word) = missed.words.get_mut(missed.count) {
        *word = address;
    }
    missed.count += 1;
    MISSED.set(missed);
}

fn wake_missed() {
    loop {
        let missed = MISSED.replace(Missed { words: [0; 4], count: 0 });
        if missed.count == 0 {
            return;
        }
        if let Some(words) = missed.words.get(..missed.count) {
            words.iter().for_each(|&word| wake_all(word));
            continue;
        }
        // Nobody minds: a wait may end for nothing.
        for bucket in 0..BUCKETS {
            while let Some(ticket) = { Locked::new(bucket).bucket.pop_front() } {
                wake(&ticket);
            }
        }
    }
}

/// Makes the thread busy.
struct Busy {
    before: bool,
}

impl Busy {
    fn new() -> Self {
        Self { before: BUSY.replace(true) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.before {
            wake_missed();
        }
        BUSY.set(self.before);
    }
}

/// A bucket, locked by a thread that is busy until it lets go of it.
struct Locked {
    bucket: MutexGuard<'static, Bucket>,
    _busy: Busy,
}

impl Locked {
    fn new(index: usize) -> Self {
        let busy = Busy::new();
        let bucket = TABLE[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Self { bucket, _busy: busy }
    }
}

fn lock(address: usize) -> Locked {
    // Fibonacci hashing of the address without its alignment bits.
    let hash = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Locked::new(hash >> 58)
}

/// Whether anybody waits for anything.
pub(crate) fn anybody() -> bool {
    WAITING.load(Ordering::SeqCst) != 0
}

/// Enters the caller if `still` holds, which is asked under the bucket's lock.
fn enter(address: usize, who: Who, still: impl FnOnce() -> bool) -> Option<Arc<Ticket>> {
    let mut locked = lock(address);
    // Before `still`: a waker changes the condition first and then asks whether anybody waits.
    WAITING.fetch_add(1, Ordering::SeqCst);
    if !still() {
        WAITING.fetch_sub(1, Ordering::SeqCst);
        return None;
    }
    let ticket = Arc::new(Ticket { address, who, woken: AtomicBool::new(false) });
    locked.bucket.push_back(ticket.clone());
    Some(ticket)
}

/// Waits until somebody wakes `address`; returns at once if `still` does not hold: false then. Once
/// entered, lets go of the caller's lock by `release`.
pub(crate) fn wait(address: usize, still: impl FnOnce() -> bool, release: impl FnOnce()) -> bool {
    if let Some(tcb) = KThread::current_tcb() {
        // A yield between entering and blocking would make the wake-up find a job that does not
        // block: no pre-emption, and no waiting as a fiber.
        enter_critical();
        let busy = Busy::new();
        let entered = enter(address, Who::Blocked(block::me()), still).is_some();
        if entered {
            release();
        }
        drop(busy);
        if entered {
            tcb.waits_for.set(address);
            KThread::here().block(tcb);
            tcb.waits_for.set(0);
        }
        leave_critical();
        return entered;
    }
    let Some(ticket) = enter(address, Who::Thread(std::thread::current()), still) else {
        return false;
    };
    release();
    while !ticket.woken.load(Ordering::Acquire) {
        std::thread::park();
    }
    true
}

/// As [`wait`], on a fiber, but gives up when `expired` says so: `Some(false)` then; `None`: `still`
/// did not hold. The fiber does not block: it yields and looks again, so that others run in between.
pub(crate) fn wait_until(
    address: usize,
    still: impl FnOnce() -> bool,
    release: impl FnOnce(),
    mut expired: impl FnMut() -> bool,
) -> Option<bool> {
    let ticket = enter(address, Who::Looking(block::me()), still)?;
    release();
    let note = |address| {
        if let Some(tcb) = KThread::current_tcb() {
            tcb.waits_for.set(address);
        }
    };
    note(address);
    let in_time = look_again(&ticket, &mut expired);
    note(0);
    Some(in_time)
}

/// Until it is woken, true; or it has expired, false.
fn look_again(ticket: &Arc<Ticket>, expired: &mut impl FnMut() -> bool) -> bool {
    loop {
        if ticket.woken.load(Ordering::Acquire) {
            return true;
        }
        if expired() {
            let mut locked = lock(ticket.address);
            let before = locked.bucket.len();
            locked.bucket.retain(|waiting| !Arc::ptr_eq(waiting, ticket));
            let in_time = locked.bucket.len() == before; // Somebody took it out to wake it just now.
            if !in_time {
                WAITING.fetch_sub(1, Ordering::SeqCst);
            }
            return in_time;
        }
        thread::yield_now();
    }
}

/// Wakes the one that has waited longest for `address`; false: none waits.
pub(crate) fn wake_one(address: usize) -> bool {
    if !anybody() {
        return false;
    }
    let mut locked = lock(address);
    locked.bucket.retain(|ticket| {
        let gone = matches!(ticket.who, Who::Blocked(who) | Who::Looking(who) if who.is_gone());
        if gone {
            WAITING.fetch_sub(1, Ordering::SeqCst);
        }
        !gone
    });
    let first = locked.bucket.iter().position(|ticket| ticket.address == address);
    let ticket = first.and_then(|index| locked.bucket.remove(index));
    drop(locked);
    ticket.is_some_and(|ticket| {
        wake(&ticket);
        true
    })
}

/// Takes out all jobs of one kthread's engine, which will not run again; which they were.
pub(crate) fn forget(home: &Arc<Shared>) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for index in 0..BUCKETS {
        let mut locked = Locked::new(index);
        let before = jobs.len();
        locked.bucket.retain(|ticket| {
            let job = match &ticket.who {
                Who::Blocked(who) | Who::Looking(who) => who.request_at(home),
                Who::Thread(_) => None,
            };
            jobs.extend(job.map(JobId));
            job.is_none()
        });
        WAITING.fetch_sub(jobs.len() - before, Ordering::SeqCst);
    }
    jobs
}

/// Wakes all that wait for `address`.
pub(crate) fn wake_all(address: usize) {
    while wake_one(address) {}
}

fn wake(ticket: &Ticket) {
    WAITING.fetch_sub(1, Ordering::SeqCst);
    ticket.woken.store(true, Ordering::Release);
    match &ticket.who {
        // SAFETY: it was taken out of the table, once.
        Who::Blocked(who) => unsafe { KThread::make_ready(who.as_tcb()) },
        Who::Looking(_) => {}
        Who::Thread(thread) => thread.unpark(),
    }
}
