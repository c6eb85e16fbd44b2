//! The context switch: how another stack comes in.
//!
//! **The invariant.** `switch(from, to)`: `from` is the context of the calling stack, and `to` is
//! suspended, by a switch away from it or by [`Context::prepare`].

use crate::context::{Context, exchange};
use crate::sanitize::Seen;

/// Suspends the caller's stack as `from` and goes on with `to`. Returns when something switches to
/// `from`, possibly on another kthread where the program allows that: the caller must not use
/// addresses of thread-locals that it formed before.
///
/// # Safety
/// `from` is the calling stack's own context; `to` is suspended, on this kthread or free to come
/// here; both outlive their stacks' use.
#[inline(always)]
pub unsafe fn switch(from: *const Context, to: *const Context) {
    // SAFETY: by contract.
    unsafe {
        let (place, sp) = leave(from, to, false);
        curtail_switch(place, sp);
        Seen::arrive(&*from);
    }
}

/// What of a switch is not on the stacks. Where the stack pointer is to be left, and the other stack's:
/// where the switch away from it, or `prepare`, left it.
///
/// # Safety
/// As for [`switch`], or for [`switch_away`] if it is for good.
#[inline(always)]
unsafe fn leave(from: *const Context, to: *const Context, for_good: bool) -> (*mut usize, usize) {
    // SAFETY: by contract; nothing else touches a context's cells.
    unsafe {
        let (from, to) = (&*from, &*to);
        exchange(from, to);
        Seen::leave(from, to, for_good);
        (from.stack_pointer_place(), to.take_stack_pointer())
    }
}

/// [`switch`] from a resumer, which is come back to by [`switch_back`] or [`switch_back_for_good`]. With
/// these, the processor's stack of return addresses is after a task as it was before: otherwise each
/// return of the resumer's callers would be predicted wrongly.
///
/// # Safety
/// As for [`switch`].
#[inline(always)]
pub unsafe fn switch_in(from: *const Context, to: *const Context) {
    // SAFETY: by contract.
    unsafe {
        let (place, sp) = leave(from, to, false);
        curtail_switch_in(place, sp);
        Seen::arrive(&*from);
    }
}

/// [`switch`] to a resumer, without a call's entry in the processor's stack of return addresses.
///
/// # Safety
/// As for [`switch`]; `to` waits in [`switch_in`].
#[inline(always)]
pub unsafe fn switch_back(from: *const Context, to: *const Context) {
    // SAFETY: by contract. A call of `curtail_switch`, with its return address pushed by hand.
    unsafe {
        let (place, sp) = leave(from, to, false);
        std::arch::asm!(
            "lea rax, [rip + 2f]",
            "push rax",
            "jmp {switch}",
            "2:",
            switch = sym curtail_switch,
            in("rdi") place,
            in("rsi") sp,
            clobber_abi("C"),
        );
        Seen::arrive(&*from);
    }
}

/// [`switch_away`] to a resumer, as [`switch_back`] does it.
///
/// # Safety
/// As for [`switch_away`]; `to` waits in [`switch_in`].
#[inline(always)]
pub unsafe fn switch_back_for_good(from: *const Context, to: *const Context) -> ! {
    // SAFETY: by contract.
    unsafe {
        let (_, sp) = leave(from, to, true);
        std::arch::asm!(
            "jmp {away}",
            away = sym curtail_switch_away,
            in("rdi") sp,
            options(noreturn),
        );
    }
}

/// [`switch`] away for ever: the caller's stack has ended, and may be used anew at once.
///
/// # Safety
/// As for [`switch`]; nothing switches to `from` again before it is prepared anew.
#[inline(always)]
pub unsafe fn switch_away(from: *const Context, to: *const Context) -> ! {
    // SAFETY: by contract.
    unsafe { curtail_switch_away(leave(from, to, true).1) }
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

/// Goes to another context, without anything to come back to.
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
