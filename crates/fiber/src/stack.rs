//! Fiber stacks: slots of one size, carved from large anonymous mappings, handed out last in first
//! out so that a fresh fiber gets a warm stack.
//!
//! Every slot begins (at its low end) with a guard of 1 MiB: code that does not probe its frames
//! touches it before a neighbour. It is made with the stack's first use, at some 4 µs. Where the kernel can mark guard pages inside a
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
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr;
use std::sync::Mutex;

mod slab;

pub(crate) use slab::{GUARD, range_of};
use slab::{Guard, SLAB_SLOTS, install_guard, map_slab};

/// The smallest usable stack: a deep call into libc and a saved AVX-512 state fit.
const MIN_USABLE: usize = 16 * 1024;
/// Free stacks that a pool keeps at most.
const KEEP: usize = 1_024;

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
pub struct FiberStack(Slot);

/// A stack's place in its slab, without an owner.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Low end, guard included.
    low: NonZeroUsize,
    top: NonZeroUsize,
    /// The whole of it, guard included.
    bytes: usize,
    /// At the top, where it has one.
    image: Option<Image>,
    /// Whether it has its guard, and its image if it is to have one.
    ready: bool,
}

impl FiberStack {
    /// Its bytes above the guard.
    #[inline]
    #[must_use]
    pub fn usable(&self) -> Range<usize> {
        self.0.low.get() + GUARD..self.end()
    }

    /// Where what it may use ends: below its thread-locals, and below a word at its very top, which is
    /// for debuggers ([`Context::prepare`](crate::Context::prepare)).
    #[inline]
    fn end(&self) -> usize {
        self.0.image.map_or(self.mark(), Image::start)
    }

    /// Where that word is.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.0.top.get() - MARK_BYTES
    }

    /// Its own thread-locals' thread pointer; 0: it has none.
    #[inline]
    #[must_use]
    pub fn thread_pointer(&self) -> usize {
        self.0.image.map_or(0, Image::pointer)
    }

    /// The thread that ran on it has ended, and another is to begin: thread-locals are new.
    ///
    /// # Safety
    /// Nothing runs on it, and what did has ended by [`crate::end_thread_locals`].
    pub unsafe fn renew_locals(&self) {
        if let Some(image) = self.0.image {
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

/// Stacks whose pools are gone; their thread-locals are new.
static RESERVE: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

fn reserve() -> std::sync::MutexGuard<'static, Vec<Slot>> {
    RESERVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for FiberStack {
    fn drop(&mut self) {
        let Slot { low, bytes, image, ready, .. } = self.0;
        if let Some(image) = image {
            // SAFETY: whatever ran on it is gone.
            unsafe { image.retire() };
        }
        if ready {
            let start = low.get() + GUARD;
            let end = match image {
                // A page that it shares with thread-locals stays.
                Some(image) => image.start() & !(rustix::param::page_size() - 1),
                None => low.get() + bytes,
            };
            let memory = ptr::with_exposed_provenance_mut(start);
            // SAFETY: whatever ran on it is gone, and the range lies in its mapping, above its guard.
            unsafe { libc::madvise(memory, end - start, libc::MADV_DONTNEED) };
        }
        reserve().push(self.0);
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
        let page = rustix::param::page_size();
        let pages = (usable + own).div_ceil(page);
        // Slots are an odd number of pages apart: the hot pages of stacks that are a power of two apart
        // would share a few entries of the processor's table of translations.
        let usable = (pages + usize::from((pages + GUARD / page).is_multiple_of(2))) * page;
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
        stack.0.bytes == self.usable + GUARD
            && stack.0.image.is_some() == (self.locals == Locals::Own)
    }

    /// The stack that was returned last, if there is one.
    #[inline]
    pub fn take_warm(&mut self) -> Option<FiberStack> {
        if self.free.last()?.0.ready { self.free.pop() } else { None }
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
        if !stack.0.ready {
            let made = self.make_ready(&mut stack, install_guard);
            if let Err(error) = made {
                self.free.push(stack);
                return Err(error);
            }
        }
        Ok(stack)
    }

    /// Of a stack that was never used. Where it fails, a later one tries again.
    fn make_ready(&self, stack: &mut FiberStack, guard: Guard) -> Result<(), StackError> {
        // SAFETY: the low end of the stack's own slot, where nothing lives.
        unsafe { guard(ptr::with_exposed_provenance_mut(stack.0.low.get()))? };
        if self.locals == Locals::Own {
            // SAFETY: the top of a stack that was never used: zero, and this stack's alone.
            let image = unsafe { Image::make(stack.mark()) };
            stack.0.image = Some(image.map_err(StackError::Locals)?);
        }
        stack.0.ready = true;
        Ok(())
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
        let bytes = self.usable + GUARD;
        let own = self.locals == Locals::Own;
        let fits =
            |slot: &mut Slot| slot.bytes == bytes && (!slot.ready || slot.image.is_some() == own);
        self.free.extend(reserve().extract_if(.., fits).take(SLAB_SLOTS).map(FiberStack));
        if !self.free.is_empty() {
            return Ok(());
        }
        let slab = map_slab(bytes)?;
        for index in (0..SLAB_SLOTS).rev() {
            let range = range_of(slab as usize, bytes, index);
            let nonzero = |address| NonZeroUsize::new(address).expect("inside a mapping");
            let (low, top) = (nonzero(range.start - GUARD), nonzero(range.end));
            self.free.push(FiberStack(Slot { low, top, bytes, image: None, ready: false }));
        }
        self.made += SLAB_SLOTS;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_stack_that_could_not_be_guarded_is_tried_again() {
        // As where the kernel has no more mappings to give.
        unsafe fn fails(_: *mut libc::c_void) -> Result<(), StackError> {
            Err(StackError::Memory(rustix::io::Errno::NOMEM))
        }
        // A size that no other test asks for.
        let pages = MIN_USABLE + 123 * rustix::param::page_size();
        let mut pool = StackPool::new(pages, Locals::Own).unwrap();
        pool.carve().unwrap();
        let mut stack = pool.free.pop().unwrap();
        assert!(matches!(pool.make_ready(&mut stack, fails), Err(StackError::Memory(_))));
        let low = stack.0.low;
        pool.give(stack);
        assert!(pool.take_warm().is_none());
        assert_eq!(pool.take().unwrap().0.low, low);
    }

    #[test]
    fn slots_are_an_odd_number_of_pages_apart() {
        for locals in [Locals::Shared, Locals::Own] {
            for kib in [16, 60, 64, 68, 256, 1_024, 1_028] {
                let pool = StackPool::new(kib << 10, locals).unwrap();
                assert!(pool.usable() >= kib << 10);
                let pages = (pool.usable() + GUARD) / rustix::param::page_size();
                assert_eq!(pages % 2, 1, "{kib} KiB");
            }
        }
    }
}
