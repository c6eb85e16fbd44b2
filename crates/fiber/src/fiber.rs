//! The fiber itself: a coroutine that runs one task after another.
//!
//! The coroutine underneath never returns: it waits, runs the task it is given, reports how that
//! ended and waits again. So a request costs two switches and no set-up. Its state:
//!
//! ```text
//!   idle ──start──► running ──suspend──► suspended ──resume──► running … ──► idle (Done | Panicked)
//! ```
//!
//! Who touches it: the thread that runs it. `CURRENT` points to the running fiber's core for the
//! length of a switch-in, on that thread alone.
//!
//! **C++ exceptions.** The C++ runtime keeps the stack of caught exceptions in two words per
//! *thread*. Each switch saves and restores them, or catch blocks of interleaved fibers would pop
//! each other's exceptions.

use crate::stack::{FiberStack, StackError, StackPool};
use corosensei::stack::Stack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::Cell;
use std::convert::Infallible;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

/// Why a fiber gave up its thread.
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
    /// It waits for something; whoever brings that makes it ready.
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

/// What the running fiber works for; shown when its stack overflows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Label {
    /// Request number.
    pub job: u64,
    /// Its class.
    pub class: u16,
    /// The worker.
    pub worker: u16,
    /// Usable bytes of the fiber's stack (filled in by the fiber).
    pub stack_bytes: u32,
}

/// The words that `__cxa_get_globals` points to: caught exceptions, and the count of uncaught ones.
type CxaGlobals = [usize; 2];

/// What the fiber's own side needs, at a stable address.
struct Core {
    yielder: Cell<*const Yielder<Task, Suspend>>,
    label: Cell<Label>,
    cxa: Cell<CxaGlobals>,
    /// A task has begun and has not ended: only then may a signal make it yield. Before, nobody could
    /// be yielded to; after, it would be a task that has been reported as done.
    in_task: Cell<bool>,
    /// Its stack above the guard.
    stack: Range<usize>,
}

/// A user-level thread.
pub struct Fiber {
    coroutine: ManuallyDrop<Coroutine<Task, Suspend, Infallible, FiberStack>>,
    core: Box<Core>,
    idle: bool,
}

thread_local! {
    static CURRENT: Cell<*const Core> = const { Cell::new(ptr::null()) };
    static CXA: Cell<*mut CxaGlobals> = const { Cell::new(ptr::null_mut()) };
}

impl Fiber {
    /// A fiber on a stack from `pool`, idle.
    ///
    /// # Errors
    /// Where there is no stack.
    pub fn new(pool: &mut StackPool) -> Result<Self, StackError> {
        let stack = pool.take()?;
        let usable = stack.limit().get() + crate::stack::GUARD..stack.base().get();
        let stack_bytes = usable.len();
        let core = Box::new(Core {
            yielder: Cell::new(ptr::null()),
            label: Cell::new(Label { stack_bytes: stack_bytes as u32, ..Label::default() }),
            cxa: Cell::new([0; 2]),
            in_task: Cell::new(false),
            stack: usable,
        });
        let core_address: *const Core = &raw const *core;
        let coroutine = Coroutine::with_stack(stack, move |yielder, first| {
            // SAFETY: `core` is boxed and owned by the `Fiber` beside the coroutine, which is
            // dropped first (see `Drop`), so it outlives everything that runs in here. Shared, as
            // all its fields are for.
            let core = unsafe { &*core_address };
            core.yielder.set(yielder);
            run_tasks(core, yielder, first)
        });
        Ok(Self { coroutine: ManuallyDrop::new(coroutine), core, idle: true })
    }

    /// Runs `task` until it first gives up the thread.
    ///
    /// # Panics
    /// If the fiber is not idle.
    ///
    /// # Safety
    /// `task.run(task.argument)` is sound to call now on this thread, and the argument stays valid
    /// until this fiber reports `Done` or `Panicked`.
    pub unsafe fn start(&mut self, task: Task, label: Label) -> Suspend {
        assert!(self.idle, "the fiber already has a task");
        self.idle = false;
        let stack_bytes = self.core.label.get().stack_bytes;
        self.core.label.set(Label { stack_bytes, ..label });
        self.switch_in(task)
    }

    /// Goes on with a suspended task.
    ///
    /// # Panics
    /// If the fiber is idle.
    ///
    /// # Safety
    /// If this is not the thread that ran it before, the task holds nothing that is tied to that
    /// thread (thread-locals and what is derived from them).
    pub unsafe fn resume(&mut self) -> Suspend {
        assert!(!self.idle, "there is nothing to resume");
        self.switch_in(Task { run: |_| {}, argument: ptr::null_mut() })
    }

    /// Whether it waits for a task.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    #[inline]
    fn switch_in(&mut self, task: Task) -> Suspend {
        let outer = CURRENT.replace(&raw const *self.core);
        let cxa = cxa_globals();
        let outer_cxa = swap_cxa(cxa, self.core.cxa.get());
        let result = self.coroutine.resume(task);
        self.core.cxa.set(swap_cxa(cxa, outer_cxa));
        CURRENT.set(outer);
        let why = match result {
            CoroutineResult::Yield(why) => why,
            CoroutineResult::Return(never) => match never {},
        };
        if matches!(why, Suspend::Done | Suspend::Panicked(_)) {
            self.idle = true;
            self.core.cxa.set([0; 2]);
        }
        why
    }
}

impl Drop for Fiber {
    /// An idle fiber has nothing on its stack; the stack goes back to the reserve. A task suspended
    /// in a safepoint cannot be unwound (its frames need not have unwind tables for that place):
    /// what it holds is leaked, and so is the stack, since others may hold addresses on it.
    fn drop(&mut self) {
        // SAFETY: nobody resumes it any more, and what its frames own is leaked, never used; the
        // coroutine is not touched after it is taken.
        let stack = unsafe {
            self.coroutine.force_reset();
            ManuallyDrop::take(&mut self.coroutine).into_stack()
        };
        if !self.idle {
            std::mem::forget(stack);
        }
    }
}

/// The coroutine's body.
fn run_tasks(core: &Core, yielder: &Yielder<Task, Suspend>, first: Task) -> Infallible {
    let mut task = first;
    loop {
        core.in_task.set(true);
        // The handler of a signal on this thread reads it.
        compiler_fence(Ordering::SeqCst);
        let end = catch_unwind(AssertUnwindSafe(|| run_task(task)));
        compiler_fence(Ordering::SeqCst);
        core.in_task.set(false);
        task = yielder.suspend(match end {
            Ok(Ok(())) => Suspend::Done,
            Ok(Err(exception)) => Suspend::Panicked(Box::new(exception)),
            Err(payload) => Suspend::Panicked(payload),
        });
    }
}

/// The payload of [`Suspend::Panicked`] where a C++ exception left the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxxException;

#[cfg(not(feature = "cxx"))]
fn run_task(task: Task) -> Result<(), CxxException> {
    // SAFETY: by the contract of `Fiber::start`.
    unsafe { (task.run)(task.argument) };
    Ok(())
}

#[cfg(feature = "cxx")]
fn run_task(mut task: Task) -> Result<(), CxxException> {
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

/// Gives up the thread; returns when the fiber is resumed, possibly on another thread where the
/// application allows that: a caller must not use addresses of thread-locals that it formed before.
///
/// Inlined, because each return after a switch is mispredicted: the processor's return stack still
/// holds the other side's calls.
///
/// # Panics
/// When not on a fiber.
#[inline(always)]
pub fn suspend(why: Suspend) {
    let core = CURRENT.get();
    assert!(!core.is_null(), "suspend: this thread runs no fiber");
    // SAFETY: CURRENT points to the core of the fiber we run on, alive while it runs; its body set
    // `yielder` before it ran any task. No thread-local is touched after this call.
    unsafe { (*(*core).yielder.get()).suspend(why) };
}

/// Whether the caller runs on a fiber.
#[inline]
#[must_use]
pub fn on_fiber() -> bool {
    !CURRENT.get().is_null()
}

/// What the running fiber works for.
#[must_use]
pub fn current_label() -> Option<Label> {
    let core = CURRENT.get();
    // SAFETY: as in `suspend`.
    (!core.is_null()).then(|| unsafe { (*core).label.get() })
}

/// The stack of the running fiber, above its guard, if its task has begun and has not ended.
pub(crate) fn stack_in_task() -> Option<Range<usize>> {
    let core = CURRENT.get();
    if core.is_null() {
        return None;
    }
    // SAFETY: as in `suspend`; shared, as all fields of a core are for.
    let core = unsafe { &*core };
    core.in_task.get().then(|| core.stack.clone())
}

#[inline]
fn swap_cxa(globals: *mut CxaGlobals, new: CxaGlobals) -> CxaGlobals {
    if globals.is_null() {
        return [0; 2];
    }
    // SAFETY: not null, so it is this thread's pair of words that the Itanium C++ ABI fixes at this
    // place (`__cxa_eh_globals`: a pointer and an unsigned int, padded); nothing else on this
    // thread touches them during a switch.
    unsafe { globals.replace(new) }
}

/// This thread's C++ exception state, or null in a program without C++.
#[inline]
fn cxa_globals() -> *mut CxaGlobals {
    /// The address was asked for and there is none.
    const NONE: *mut CxaGlobals = ptr::without_provenance_mut(1);
    match CXA.get() {
        p if p.is_null() => {
            // SAFETY: the assembly below tail-calls `__cxa_get_globals` (no arguments, returns a
            // pointer to the thread's globals) or returns null.
            let found = unsafe { curtail_cxa_globals() };
            CXA.set(if found.is_null() { NONE } else { found });
            found
        }
        NONE => ptr::null_mut(),
        p => p,
    }
}

// A weak reference, which Rust cannot spell: null where no C++ runtime is linked.
std::arch::global_asm!(
    ".pushsection .text.curtail_cxa_globals,\"ax\",@progbits",
    ".weak __cxa_get_globals",
    ".globl curtail_cxa_globals",
    ".hidden curtail_cxa_globals",
    ".type curtail_cxa_globals,@function",
    "curtail_cxa_globals:",
    ".cfi_startproc",
    "mov rax, qword ptr [rip + __cxa_get_globals@GOTPCREL]",
    "test rax, rax",
    "je 2f",
    "jmp rax",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size curtail_cxa_globals, . - curtail_cxa_globals",
    ".popsection",
);

unsafe extern "C" {
    fn curtail_cxa_globals() -> *mut CxaGlobals;
}
