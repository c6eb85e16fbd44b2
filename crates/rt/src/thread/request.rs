//! Threads that get their stacks when they start: a server's requests.
//!
//! One that waits for its turn is a [`RequestThread`] and nothing more, so a long queue touches little memory,
//! and what starts does so on a stack that was used just before. The memory is its owner's: it is
//! lent to the runtime when the thread is handed in ([`super::KthreadPool::submit`]), and is the owner's
//! again when [`TaskVtable::ended`] is called. In between it is touched by the kthread that has it.
//!
//! A `RequestThread` also keeps the time that its thread has had on a core, which other threads do without.

use super::kthread::{InProgress, KThread};
use super::tcb::Tcb;
use crate::block::Deadline;
use crate::block::Timer;
use crate::cancel::{Cause, OnCancel};
use crate::context::Facts;
use curtail_fiber::{ContextKind, FiberStack, Label};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

/// What such a thread does.
pub struct TaskVtable {
    /// On its own stack. Must not unwind.
    pub run: unsafe fn(*const RequestThread),
    /// It has left its stack for ever, or there was none to start on: then it has never run. By a
    /// kthread; must neither wait nor unwind.
    pub ended: unsafe fn(*const RequestThread),
    /// Whether it is cancelled, and why. While it is in progress, by its kthread, which may run it.
    pub cause: unsafe fn(*const RequestThread) -> Option<Cause>,
    /// Whether who asked has gone: a longer look, on its own stack.
    pub left: unsafe fn(*const RequestThread) -> bool,
    /// What becomes of it when it is cancelled.
    pub rule: unsafe fn(*const RequestThread) -> OnCancel,
    /// Whether it may be left where it is, for ever; true: it is counted. On its own stack.
    pub may_abandon: unsafe fn(*const RequestThread) -> bool,
    /// It was left so. By a kthread; must neither wait nor unwind.
    pub abandoned: unsafe fn(*const RequestThread),
    /// What is known of it. On its own stack.
    pub facts: unsafe fn(*const RequestThread) -> Facts,
    /// The kthread has looked after a notice at those that are in progress there. By that kthread; must
    /// neither wait, nor allocate, nor unwind.
    pub noticed: fn(InProgress<'_>),
}

/// See the module's head.
#[repr(C)]
pub struct RequestThread {
    tcb: Tcb,
    duty: &'static TaskVtable,
    stack: Cell<Option<FiberStack>>,
    /// When it came in for the first time, and for the last time (TSC).
    started: Cell<u64>,
    since: Cell<u64>,
    /// Cycles on a core up to `since`.
    ran: Cell<u64>,
    /// It has blocked, and has not run since.
    pub(super) blocked: Cell<bool>,
    /// How often its quantum was over and it was made to yield.
    cuts: Cell<u32>,
    /// Those in progress on its kthread: a list.
    pub(super) next: Cell<*const RequestThread>,
    pub(super) previous: Cell<*const RequestThread>,
    /// Its deadline, on its stack; null: it has none.
    pub(super) due: Cell<*const Timer<*const Tcb>>,
    /// It will never go on.
    pub(super) left: Cell<bool>,
}

impl RequestThread {
    pub fn new(duty: &'static TaskVtable) -> Self {
        Self {
            tcb: Tcb::new(),
            duty,
            stack: Cell::new(None),
            started: Cell::new(0),
            since: Cell::new(0),
            ran: Cell::new(0),
            blocked: Cell::new(false),
            cuts: Cell::new(0),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            due: Cell::new(ptr::null()),
            left: Cell::new(false),
        }
    }

    /// Makes it ready to be handed in, for the first time or again.
    ///
    /// # Safety
    /// `this` is its owner's, stays where it is until [`TaskVtable::ended`] is called, and may be used for
    /// all that the owner's functions touch.
    pub unsafe fn renew(this: *mut Self, class: u16) {
        // SAFETY: by contract.
        let late = unsafe { &*this };
        let tcb = &late.tcb;
        tcb.late.set(this);
        tcb.home.store(ptr::null_mut(), Ordering::Relaxed);
        tcb.class.set(class);
        tcb.joiner.set(ptr::null());
        tcb.limit.set(Deadline::NEVER);
        tcb.waits_for.set(0);
        tcb.cancel.renew();
        tcb.set_batch(false);
        late.started.set(0);
        late.ran.set(0);
        late.cuts.set(0);
    }

    /// When it first ran (TSC); `None`: never, there was no stack for it.
    #[inline]
    pub fn started(&self) -> Option<u64> {
        Some(self.started.get()).filter(|&tsc| tsc != 0)
    }

    /// Cycles that it has had on a core by `now`, while it runs.
    #[inline]
    pub fn ran(&self, now: u64) -> u64 {
        self.ran.get() + now.saturating_sub(self.since.get())
    }

    /// When it left its core last, while it does not run (TSC).
    #[inline]
    pub fn since(&self) -> u64 {
        self.since.get()
    }

    /// How often it was made to yield.
    #[inline]
    pub fn cuts(&self) -> u32 {
        self.cuts.get()
    }

    pub(super) fn tcb(&self) -> &Tcb {
        &self.tcb
    }

    /// Whether it is cancelled, as far as can be seen.
    pub(crate) fn cause(&self) -> Option<Cause> {
        // SAFETY: as `renew` was promised; its kthread calls.
        unsafe { (self.duty.cause)(self.tcb.late.get()) }
    }

    /// Whether who asked has gone; it calls.
    pub(super) fn has_left(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.duty.left)(self.tcb.late.get()) }
    }

    pub(super) fn duty(&self) -> &'static TaskVtable {
        self.duty
    }

    pub(super) fn rule(&self) -> OnCancel {
        // SAFETY: as above.
        unsafe { (self.duty.rule)(self.tcb.late.get()) }
    }

    pub(super) fn may_abandon(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.duty.may_abandon)(self.tcb.late.get()) }
    }

    /// What is known of the request.
    pub(crate) fn facts(&self) -> Facts {
        // SAFETY: as above.
        unsafe { (self.duty.facts)(self.tcb.late.get()) }
    }

    /// Runs `f` with the deadline set, on its own stack.
    pub fn with_deadline<R>(&self, at_tsc: u64, f: impl FnOnce() -> R) -> R {
        let timer = Timer::new(ptr::from_ref(&self.tcb));
        self.due.set(&raw const timer);
        // SAFETY: the timer stays where it is: this takes it out again, or its stack is kept, and the
        // kthread has taken it out before.
        unsafe { KThread::here().set_deadline(&timer, at_tsc) };
        // Nothing unwinds out of `f`: it is the handler, contained.
        let result = f();
        KThread::here().end_deadline(self);
        result
    }

    #[inline]
    pub(super) fn clock_in(&self, now: u64) {
        if self.started.get() == 0 {
            self.started.set(now);
        }
        self.since.set(now);
        self.blocked.set(false);
    }

    #[inline]
    pub(super) fn clock_out(&self, now: u64) {
        self.ran.set(self.ran(now));
        self.since.set(now);
    }

    pub(super) fn note_cut(&self, now: u64) {
        self.cuts.set(self.cuts.get() + 1);
        self.clock_out(now);
    }

    /// It starts as soon as it is switched to.
    pub(super) fn prepare(&self, stack: FiberStack) {
        let top = stack.top();
        let context = &self.tcb.context;
        // SAFETY: the stack is this thread's alone until `publish_end`.
        unsafe {
            context.prepare(&stack, top, main, self.tcb.late.get().cast_mut().cast(), Self::KIND);
        }
        context.set_label(Label { class: self.tcb.class.get(), ..Label::default() });
        self.stack.set(Some(stack));
    }

    const KIND: ContextKind = ContextKind::Thread;

    /// It is its owner's again.
    pub(super) fn come_to_an_end(&self) {
        // A `Thread` of it that is still held refers to a thread that has ended.
        self.tcb.end_request();
        // SAFETY: as `renew` was promised.
        unsafe { (self.duty.ended)(self.tcb.late.get()) }
    }
}

/// The first function on its stack.
unsafe extern "C" fn main(late: *mut ()) -> ! {
    // SAFETY: `prepare` passed it; it stays until the end is published.
    let late = unsafe { &*late.cast::<RequestThread>() };
    late.tcb.context.set_in_task(true);
    KThread::here().enter_late(late);
    // SAFETY: as `renew` was promised.
    unsafe { (late.duty.run)(late.tcb.late.get()) };
    // A destructor that panics ends here, as any panic does: the hook has told of it.
    late.tcb.context.set_in_task(false);
    KThread::here().leave_late(late);
    KThread::here().end_late(&late.tcb)
}

/// It has left its stack. By the kthread's own loop.
pub(super) fn publish_end(late: &RequestThread) {
    if late.left.get() {
        // Its stack stays, with what lies there.
        // SAFETY: as `renew` was promised.
        return unsafe { (late.duty.abandoned)(late.tcb.late.get()) };
    }
    if let Some(stack) = late.stack.take() {
        KThread::here().give_stack_of_request(stack);
    }
    late.come_to_an_end();
}
