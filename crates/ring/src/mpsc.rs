//! The bounded queue of many producers and one consumer.
//!
//! Any thread may hold a [`Sender`]; one holds the [`Receiver`]. Each slot carries a sequence
//! number that says whose turn it is (the scheme of Dmitry Vyukov's bounded queue): `pos` means
//! that the sender which claims position `pos` may write, `pos + 1` that the receiver may read, and
//! reading sets it to `pos + capacity`, the next lap's sender.
//!
//! A sender claims its position by one compare-and-swap on the tail; the Release store of the
//! sequence number hands the slot over.
//!
//! No operation waits for another thread. The order is that of the claims: while a sender is
//! between its claim and its store, the receiver finds the queue empty although later senders may
//! have finished. So each sender that wakes the receiver does it for itself, after its own `push`
//! has returned.

use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};
use crate::{CachePadded, Full};
use std::mem::MaybeUninit;

struct Slot<T> {
    turn: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

struct Shared<T> {
    /// The next position to claim.
    tail: CachePadded<AtomicUsize>,
    senders: CachePadded<AtomicUsize>,
    receiver_left: AtomicBool,
    slots: Box<[Slot<T>]>,
}

// SAFETY: a slot's value is touched only by the thread whose turn it is, so values cross threads
// but are never shared.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let mask = self.slots.len() - 1;
        for (index, slot) in self.slots.iter().enumerate() {
            // A free slot's turn is congruent to its index, a full one's to its index + 1.
            if slot.turn.load(Ordering::Relaxed) & mask == (index + 1) & mask {
                // SAFETY: written and not read; no sender or receiver is left.
                slot.value.with_mut(|value| unsafe { (*value).assume_init_drop() });
            }
        }
    }
}

/// A queue for at least `capacity` elements (rounded up to a power of two, at least 2).
///
/// # Panics
/// Where no memory is that large.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(2).checked_next_power_of_two().expect("capacity overflow");
    let slot = |index| Slot {
        turn: AtomicUsize::new(index),
        value: UnsafeCell::new(MaybeUninit::uninit()),
    };
    let shared = Arc::new(Shared {
        tail: CachePadded::new(AtomicUsize::new(0)),
        senders: CachePadded::new(AtomicUsize::new(1)),
        receiver_left: AtomicBool::new(false),
        slots: (0..capacity).map(slot).collect(),
    });
    (Sender { shared: shared.clone() }, Receiver { shared, head: 0 })
}

/// Puts elements in.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Puts one element in. Lock-free: it starts again only when another sender got ahead.
    ///
    /// # Errors
    /// [`Full`] with the value.
    pub fn push(&self, value: T) -> Result<(), Full<T>> {
        let shared = &*self.shared;
        let mut position = shared.tail.load(Ordering::Relaxed);
        loop {
            let slot = shared.slot(position);
            let ahead = slot.turn.load(Ordering::Acquire).wrapping_sub(position) as isize;
            if ahead == 0 {
                // Relaxed: the claim orders nothing, `turn` does.
                match shared.tail.compare_exchange_weak(
                    position,
                    position.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        // SAFETY: it was our turn and we alone have claimed the position; the
                        // Acquire load of `turn` puts the receiver's read of the last lap before.
                        slot.value.with_mut(|cell| unsafe { cell.write(MaybeUninit::new(value)) });
                        slot.turn.store(position.wrapping_add(1), Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => position = now,
                }
            } else if ahead < 0 {
                // The last lap's value has not been read: full, unless our position is stale.
                let now = shared.tail.load(Ordering::Relaxed);
                if now == position {
                    return Err(Full(value));
                }
                position = now;
            } else {
                position = shared.tail.load(Ordering::Relaxed);
            }
        }
    }

    /// How many elements the queue holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// The receiver has been dropped.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.shared.receiver_left.load(Ordering::Acquire)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.senders.fetch_sub(1, Ordering::Release);
    }
}

/// Takes elements out.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The next position to read.
    head: usize,
}

impl<T> Receiver<T> {
    /// The next element; `None` also while the sender whose turn it is has not finished its push.
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let slot = self.shared.slot(self.head);
        // SAFETY: `is_empty` saw, with Acquire, that it is the receiver's turn; the value is moved
        // out once, as the turn then passes to the next lap's sender.
        let value = slot.value.with(|cell| unsafe { cell.read().assume_init() });
        slot.turn.store(self.head.wrapping_add(self.shared.slots.len()), Ordering::Release);
        self.head = self.head.wrapping_add(1);
        Some(value)
    }

    /// Whether [`Receiver::pop`] would find nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let turn = self.shared.slot(self.head).turn.load(Ordering::Acquire);
        turn != self.head.wrapping_add(1)
    }

    /// How many elements the queue holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// All senders have been dropped. A receiver that sees this and then finds the queue empty has
    /// had everything.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.shared.senders.load(Ordering::Acquire) == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receiver_left.store(true, Ordering::Release);
    }
}
