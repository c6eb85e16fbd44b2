//! Fiber stacks: slots of one size, carved from large anonymous mappings, handed out last in first
//! out so that a fresh fiber gets a warm stack.
//!
//! Every slot begins (at its low end) with a guard. Where the kernel can mark guard pages inside a
//! mapping (`MADV_GUARD_INSTALL`, Linux 6.13), a slab of stacks stays one mapping and a million
//! fibers stay far from `vm.max_map_count`; elsewhere `mprotect` splits it, at two mappings a stack.
//!
//! A pool belongs to one thread; a stack that is dropped goes to a reserve that all pools of its
//! kind share, and its memory to the system. Slabs are never unmapped while the process lives.
//!
//! Of a pool of [`Locals::Own`], each stack has an image of thread-locals at its top ([`crate::image`]),
//! which is made with the stack's first use and stays for ever.

use crate::context::MARK_BYTES;
use crate::image::{self, Image, Locals};
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
    /// There are no thread-locals for it.
    #[error("no thread-locals for a stack: {0}")]
    Locals(image::Refusal),
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
    /// At the top, where it has one.
    image: Option<Image>,
}

impl FiberStack {
    /// Its bytes above the guard.
    #[inline]
    #[must_use]
    pub fn usable(&self) -> Range<usize> {
        self.low.get() + GUARD..self.end()
    }

    /// Where what it may use ends: below its thread-locals, and below a word at its very top, which is
    /// for debuggers ([`Context::prepare`](crate::Context::prepare)).
    #[inline]
    fn end(&self) -> usize {
        self.image.map_or(self.mark(), Image::start)
    }

    /// Where that word is.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.top.get() - MARK_BYTES
    }

    /// Its own thread-locals' thread pointer; 0: it has none.
    #[inline]
    #[must_use]
    pub fn thread_pointer(&self) -> usize {
        self.image.map_or(0, Image::pointer)
    }

    /// The thread that ran on it has ended, and another is to begin: thread-locals are new.
    ///
    /// # Safety
    /// Nothing runs on it, and what did has ended by [`crate::end_thread_locals`].
    pub unsafe fn renew_locals(&self) {
        if let Some(image) = self.image {
            // SAFETY: by contract.
            unsafe { image.renew() };
        }
    }

    /// Where what runs on it begins, a multiple of 16.
    #[inline]
    #[must_use]
    pub fn top(&self) -> usize {
        self.end()
    }
}

/// A stack without an owner: slot bytes, low end, top, thread-locals.
type Unowned = (usize, NonZeroUsize, NonZeroUsize, Option<Image>);

/// Stacks whose pools are gone; their thread-locals are new.
static RESERVE: Mutex<Vec<Unowned>> = Mutex::new(Vec::new());

fn reserve() -> std::sync::MutexGuard<'static, Vec<Unowned>> {
    RESERVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for FiberStack {
    fn drop(&mut self) {
        let usable = self.usable();
        if let Some(image) = self.image {
            // SAFETY: whatever ran on it is gone.
            unsafe { image.retire() };
        }
        // SAFETY: whatever ran on it is gone, and the range lies in its mapping, above its guard.
        unsafe {
            let low = ptr::with_exposed_provenance_mut(usable.start);
            let end = match self.image {
                // A page that it shares with thread-locals stays.
                Some(image) => image.start() & !(rustix::param::page_size() - 1),
                None => self.low.get() + self.slot,
            };
            libc::madvise(low, end - usable.start, libc::MADV_DONTNEED);
        }
        reserve().push((self.slot, self.low, self.top, self.image));
    }
}

/// A thread's supply of stacks of one size.
#[derive(Debug)]
pub struct StackPool {
    usable: usize,
    asked: usize,
    locals: Locals,
    free: Vec<FiberStack>,
    made: usize,
}

impl StackPool {
    /// A pool of stacks with at least `usable` bytes each, besides thread-locals of their own, rounded
    /// up to whole pages. Nothing is mapped yet.
    ///
    /// # Errors
    /// [`StackError::Size`].
    pub fn new(usable: usize, locals: Locals) -> Result<Self, StackError> {
        if !(MIN_USABLE..=1 << 30).contains(&usable) {
            return Err(StackError::Size(usable));
        }
        let locals = locals.in_effect();
        let own = if locals == Locals::Own { Image::bytes().unwrap_or(0) } else { 0 };
        let asked = usable;
        let usable = (usable + own).next_multiple_of(rustix::param::page_size());
        Ok(Self { usable, asked, locals, free: Vec::new(), made: 0 })
    }

    /// Bytes of each stack, thread-locals of its own included.
    #[must_use]
    pub fn usable(&self) -> usize {
        self.usable
    }

    /// Whose thread-locals what runs on its stacks has.
    #[must_use]
    pub fn locals(&self) -> Locals {
        self.locals
    }

    /// Bytes of each stack without thread-locals of its own.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// Whether the other's stacks would serve as well.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.usable, self.locals) == (other.usable, other.locals)
    }

    /// Whether `stack` is of this pool's kind.
    #[inline]
    #[must_use]
    pub fn fits(&self, stack: &FiberStack) -> bool {
        stack.slot == self.usable + GUARD && stack.image.is_some() == (self.locals == Locals::Own)
    }

    /// The stack that was returned last, if there is one.
    #[inline]
    pub fn take_warm(&mut self) -> Option<FiberStack> {
        let is_ready = self.free.last()?.image.is_some() == (self.locals == Locals::Own);
        if is_ready { self.free.pop() } else { None }
    }

    /// A stack: the one returned last, or a new one.
    ///
    /// # Errors
    /// Where the kernel gives no more memory.
    pub fn take(&mut self) -> Result<FiberStack, StackError> {
        if self.free.is_empty() {
            self.carve()?;
        }
        let mut stack = self.free.pop().expect("carve adds stacks or fails");
        if self.locals == Locals::Own && stack.image.is_none() {
            // SAFETY: the top of a stack that was never used: zero, and this stack's alone.
            let image = unsafe { Image::make(stack.mark()) };
            stack.image = Some(image.map_err(StackError::Locals)?);
        }
        Ok(stack)
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
        let own = self.locals == Locals::Own;
        self.free.extend(
            reserve()
                .extract_if(.., |&mut (bytes, _, _, image)| bytes == slot && image.is_some() == own)
                .take(SLAB_SLOTS)
                .map(|(slot, low, top, image)| FiberStack { low, top, slot, image }),
        );
        if !self.free.is_empty() {
            return Ok(());
        }
        let low = map_slab(slot, install_guard)?;
        for index in (0..SLAB_SLOTS).rev() {
            let range = range_of(low as usize, slot, index);
            let nonzero = |address| NonZeroUsize::new(address).expect("inside a mapping");
            let (low, top) = (nonzero(range.start - GUARD), nonzero(range.end));
            self.free.push(FiberStack { low, top, slot, image: None });
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
        let mut pool =
            StackPool::new(MIN_USABLE + 77 * rustix::param::page_size(), Locals::Shared).unwrap();
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
