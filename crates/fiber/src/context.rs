//! The context switch: what is saved of a thread that does not run, and how another comes in.
//!
//! A [`Context`] belongs to one stack. Of the processor's registers it keeps the stack pointer; the
//! rest lies on the stack itself (`rbp`, `rbx`, and what the compiler keeps around the switch).
//! Beside it are words that belong to the code on that stack but live in the kthread: the
//! critical-section depth, and the words of other libraries ([`crate::words`]).
//!
//! **Who touches it.** The kthread on which it runs or will run next. [`current`] is that kthread's
//! own. A context whose stack runs has stale words; the switch away from it fills them in.
//!
//! **The invariant.** `switch(from, to)`: `from` is the context of the calling stack, and `to` is
//! suspended, by a switch away from it or by [`Context::prepare`].

use crate::entry::curtail_fiber_entry;
use crate::safepoint::Safepoint;
use crate::sanitize::Seen;
use crate::words::Words;
use std::cell::Cell;
use std::ops::Range;
use std::ptr;

/// What the running fiber works for; shown when its stack overflows.
#[derive(Clone, Copy, Debug, Default)]
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
pub enum Kind {
    /// A kthread's own.
    Kthread,
    /// A [`Fiber`](crate::Fiber)'s: something resumes it and waits.
    Fiber,
    /// A thread's, which switches to others by itself.
    Thread,
}

/// One suspended (or running) stack.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    sp: Cell<usize>,
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

thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
}

impl Context {
    /// Of a kthread's own stack, or of a fiber that is yet to be prepared.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sp: Cell::new(0),
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

    /// Makes it a suspended fiber's whose first switch-in calls `entry(argument)`, on the stack
    /// `stack` (above its guard), below `top`.
    ///
    /// # Safety
    /// The stack is writable memory that nothing else uses until the fiber has ended; `top` lies in
    /// it, is a multiple of 16, and at least 512 bytes lie below it.
    #[inline]
    pub unsafe fn prepare(
        &self,
        stack: &Range<usize>,
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
        self.low.set(stack.start);
        self.top.set(stack.end);
        // For debuggers (`gdb/curtail.py`), which find the stacks by their slabs, and whose each is by
        // this word.
        let word: *mut *const Self = ptr::with_exposed_provenance_mut(stack.end - 16);
        // SAFETY: within the stack, by contract; what is prepared here comes after.
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
            top.is_multiple_of(16) && (self.low.get()..self.top.get()).contains(&(top - 512))
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
        self.sp.set(frame.expose_provenance());
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

    /// Where it goes on (a stack pointer), while it is suspended: for debuggers.
    pub fn stack_pointer(&self) -> usize {
        self.sp.get()
    }

    /// This stack stands for `outer` (or for no fiber: null): [`current`] answers that while it runs.
    pub fn stands_for(&self, outer: *const Context) {
        self.shown.set(outer);
    }

    /// Whose stack it is.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind.get()
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

    /// Sets the depth that it will have when it goes on.
    pub fn set_depth(&self, depth: u32) {
        self.depth.set(depth);
    }
}

/// The context of the fiber that runs on this kthread; null: none does.
#[inline]
#[must_use]
pub fn current() -> *const Context {
    CURRENT.get()
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
    let context = CURRENT.get();
    // SAFETY: CURRENT points to the context of the running fiber, which is alive while it runs.
    (!context.is_null()).then(|| unsafe { (*context).label.get() })
}

/// The stack of the running fiber, above its guard, if its task has begun and has not ended.
pub(crate) fn stack_in_task() -> Option<Range<usize>> {
    let context = CURRENT.get();
    if context.is_null() {
        return None;
    }
    // SAFETY: as in `current_label`.
    let context = unsafe { &*context };
    context.in_task.get().then(|| context.low.get()..context.top.get())
}

/// Suspends the caller's stack as `from` and goes on with `to`. Returns when something switches to
/// `from`, possibly on another kthread where the program allows that: the caller must not use
/// addresses of thread-locals that it formed before.
///
/// # Safety
/// `from` is the calling stack's own context; `to` is suspended, on this kthread or free to come
/// here; both outlive their stacks' use. `safepoint` is this kthread's.
#[inline(always)]
pub unsafe fn switch(from: *const Context, to: *const Context, safepoint: Safepoint) {
    // SAFETY: by contract; nothing else touches a context's cells.
    let (from, to) = unsafe { (&*from, &*to) };
    exchange(from, to, safepoint);
    // SAFETY: `sp` of a suspended context is where the switch, or `prepare`, left it.
    unsafe {
        Seen::leave(from, to, false);
        curtail_switch(from.sp.as_ptr(), to.sp.get());
        Seen::arrive(from);
    }
}

/// [`switch`] from a resumer, which is come back to by [`switch_back`] or [`switch_back_for_good`]. With
/// these, the processor's stack of return addresses is after a task as it was before: otherwise each
/// return of the resumer's callers would be predicted wrongly.
///
/// # Safety
/// As for [`switch`].
#[inline(always)]
pub(crate) unsafe fn switch_in(from: *const Context, to: *const Context, safepoint: Safepoint) {
    // SAFETY: by contract; nothing else touches a context's cells.
    let (from, to) = unsafe { (&*from, &*to) };
    exchange(from, to, safepoint);
    // SAFETY: as in `switch`.
    unsafe {
        Seen::leave(from, to, false);
        curtail_switch_in(from.sp.as_ptr(), to.sp.get());
        Seen::arrive(from);
    }
}

/// [`switch`] to a resumer, without a call's entry in the processor's stack of return addresses.
///
/// # Safety
/// As for [`switch`]; `to` waits in [`switch_in`].
#[inline(always)]
pub(crate) unsafe fn switch_back(from: *const Context, to: *const Context, safepoint: Safepoint) {
    // SAFETY: by contract; nothing else touches a context's cells.
    let (from, to) = unsafe { (&*from, &*to) };
    exchange(from, to, safepoint);
    // SAFETY: as in `switch`: a call of `curtail_switch`, with its return address pushed by hand.
    unsafe {
        Seen::leave(from, to, false);
        std::arch::asm!(
            "lea rax, [rip + 2f]",
            "push rax",
            "jmp {switch}",
            "2:",
            switch = sym curtail_switch,
            in("rdi") from.sp.as_ptr(),
            in("rsi") to.sp.get(),
            clobber_abi("C"),
        );
        Seen::arrive(from);
    }
}

/// [`switch_away`] to a resumer, as [`switch_back`] does it.
///
/// # Safety
/// As for [`switch_away`]; `to` waits in [`switch_in`].
#[inline(always)]
pub(crate) unsafe fn switch_back_for_good(
    from: *const Context,
    to: *const Context,
    safepoint: Safepoint,
) -> ! {
    // SAFETY: by contract.
    unsafe {
        exchange(&*from, &*to, safepoint);
        Seen::leave(&*from, &*to, true);
        std::arch::asm!(
            "jmp {away}",
            away = sym curtail_switch_away,
            in("rdi") (*to).sp.get(),
            options(noreturn),
        );
    }
}

/// [`switch`] away for ever: the caller's stack has ended, and may be used anew at once.
///
/// # Safety
/// As for [`switch`]; nothing switches to `from` again before it is prepared anew.
#[inline(always)]
pub unsafe fn switch_away(from: *const Context, to: *const Context, safepoint: Safepoint) -> ! {
    // SAFETY: by contract.
    unsafe {
        exchange(&*from, &*to, safepoint);
        Seen::leave(&*from, &*to, true);
        curtail_switch_away((*to).sp.get())
    }
}

/// What of a switch is not on the stacks.
#[inline(always)]
fn exchange(from: &Context, to: &Context, safepoint: Safepoint) {
    from.depth.set(safepoint.replace_depth(to.depth.get()));
    from.words.exchange(&to.words);
    CURRENT.set(to.shown.get());
}

/// Saves what the ABI has a callee preserve, and goes on with the other stack where it left off. Its last
/// instructions come as arguments.
///
/// The floating-point control words are rarely other than the ABI's defaults: the other stack gets
/// those, and only a caller that had other ones has them loaded again. (The low six bits of mxcsr
/// are sticky status, not control.)
macro_rules! switch_by {
    ($($last:literal),*) => {
        std::arch::naked_asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "sub rsp, 8",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "mov eax, [rsp]",
            "and eax, -64",
            "cmp eax, {mxcsr}",
            "jne 3f",
            "cmp word ptr [rsp + 4], {x87}",
            "jne 3f",
            "4:",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "mov eax, [rsp]",
            "and eax, -64",
            "cmp eax, {mxcsr}",
            "jne 5f",
            "cmp word ptr [rsp + 4], {x87}",
            "jne 5f",
            "6:",
            "add rsp, 8",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            $($last,)*
            "3:",
            "ldmxcsr [rip + {defaults}]",
            "fldcw [rip + {defaults} + 4]",
            "jmp 4b",
            "5:",
            "ldmxcsr [rsp]",
            "fldcw [rsp + 4]",
            "jmp 6b",
            mxcsr = const DEFAULTS[0],
            x87 = const DEFAULTS[1],
            defaults = sym DEFAULTS_IN_MEMORY,
        )
    };
}

/// From one stack to another that is no more than it. The way back is `pop` and `jmp`: the processor
/// predicts a `ret` to go to the last call's place, which after a switch is the other stack's, and 15
/// cycles are lost. Callers call it last, so that no `ret` of theirs follows either.
///
/// # Safety
/// See [`switch`].
#[unsafe(naked)]
unsafe extern "C" fn curtail_switch(from: *mut usize, to: usize) {
    switch_by!("pop rcx", "jmp rcx")
}

/// From a resumer to what it resumes. The way back is a `ret`, which the processor predicts rightly: what
/// was resumed has returned from all its calls since, or comes back without a call ([`switch_back`]).
///
/// # Safety
/// See [`switch_in`].
#[unsafe(naked)]
unsafe extern "C" fn curtail_switch_in(from: *mut usize, to: usize) {
    switch_by!("ret")
}

/// The same without anything to come back to.
///
/// # Safety
/// See [`switch_away`].
#[unsafe(naked)]
unsafe extern "C" fn curtail_switch_away(to: usize) -> ! {
    std::arch::naked_asm!(
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov eax, [rsp]",
        "and eax, -64",
        "cmp eax, {mxcsr}",
        "jne 3f",
        "cmp word ptr [rsp + 4], {x87}",
        "jne 3f",
        "4:",
        "mov rsp, rdi",
        "pop rax",
        "jmp rax",
        "3:",
        "ldmxcsr [rip + {defaults}]",
        "fldcw [rip + {defaults} + 4]",
        "jmp 4b",
        mxcsr = const DEFAULTS[0],
        x87 = const DEFAULTS[1],
        defaults = sym DEFAULTS_IN_MEMORY,
    )
}

/// Of mxcsr and of the x87 control word.
const DEFAULTS: [u32; 2] = [0x1f80, 0x37f];
static DEFAULTS_IN_MEMORY: [u32; 2] = DEFAULTS;
