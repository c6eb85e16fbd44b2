//! The stack on which a kthread's signal handlers run.
//!
//! The kernel knows one for each of its threads, so the fibers on a kthread share it. It is large enough
//! for the handlers of ordinary libraries: these ask for 8 to 256 KiB. (`sigaltstack` is interposed, so
//! that no fiber takes it from the others: `crates/libc/src/alternate.rs`.)

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// Without its guard.
const BYTES: usize = 256 * 1024;
const GUARD: usize = 4096;

/// A mapping that is some kernel thread's alternate stack.
struct AlternateStack(*mut c_void);

thread_local! {
    static OURS: Cell<Option<AlternateStack>> = const { Cell::new(None) };
}

fn current() -> Option<libc::stack_t> {
    let mut now = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: a query; a stack_t of zeroes is one.
    unsafe { (libc::sigaltstack(ptr::null(), now.as_mut_ptr()) == 0).then(|| now.assume_init()) }
}

/// Gives the calling kernel thread one that is large enough, unless it has one. It stays until the
/// thread ends.
pub(crate) fn give() {
    let has_one =
        |now: &libc::stack_t| now.ss_flags & libc::SS_DISABLE == 0 && now.ss_size >= BYTES;
    if current().is_none_or(|now| has_one(&now)) {
        return;
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: fresh memory, of which only the guard's protection changes; it is the kernel's for this
    // thread until `drop` takes it back.
    unsafe {
        let mapped = mmap_anonymous(ptr::null_mut(), GUARD + BYTES, protection, MapFlags::PRIVATE);
        let Ok(memory) = mapped else { return };
        let ours = AlternateStack(memory);
        let _ = mprotect(memory, GUARD, MprotectFlags::empty());
        let stack = libc::stack_t { ss_sp: memory.add(GUARD), ss_flags: 0, ss_size: BYTES };
        if libc::sigaltstack(&raw const stack, ptr::null_mut()) == 0 {
            OURS.set(Some(ours));
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let disabled =
            libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the kernel does not use the memory once it is disabled. No handler runs on it: then
        // the call fails, and the memory is left. Nothing else refers to it.
        unsafe {
            let is_ours = |now: &libc::stack_t| now.ss_sp == self.0.add(GUARD);
            let in_use = current().as_ref().is_some_and(is_ours);
            if !in_use || libc::sigaltstack(&raw const disabled, ptr::null_mut()) == 0 {
                let _ = munmap(self.0, GUARD + BYTES);
            }
        }
    }
}
