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
//! Shenango (§5). What lies in the inbox of a busy kthread is taken by one that has nothing to do.

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
        here.scheduler().wake_idle();
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
    if !leaves_soon(tcb) {
        here.shared.push_fresh(tcb);
        return false;
    }
    // SAFETY: a kthread's shared part is alive while a thread is at home there.
    unsafe { &*tcb.home.load(Ordering::Relaxed) }.moved.fetch_add(1, Ordering::Relaxed);
    here.adopt(tcb);
    true
}

/// Whether a thread has left its stack, or does so at once.
fn leaves_soon(tcb: &Tcb) -> bool {
    (0..LOOKS).any(|_| {
        let has_left = tcb.context.has_left();
        if !has_left {
            std::hint::spin_loop();
        }
        has_left
    })
}

/// Whether a thread whose wait has been ended may go on on any kthread.
fn may_go(tcb: &Tcb) -> bool {
    // Before it has left, the rest is not to be read.
    tcb.moves.get()
        && leaves_soon(tcb)
        && tcb.timer.get().is_null()
        && tcb.context.depth() & SECTIONS <= 1
}

/// A thread is ready whose wait the caller has ended, on another kthread than its home or on none: it
/// goes to its home, or where there is room if that is busy.
///
/// # Safety
/// It is in no queue, and alive until it has run.
pub(super) unsafe fn wake(here: Option<&KThread>, tcb: &Tcb, home: &Shared) {
    let is_busy = home.runs_something();
    if !is_busy || !may_go(tcb) {
        // It may go on elsewhere, and end, as soon as it is there.
        let moves = tcb.moves.get();
        // SAFETY: by contract.
        unsafe { home.take_back(tcb) };
        if moves && is_busy {
            home.call_another();
        }
        return;
    }
    match here
        .filter(|here| here.scheduler.as_ref().is_some_and(|scheduler| scheduler.has_peer(home)))
    {
        Some(here) => {
            here.shared.push_fresh(tcb);
            here.batch.note_own(&here.shared);
            here.scheduler().wake_idle();
        }
        None => {
            home.submit(tcb);
            home.call_another();
        }
    }
}

/// A kthread without work takes what lies in the inbox of a busy one and may move; true: there was
/// something.
pub(in crate::thread) fn steal_mail(here: &KThread, victim: &Shared) -> bool {
    if !victim.has_mail_to_take() {
        return false;
    }
    let mut found = false;
    victim.inbox.drain(|tcb| {
        // SAFETY: what is in an inbox has not ended, and is ours now.
        let tcb = unsafe { &*tcb };
        if may_go(tcb) {
            found = true;
            here.shared.push_fresh(tcb);
        } else {
            // SAFETY: it is in no queue now.
            unsafe { victim.take_back(tcb) };
        }
    });
    found
}
