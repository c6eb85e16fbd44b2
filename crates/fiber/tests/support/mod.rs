//! A stack that its owner resumes, by the crate's own switches: one task after another runs on it.

#![allow(dead_code, unreachable_pub, reason = "a part of several tests")]

use curtail_fiber::{
    Context, ContextKind, FiberStack, Label, StackError, StackPool, current, switch_back,
    switch_back_for_good, switch_in,
};
use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, compiler_fence};

/// Why a fiber gave up its kthread.
#[derive(Debug)]
pub enum Suspend {
    /// The task returned; the fiber is idle.
    Done,
    /// The task panicked; the fiber is idle and usable.
    Panicked(Box<dyn Any + Send>),
    /// A safepoint found that its time was over.
    Preempted,
    /// It asked to let others run.
    Yielded,
    /// It waits for something.
    Blocked,
}

/// What a fiber runs: a function and its argument, which stays valid until the task is done.
#[derive(Clone, Copy)]
pub struct Task {
    pub run: unsafe fn(*mut ()),
    pub argument: *mut (),
}

/// What both sides need, at a stable address. The context comes first: from the running one,
/// [`suspend`] finds the rest.
#[repr(C)]
struct Core {
    context: Context,
    /// Where its resumer waits.
    back: Context,
    task: Cell<Option<Task>>,
    why: Cell<Option<Suspend>>,
}

/// A stack that its owner resumes.
pub struct Fiber {
    stack: ManuallyDrop<FiberStack>,
    core: Box<Core>,
    idle: bool,
}

impl Fiber {
    pub fn new(pool: &mut StackPool) -> Result<Self, StackError> {
        let stack = ManuallyDrop::new(pool.take()?);
        let core = Box::new(Core {
            context: Context::new(),
            back: Context::new(),
            task: Cell::new(None),
            why: Cell::new(None),
        });
        Ok(Self { stack, core, idle: true })
    }

    /// Runs `task` until it first gives up the kthread.
    ///
    /// # Safety
    /// `task.run(task.argument)` is sound to call now on this kthread, and the argument stays valid
    /// until this fiber reports `Done` or `Panicked`.
    pub unsafe fn start(&mut self, task: Task, label: Label) -> Suspend {
        assert!(self.idle, "the fiber already has a task");
        self.idle = false;
        self.core.task.set(Some(task));
        let core: *const Core = &raw const *self.core;
        let (top, argument) = (self.stack.top(), core.cast_mut().cast());
        // SAFETY: the stack is this fiber's, and idle: nothing is on it.
        unsafe {
            let context = &self.core.context;
            context.prepare(&self.stack, top, run_task, argument, ContextKind::Request);
        }
        self.core.context.set_label(label);
        self.switch_in()
    }

    /// Goes on with a suspended task.
    ///
    /// # Safety
    /// If this is not the kthread that ran it before, the task holds nothing that is tied to that.
    pub unsafe fn resume(&mut self) -> Suspend {
        assert!(!self.idle, "there is nothing to resume");
        self.switch_in()
    }

    /// Gives the stack of an idle fiber back to a pool.
    pub fn retire(mut self, pool: &mut StackPool) {
        if self.idle && pool.fits(&self.stack) {
            self.idle = false; // So that it is not dropped, too.
            // SAFETY: not used after this.
            pool.give(unsafe { ManuallyDrop::take(&mut self.stack) });
        }
    }

    pub fn is_idle(&self) -> bool {
        self.idle
    }

    fn switch_in(&mut self) -> Suspend {
        let core: *const Core = &raw const *self.core;
        // SAFETY: `back` becomes the context of this stack, which waits here; the fiber is suspended.
        unsafe {
            (*core).back.stands_for_caller();
            switch_in(&raw const (*core).back, &raw const (*core).context);
        }
        let why = self.core.why.take().expect("it said why");
        self.idle = matches!(why, Suspend::Done | Suspend::Panicked(_));
        why
    }
}

impl Drop for Fiber {
    /// An idle fiber has nothing on its stack. One that is suspended is leaked, with what it holds.
    fn drop(&mut self) {
        if self.idle {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.stack) };
        }
    }
}

/// The fiber's side: runs the task and reports how it ended.
unsafe extern "C" fn run_task(core: *mut ()) -> ! {
    // SAFETY: `start` passed the fiber's core, which outlives everything on its stack.
    let core = unsafe { &*core.cast::<Core>() };
    let task = core.task.take().expect("start set it");
    core.context.set_in_task(true);
    // The handler of a signal on this kthread reads it.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: by the contract of `start`.
    let end = catch_unwind(AssertUnwindSafe(|| unsafe { (task.run)(task.argument) }));
    compiler_fence(Ordering::SeqCst);
    core.context.set_in_task(false);
    core.why.set(Some(end.map_or_else(Suspend::Panicked, |()| Suspend::Done)));
    // SAFETY: the resumer waits in `back`; nothing is left on this stack that is needed.
    unsafe { switch_back_for_good(&raw const core.context, &raw const core.back) }
}

/// Gives up the kthread; returns when the fiber is resumed.
///
/// # Panics
/// When not on a [`Fiber`].
#[inline(always)]
pub fn suspend(why: Suspend) {
    let context = current();
    assert!(!context.is_null(), "suspend: this kthread runs no fiber that something resumes");
    let core: *const Core = context.cast();
    // SAFETY: a fiber's context is the first field of its core; its resumer waits in `back`.
    unsafe {
        (*core).why.set(Some(why));
        switch_back(&raw const (*core).context, &raw const (*core).back);
    }
}
