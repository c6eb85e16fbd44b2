//! The first frame of each fiber, which [`crate::Context::prepare`] has the first switch go to.

// Unwinders stop here: there is no caller.
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
    crate::sanitize::arrive!(),
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

unsafe extern "C" {
    /// Takes the argument and the first function off the stack, and calls it.
    pub(crate) fn curtail_fiber_entry();
}
