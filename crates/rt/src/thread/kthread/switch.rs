//! From one thread to the next.
//!
//! A thread that has ended switches to the kthread's own loop, which publishes the end: only then
//! its stack is free. The one exception is a thread that was started by the thread that joins it
//! ([`KThread::run_child`]): it switches back to that one.

use super::{DIRECT, KThread};
use crate::block::{Deadline, Expiry, Node, Timer, Who};
use crate::clock;
use crate::thread::resumer::{self, Left};
use crate::thread::tcb::{Block, Tcb};
use crate::timeline::{self, EventKind};
use curtail_fiber::{Context, switch, switch_away};
use std::ptr;
use std::sync::atomic::Ordering;

impl KThread {
    /// Runs ready threads until none is ready or it is time to look around; true: some ran. By the
    /// kthread's own loop.
    pub fn run_threads(&self, direct: u32) -> bool {
        debug_assert!(self.current.get().is_null());
        let Some(next) = self.pick() else { return false };
        let mut next: *const Context = &raw const next.context;
        self.direct.set(direct.min(self.round.get()));
        self.shares
            .set(self.scheduler.as_ref().is_some_and(|scheduler| !scheduler.is_the_only_one()));
        let timer = self.wheel.next_tsc().unwrap_or(0);
        self.shared.progress.timer.store(timer, Ordering::Relaxed);
        let begun = clock::now();
        self.arm(begun);
        // A loop that takes requests in is a task.
        self.base.stands_for_caller();
        while !ptr::eq(next, &raw const self.base) {
            // SAFETY: this is the base; what is picked is suspended, or was prepared, and is ours.
            unsafe { switch(&raw const self.base, next) };
            let ended = self.ended.replace(ptr::null());
            if ended.is_null() {
                break;
            }
            self.current.set(ptr::null());
            crate::thread::spawn::publish_end(ended);
            if self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_over(ended)) {
                break;
            }
            next = self.next();
        }
        self.current.set(ptr::null());
        self.disarm();
        self.nothing_runs();
        note_none();
        self.fit_round(clock::now() - begun);
        true
    }

    /// Long threads get short rounds, so that timers and sockets are looked at between them; short
    /// ones long rounds, so that they need no clock.
    fn fit_round(&self, cycles: u64) {
        let round = self.round.get();
        self.round.set(match cycles > self.round_cycles {
            true => round / 2,
            false => (2 * round + 1).min(DIRECT),
        });
    }

    /// Where a thread that leaves the processor switches to: the next thread, which is current then,
    /// or the base.
    #[inline]
    pub(super) fn next(&self) -> *const Context {
        let left = self.direct.get();
        if left > 0 && !self.has_mail() && !self.is_asked() {
            self.direct.set(left - 1);
            if let Some(next) = self.pick() {
                return &raw const next.context;
            }
        }
        &raw const self.base
    }

    /// Whether a core allocator asks for the kthread's core, or has been given it back.
    #[inline]
    pub(in crate::thread) fn is_asked(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_asked() || self.shared.is_disowned())
    }

    /// The thread `me`, which calls, leaves the processor; returns when it is its turn again.
    ///
    /// Nothing may follow a call of this in its caller: see `curtail_switch`.
    #[inline(always)]
    pub(super) fn switch_from(&self, me: &Tcb, next: *const Context) {
        if ptr::eq(next, &raw const me.context) {
            return; // Nothing else was ready.
        }
        // SAFETY: `me` is the calling thread; `next` is suspended, and this kthread's.
        unsafe { switch(&raw const me.context, next) }
    }

    /// The calling thread or request blocks until something makes it ready.
    #[inline]
    pub(crate) fn block(&self, me: &Tcb) {
        if let Some(task) = me.resumed() {
            return resumer::suspend(task, Left::Blocked);
        }
        if let Some(task) = me.task() {
            task.clock_out(clock::now());
            task.blocked.set(true);
        }
        note_leaving(EventKind::RanUntilBlocked);
        let next = self.next();
        self.switch_from(me, next);
    }

    /// The caller, `me`, sleeps until its node's wait is over, or expires it at the deadline or at
    /// the end of its own limit. `ends`: or where its request is cancelled.
    #[inline]
    pub(crate) fn sleep(&self, me: &Tcb, node: &Node<Who>, deadline: Option<Deadline>, ends: bool) {
        if ends {
            if me.cancel.ends_waits() && node.expire() {
                return;
            }
            me.waits.set(node);
        }
        let limit = me.limit.get();
        match deadline.map_or(limit, |deadline| limit.min(deadline)) {
            Deadline::NEVER => self.block(me),
            until => self.sleep_until(me, node, until),
        }
        me.waits.set(ptr::null());
    }

    fn sleep_until(&self, me: &Tcb, node: &Node<Who>, until: Deadline) {
        let timer = Timer::new(Expiry { node, end_ns: until.ns() });
        // SAFETY: it has fired, or was cancelled when `me` was made ready, before this returns.
        unsafe { self.wheel.set(&timer, until.tsc()) };
        me.timer.set(&raw const timer);
        self.shared.progress.note_timer(until.tsc());
        self.block(me);
    }

    /// The calling thread lets others run that are ready.
    #[inline]
    pub(crate) fn yield_now(&self, me: &Tcb) {
        crate::block::assert_may_wait();
        if let Some(task) = me.resumed() {
            return resumer::suspend(task, Left::Yielded);
        }
        self.clock_out(me);
        self.push_started(me);
        note_leaving(EventKind::RanUntilYield);
        let next = self.next();
        self.switch_from(me, next);
    }

    /// Whether the calling thread `me` may run the thread of `block`, which it is going to wait for:
    /// that is next here and has not started. Then it has been taken out of the queue.
    #[inline]
    pub(in crate::thread) fn can_run_child(&self, me: &Tcb, block: &Block) -> bool {
        me.resumed().is_none()
            && !me.is_batch()
            && crate::block::may_wait()
            && me.limit.get() == Deadline::NEVER
            && self.pop_child(block)
    }

    #[inline]
    fn pop_child(&self, block: &Block) -> bool {
        let popped = !block.tcb.has_started() && self.shared.fresh.pop_if(block.tcb.as_ptr());
        if popped {
            self.note_taken(1);
        }
        popped
    }

    /// The calling thread runs `child`, which is about to start, and goes on when that has ended.
    #[inline]
    pub(in crate::thread) fn run_child(&self, me: &Tcb, child: &Block) {
        self.clock_out(me);
        child.tcb.joiner.set(me);
        self.adopt(&child.tcb);
        self.count_pick();
        self.current.set(&child.tcb);
        note_leaving(EventKind::RanUntilBlocked);
        note_coming(&child.tcb);
        self.switch_from(me, &raw const child.tcb.context);
    }

    /// The calling thread has ended.
    pub(in crate::thread) fn end(&self, block: &Block) -> ! {
        self.shared.count_alive(-1);
        note_leaving(EventKind::RanToEnd);
        let joiner = block.tcb.joiner.get();
        // SAFETY: a joiner waits for this, and for nothing else, so it is alive and suspended.
        let next = match unsafe { joiner.as_ref() } {
            // Elsewhere it is woken, when this stack is free.
            Some(joiner) if joiner.is_at(&self.shared) => {
                self.clock_in(joiner);
                self.current.set(joiner);
                note_coming(joiner);
                &raw const joiner.context
            }
            _ => {
                self.ended.set(ptr::from_ref(block).cast());
                &raw const self.base
            }
        };
        // SAFETY: this stack's context, never resumed again; `next` is suspended, and ours.
        unsafe { switch_away(&raw const block.tcb.context, next) }
    }

    /// The calling thread, which was given its stack when it started, has ended.
    pub(in crate::thread) fn end_task(&self, me: &Tcb) -> ! {
        self.shared.count_alive(-1);
        note_leaving(EventKind::RanToEnd);
        self.ended.set(me);
        // SAFETY: this stack's context, never resumed again; the base is suspended.
        unsafe { switch_away(&raw const me.context, &raw const self.base) }
    }

    /// It comes in: a request's time is counted from here.
    #[inline]
    pub(super) fn clock_in(&self, tcb: &Tcb) {
        if let Some(task) = tcb.task() {
            task.clock_in(clock::now());
        }
    }

    /// It leaves: a request's time was counted up to here.
    #[inline]
    pub(super) fn clock_out(&self, tcb: &Tcb) {
        if let Some(task) = tcb.task() {
            task.clock_out(clock::now());
        }
    }
}

/// The running thread is about to leave its core, for that reason: for recordings.
#[inline]
pub(super) fn note_leaving(why: EventKind) {
    if timeline::is_on() {
        timeline::leaves(why);
    }
}

/// A thread is about to run: for recordings.
#[inline]
pub(super) fn note_coming(next: &Tcb) {
    if timeline::is_on() {
        timeline::switch_to(Some((next.number(), next.class.get())));
    }
}

/// No thread runs any more: for recordings.
#[inline]
pub(super) fn note_none() {
    if timeline::is_on() {
        timeline::switch_to(None);
    }
}
