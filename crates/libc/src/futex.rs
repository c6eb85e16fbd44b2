//! The locks of Rust on fibers: C's functions `syscall` and `sched_yield`, interposed.
//!
//! `std::sync`, `std::thread::park` and parking_lot wait in the kernel's futexes, and reach them by
//! these functions. So a request that must wait would stop its worker, and with it, it may be, the
//! one that it waits for. On a fiber, instead:
//!
//! * a wait for a futex blocks the fiber, in the table of `wait`, and the worker goes on;
//! * a wake-up, from any thread, finds fibers there and threads in the kernel, whichever are to have
//!   their turn first;
//! * `park` blocks the fiber, for 200 µs at most; `sched_yield` lets others run.
//!
//! Off fibers, and for all that fibers do not wait for, the kernel is asked as ever. So it is for a
//! futex within the thread's own variables, which only a thread waits for at a time (parking_lot
//! without the compiler pass). A wait that another process may end looks at the word every
//! millisecond.

#![allow(unreachable_pub, reason = "the standard library reaches these by their names")]

use crate::own_words::is_thread_local;
use curtail_rt::block::{Deadline, Place, Wait};
use curtail_rt::kernel::{Arguments, fail, kernel};
use curtail_rt::thread::{self, KThread};
use curtail_rt::wait;
use libc::{c_int, c_long, timespec};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Of `std::thread`'s token (`std::sys::sync::thread_parking::futex`).
const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
/// How long `park` lasts at most.
const PARKED: Duration = Duration::from_micros(200);
const FULL_MASK: u32 = !0;
/// How often a word is looked at that another process may change.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// The word that this thread's `park` waits for.
    static TOKEN: Cell<usize> = const { Cell::new(0) };
    static LEARNING: Cell<bool> = const { Cell::new(false) };
}

/// C declares it variadic. Integers come in the same places either way; those that the caller did
/// not give are whatever lies there, and go to the kernel, which does not read them.
///
/// # Safety
/// As for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the caller's own call.
    unsafe { if number == libc::SYS_futex { futex(arguments) } else { kernel(number, arguments) } }
}

/// # Safety
/// As POSIX asks for: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_yield() -> c_int {
    if KThread::current_tcb().is_some() {
        thread::yield_now();
        return 0;
    }
    // SAFETY: the call has no arguments.
    unsafe { kernel(libc::SYS_sched_yield, [0; 6]) as c_int }
}

/// # Safety
/// As for futex(2).
unsafe fn futex(arguments: Arguments) -> c_long {
    let [word, operation, value, until, second, mask] = arguments;
    let (operation, word, value) = (operation as c_int, word as usize, value as u32);
    let command = operation & libc::FUTEX_CMD_MASK;
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            if LEARNING.get() {
                TOKEN.set(word);
                LEARNING.set(false);
                return fail(libc::ETIMEDOUT);
            }
            let whole = command == libc::FUTEX_WAIT || mask as u32 == FULL_MASK;
            if whole && KThread::current_tcb().is_some() {
                let until: *const timespec = ptr::with_exposed_provenance(until as usize);
                // SAFETY: the caller's word and time.
                if let Some(answer) = unsafe { wait_on_fiber(operation, word, value, until) } {
                    return answer;
                }
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            fence(Ordering::SeqCst); // The caller's change of the word comes before the look here.
            if wait::anybody() {
                // SAFETY: the caller's own call.
                return unsafe { wake(arguments, word, value) };
            }
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP => {
            // Fibers look again: any wake-up may be for nothing (futex(2)).
            fence(Ordering::SeqCst);
            wait::wake_all(word);
            wait::wake_all(second as usize);
        }
        _ => {}
    }
    // SAFETY: the caller's own call.
    unsafe { kernel(libc::SYS_futex, arguments) }
}

/// Waits as a fiber; `None`: this is for the kernel.
///
/// # Safety
/// `word` is that of a futex, `until` null or a valid time.
unsafe fn wait_on_fiber(
    operation: c_int,
    word: usize,
    value: u32,
    until: *const timespec,
) -> Option<c_long> {
    // SAFETY: a live, aligned 32-bit word, which is changed by atomic operations.
    let futex: &AtomicU32 = unsafe { &*ptr::with_exposed_provenance(word) };
    if word == TOKEN.get() {
        park(futex);
        return Some(0);
    }
    if !KThread::has_own_locals() && is_thread_local(word) {
        return None;
    }
    let changed = || futex.load(Ordering::SeqCst) != value;
    let end = match until.is_null() {
        true => None,
        // SAFETY: a valid time.
        false => Some(unsafe { deadline(operation, *until)? }),
    };
    // Another process, which cannot know of our fibers, may be the one that wakes.
    let shared = operation & libc::FUTEX_PRIVATE_FLAG == 0;
    loop {
        let left = match (end.map(time_left), shared) {
            (None, false) => None,
            (None, true) => Some(LOOK),
            (Some(left), false) => Some(left),
            (Some(left), true) => Some(left.min(LOOK)),
        };
        let deadline = left.and_then(Deadline::after);
        return Some(match wait::wait(word, Place::Last, deadline, || !changed(), || {}) {
            Wait::NotNeeded => fail(libc::EAGAIN),
            Wait::Woken(_) => 0,
            Wait::Expired if changed() => 0,
            Wait::Expired if end.is_some_and(|end| time_left(end).is_zero()) => {
                fail(libc::ETIMEDOUT)
            }
            // The clock was set back, or it is time to look.
            Wait::Expired => continue,
        });
    }
}

/// `std::thread::park`: the token is the kthread's, for all that runs on it. It must not say that
/// one of them is parked: the next one would then wait in the standard library, without a call. So
/// `unpark` wakes no fiber here, and it can't be told which fiber a notification is for. Each that
/// parks returns after a short time, as `park` may at any time.
fn park(token: &AtomicU32) {
    token.store(EMPTY, Ordering::SeqCst);
    thread::yield_now();
    let still = || token.load(Ordering::SeqCst) == EMPTY;
    let word = ptr::from_ref(token).addr();
    wait::wait(word, Place::Last, Deadline::after(PARKED), still, || {});
    token.store(NOTIFIED, Ordering::SeqCst);
}

/// Finds out which word this thread's `park` waits for. Before its first fiber runs.
pub(crate) fn learn_token() {
    let mut had_token = false;
    TOKEN.set(0);
    // The first may find a token, and not wait.
    for _ in 0..2 {
        LEARNING.set(true);
        std::thread::park_timeout(Duration::from_nanos(1));
        had_token |= LEARNING.replace(false);
    }
    if had_token {
        std::thread::current().unpark();
    }
    assert!(TOKEN.get() != 0, "thread::park does not wait for a futex by `syscall`");
}

/// Wakes up to `most`: fibers, and threads in the kernel. Which of the two are asked first
/// alternates, so that neither starves the other.
///
/// # Safety
/// As for futex(2).
unsafe fn wake(arguments: Arguments, word: usize, most: u32) -> c_long {
    static TURN: AtomicU32 = AtomicU32::new(0);
    // The kernel takes a negative or zero number for one.
    let most = c_long::from(most as i32).max(1);
    let fibers = |most: c_long| (0..most).take_while(|_| wait::wake_one(word)).count() as c_long;
    let threads = |most: c_long| {
        let [a, b, _, d, e, f] = arguments;
        if most == 0 {
            return 0;
        }
        // SAFETY: the caller's own call, but for the number.
        unsafe { kernel(libc::SYS_futex, [a, b, most, d, e, f]) }
    };
    if TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        let woken = fibers(most);
        match threads(most - woken) {
            error if error < 0 && woken == 0 => error,
            more => woken + more.max(0),
        }
    } else {
        match threads(most) {
            error if error < 0 => error,
            woken => woken + fibers(most - woken),
        }
    }
}

/// A wait's clock and end; `None`: a time that the kernel is to refuse.
fn deadline(operation: c_int, time: timespec) -> Option<(libc::clockid_t, (i64, i64))> {
    let (seconds, nanoseconds) = (time.tv_sec, time.tv_nsec);
    if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
        return None;
    }
    if operation & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT {
        let (since, nanos) = now(libc::CLOCK_MONOTONIC);
        let nanos = nanos + nanoseconds;
        let end = since.saturating_add(seconds).saturating_add(nanos / 1_000_000_000);
        return Some((libc::CLOCK_MONOTONIC, (end, nanos % 1_000_000_000)));
    }
    let real = operation & libc::FUTEX_CLOCK_REALTIME != 0;
    let clock = if real { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    Some((clock, (seconds, nanoseconds)))
}

fn now(clock: libc::clockid_t) -> (i64, i64) {
    let mut now = MaybeUninit::<timespec>::zeroed();
    // SAFETY: `now` is ours, and a timespec of zeroes is one.
    let now = unsafe {
        libc::clock_gettime(clock, now.as_mut_ptr());
        now.assume_init()
    };
    (now.tv_sec, now.tv_nsec)
}

/// What is left until that time; zero: nothing.
fn time_left((clock, end): (libc::clockid_t, (i64, i64))) -> Duration {
    let now = now(clock);
    let nanos = i128::from(end.0 - now.0) * 1_000_000_000 + i128::from(end.1 - now.1);
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}
