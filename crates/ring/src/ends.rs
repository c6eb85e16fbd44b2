//! The ring itself: what the heap form and the shared-memory form have in common.
//!
//! The producer's thread owns a [`Writer`], the consumer's a [`Reader`]. Each keeps its own index
//! locally and never reads it back; each caches the other's index and looks at the shared one only
//! when the cache says that there is nothing to do. So a ring that is neither full nor empty costs
//! one store of the own index per operation (or per batch), and the line of that index moves
//! between the cores only when the other side looks.
//!
//! Invariant: slots in `head..tail` hold values and belong to the reader; all others belong to the
//! writer. The Release store of an index hands slots over; the Acquire load takes them.
//!
//! Every foreign index is checked ([`Corrupt`]) before it is used. On the heap the check can't
//! fail; it costs one comparison per refresh.

use crate::layout::{Corrupt, Header, LEFT, PRESENT, Slot};
use crate::sync::Ordering;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Where a ring is. The capacity is a private copy.
pub(crate) struct View<T> {
    header: NonNull<Header>,
    slots: NonNull<Slot<T>>,
    capacity: u64,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<T> {}

// SAFETY: the header consists of atomics; slots are touched by the one writer and the one reader
// in turns, as the indices say, so what crosses threads is the elements.
unsafe impl<T: Send> Send for View<T> {}

impl<T> View<T> {
    /// # Safety
    /// While the view or a writer or reader made from it is in use, `header` points at a header and
    /// `slots` at `capacity` slots. `capacity` is a power of two.
    pub(crate) unsafe fn new(
        header: NonNull<Header>,
        slots: NonNull<Slot<T>>,
        capacity: u64,
    ) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self { header, slots, capacity }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: valid by the contract of `new`; all of it is atomics.
        unsafe { self.header.as_ref() }
    }

    /// The slot of the `index`-th element since the beginning.
    #[inline(always)]
    pub(crate) fn slot(&self, index: u64) -> &Slot<T> {
        let offset = (index & (self.capacity - 1)) as usize;
        // SAFETY: `offset < capacity`, and there are that many by the contract of `new`.
        unsafe { self.slots.add(offset).as_ref() }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }
}

/// So many bytes are asked for ahead: eight lines, whose trips between the cores go on side by side.
const AHEAD: usize = 8 * 64;

/// How many slots there are in so many bytes: a power of two, at least 1.
const fn slots_in<T>(bytes: usize) -> u64 {
    let size = size_of::<T>();
    if size == 0 || size > bytes { 1 } else { 1 << (bytes / size).ilog2() }
}

/// The producer's side.
pub(crate) struct Writer<T> {
    view: View<T>,
    /// Where the next element goes.
    tail: u64,
    /// What the reader may see of it.
    published: u64,
    /// The reader's index when we looked last.
    head: u64,
}

impl<T> Writer<T> {
    /// # Safety
    /// There is no other writer for this ring while this one lives.
    pub(crate) unsafe fn new(view: View<T>) -> Result<Self, Corrupt> {
        let (head, tail) = view.header().indices(view.capacity)?;
        view.header().producer.state.store(PRESENT, Ordering::Release);
        Ok(Self { view, tail, published: tail, head })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.view.capacity()
    }

    /// Whether there is room for one, looking at the reader's index only if need be.
    #[inline]
    pub(crate) fn has_room(&mut self) -> Result<bool, Corrupt> {
        if self.tail.wrapping_sub(self.head) < self.view.capacity {
            return Ok(true);
        }
        Ok(self.free()? > 0)
    }

    /// How many there is room for now.
    #[inline]
    pub(crate) fn free(&mut self) -> Result<usize, Corrupt> {
        let head = self.view.header().consumer.index.load(Ordering::Acquire);
        let len = Corrupt::check(head, self.tail, self.view.capacity)?;
        self.head = head;
        Ok((self.view.capacity - len) as usize)
    }

    /// Writes one element without showing it.
    ///
    /// # Safety
    /// `has_room` has said so since the last `stage`.
    #[inline]
    pub(crate) unsafe fn stage(&mut self, value: T) {
        self.claim_ahead();
        // SAFETY: the slot at `tail` is outside `head..tail`, so it is ours; `has_room` loaded the
        // index that says so with Acquire.
        self.view.slot(self.tail).with_mut(|slot| unsafe { slot.write(MaybeUninit::new(value)) });
        self.tail = self.tail.wrapping_add(1);
    }

    /// Asks for a slot that is to be written soon: the reader has its line since the last lap. Stores
    /// become visible one after the other, so each would wait for its own line otherwise, and the
    /// next one behind it. Not for slots that the reader has yet to read.
    #[inline]
    fn claim_ahead(&self) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        {
            let next = self.tail.wrapping_add(const { slots_in::<T>(AHEAD) });
            // Once a line is enough.
            if self.tail.is_multiple_of(const { slots_in::<T>(64) })
                && next.wrapping_sub(self.head) < self.view.capacity
            {
                let slot = std::ptr::from_ref(self.view.slot(next));
                // SAFETY: a prefetch reads nothing and changes nothing but caches; a processor
                // without this one takes it for no operation.
                unsafe {
                    std::arch::asm!("prefetchw [{}]", in(reg) slot,
                        options(nostack, preserves_flags, readonly));
                }
            }
        }
    }

    /// Shows everything staged, by one store.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.published != self.tail {
            self.published = self.tail;
            self.view.header().producer.index.store(self.tail, Ordering::Release);
        }
    }

    pub(crate) fn staged(&self) -> usize {
        self.tail.wrapping_sub(self.published) as usize
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.view.header().consumer.state.load(Ordering::Acquire) == LEFT
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.publish();
        self.view.header().producer.state.store(LEFT, Ordering::Release);
    }
}

/// The consumer's side.
pub(crate) struct Reader<T> {
    view: View<T>,
    /// What we take next.
    head: u64,
    /// The writer's index when we looked last.
    tail: u64,
}

impl<T> Reader<T> {
    /// # Safety
    /// There is no other reader for this ring while this one lives.
    pub(crate) unsafe fn new(view: View<T>) -> Result<Self, Corrupt> {
        let (head, tail) = view.header().indices(view.capacity)?;
        view.header().consumer.state.store(PRESENT, Ordering::Release);
        Ok(Self { view, head, tail })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.view.capacity()
    }

    /// How many the cached index allows us to take.
    #[inline]
    pub(crate) fn cached(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// How many are there now.
    #[inline]
    pub(crate) fn len(&mut self) -> Result<usize, Corrupt> {
        let tail = self.view.header().producer.index.load(Ordering::Acquire);
        let len = Corrupt::check(self.head, tail, self.view.capacity)?;
        if tail != self.tail {
            let ahead = self.head.wrapping_add(const { slots_in::<T>(AHEAD) });
            let mut index = self.tail;
            while index != tail && index != ahead {
                self.fetch(index);
                index = index.wrapping_add(1);
            }
            self.tail = tail;
        }
        Ok(len as usize)
    }

    /// Whether there is none, looking at the writer's index only if need be.
    #[inline]
    pub(crate) fn is_empty(&mut self) -> Result<bool, Corrupt> {
        Ok(self.cached() == 0 && self.len()? == 0)
    }

    /// The lower half of the writer's index, and what it was when we looked last: it is another as
    /// soon as there is more.
    #[cfg(not(loom))]
    pub(crate) fn watched(&self) -> (*const std::sync::atomic::AtomicU32, u32) {
        const { assert!(cfg!(target_endian = "little")) };
        let index = &raw const self.view.header().producer.index;
        (index.cast(), self.tail as u32)
    }

    /// Asks for the lines of the writer's index and of the next element at once; each would have to
    /// be waited for otherwise, one after the other.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let index = (&raw const self.view.header().producer.index).cast::<i8>();
            let slot = std::ptr::from_ref(self.view.slot(self.head)).cast::<i8>();
            // SAFETY: a prefetch reads nothing and changes nothing but caches.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(index);
                _mm_prefetch::<_MM_HINT_T0>(slot);
            }
        }
    }

    /// The slot of the next element; its value is to be moved out. `publish` gives the slot back.
    ///
    /// # Safety
    /// `cached() > 0`.
    #[inline]
    pub(crate) unsafe fn next(&mut self) -> &Slot<T> {
        let ahead = const { slots_in::<T>(AHEAD) };
        if self.cached() as u64 > ahead {
            self.fetch(self.head.wrapping_add(ahead));
        }
        let slot = self.view.slot(self.head);
        self.head = self.head.wrapping_add(1);
        slot
    }

    /// Asks for a slot that will be read soon, if it is the first one in its line.
    #[inline]
    #[cfg_attr(any(loom, miri, not(target_arch = "x86_64")), allow(unused_variables))]
    fn fetch(&self, index: u64) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        if index.is_multiple_of(const { slots_in::<T>(64) }) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let slot = std::ptr::from_ref(self.view.slot(index)).cast::<i8>();
            // SAFETY: a prefetch reads nothing and changes nothing but caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(slot) };
        }
    }

    /// Gives the slots that `next` has answered back to the writer, by one store.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.view.header().consumer.index.store(self.head, Ordering::Release);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.view.header().producer.state.load(Ordering::Acquire) == LEFT
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.view.header().consumer.state.store(LEFT, Ordering::Release);
    }
}
