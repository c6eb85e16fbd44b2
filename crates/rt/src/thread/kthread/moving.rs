//! Started threads that go on on another kthread.
//!
//! One that is ready and may move lies in the ring of threads that others may take, among those that
//! have not started. Whoever takes it out is its home from then on. What may not move lies in `local`:
//!
//! * light threads, which share their kthread's thread-locals;
//! * requests, connections and whatever else is tied to its kthread (`start_here`);
//! * threads in a critical section of their own.
//!
//! **On its way.** A thread that yields, or is cut, is in the ring before it has left its stack. Its own
//! kthread takes from the ring only as a part of that switch. Any other looks whether the thread has
//! left ([`curtail_fiber::Context::has_left`]), and puts it back where it has not: its kernel thread may
//! have lost its core half-way.
//!
//! **Woken from elsewhere**, it goes to its home's inbox: there its timer is, and it may be on its way.
//! If it has left, has no timer, and its home is busy, it goes to the waker's queue instead, as in
//! Shenango (§5).

use super::{KThread, Shared};
use crate::thread::tcb::Tcb;
use curtail_fiber::safepoint::Safepoint;
use std::ptr;
use std::sync::atomic::Ordering;

/// How often to look whether a thread has left before it is put back.
const LOOKS: u32 = 64;
/// Of a depth: critical sections. Those that wait are in one of the runtime's own.
const SECTIONS: u32 = 0xffff;

/// A thread that has started on `here` is ready: puts it where others may take it; false: it stays.
#[inline(never)]
pub(super) fn offer(here: &KThread, tcb: &Tcb) -> bool {
    if !tcb.moves.get() || is_in_section(here, tcb) || !here.shared.push_ready(tcb) {
        return false;
    }
    if here.has_spare_threads() {
        here.seat().wake_idle();
    }
    true
}

#[inline]
fn is_in_section(here: &KThread, tcb: &Tcb) -> bool {
    match ptr::eq(tcb, here.current.get()) {
        true => Safepoint::this_thread().depth() & SECTIONS > 0,
        false => tcb.context.depth() & SECTIONS > 1,
    }
}

/// A thread that was taken out of the ring of `here`, and has started: whether it goes on here. If not,
/// it is in the ring again.
#[inline]
pub(super) fn goes_on(here: &KThread, tcb: &Tcb) -> bool {
    tcb.is_at(&here.shared) || take_over(here, tcb)
}

#[cold]
fn take_over(here: &KThread, tcb: &Tcb) -> bool {
    let has_left = (0..LOOKS).any(|_| {
        let has_left = tcb.context.has_left();
        if !has_left {
            std::hint::spin_loop();
        }
        has_left
    });
    if !has_left {
        here.shared.push_fresh(tcb);
        return false;
    }
    // SAFETY: a kthread's shared part is alive while a thread is at home there.
    unsafe { &*tcb.home.load(Ordering::Relaxed) }.moved.fetch_add(1, Ordering::Relaxed);
    here.adopt(tcb);
    true
}

/// A thread is ready whose wait the caller has ended, on another kthread than its home or on none;
/// false: it is to go to its home.
pub(super) fn take_from_busy(here: Option<&KThread>, tcb: &Tcb, home: &Shared) -> bool {
    // First whether it has left: before, the rest is not to be read.
    let goes = tcb.moves.get()
        && tcb.context.has_left()
        && tcb.timer.get().is_null()
        && tcb.context.depth() & SECTIONS <= 1
        && home.runs_something();
    if !goes {
        return false;
    }
    match here.filter(|here| here.seat.as_ref().is_some_and(|seat| seat.has_peer(home))) {
        Some(here) => {
            here.shared.push_fresh(tcb);
            here.batch.note_own(&here.shared);
            here.seat().wake_idle();
        }
        None => {
            home.hand_in(tcb);
            home.call_another();
        }
    }
    true
}
