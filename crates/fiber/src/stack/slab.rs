//! The mappings that stacks are carved from, and their guards.

use super::StackError;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes at a slot's low end that fault when touched. Many pages, because C code does not probe its
/// larger frames.
pub(crate) const GUARD: usize = 1 << 20;
/// Slots a slab.
pub(super) const SLAB_SLOTS: usize = 64;
/// Not yet in libc's headers everywhere.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// Tops of stacks are spread over this many offsets of [`COLOUR_STEP`] bytes: slots are a multiple
/// of the page size apart, so that without it all hot stack lines would share a few cache sets.
const COLOURS: usize = 16;
const COLOUR_STEP: usize = 256;

/// The stack in a slab's slot, above its guard.
pub(crate) fn range_of(slab: usize, slot: usize, index: usize) -> Range<usize> {
    let low = slab + index * slot;
    low + GUARD..low + slot - index % COLOURS * COLOUR_STEP
}

/// A slab of stacks, known to the handler of overflows. Where that fails, nothing is left of it.
pub(super) fn map_slab(slot: usize) -> Result<*mut libc::c_void, StackError> {
    let bytes = slot * SLAB_SLOTS;
    // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice.
    let low = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?
    };
    crate::overflow::register_slab(low as usize, slot, SLAB_SLOTS).inspect_err(|_| {
        // SAFETY: the whole mapping made above, which no other code has got to know.
        let _ = unsafe { rustix::mm::munmap(low, bytes) };
    })?;
    Ok(low)
}

/// What makes the `GUARD` bytes at an address fault.
pub(super) type Guard = unsafe fn(*mut libc::c_void) -> Result<(), StackError>;

/// Makes the `GUARD` bytes at `low` fault.
///
/// # Safety
/// They belong to the caller's own mapping and nothing lives there.
pub(super) unsafe fn install_guard(low: *mut libc::c_void) -> Result<(), StackError> {
    /// 0: not tried yet; 1: works; 2: this kernel has no guard regions.
    static MADVISE: AtomicUsize = AtomicUsize::new(0);
    if MADVISE.load(Ordering::Relaxed) != 2 {
        // SAFETY: per this function's contract; an unknown advice changes nothing.
        let answer = unsafe { libc::madvise(low, GUARD, MADV_GUARD_INSTALL) };
        if answer == 0 {
            MADVISE.store(1, Ordering::Relaxed);
            return Ok(());
        }
        MADVISE.store(2, Ordering::Relaxed);
    }
    // SAFETY: per this function's contract.
    unsafe { rustix::mm::mprotect(low, GUARD, MprotectFlags::empty())? };
    Ok(())
}
