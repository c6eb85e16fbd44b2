//! The single-producer, single-consumer ring on the heap.
//!
//! Any one thread holds the [`Producer`], any one the [`Consumer`]; both are `Send` and need
//! `&mut`, so the borrow checker keeps them single. Wait-free: every operation is a bounded number
//! of steps.

use crate::Full;
use crate::ends::{Reader, View, Writer};
use crate::layout::{Header, Layout, Slot};
use crate::sync::{Arc, UnsafeCell};
use std::alloc::{alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The memory of a ring; freed, with what is still in it, by whichever side goes last.
struct Region<T> {
    view: View<T>,
    memory: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: a shared `Region` gives no access to the elements; it only keeps the memory alive. The
// last owner drops the elements, on whichever thread that is, so `T` must be `Send`.
unsafe impl<T: Send> Send for Region<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Region<T> {}

impl<T> Region<T> {
    fn new(capacity: usize) -> Self {
        let capacity = Layout::round(capacity).expect("capacity overflow");
        let (layout, offset) = Layout::of::<T>(capacity).expect("capacity overflow");
        // SAFETY: the layout holds a header, so its size is not zero.
        let memory =
            NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let header = memory.cast::<Header>();
        // SAFETY: the layout begins with a header and has `capacity` slots from `offset` on, all
        // of it freshly allocated and ours alone.
        let slots = unsafe {
            header.write(Header::unsealed::<T>(capacity as u64));
            let slots = memory.add(offset).cast::<Slot<T>>();
            for i in 0..capacity {
                slots.add(i).write(UnsafeCell::new(MaybeUninit::uninit()));
            }
            slots
        };
        // SAFETY: header and slots live until the drop of this `Region`, which writers and readers
        // hold on to.
        let view = unsafe { View::new(header, slots, capacity as u64) };
        Self { view, memory, layout }
    }
}

impl<T> Drop for Region<T> {
    fn drop(&mut self) {
        let (mut head, tail) = self.view.header().indices(self.view.capacity() as u64).unwrap();
        while head != tail {
            // SAFETY: both sides are gone; what lies between the indices was put in and never
            // taken out.
            self.view.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
        // SAFETY: allocated in `new` with this layout; both sides are gone, so nothing uses it any
        // more.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// A ring for at least `capacity` elements (rounded up to a power of two).
///
/// # Panics
/// Where no memory is that large.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let region = Arc::new(Region::new(capacity));
    // SAFETY: the one writer there ever is; `region` keeps the memory.
    let writer = unsafe { Writer::new(region.view) }.expect("a new ring");
    // SAFETY: the one reader.
    let reader = unsafe { Reader::new(region.view) }.expect("a new ring");
    (Producer { writer, _region: region.clone() }, Consumer { reader, _region: region })
}

/// Puts elements in. What is staged when it is dropped is published.
pub struct Producer<T> {
    // Dropped before the region.
    writer: Writer<T>,
    _region: Arc<Region<T>>,
}

/// On the heap only the two sides write the indices.
const SOUND: &str = "the ring's indices are corrupt: memory was overwritten";

impl<T> Producer<T> {
    /// Puts one element in and shows it, together with everything staged before.
    ///
    /// # Errors
    /// [`Full`] with the value.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        self.stage(value)?;
        self.publish();
        Ok(())
    }

    /// Puts one element in; the consumer sees it after [`Producer::publish`].
    ///
    /// # Errors
    /// [`Full`] with the value; what was staged before stays staged.
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), Full<T>> {
        if !self.writer.has_room().expect(SOUND) {
            return Err(Full(value));
        }
        // SAFETY: there is room.
        unsafe { self.writer.stage(value) };
        Ok(())
    }

    /// Shows everything staged, by one store.
    #[inline]
    pub fn publish(&mut self) {
        self.writer.publish();
    }

    /// Takes elements from `values` as long as there is room (never one too many), shows them all
    /// at once, and answers how many.
    pub fn push_from(&mut self, values: &mut impl Iterator<Item = T>) -> usize {
        let mut pushed = 0;
        while self.writer.has_room().expect(SOUND) {
            let Some(value) = values.next() else { break };
            // SAFETY: there is room. Should `next` panic, what is staged so far is published by
            // the next operation or the drop.
            unsafe { self.writer.stage(value) };
            pushed += 1;
        }
        self.publish();
        pushed
    }

    /// How many there is room for now; the consumer can only make it more. Looks at the consumer's
    /// index: to learn whether there is any room at all, [`Producer::is_full`] is cheaper.
    #[inline]
    pub fn free(&mut self) -> usize {
        self.writer.free().expect(SOUND)
    }

    /// Whether there is no room.
    #[inline]
    pub fn is_full(&mut self) -> bool {
        !self.writer.has_room().expect(SOUND)
    }

    /// How many are staged and not published.
    #[must_use]
    pub fn staged(&self) -> usize {
        self.writer.staged()
    }

    /// How many elements the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.writer.capacity()
    }

    /// The consumer has been dropped.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.writer.is_abandoned()
    }
}

/// Looks at a ring, from any thread.
pub struct Gauge<T> {
    region: Arc<Region<T>>,
}

impl<T> Gauge<T> {
    /// Whether there was nothing in it, published and not taken out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.region.view.header().is_empty()
    }
}

/// Takes elements out, in order.
pub struct Consumer<T> {
    // Dropped before the region.
    reader: Reader<T>,
    _region: Arc<Region<T>>,
}

impl<T> Consumer<T> {
    /// Moves the next element out; the caller publishes.
    ///
    /// # Safety
    /// The cached index says that there is one.
    #[inline]
    unsafe fn take(&mut self) -> T {
        // SAFETY: by this function's contract. The slot holds a value, which is moved out once:
        // the head has passed it.
        unsafe { self.reader.next().with(|slot| slot.read().assume_init()) }
    }

    /// The next element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: not empty.
        let value = unsafe { self.take() };
        self.reader.publish();
        Some(value)
    }

    /// Moves at most `max` elements to the end of `out`, gives all their places back at once, and
    /// answers how many. Allocates only where `out` lacks room.
    pub fn pop_batch(&mut self, out: &mut Vec<T>, max: usize) -> usize {
        let mut available = self.reader.cached();
        if available < max {
            available = self.len();
        }
        let count = available.min(max);
        if count == 0 {
            return 0;
        }
        out.reserve(count);
        for _ in 0..count {
            // SAFETY: the cached index covers `count`.
            out.push(unsafe { self.take() });
        }
        self.reader.publish();
        count
    }

    /// For code that has neither end, and wants to know whether there is something in it.
    #[must_use]
    pub fn gauge(&self) -> Gauge<T> {
        Gauge { region: self._region.clone() }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.reader.is_empty().expect(SOUND)
    }

    /// A hint, for a consumer that is about to look after a while of other work: both cache lines
    /// that a new element comes in begin to travel now, side by side. Not for a loop that polls: it
    /// would take the lines away from a producer that is writing them.
    #[inline]
    pub fn prefetch(&self) {
        self.reader.prefetch();
    }

    /// A word of the producer's index and what it was at the last look at it: as long as it stays so
    /// nothing was put in. To be read by code outside of Rust, while this consumer lives.
    #[cfg(not(loom))]
    #[must_use]
    pub fn watched(&self) -> (*const std::sync::atomic::AtomicU32, u32) {
        self.reader.watched()
    }

    /// How many are there by the last look at the producer's index, without another one.
    #[inline]
    #[must_use]
    pub fn known(&self) -> usize {
        self.reader.cached()
    }

    /// How many are there now; the producer can only make it more. Looks at the producer's index:
    /// [`Consumer::is_empty`] is cheaper.
    #[inline]
    pub fn len(&mut self) -> usize {
        self.reader.len().expect(SOUND)
    }

    /// How many elements the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reader.capacity()
    }

    /// The producer has been dropped. What it had put in is visible by then: a consumer that sees
    /// this and then finds the ring empty has had everything.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.reader.is_abandoned()
    }
}
