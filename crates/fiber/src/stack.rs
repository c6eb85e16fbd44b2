//! Fiber stacks: slots of one size, carved from large anonymous mappings, handed out last in first
//! out so that a fresh fiber gets a warm stack.
//!
//! Every slot begins (at its low end) with a guard. Where the kernel can mark guard pages inside a
//! mapping (`MADV_GUARD_INSTALL`, Linux 6.13), a slab of stacks stays one mapping and a million
//! fibers stay far from `vm.max_map_count`; elsewhere `mprotect` splits it, at two mappings a stack.
//!
//! A pool belongs to one thread; a stack that is dropped goes to a reserve that all pools of its
//! size share, and its memory to the system. Slabs are never unmapped while the process lives.

use crate::context::MARK_BYTES;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes at a slot's low end that fault when touched. More than a page, because C code does not
/// probe its larger frames.
pub(crate) const GUARD: usize = 16 * 1024;
/// The smallest usable stack: a deep call into libc and a saved AVX-512 state fit.
const MIN_USABLE: usize = 16 * 1024;
/// Free stacks that a pool keeps at most.
const KEEP: usize = 1_024;
/// Slots a slab.
const SLAB_SLOTS: usize = 64;
/// Tops of stacks are spread over this many offsets of [`COLOUR_STEP`] bytes: slots are a multiple
/// of the page size apart, so that without it all hot stack lines would share a few cache sets.
const COLOURS: usize = 16;
const COLOUR_STEP: usize = 256;
/// Not yet in libc's headers everywhere.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Why there is no stack.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The size is outside what a slot can be.
    #[error("a stack of {0} bytes is not possible: from 16 KiB to 1 GiB")]
    Size(usize),
    /// The kernel refused memory.
    #[error("no memory for fiber stacks: {0} (vm.max_map_count or a memory limit?)")]
    Memory(#[from] rustix::io::Errno),
    /// More slabs than the overflow handler can know.
    #[error("more than {} stack slabs", crate::overflow::MAX_SLABS)]
    TooManySlabs,
}

/// One stack, owned.
#[derive(Debug)]
pub struct FiberStack {
    /// Low end of the slot, guard included.
    low: NonZeroUsize,
    top: NonZeroUsize,
    /// Bytes of the whole slot.
    slot: usize,
}

impl FiberStack {
    /// Its bytes above the guard.
    #[inline]
    #[must_use]
    pub fn usable(&self) -> Range<usize> {
        self.low.get() + GUARD..self.top.get()
    }

    /// Where what runs on it begins, a multiple of 16. Above lies a word for debuggers
    /// ([`Context::prepare`](crate::Context::prepare)).
    #[inline]
    #[must_use]
    pub fn top(&self) -> usize {
        self.top.get() - MARK_BYTES
    }
}

/// Stacks whose pools are gone: (slot bytes, low end, top).
static RESERVE: Mutex<Vec<(usize, NonZeroUsize, NonZeroUsize)>> = Mutex::new(Vec::new());

fn reserve() -> std::sync::MutexGuard<'static, Vec<(usize, NonZeroUsize, NonZeroUsize)>> {
    RESERVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for FiberStack {
    fn drop(&mut self) {
        let usable = self.usable();
        // SAFETY: whatever ran on it is gone, and the range lies in its mapping, above its guard.
        unsafe {
            let low = ptr::with_exposed_provenance_mut(usable.start);
            libc::madvise(low, self.slot - GUARD, libc::MADV_DONTNEED);
        }
        reserve().push((self.slot, self.low, self.top));
    }
}

/// A thread's supply of stacks of one size.
#[derive(Debug)]
pub struct StackPool {
    usable: usize,
    free: Vec<FiberStack>,
    made: usize,
}

impl StackPool {
    /// A pool of stacks with at least `usable` bytes each, rounded up to whole pages. Nothing is
    /// mapped yet.
    ///
    /// # Errors
    /// [`StackError::Size`].
    pub fn new(usable: usize) -> Result<Self, StackError> {
        if !(MIN_USABLE..=1 << 30).contains(&usable) {
            return Err(StackError::Size(usable));
        }
        let usable = usable.next_multiple_of(rustix::param::page_size());
        Ok(Self { usable, free: Vec::new(), made: 0 })
    }

    /// Usable bytes of each stack.
    #[must_use]
    pub fn usable(&self) -> usize {
        self.usable
    }

    /// Whether `stack` is of this pool's size.
    #[inline]
    #[must_use]
    pub fn fits(&self, stack: &FiberStack) -> bool {
        stack.slot == self.usable + GUARD
    }

    /// The stack that was returned last, if there is one.
    #[inline]
    pub fn take_warm(&mut self) -> Option<FiberStack> {
        self.free.pop()
    }

    /// A stack: the one returned last, or a new one.
    ///
    /// # Errors
    /// Where the kernel gives no more memory.
    pub fn take(&mut self) -> Result<FiberStack, StackError> {
        if self.free.is_empty() {
            self.carve()?;
        }
        Ok(self.free.pop().expect("carve adds stacks or fails"))
    }

    /// Gives a stack back. Whatever ran on it is gone. Of many free ones, half are dropped.
    #[inline]
    pub fn give(&mut self, stack: FiberStack) {
        self.free.push(stack);
        if self.free.len() > KEEP {
            self.shrink(KEEP / 2);
        }
    }

    /// How many stacks are free here.
    #[inline]
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Drops free stacks until there are so many, those that were used last: how many.
    #[cold]
    pub fn shrink(&mut self, to: usize) -> usize {
        let spare = self.free.len().saturating_sub(to);
        self.free.drain(..spare).count()
    }

    /// How many stacks this pool has mapped so far.
    #[must_use]
    pub fn made(&self) -> usize {
        self.made
    }

    fn carve(&mut self) -> Result<(), StackError> {
        let slot = self.usable + GUARD;
        self.free.extend(
            reserve()
                .extract_if(.., |&mut (bytes, ..)| bytes == slot)
                .take(SLAB_SLOTS)
                .map(|(slot, low, top)| FiberStack { low, top, slot }),
        );
        if !self.free.is_empty() {
            return Ok(());
        }
        let low = map_slab(slot, install_guard)?;
        for index in (0..SLAB_SLOTS).rev() {
            let range = range_of(low as usize, slot, index);
            let nonzero = |address| NonZeroUsize::new(address).expect("inside a mapping");
            let (low, top) = (nonzero(range.start - GUARD), nonzero(range.end));
            self.free.push(FiberStack { low, top, slot });
        }
        self.made += SLAB_SLOTS;
        Ok(())
    }
}

/// The stack in a slab's slot, above its guard.
pub(crate) fn range_of(slab: usize, slot: usize, index: usize) -> Range<usize> {
    let low = slab + index * slot;
    low + GUARD..low + slot - index % COLOURS * COLOUR_STEP
}

/// A slab of stacks with their guards, known to the handler of overflows. Where that fails, nothing
/// is left of it.
fn map_slab(
    slot: usize,
    guard: unsafe fn(*mut libc::c_void) -> Result<(), StackError>,
) -> Result<*mut libc::c_void, StackError> {
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
    let prepare = || {
        for index in 0..SLAB_SLOTS {
            // SAFETY: the slot lies inside the mapping made above, which no other code knows yet.
            unsafe { guard(low.byte_add(index * slot))? };
        }
        crate::overflow::register_slab(low as usize, slot, SLAB_SLOTS)
    };
    prepare().inspect_err(|_| {
        // SAFETY: the whole mapping made above, which no other code has got to know.
        let _ = unsafe { rustix::mm::munmap(low, bytes) };
    })?;
    Ok(low)
}

/// Makes the `GUARD` bytes at `low` fault.
///
/// # Safety
/// They belong to the caller's own mapping and nothing lives there.
unsafe fn install_guard(low: *mut libc::c_void) -> Result<(), StackError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static GUARDED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    /// Fails at the last slot, as where the kernel has no more mappings to give.
    unsafe fn fails_late(low: *mut libc::c_void) -> Result<(), StackError> {
        let (first, count) = GUARDED.get();
        GUARDED.set((if count == 0 { low as usize } else { first }, count + 1));
        if count + 1 == SLAB_SLOTS {
            return Err(StackError::Memory(rustix::io::Errno::NOMEM));
        }
        // SAFETY: the caller's own.
        unsafe { install_guard(low) }
    }

    #[test]
    fn a_pool_that_shrinks_keeps_the_warmest_and_gives_memory_back() {
        // A size that no other test asks for.
        let mut pool = StackPool::new(MIN_USABLE + 77 * rustix::param::page_size()).unwrap();
        let stacks: Vec<_> = (0..10).map(|_| pool.take().unwrap()).collect();
        let bottoms: Vec<_> = stacks
            .iter()
            .map(|stack| {
                let bottom: *mut u8 = ptr::with_exposed_provenance_mut(stack.usable().start);
                // SAFETY: nothing runs on it.
                unsafe { bottom.write(1) };
                bottom
            })
            .collect();
        let others = pool.free();
        stacks.into_iter().for_each(|stack| pool.give(stack));
        assert_eq!((pool.shrink(100), pool.shrink(3), pool.free()), (0, others + 7, 3));
        // SAFETY: mapped as long as the process lives, and nothing runs there.
        let left = bottoms.iter().filter(|bottom| unsafe { bottom.read() } == 1).count();
        assert_eq!(left, 3);
        let warmest = pool.take_warm().map(|stack| stack.usable().start);
        assert_eq!(warmest, Some(bottoms[9].expose_provenance()));
    }

    #[test]
    fn nothing_is_left_of_a_slab_that_cannot_be_guarded() {
        // A size that no other test asks for.
        let slot = MIN_USABLE + GUARD + 123 * rustix::param::page_size();
        assert!(matches!(map_slab(slot, fails_late), Err(StackError::Memory(_))));
        let (low, count) = GUARDED.get();
        assert_eq!(count, SLAB_SLOTS);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let holds = |line: &str| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            (start..end).contains(&low) && end - start >= slot * SLAB_SLOTS / 2
        };
        assert!(!maps.lines().any(holds), "{low:x} of\n{maps}");
    }
}
