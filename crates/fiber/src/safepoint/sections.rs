//! Sections of code in which a quantum's end is put off: critical ones, and those under locks.

use super::{Safepoint, curtail_yield_pending};

/// Opens a critical section on this thread: no yield until the matching [`leave_critical`]. Two
/// instructions.
#[inline(always)]
pub fn enter_critical() {
    // SAFETY: changes this thread's depth (offset 12 of the block) only. By one instruction, so that
    // a signal sees it before or after. Not `nomem`: what follows stays behind it.
    unsafe {
        std::arch::asm!(
            "mov {block}, qword ptr [rip + curtail_safepoint@GOTTPOFF]",
            "inc dword ptr fs:[{block} + 12]",
            block = out(reg) _,
            options(nostack),
        );
    }
}

/// Closes it; the outermost yields if a yield fell due inside. Without a matching
/// [`enter_critical`] before it, nothing yields on this thread any more.
#[inline(always)]
pub fn leave_critical() {
    let due: i32;
    // SAFETY: changes this thread's depth only, as above. `pending` (offset 16) is 0 or 1: it is
    // above the depth only if it is set and the depth is zero.
    unsafe {
        std::arch::asm!(
            "mov {block}, qword ptr [rip + curtail_safepoint@GOTTPOFF]",
            "dec dword ptr fs:[{block} + 12]",
            "mov {due:e}, dword ptr fs:[{block} + 16]",
            "sub {due:e}, dword ptr fs:[{block} + 12]",
            block = out(reg) _,
            due = out(reg) due,
            options(nostack),
        );
    }
    if due > 0 {
        yield_pending();
    }
}

/// The running code takes a lock: where its quantum ends meanwhile, it goes on for the
/// [grace](Safepoint::set_grace).
#[inline(always)]
pub fn enter_lock() {
    // SAFETY: as in `enter_critical`; the count is the upper half of the depth. (An access to that half
    // alone would keep the whole, which is read next, from being forwarded.)
    unsafe {
        std::arch::asm!(
            "mov {block}, qword ptr [rip + curtail_safepoint@GOTTPOFF]",
            "add dword ptr fs:[{block} + 12], 65536",
            block = out(reg) _,
            options(nostack),
        );
    }
}

/// It has given it back: yields if a yield fell due meanwhile, and there is no other lock or critical
/// section. Without a matching [`enter_lock`] before it, nothing yields on this thread in time any more.
#[inline(always)]
pub fn leave_lock() {
    let due: i32;
    // SAFETY: as in `leave_critical`: what is compared with `pending` are both counts, as one number.
    unsafe {
        std::arch::asm!(
            "mov {block}, qword ptr [rip + curtail_safepoint@GOTTPOFF]",
            "sub dword ptr fs:[{block} + 12], 65536",
            "mov {due:e}, dword ptr fs:[{block} + 16]",
            "sub {due:e}, dword ptr fs:[{block} + 12]",
            block = out(reg) _,
            due = out(reg) due,
            options(nostack),
        );
    }
    if due > 0 {
        yield_pending();
    }
}

/// [`leave_lock`] where the lock may never have been taken on this stack: off a fiber, say.
#[inline]
pub fn leave_lock_if_held() {
    if Safepoint::this_thread().depth() >> 16 != 0 {
        leave_lock();
    }
}

#[cold]
#[inline(never)]
fn yield_pending() {
    // SAFETY: may call the yield hook, like any safepoint.
    unsafe { curtail_yield_pending() };
}
