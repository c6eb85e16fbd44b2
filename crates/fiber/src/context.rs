//! The context switch: what is saved of a thread that does not run, and how another comes in.
//!
//! A [`Context`] belongs to one stack. Of the processor's registers it keeps the stack pointer; the
//! rest lies on the stack itself (`rbp`, `rbx`, and what the compiler keeps around the switch).
//! Beside it are words that belong to the code on that stack but live in the kthread: the
//! critical-section depth, the caught C++ exceptions, and words that a program registered
//! ([`keep_word`]).
//!
//! **Who touches it.** The kthread on which it runs or will run next. [`current`] is that kthread's
//! own. A context whose stack runs has stale words; the switch away from it fills them in.
//!
//! **The invariant.** `switch(from, to)`: `from` is the context of the calling stack, and `to` is
//! suspended, by a switch away from it or by [`Context::prepare`].

use crate::safepoint::Safepoint;
use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

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

/// The words that `__cxa_get_globals` points to: caught exceptions, and the count of uncaught ones.
type CxaGlobals = [usize; 2];

/// How many words of other libraries can be kept.
pub const MOST_WORDS: usize = 4;

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
    cxa: Cell<CxaGlobals>,
    words: Cell<[usize; MOST_WORDS]>,
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
    static CXA: Cell<*mut CxaGlobals> = const { Cell::new(ptr::null_mut()) };
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
            cxa: Cell::new([0; 2]),
            words: Cell::new([0; MOST_WORDS]),
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
        debug_assert!(top.is_multiple_of(16) && stack.contains(&(top - 512)));
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
        self.depth.set(0);
        self.in_task.set(false);
        self.kind.set(kind);
        self.shown.set(self);
        self.cxa.set([0; 2]);
        self.words.set([0; MOST_WORDS]);
        self.low.set(stack.start);
        self.top.set(stack.end);
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
    from.depth.set(safepoint.replace_depth(to.depth.get()));
    let globals = cxa_globals();
    if !globals.is_null() {
        // SAFETY: this kthread's pair of words that the Itanium C++ ABI fixes at this place
        // (`__cxa_eh_globals`); nothing else on this kthread touches them during a switch.
        from.cxa.set(unsafe { globals.replace(to.cxa.get()) });
    }
    if WORDS.load(Ordering::Relaxed) != 0 {
        exchange_words(from, to);
    }
    CURRENT.set(to.shown.get());
    // SAFETY: `sp` of a suspended context is where the switch, or `prepare`, left it.
    unsafe { curtail_switch(from.sp.as_ptr(), to.sp.get()) };
}

/// [`switch`] away for ever: the caller's stack has ended, and may be used anew at once.
///
/// # Safety
/// As for [`switch`]; nothing switches to `from` again before it is prepared anew.
#[inline(always)]
pub unsafe fn switch_away(from: *const Context, to: *const Context, safepoint: Safepoint) -> ! {
    // SAFETY: by contract.
    unsafe { switch(from, to, safepoint) };
    unreachable!("a fiber that has ended was resumed")
}

/// Saves what the ABI has a callee preserve, and goes on with the other stack where it left off.
///
/// The floating-point control words are rarely other than the ABI's defaults: the others get those,
/// and only who had other ones has them loaded again. (The low six bits of mxcsr are sticky status,
/// not control.)
///
/// The way back is `pop` and `jmp`: the processor predicts a `ret` to go to the last call's place,
/// which after a switch is the other stack's, and 15 cycles are lost. Callers call it last, so that
/// no `ret` of theirs follows either.
///
/// # Safety
/// See [`switch`].
#[unsafe(naked)]
unsafe extern "C" fn curtail_switch(from: *mut usize, to: usize) {
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
        "pop rcx",
        "jmp rcx",
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
}

/// Of mxcsr and of the x87 control word.
const DEFAULTS: [u32; 2] = [0x1f80, 0x37f];
static DEFAULTS_IN_MEMORY: [u32; 2] = DEFAULTS;

// The first frame of each fiber. Unwinders stop here: there is no caller.
std::arch::global_asm!(
    ".pushsection .text.curtail_fiber_entry,\"ax\",@progbits",
    ".globl curtail_fiber_entry",
    ".hidden curtail_fiber_entry",
    ".type curtail_fiber_entry,@function",
    "curtail_fiber_entry:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "pop rdi",
    "pop rax",
    "xor ebp, ebp",
    // As a call without its entry in the processor's stack of returns, which nothing would use.
    "lea rcx, [rip + 2f]",
    "push rcx",
    "jmp rax",
    "2:",
    "ud2",
    ".cfi_endproc",
    ".size curtail_fiber_entry, . - curtail_fiber_entry",
    ".popsection",
);

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
    fn curtail_fiber_entry();
    fn curtail_cxa_globals() -> *mut CxaGlobals;
}

/// This kthread's C++ exception state, or null in a program without C++.
#[inline]
fn cxa_globals() -> *mut CxaGlobals {
    /// The address was asked for and there is none.
    const NONE: *mut CxaGlobals = ptr::without_provenance_mut(1);
    match CXA.get() {
        NONE => ptr::null_mut(),
        p if p.is_null() => {
            // SAFETY: the assembly above tail-calls `__cxa_get_globals` (no arguments, returns a
            // pointer to the kthread's globals) or returns null.
            let found = unsafe { curtail_cxa_globals() };
            CXA.set(if found.is_null() { NONE } else { found });
            found
        }
        p => p,
    }
}

/// How many of [`PLACES`] are filled in. Only grows.
static WORDS: AtomicUsize = AtomicUsize::new(0);
static PLACES: [AtomicPtr<()>; MOST_WORDS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_WORDS];

/// From now on, each fiber has a value of its own in the word that `place` returns the address of,
/// zero at first: a library's thread-local "current …" (a span, a context) then follows the fiber
/// through all its suspensions. Fibers that exist already keep what they find at their next switch.
///
/// # Errors
/// Gives `place` back where [`MOST_WORDS`] are kept already.
///
/// # Safety
/// On each kthread `place` returns the address of a word that belongs to this kthread alone, stays
/// valid until the kthread ends, and may be replaced by a value that it had at another time, or by
/// zero, between any two instructions of the library at which a fiber can be suspended. `place`
/// does not suspend.
pub unsafe fn keep_word(place: fn() -> *mut usize) -> Result<(), fn() -> *mut usize> {
    static REGISTERING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _registering = REGISTERING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let count = WORDS.load(Ordering::Relaxed);
    let Some(free) = PLACES.get(count) else { return Err(place) };
    free.store(place as *mut (), Ordering::Release);
    WORDS.store(count + 1, Ordering::Release);
    Ok(())
}

#[cold]
#[inline(never)]
fn exchange_words(from: &Context, to: &Context) {
    let (mut kept, theirs) = (from.words.get(), to.words.get());
    let count = WORDS.load(Ordering::Acquire);
    for ((place, kept), theirs) in PLACES.iter().zip(&mut kept).zip(theirs).take(count) {
        // SAFETY: `keep_word` stored a function of this type before it raised the count.
        let place: fn() -> *mut usize = unsafe {
            std::mem::transmute::<*mut (), fn() -> *mut usize>(place.load(Ordering::Acquire))
        };
        // SAFETY: by the contract of `keep_word`.
        *kept = unsafe { place().replace(theirs) };
    }
    from.words.set(kept);
}
