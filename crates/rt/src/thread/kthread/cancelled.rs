//! Cancelled requests on their kthread: how they are found, marked, and put behind all others.
//!
//! The canceller sends a notice, which stands in the inbox as if it were a thread; the kthread then
//! asks each request in progress whether it is meant ([`super::super::task::TaskVtable::cause`]). One
//! notice does for any number of requests.

use super::KThread;
use crate::block::Timer;
use crate::cancel::{Cause, OnCancel};
use crate::clock;
use crate::thread::task::Task;
use crate::thread::tcb::Tcb;
use std::ptr;

impl KThread {
    /// Whether a notice has come that was not attended to.
    #[inline]
    pub fn is_noticed(&self) -> bool {
        self.noticed.get()
    }

    /// Takes the notice that has come.
    #[inline]
    pub fn take_noticed(&self) -> bool {
        self.noticed.get() && self.noticed.replace(false)
    }

    /// Attends to a notice, if one has come: asks the requests in progress. Where a dispatcher sends them,
    /// their run queue attends.
    #[inline]
    pub(crate) fn handle_notices(&self) {
        if self.noticed.get() && self.scheduler.is_some() && self.run_queue.get().is_none() {
            self.noticed.set(false);
            self.ask_requests();
        }
    }

    #[cold]
    fn ask_requests(&self) {
        let mut next = self.in_progress.get();
        // SAFETY: what is in the list is in progress, so it is alive; asking changes no list.
        while let Some(task) = unsafe { next.as_ref() } {
            next = task.next.get();
            if task.tcb().cancel.cause().is_none()
                && let Some(cause) = task.tcb().case.wished().or_else(|| task.cause())
            {
                self.cancel(task.tcb(), cause, task.rule());
            }
        }
        // SAFETY: as above.
        if let Some(first) = unsafe { self.in_progress.get().as_ref() } {
            first.noticed(InProgress { kthread: self, next: first, now: clock::now() });
        }
    }

    /// Whether the request that calls is cancelled, and why, as far as can be seen.
    pub(crate) fn cause_of(&self, task: &Task) -> Option<Cause> {
        self.handle_notices();
        let tcb = task.tcb();
        let cause = tcb.cancel.cause().or_else(|| task.cause());
        if cause.is_none() && task.has_left() {
            self.cancel(tcb, Cause::Departed, task.rule());
            return Some(Cause::Departed);
        }
        cause
    }

    /// Marks a request of this kthread as cancelled, and ends its wait.
    pub fn cancel(&self, tcb: &Tcb, cause: Cause, rule: OnCancel) {
        tcb.cancel.set(cause, rule != OnCancel::Finish);
        tcb.case.tell(cause);
        // A resumer has an order of its own.
        tcb.set_batch(tcb.cancel.is_last() && tcb.resumed().is_none());
        // SAFETY: set while it waits, by a node on its stack.
        if let Some(node) = unsafe { tcb.waits.get().as_ref() }
            && tcb.cancel.ends_waits()
            && node.expire()
        {
            // SAFETY: it blocks here, and its wait was ended by us.
            unsafe { Self::make_ready(tcb) };
        }
    }

    /// Has all kthreads of the runtime look which of their requests are cancelled.
    pub fn notify_all(&self) {
        self.scheduler().notify_all();
    }

    /// A request that has started here is left where it is, for ever, while the kthread goes on.
    pub fn leave_request(&self) {
        self.shared.count_abandoned();
    }

    /// A request is in progress here.
    #[inline]
    pub(in crate::thread) fn enter_task(&self, task: &Task) {
        let first = self.in_progress.replace(task);
        task.next.set(first);
        task.previous.set(ptr::null());
        // SAFETY: in the list, so it is alive.
        if let Some(first) = unsafe { first.as_ref() } {
            first.previous.set(task);
        }
    }

    /// It is no more.
    #[inline]
    pub(in crate::thread) fn leave_task(&self, task: &Task) {
        let (next, previous) = (task.next.get(), task.previous.get());
        // SAFETY: in the list, so it is alive.
        unsafe {
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.in_progress.set(next),
            }
        }
    }

    /// Has the request of the timer cancelled then.
    ///
    /// # Safety
    /// As for [`crate::block::Wheel::set`].
    pub(in crate::thread) unsafe fn set_deadline(&self, timer: &Timer<*const Tcb>, at_tsc: u64) {
        let wheel = self.deadlines.get_or_init(|| crate::block::Wheel::new(clock::now()));
        // SAFETY: by contract.
        unsafe { wheel.set(timer, at_tsc) };
    }

    pub(in crate::thread) fn end_deadline(&self, task: &Task) {
        let Some(wheel) = self.deadlines.get() else { return };
        // SAFETY: null, or on the stack of `task`, which is in progress still.
        if let Some(timer) = unsafe { task.due.replace(ptr::null()).as_ref() } {
            wheel.cancel(timer);
        }
    }

    /// Cancels the requests whose deadlines have passed.
    #[inline]
    pub(super) fn fire_deadlines(&self, now: u64) {
        if let Some(wheel) = self.deadlines.get()
            && !wheel.is_empty()
        {
            wheel.advance(now, |timer| {
                // SAFETY: in progress, as its timer was set.
                if let Some(task) = unsafe { (*timer.what).task() }
                    && task.tcb().cancel.cause().is_none()
                {
                    self.cancel(task.tcb(), Cause::Deadline, task.rule());
                }
            });
        }
    }

    /// The calling thread is left where it is, for ever, if its class says so and has room for that.
    pub(super) fn abandon_if_wanted(&self, me: &Tcb) {
        if me.cancel.is_last()
            && let Some(task) = me.task()
            && task.may_abandon()
        {
            self.end_deadline(task);
            self.leave_task(task);
            self.clock_out(me);
            self.shared.count_alive(-1);
            self.shared.count_abandoned();
            task.left.set(true);
            self.ended.set(me);
            self.switch_from(me, &raw const self.base);
        }
    }
}

/// The requests in progress on a kthread, by that: each, whether it has waited for something since it ran
/// last, and how long it has run (cycles).
pub struct InProgress<'a> {
    kthread: &'a KThread,
    next: *const Task,
    now: u64,
}

impl<'a> Iterator for InProgress<'a> {
    type Item = (&'a Task, bool, u64);

    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: what is in the list is in progress, so it is alive; who looks changes no list.
        let task = unsafe { self.next.as_ref() }?;
        self.next = task.next.get();
        let runs = ptr::eq(task.tcb(), self.kthread.current.get());
        let ran = task.ran(if runs { self.now } else { task.since() });
        Some((task, task.blocked.get(), ran))
    }
}
