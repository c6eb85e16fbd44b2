//! Tasks: threads that get their stacks when they start. A server's requests are tasks.
//!
//! One that waits for its turn is a [`Task`] and nothing more, so a long queue touches little memory, and
//! what starts does so on a stack that was used just before. A task also keeps the time that it has had on
//! a core, which other threads do without.
//!
//! There are two ways to run one, and its memory is its owner's in both:
//!
//! * From a kthread's queues, in a server without a dispatcher. The memory is lent to the runtime when the
//!   task is handed in ([`super::KthreadPool::submit`]), and is the owner's again when
//!   [`TaskVtable::ended`] is called. In between it is touched by the kthread that has it.
//! * By a [`Resumer`](super::Resumer), one at a time: a worker's engine under a dispatcher.

use super::kthread::{InProgress, KThread};
use super::resumer::Left;
use super::tcb::Tcb;
use crate::block::Deadline;
use crate::block::Timer;
use crate::cancel::{Cause, OnCancel};
use crate::clock;
use crate::context::Facts;
use curtail_fiber::{ContextKind, FiberStack, Label};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

/// What a task does, and what is asked and told about it.
pub struct TaskVtable {
    /// On its own stack. Must not unwind.
    pub run: unsafe fn(*const Task),
    /// Of a request: what is known of it. On its own stack.
    pub facts: Option<unsafe fn(*const Task) -> Facts>,
    /// Of a request: whether it is cancelled, and why. While it is in progress, by its kthread, which may
    /// run it.
    pub cause: unsafe fn(*const Task) -> Option<Cause>,
    /// Whether who asked has gone: a longer look, on its own stack.
    pub left: unsafe fn(*const Task) -> bool,
    /// What becomes of it when it is cancelled.
    pub rule: unsafe fn(*const Task) -> OnCancel,
    /// Where it has a resumer: its quantum is over, and whether it is to leave the processor. On its own
    /// stack.
    pub expired: unsafe fn(*const Task) -> bool,
    /// From a kthread's queues: it has left its stack for ever, or there was none to start on; then it has
    /// never run. By a kthread; must neither wait nor unwind.
    pub ended: unsafe fn(*const Task),
    /// Whether it may be left where it is, for ever; true: it is counted. On its own stack.
    pub may_abandon: unsafe fn(*const Task) -> bool,
    /// It was left so. By a kthread; must neither wait nor unwind.
    pub abandoned: unsafe fn(*const Task),
    /// The kthread has looked after a notice at those that are in progress there. By that kthread; must
    /// neither wait, nor allocate, nor unwind.
    pub noticed: fn(InProgress<'_>),
}

impl TaskVtable {
    /// No request; nothing else is asked or told about it.
    pub const fn of(run: unsafe fn(*const Task)) -> Self {
        Self {
            run,
            facts: None,
            cause: |_| None,
            left: |_| false,
            rule: |_| OnCancel::default(),
            expired: |_| false,
            ended: |_| (),
            may_abandon: |_| false,
            abandoned: |_| (),
            noticed: |_| (),
        }
    }
}

/// A task: a thread that gets its stack when it starts.
#[repr(C)]
pub struct Task {
    tcb: Tcb,
    vtable: &'static TaskVtable,
    stack: Cell<Option<FiberStack>>,
    /// When it came in for the first time, and for the last time (TSC).
    started: Cell<u64>,
    since: Cell<u64>,
    /// Cycles on a core up to `since`.
    ran: Cell<u64>,
    /// It has blocked, and has not run since.
    pub(super) blocked: Cell<bool>,
    /// How often its quantum was over, whether another wanted its core or not.
    cuts: Cell<u32>,
    /// Those in progress on its kthread: a list.
    pub(super) next: Cell<*const Task>,
    pub(super) previous: Cell<*const Task>,
    /// Its deadline, on its stack; null: it has none.
    pub(super) due: Cell<*const Timer<*const Tcb>>,
    /// It will never go on.
    pub(super) left: Cell<bool>,
    /// Where it has a resumer: why it left the processor last.
    pub(super) why: Cell<Left>,
}

impl Task {
    pub fn new(vtable: &'static TaskVtable) -> Self {
        Self {
            tcb: Tcb::new(),
            vtable,
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
            why: Cell::new(Left::Ended),
        }
    }

    /// Makes it ready to be handed in, for the first time or again.
    ///
    /// # Safety
    /// `this` is its owner's, stays where it is until it has ended, and may be used for
    /// all that the owner's functions touch.
    pub unsafe fn renew(this: *mut Self, class: u16) {
        // SAFETY: by contract.
        let task = unsafe { &*this };
        let tcb = &task.tcb;
        tcb.task.set(this);
        tcb.home.store(ptr::null_mut(), Ordering::Relaxed);
        tcb.class.set(class);
        tcb.joiner.set(ptr::null());
        tcb.limit.set(Deadline::NEVER);
        tcb.waits_for.set(0);
        tcb.cancel.renew();
        tcb.set_batch(false);
        task.started.set(0);
        task.ran.set(0);
        task.cuts.set(0);
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

    /// Cycles that it has had on a core, while it does not run.
    #[inline]
    pub fn ran_cycles(&self) -> u64 {
        self.ran.get()
    }

    /// How often it was made to yield, or might have been, had another wanted its core.
    #[inline]
    pub fn cuts(&self) -> u32 {
        self.cuts.get()
    }

    /// So many more of its quanta are over.
    #[inline]
    pub fn count_cuts(&self, more: u32) {
        self.cuts.set(self.cuts.get() + more);
    }

    #[inline]
    pub fn tcb(&self) -> &Tcb {
        &self.tcb
    }

    /// Whether it is a request.
    #[inline]
    pub(crate) fn is_request(&self) -> bool {
        self.vtable.facts.is_some()
    }

    /// Whether it is cancelled, as far as can be seen.
    pub(crate) fn cause(&self) -> Option<Cause> {
        // SAFETY: as `renew` was promised; its kthread calls.
        unsafe { (self.vtable.cause)(self.tcb.task.get()) }
    }

    /// Whether who asked has gone; it calls.
    pub(super) fn has_left(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.vtable.left)(self.tcb.task.get()) }
    }

    pub(super) fn rule(&self) -> OnCancel {
        // SAFETY: as above.
        unsafe { (self.vtable.rule)(self.tcb.task.get()) }
    }

    /// What is known of it, if it is a request.
    pub(crate) fn facts(&self) -> Option<Facts> {
        // SAFETY: as above.
        self.vtable.facts.map(|facts| unsafe { facts(self.tcb.task.get()) })
    }

    /// Its kthread tells of those that are in progress there.
    pub(super) fn noticed(&self, all: InProgress<'_>) {
        (self.vtable.noticed)(all);
    }

    pub(super) fn may_abandon(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.vtable.may_abandon)(self.tcb.task.get()) }
    }

    /// Its quantum is over, and it calls: whether it is to leave the processor for its resumer.
    pub(crate) fn expired(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.vtable.expired)(self.tcb.task.get()) }
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

    /// It comes in (TSC).
    #[inline]
    pub fn clock_in(&self, now: u64) {
        if self.started.get() == 0 {
            self.started.set(now);
        }
        self.since.set(now);
        self.blocked.set(false);
    }

    /// It leaves its core (TSC).
    #[inline]
    pub fn clock_out(&self, now: u64) {
        self.ran.set(self.ran(now));
        self.since.set(now);
    }

    pub(super) fn note_cut(&self, now: u64) {
        self.count_cuts(1);
        self.clock_out(now);
    }

    /// It starts, with `first`, as soon as it is switched to.
    pub(super) fn prepare(
        &self,
        stack: FiberStack,
        label: Label,
        first: unsafe extern "C" fn(*mut ()) -> !,
    ) {
        let (top, context, this) = (stack.top(), &self.tcb.context, self.tcb.task.get());
        // SAFETY: the stack is this thread's alone until `publish_end`, or until its resumer takes it.
        unsafe {
            context.prepare(&stack, top, first, this.cast_mut().cast(), ContextKind::Request);
        }
        context.set_label(label);
        self.stack.set(Some(stack));
    }

    /// Prepares a task that has ended, on the stack that it has had before; false: it has none.
    #[inline]
    pub(super) fn prepare_again(
        &self,
        label: Label,
        first: unsafe extern "C" fn(*mut ()) -> !,
    ) -> bool {
        let Some(stack) = self.stack.take() else { return false };
        let (context, this) = (&self.tcb.context, self.tcb.task.get());
        context.renew();
        // SAFETY: nothing is on the stack, which is this task's.
        unsafe { context.prepare_again(stack.top(), first, this.cast_mut().cast()) };
        context.set_label(label);
        self.stack.set(Some(stack));
        true
    }

    /// It does not run: its stack, if it has one.
    pub fn take_stack(&self) -> Option<FiberStack> {
        self.stack.take()
    }

    /// It has ended. What is known of it to others, and of its request to it, is dropped: a `Thread` of it
    /// that is still held refers to a thread that has ended.
    #[inline]
    pub fn let_go(&self) {
        self.tcb.end_request();
    }

    /// Does what it is for.
    pub(super) fn run(&self) {
        self.tcb.context.set_in_task(true);
        // The handler of a signal on this kthread reads it.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as `renew` was promised; it calls.
        unsafe { (self.vtable.run)(self.tcb.task.get()) };
        // A panic that gets here ends the process: what calls this may not unwind.
        compiler_fence(Ordering::SeqCst);
        self.tcb.context.set_in_task(false);
    }

    /// It is its owner's again.
    pub(super) fn come_to_an_end(&self) {
        self.let_go();
        // SAFETY: as `renew` was promised.
        unsafe { (self.vtable.ended)(self.tcb.task.get()) }
    }
}

/// The first function on its stack, where the kthread runs it.
pub(super) unsafe extern "C" fn main(task: *mut ()) -> ! {
    // SAFETY: `prepare` passed it; it stays until the end is published.
    let task = unsafe { &*task.cast::<Task>() };
    KThread::here().enter_task(task);
    task.run();
    KThread::here().leave_task(task);
    KThread::here().end_task(&task.tcb)
}

/// It has left its stack. By the kthread's own loop.
pub(super) fn publish_end(task: &Task) {
    if task.left.get() {
        // Its stack stays, with what lies there.
        // SAFETY: as `renew` was promised.
        return unsafe { (task.vtable.abandoned)(task.tcb.task.get()) };
    }
    if let Some(stack) = task.stack.take() {
        KThread::here().give_stack_of_request(stack);
    }
    task.come_to_an_end();
}

/// How long the request that calls has been on a core so far, all its quanta together, in TSC
/// cycles; `None` where no request calls.
#[must_use]
pub fn served_cycles() -> Option<u64> {
    let task = KThread::current_tcb()?.task().filter(|task| task.is_request())?;
    Some(task.ran(clock::now()))
}

/// Whether the request that the caller works for is cancelled, and why.
pub(crate) fn cause() -> Option<Cause> {
    let tcb = KThread::current_tcb()?;
    let told = tcb.cancel.cause();
    if told.is_some() {
        return told;
    }
    let Some(task) = tcb.task() else { return tcb.case.cause() };
    if !task.is_request() {
        return None;
    }
    let here = KThread::here();
    // A notice may have come while it ran.
    if here.has_mail() {
        here.drain_inbox();
    }
    here.cause_of(task)
}
