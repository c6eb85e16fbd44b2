//! What is saved of a thread that does not run. (`switch`: how another comes in.)
//!
//! A [`Context`] belongs to one stack. Of the processor's registers it keeps the stack pointer; the
//! rest lies on the stack itself (`rbp`, `rbx`, and what the compiler keeps around the switch).
//! Beside it are words that belong to the code on that stack but live in the kthread: the
//! critical-section depth, and the words of other libraries ([`crate::words`]).
//!
//! **Who touches it.** The kthread on which it runs or will run next. [`current`] is that kthread's
//! own. A context whose stack runs has no stack pointer (0) and otherwise stale words; the switch
//! away from it fills them in. Others may read a context's bytes by a system call (`suspended`).
//!
//! **The invariant.** `switch(from, to)`: `from` is the context of the calling stack, and `to` is
//! suspended, by a switch away from it or by [`Context::prepare`].

use crate::entry::curtail_fiber_entry;
use crate::image::set_thread_pointer;
use crate::safepoint::{self, Safepoint};
use crate::sanitize::Seen;
use crate::stack::FiberStack;
use crate::words::Words;
use std::cell::Cell;
use std::mem::offset_of;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the running fiber works for; shown when its stack overflows.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Label {
    /// Request or thread number.
    pub job: u64,
    /// Its class.
    pub class: u16,
    /// The worker.
    pub worker: u16,
    /// Usable bytes of the fiber's stack (filled in by the fiber).
    pub stack_bytes: u32,
}

/// Whose stack a context is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A kthread's own.
    Kthread,
    /// A request's.
    Request,
    /// A thread's.
    Thread,
}

/// One suspended (or running) stack.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// 0: it runs. Kthreads that are to run it look whether it does still.
    sp: AtomicUsize,
    /// Its thread pointer; 0: that of the kthread on which it runs.
    locals: Cell<usize>,
    depth: Cell<u32>,
    /// A task has begun and has not ended: only then may a signal make it yield. Before, there is
    /// nothing to yield from; after, it would be a task that has been reported as done.
    in_task: Cell<bool>,
    kind: Cell<Kind>,
    /// What [`current`] answers while this runs: itself for a fiber, what it stands for otherwise.
    shown: Cell<*const Context>,
    words: Words,
    seen: Seen,
    label: Cell<Label>,
    /// The stack above the guard; empty for a kthread's own.
    low: Cell<usize>,
    top: Cell<usize>,
}

impl Default for Context {
    fn default() -> Self {
        Self::new()
    }
}

/// Of the top of each stack, where its context's address lies.
pub(crate) const MARK_BYTES: usize = 16;

impl Context {
    /// Of a kthread's own stack, or of a fiber that is yet to be prepared.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sp: AtomicUsize::new(0),
            locals: Cell::new(0),
            depth: Cell::new(0),
            in_task: Cell::new(false),
            kind: Cell::new(Kind::Kthread),
            shown: Cell::new(ptr::null()),
            words: Words::new(),
            seen: Seen::new(),
            label: Cell::new(Label { job: 0, class: 0, worker: 0, stack_bytes: 0 }),
            low: Cell::new(0),
            top: Cell::new(0),
        }
    }

    /// Makes it a suspended fiber's whose first switch-in calls `entry(argument)`, on the stack, below
    /// `top`.
    ///
    /// # Safety
    /// Nothing else uses the stack until the fiber has ended; `top` lies in it, is a multiple of 16, and
    /// at least 512 bytes lie below it.
    #[inline]
    pub unsafe fn prepare(
        &self,
        stack: &FiberStack,
        top: usize,
        entry: unsafe extern "C" fn(*mut ()) -> !,
        argument: *mut (),
        kind: Kind,
    ) {
        self.depth.set(0);
        self.in_task.set(false);
        self.kind.set(kind);
        self.shown.set(self);
        self.words.clear();
        self.locals.set(stack.thread_pointer());
        let usable = stack.usable();
        self.low.set(usable.start);
        self.top.set(usable.end);
        // For debuggers (`gdb/curtail.py`) and for `suspended`, which find the stacks by their
        // slabs, and whose each is by this word.
        let word: *mut *const Self = ptr::with_exposed_provenance_mut(stack.mark());
        // SAFETY: the stack's own, above all that runs there.
        unsafe { word.write(self) };
        // SAFETY: by contract.
        unsafe { self.prepare_again(top, entry, argument) };
    }

    /// [`Context::prepare`] for a fiber that was prepared before, has ended, and left its depth and
    /// its words as they were when it began.
    ///
    /// # Safety
    /// As for [`Context::prepare`].
    #[inline]
    pub unsafe fn prepare_again(
        &self,
        top: usize,
        entry: unsafe extern "C" fn(*mut ()) -> !,
        argument: *mut (),
    ) {
        debug_assert!(
            top.is_multiple_of(16) && (self.low.get()..=self.top.get()).contains(&(top - 512))
        );
        let frame: *mut usize = ptr::with_exposed_provenance_mut(top - 40);
        // SAFETY: within the stack, by contract. The order is that in which the switch and the entry
        // stub take the words off.
        unsafe {
            frame.write(curtail_fiber_entry as *const () as usize);
            frame.add(1).write(argument.expose_provenance());
            frame.add(2).write(entry as *const () as usize);
            frame.add(3).write(0);
        }
        self.sp.store(frame.expose_provenance(), Ordering::Relaxed);
        self.seen.begin();
    }

    /// Says what the fiber works for.
    #[inline]
    pub fn set_label(&self, label: Label) {
        let stack_bytes = (self.top.get() - self.low.get()) as u32;
        self.label.set(Label { stack_bytes, ..label });
    }

    /// What the fiber works for.
    pub fn label(&self) -> Label {
        self.label.get()
    }

    /// Says whether a signal may make it yield.
    #[inline]
    pub fn set_in_task(&self, in_task: bool) {
        self.in_task.set(in_task);
    }

    /// Where it goes on (a stack pointer), for a switch to it: it has none while it runs.
    #[inline(always)]
    pub(crate) fn take_stack_pointer(&self) -> usize {
        let sp = self.sp.load(Ordering::Relaxed);
        self.sp.store(0, Ordering::Relaxed);
        sp
    }

    /// Whether it is suspended, and all that it left behind can be seen: of a thread that another
    /// kthread is to go on with, and that may be on its way off its processor. (The switch stores the
    /// stack pointer last; on x86 that is a release.)
    #[inline]
    pub fn has_left(&self) -> bool {
        self.sp.load(Ordering::Acquire) != 0
    }

    /// Where a switch leaves the stack pointer.
    #[inline(always)]
    pub(crate) fn stack_pointer_place(&self) -> *mut usize {
        self.sp.as_ptr()
    }

    /// This context is another one of the calling stack: while it runs, [`current`] answers as now,
    /// and the thread-locals are the caller's.
    #[inline]
    pub fn stands_for_caller(&self) {
        let caller = safepoint::context();
        self.shown.set(caller);
        // SAFETY: it is the context of what runs, which is alive while it runs.
        let locals = unsafe { caller.as_ref() }.map_or(0, |caller| caller.locals.get());
        self.locals.set(locals);
    }

    /// Whether it has thread-locals of its own.
    #[inline]
    pub fn has_own_locals(&self) -> bool {
        self.locals.get() != 0
    }

    /// Makes depth and words what they are when a fiber begins: of one that has ended.
    #[inline]
    pub fn renew(&self) {
        self.depth.set(0);
        self.words.clear();
    }

    /// What a sanitizer knows; the stack, empty for a kthread's own; what [`current`] answers.
    #[cfg(curtail_sanitize)]
    pub(crate) fn seen(&self) -> (&Seen, Range<usize>, *const Context) {
        (&self.seen, self.low.get()..self.top.get(), self.shown.get())
    }

    /// Its critical-section depth, while it is suspended.
    pub fn depth(&self) -> u32 {
        self.depth.get()
    }
}

/// A context's bytes, as they were read while its kthread may have changed them.
pub(crate) struct Bytes(pub [u8; Self::COUNT]);

impl Bytes {
    pub(crate) const COUNT: usize = size_of::<Context>();

    fn take<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0[at + index])
    }

    /// Where the task goes on whose context lies there, if it is suspended on that stack.
    pub(crate) fn suspended(&self, context: usize, stack: &Range<usize>) -> Option<(usize, Kind)> {
        let [in_task, kind] =
            [offset_of!(Context, in_task), offset_of!(Context, kind)].map(|at| self.0[at]);
        let kind = [Kind::Request, Kind::Thread].into_iter().find(|&known| known as u8 == kind)?;
        let sp = usize::from_ne_bytes(self.take(offset_of!(Context, sp)));
        let shown = usize::from_ne_bytes(self.take(offset_of!(Context, shown)));
        let is_one = in_task == 1 && shown == context;
        (is_one && stack.contains(&sp) && sp.is_multiple_of(8)).then_some((sp, kind))
    }

    /// Its stack.
    pub(crate) fn stack(&self) -> Range<usize> {
        let [low, top] = [offset_of!(Context, low), offset_of!(Context, top)]
            .map(|at| usize::from_ne_bytes(self.take(at)));
        low..top
    }

    /// What it works for.
    pub(crate) fn label(&self) -> Label {
        let at = |field| offset_of!(Context, label) + field;
        Label {
            job: u64::from_ne_bytes(self.take(at(offset_of!(Label, job)))),
            class: u16::from_ne_bytes(self.take(at(offset_of!(Label, class)))),
            worker: u16::from_ne_bytes(self.take(at(offset_of!(Label, worker)))),
            stack_bytes: u32::from_ne_bytes(self.take(at(offset_of!(Label, stack_bytes)))),
        }
    }
}

/// Of the words that a suspended stack begins with (`switch`): rbp, and where its caller
/// goes on; and how many there are.
pub(crate) const SAVED_BP: usize = 7;
pub(crate) const SAVED_IP: usize = 8;
pub(crate) const SAVED: usize = 9;

/// The context of the fiber that runs on this kthread; null: none does.
#[inline]
#[must_use]
pub fn current() -> *const Context {
    safepoint::context()
}

/// Whether the caller runs on a fiber.
#[inline]
#[must_use]
pub fn on_fiber() -> bool {
    !safepoint::context().is_null()
}

/// What the running fiber works for.
#[must_use]
pub fn current_label() -> Option<Label> {
    let context = safepoint::context();
    // SAFETY: it is the context of the running fiber, which is alive while it runs.
    (!context.is_null()).then(|| unsafe { (*context).label.get() })
}

/// Whose stack the running fiber's is.
pub(crate) fn current_kind() -> Option<Kind> {
    // SAFETY: as in `current_label`.
    unsafe { safepoint::context().as_ref() }.map(|context| context.kind.get())
}

/// The stack of the running fiber, above its guard, if its task has begun and has not ended.
pub(crate) fn stack_in_task() -> Option<Range<usize>> {
    let context = safepoint::context();
    if context.is_null() {
        return None;
    }
    // SAFETY: as in `current_label`.
    let context = unsafe { &*context };
    context.in_task.get().then(|| context.low.get()..context.top.get())
}

/// The thread pointer and the stack of the running fiber, if it has thread-locals of its own.
#[must_use]
pub fn own_stack() -> Option<(usize, Range<usize>)> {
    // SAFETY: as in `current_label`.
    let context = unsafe { safepoint::context().as_ref() }?;
    let own = context.has_own_locals().then(|| context.locals.get())?;
    Some((own, context.low.get()..context.top.get()))
}

/// What of a switch is not on the stacks.
///
/// # Safety
/// `to` is suspended, and comes to this kthread. Its thread-locals, if it has some, are its own.
#[inline(always)]
pub(crate) unsafe fn exchange(from: &Context, to: &Context) {
    let here = safepoint::thread_pointer();
    let there = match to.locals.get() {
        0 => safepoint::base(),
        locals => locals,
    };
    if there == here || there == 0 {
        from.depth.set(Safepoint::this_thread().replace_depth(to.depth.get()));
        from.words.exchange(&to.words);
        safepoint::set_context(to.shown.get());
        return;
    }
    if from.locals.get() == 0 {
        from.words.save();
    }
    // SAFETY: by contract. What follows asks anew where thread-locals are.
    unsafe {
        from.depth.set(safepoint::hand_over(there, to.depth.get(), to.shown.get()));
        set_thread_pointer(there);
    }
    if to.locals.get() == 0 {
        to.words.load();
    }
}
