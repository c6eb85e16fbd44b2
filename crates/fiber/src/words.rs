//! Words that follow a light thread through its suspensions, although they lie in its kthread's
//! thread-locals: the caught C++ exceptions.
//!
//! A [`Words`] holds a fiber's values while it does not run. Its kthread alone touches it.

use std::cell::Cell;
use std::ptr;

/// The words that `__cxa_get_globals` points to: caught exceptions, and the count of uncaught ones.
type CxaGlobals = [usize; 2];

/// Words of glibc's that follow a light thread through its suspensions.
#[derive(Debug)]
pub(crate) struct Words {
    cxa: Cell<CxaGlobals>,
}

impl Words {
    pub(crate) const fn new() -> Self {
        Self { cxa: Cell::new([0; 2]) }
    }

    /// As those of a fiber that has not begun.
    #[inline]
    pub(crate) fn clear(&self) {
        self.cxa.set([0; 2]);
    }

    /// Takes the kthread's values here, and puts those of `to` there.
    #[inline(always)]
    pub(crate) fn exchange(&self, to: &Self) {
        let globals = cxa_globals();
        if !globals.is_null() {
            // SAFETY: this kthread's pair of words that the Itanium C++ ABI fixes at this place
            // (`__cxa_eh_globals`); nothing else on this kthread touches them during a switch.
            self.cxa.set(unsafe { globals.replace(to.cxa.get()) });
        }
    }

    /// Takes the kthread's values here, before its thread-locals are left.
    #[inline(never)]
    pub(crate) fn save(&self) {
        self.exchange(self);
    }

    /// Puts these into the kthread's thread-locals, which have just been come to.
    #[inline(never)]
    pub(crate) fn load(&self) {
        self.exchange(&Self { cxa: self.cxa.clone() });
    }
}

thread_local! {
    static CXA: Cell<*mut CxaGlobals> = const { Cell::new(ptr::null_mut()) };
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
