//! A fiber that a caller resumes: one task after another on one stack.
//!
//! ```text
//!   idle ──start──► running ──suspend──► suspended ──resume──► running … ──► idle (Done | Panicked)
//! ```
//!
//! Who touches it: the kthread that runs it. The one that resumes it waits meanwhile, in the fiber's
//! `back` context. (Threads switch to each other without a resumer: see [`crate::Context`].)

use crate::context::{self, Context, Kind, Label};
use crate::stack::{FiberStack, StackError, StackPool};
use crate::switch::{switch_back, switch_back_for_good, switch_in};
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
    /// It waits for something; the side that brings that makes it ready.
    Blocked,
}

/// What a fiber runs: a function and its argument. The argument must stay valid until the task is
/// done.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The function.
    pub run: unsafe fn(*mut ()),
    /// Its argument.
    pub argument: *mut (),
}

/// What both sides need, at a stable address. The context comes first: from the running fiber's
/// context, [`suspend`] finds the rest.
#[repr(C)]
struct Core {
    context: Context,
    /// Where its resumer waits.
    back: Context,
    task: Cell<Option<Task>>,
    /// Why the resumer goes on; with the payload, if it is a panic. Apart, so that a switch stores and
    /// loads one byte.
    why: Cell<Why>,
    payload: Cell<Option<Box<dyn Any + Send>>>,
}

/// A [`Suspend`] without what a panic carries.
#[derive(Clone, Copy)]
enum Why {
    Done,
    Panicked,
    Preempted,
    Yielded,
    Blocked,
}

impl Core {
    /// Why the fiber is about to switch back.
    #[inline(always)]
    fn say(&self, why: Suspend) {
        self.why.set(match why {
            Suspend::Done => Why::Done,
            Suspend::Preempted => Why::Preempted,
            Suspend::Yielded => Why::Yielded,
            Suspend::Blocked => Why::Blocked,
            Suspend::Panicked(payload) => {
                self.payload.set(Some(payload));
                Why::Panicked
            }
        });
    }

    /// What was said.
    #[inline]
    fn said(&self) -> Suspend {
        match self.why.get() {
            Why::Done => Suspend::Done,
            Why::Preempted => Suspend::Preempted,
            Why::Yielded => Suspend::Yielded,
            Why::Blocked => Suspend::Blocked,
            Why::Panicked => {
                Suspend::Panicked(self.payload.take().expect("a panic carries something"))
            }
        }
    }
}

/// A user-level thread that its owner resumes.
pub struct Fiber {
    stack: ManuallyDrop<FiberStack>,
    core: Box<Core>,
    idle: bool,
}

impl Fiber {
    /// A fiber on a stack from `pool`, idle.
    ///
    /// # Errors
    /// Where there is no stack.
    pub fn new(pool: &mut StackPool) -> Result<Self, StackError> {
        let stack = ManuallyDrop::new(pool.take()?);
        let core = Box::new(Core {
            context: Context::new(),
            back: Context::new(),
            task: Cell::new(None),
            why: Cell::new(Why::Done),
            payload: Cell::new(None),
        });
        Ok(Self { stack, core, idle: true })
    }

    /// Runs `task` until it first gives up the kthread.
    ///
    /// # Panics
    /// If the fiber is not idle.
    ///
    /// # Safety
    /// `task.run(task.argument)` is sound to call now on this kthread, and the argument stays valid
    /// until this fiber reports `Done` or `Panicked`.
    pub unsafe fn start(&mut self, task: Task, label: Label) -> Suspend {
        assert!(self.idle, "the fiber already has a task");
        self.idle = false;
        self.core.task.set(Some(task));
        let core: *const Core = &raw const *self.core;
        // SAFETY: the stack is this fiber's, and idle: nothing is on it.
        unsafe {
            let top = self.stack.top();
            self.core.context.prepare(
                &self.stack,
                top,
                run_task,
                core.cast_mut().cast(),
                Kind::Fiber,
            );
        }
        self.core.context.set_label(label);
        self.switch_in()
    }

    /// Goes on with a suspended task.
    ///
    /// # Panics
    /// If the fiber is idle.
    ///
    /// # Safety
    /// If this is not the kthread that ran it before, the task holds nothing that is tied to that
    /// kthread (thread-locals and what is derived from them).
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

    /// Whether it waits for a task.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    #[inline]
    fn switch_in(&mut self) -> Suspend {
        let core: *const Core = &raw const *self.core;
        // SAFETY: `back` becomes the context of this stack, which waits here; the fiber is
        // suspended. A kthread's own stack, or a fiber's that resumes another.
        unsafe {
            let outer = context::current();
            (*core).back.stands_for(outer);
            (*core).back.has_locals_of_caller();
            switch_in(&raw const (*core).back, &raw const (*core).context);
        }
        let why = self.core.said();
        if matches!(why, Suspend::Done | Suspend::Panicked(_)) {
            self.idle = true;
        }
        why
    }
}

impl Drop for Fiber {
    /// An idle fiber has nothing on its stack; the stack goes back to the reserve. A task suspended
    /// in a safepoint cannot be unwound (its frames need not have unwind tables for that place):
    /// what it holds is leaked, and so is the stack, since others may hold addresses on it.
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
    let end = catch_unwind(AssertUnwindSafe(|| call(task)));
    compiler_fence(Ordering::SeqCst);
    core.context.set_in_task(false);
    core.say(match end {
        Ok(Ok(())) => Suspend::Done,
        Ok(Err(exception)) => Suspend::Panicked(Box::new(exception)),
        Err(payload) => Suspend::Panicked(payload),
    });
    // SAFETY: the resumer waits in `back`; nothing is left on this stack that is needed.
    unsafe { switch_back_for_good(&raw const core.context, &raw const core.back) }
}

/// Calls. A C++ exception that leaves `f` ends here, where the feature `cxx` is there; a panic goes on.
/// Rust's `catch_unwind` must not see the former, so this stands between the two.
///
/// # Errors
/// There was such an exception.
pub fn contain_exceptions<F: FnOnce()>(f: F) -> Result<(), CxxException> {
    unsafe fn run<F: FnOnce()>(argument: *mut ()) {
        // SAFETY: the variable below, of this type, which nothing else uses meanwhile.
        let f = unsafe { (*argument.cast::<Option<F>>()).take() };
        if let Some(f) = f {
            f();
        }
    }
    let mut f = Some(f);
    call(Task { run: run::<F>, argument: (&raw mut f).cast() })
}

/// A C++ exception left a task: the payload of [`Suspend::Panicked`] then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxxException;

#[cfg(not(feature = "cxx"))]
fn call(task: Task) -> Result<(), CxxException> {
    // SAFETY: by the contract of `Fiber::start`.
    unsafe { (task.run)(task.argument) };
    Ok(())
}

#[cfg(feature = "cxx")]
fn call(mut task: Task) -> Result<(), CxxException> {
    use std::ffi::{c_int, c_void};

    unsafe extern "C-unwind" {
        fn curtail_contain(
            run: unsafe extern "C-unwind" fn(*mut c_void),
            argument: *mut c_void,
        ) -> c_int;
    }

    unsafe extern "C-unwind" fn run(task: *mut c_void) {
        // SAFETY: `task` is the one below; the call, by the contract of `Fiber::start`.
        unsafe {
            let task = *task.cast::<Task>();
            (task.run)(task.argument);
        }
    }

    // SAFETY: calls `run` once, on this stack. Panics pass through it (its type says so), C++
    // exceptions end in it.
    match unsafe { curtail_contain(run, (&raw mut task).cast()) } {
        0 => Ok(()),
        _ => Err(CxxException),
    }
}

/// Gives up the kthread; returns when the fiber is resumed, possibly on another kthread where the
/// application allows that: a caller must not use addresses of thread-locals that it formed before.
///
/// # Panics
/// When not on a [`Fiber`].
#[inline(always)]
pub fn suspend(why: Suspend) {
    let context = context::current();
    // SAFETY: the running context is alive while it runs.
    let is_fiber = !context.is_null() && unsafe { (*context).kind() } == Kind::Fiber;
    assert!(is_fiber, "suspend: this kthread runs no fiber that something resumes");
    let core: *const Core = context.cast();
    // SAFETY: a fiber's context is the first field of its core; its resumer waits in `back`. No
    // thread-local is touched after the switch.
    unsafe {
        (*core).say(why);
        switch_back(&raw const (*core).context, &raw const (*core).back);
    }
}
