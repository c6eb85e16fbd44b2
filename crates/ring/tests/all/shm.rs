//! The ring in a region of bytes, with a peer that follows the rules and with one that doesn't.
#![cfg(not(loom))]

use curtail_ring::shm::{Consumer, Producer, PushError, attach_consumer, attach_producer, init_in};
use curtail_ring::{AttachError, Corrupt, Layout};
use proptest::prelude::*;
use std::alloc::{alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Item {
    number: u64,
    half: u32,
    other_half: u32,
}

impl Item {
    fn of(number: u64) -> Self {
        Self { number, half: number as u32, other_half: !(number as u32) }
    }
}

/// Where the fields are: ABI, so it is written out here once more.
const MAGIC: usize = 0;
const VERSION: usize = 8;
const ELEMENT_ALIGN: usize = 12;
const CAPACITY: usize = 16;
const ELEMENT_SIZE: usize = 24;
const TAIL: usize = 128;
const HEAD: usize = 256;
const SLOTS: usize = 384;

/// A stand-in for shared memory: the two sides only ever get its address.
struct Region {
    memory: NonNull<u8>,
    layout: std::alloc::Layout,
}

impl Region {
    fn zeroed(bytes: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(bytes, Layout::ALIGN).unwrap();
        // SAFETY: tests ask for more than no bytes.
        Self { memory: NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap(), layout }
    }

    fn with_ring(capacity: usize) -> Self {
        let region = Self::zeroed(Layout::bytes_for::<Item>(capacity).unwrap());
        // SAFETY: the region is ours and no ring is attached.
        unsafe { init_in::<Item>(region.memory, region.bytes(), capacity) }.unwrap();
        region
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }

    fn producer(&self) -> Result<Producer<Item>, AttachError> {
        // SAFETY: tests drop it before the region and attach one at a time.
        unsafe { attach_producer(self.memory, self.bytes()) }
    }

    fn consumer(&self) -> Result<Consumer<Item>, AttachError> {
        // SAFETY: as for the producer.
        unsafe { attach_consumer(self.memory, self.bytes()) }
    }

    /// What the hostile peer writes with.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.bytes());
        // SAFETY: inside the region, aligned, and atomic like every access of the ring to it.
        unsafe { AtomicU64::from_ptr(self.memory.add(offset).cast().as_ptr()) }
    }

    fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.bytes());
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.memory.add(offset).cast().as_ptr()) }
    }

    /// Writes eight bytes and answers what they were. Accesses are of the fields' own sizes, as
    /// mixed ones are beyond the memory model.
    fn scribble(&self, offset: usize, value: u64) -> u64 {
        let halves = [VERSION, TAIL + 8, HEAD + 8];
        if !halves.contains(&offset) {
            return self.word(offset).swap(value, Ordering::Relaxed);
        }
        let low = self.half_word(offset).swap(value as u32, Ordering::Relaxed);
        let high = self.half_word(offset + 4).swap((value >> 32) as u32, Ordering::Relaxed);
        u64::from(high) << 32 | u64::from(low)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `zeroed`.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let region = Region::with_ring(3);
    assert_eq!(region.bytes(), (SLOTS + 4 * 16).next_multiple_of(Layout::ALIGN));
    assert_eq!(region.word(MAGIC).load(Ordering::Relaxed).to_le_bytes(), *b"CURTRING");
    assert_eq!(region.half_word(VERSION).load(Ordering::Relaxed), 1);
    assert_eq!(region.half_word(ELEMENT_ALIGN).load(Ordering::Relaxed), 8);
    assert_eq!(region.word(CAPACITY).load(Ordering::Relaxed), 4);
    assert_eq!(region.word(ELEMENT_SIZE).load(Ordering::Relaxed), 16);

    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    producer.push(Item::of(7)).unwrap();
    producer.push(Item::of(8)).unwrap();
    assert_eq!(consumer.pop(), Ok(Some(Item::of(7))));
    assert_eq!(region.word(TAIL).load(Ordering::Relaxed), 2);
    assert_eq!(region.word(HEAD).load(Ordering::Relaxed), 1);
    assert_eq!(region.word(SLOTS).load(Ordering::Relaxed), 7);
}

#[test]
fn bytes_for_knows_its_limits() {
    assert_eq!(Layout::bytes_for::<u64>(0), Layout::bytes_for::<u64>(1));
    assert_eq!(Layout::bytes_for::<u64>(usize::MAX), None);
    assert_eq!(Layout::bytes_for::<u64>(1 << 61), None);
}

#[test]
fn full_and_empty_and_goodbye() {
    let region = Region::with_ring(2);
    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    assert_eq!((producer.capacity(), consumer.capacity()), (2, 2));
    producer.stage(Item::of(1)).unwrap();
    assert_eq!(consumer.is_empty(), Ok(true));
    producer.push(Item::of(2)).unwrap();
    assert_eq!(producer.push(Item::of(3)), Err(PushError::Full));
    assert_eq!((producer.free(), consumer.len()), (Ok(0), Ok(2)));
    let mut out = Vec::new();
    assert_eq!(consumer.pop_batch(&mut out, 9), Ok(2));
    assert_eq!(out, [Item::of(1), Item::of(2)]);
    assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    drop(consumer);
    assert!(producer.is_abandoned());
    let consumer = region.consumer().unwrap();
    assert!(!producer.is_abandoned(), "a successor has come");
    drop(producer);
    assert!(consumer.is_abandoned());
}

#[test]
fn a_successor_goes_on_where_the_dead_one_stopped() {
    let region = Region::with_ring(4);
    let mut producer = region.producer().unwrap();
    producer.push(Item::of(1)).unwrap();
    producer.push(Item::of(2)).unwrap();
    producer.stage(Item::of(3)).unwrap();
    std::mem::forget(producer); // It crashed; what it had not published never was.
    let mut consumer = region.consumer().unwrap();
    assert_eq!(consumer.pop(), Ok(Some(Item::of(1))));
    std::mem::forget(consumer);
    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    producer.push(Item::of(4)).unwrap();
    assert_eq!(consumer.pop(), Ok(Some(Item::of(2))));
    assert_eq!(consumer.pop(), Ok(Some(Item::of(4))));
    assert_eq!(consumer.pop(), Ok(None));
}

#[test]
fn indices_wrap() {
    let region = Region::with_ring(4);
    region.word(TAIL).store(u64::MAX - 1, Ordering::Relaxed);
    region.word(HEAD).store(u64::MAX - 1, Ordering::Relaxed);
    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    for lap in 0..3 {
        for i in 0..4 {
            producer.push(Item::of(lap * 4 + i)).unwrap();
        }
        assert_eq!(producer.push(Item::of(99)), Err(PushError::Full));
        for i in 0..4 {
            assert_eq!(consumer.pop(), Ok(Some(Item::of(lap * 4 + i))));
        }
        assert_eq!(consumer.pop(), Ok(None));
    }
    assert_eq!(region.word(TAIL).load(Ordering::Relaxed), 10);
}

#[test]
fn regions_that_are_no_rings_are_refused() {
    let bytes = Layout::bytes_for::<Item>(4).unwrap();
    let region = Region::zeroed(bytes);
    assert_eq!(region.producer().err(), Some(AttachError::Magic { found: 0 }));
    // SAFETY: lengths and addresses below stay inside the region, to which no ring is attached.
    unsafe {
        let odd = region.memory.add(8);
        assert_eq!(init_in::<Item>(odd, bytes - 8, 1), Err(AttachError::Misaligned));
        let small = AttachError::TooSmall { needed: bytes, found: bytes - 1 };
        assert_eq!(init_in::<Item>(region.memory, bytes - 1, 4), Err(small));
        let absurd = init_in::<Item>(region.memory, bytes, usize::MAX);
        assert!(matches!(absurd, Err(AttachError::Capacity { .. })));
        init_in::<Item>(region.memory, bytes, 4).unwrap();
        assert_eq!(attach_consumer::<Item>(region.memory, bytes - 1).err(), Some(small));
        let tiny = AttachError::TooSmall { needed: SLOTS, found: 100 };
        assert_eq!(attach_consumer::<Item>(region.memory, 100).err(), Some(tiny));
        let other = AttachError::Element { size: 16, align: 8 };
        assert_eq!(attach_consumer::<u64>(region.memory, bytes).err(), Some(other));
        assert_eq!(attach_consumer::<[u32; 4]>(region.memory, bytes).err(), Some(other));
    }
}

#[test]
fn every_field_of_the_header_is_checked() {
    let region = Region::with_ring(4);
    let wrong = |offset: usize, value: u64| {
        let before = region.scribble(offset, value);
        let errors = (region.producer().err(), region.consumer().err());
        region.scribble(offset, before);
        assert_eq!(errors.0, errors.1);
        errors.0.unwrap_or_else(|| panic!("{value} at {offset} was accepted"))
    };
    assert_eq!(wrong(MAGIC, 1), AttachError::Magic { found: 1 });
    assert_eq!(wrong(VERSION, 8 << 32 | 2), AttachError::Version { found: 2, expected: 1 });
    assert_eq!(wrong(VERSION, 4 << 32 | 1), AttachError::Element { size: 16, align: 4 });
    assert_eq!(wrong(ELEMENT_SIZE, 17), AttachError::Element { size: 17, align: 8 });
    for found in [0, 3, 5, u64::MAX, 1 << 63, 1 << 60] {
        assert_eq!(wrong(CAPACITY, found), AttachError::Capacity { found });
    }
    let found = region.bytes();
    assert_eq!(wrong(CAPACITY, 16), AttachError::TooSmall { needed: SLOTS + 16 * 16, found });
    for tail in [5, u64::MAX, 1 << 63] {
        let corrupt = Corrupt { head: 0, tail, capacity: 4 };
        assert_eq!(wrong(TAIL, tail), AttachError::Corrupt(corrupt));
    }
    let corrupt = Corrupt { head: 1, tail: 0, capacity: 4 };
    assert_eq!(wrong(HEAD, 1), AttachError::Corrupt(corrupt));
    assert!(region.producer().is_ok() && region.consumer().is_ok());
}

#[test]
fn what_was_checked_is_never_read_again() {
    let region = Region::with_ring(4);
    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    for offset in [MAGIC, VERSION, CAPACITY, ELEMENT_SIZE] {
        region.scribble(offset, u64::MAX);
    }
    for lap in 0..3 {
        for i in 0..4 {
            producer.push(Item::of(lap + i)).unwrap();
        }
        assert_eq!(producer.push(Item::of(0)), Err(PushError::Full));
        for i in 0..4 {
            assert_eq!(consumer.pop(), Ok(Some(Item::of(lap + i))));
        }
    }
}

#[test]
fn an_impossible_index_is_an_error_and_passes_with_its_cause() {
    let region = Region::with_ring(4);
    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    for i in 0..4 {
        producer.push(Item::of(i)).unwrap();
    }
    let head = 5; // More taken out than was put in.
    region.word(HEAD).store(head, Ordering::Relaxed);
    let corrupt = Corrupt { head, tail: 4, capacity: 4 };
    assert_eq!(producer.push(Item::of(9)), Err(PushError::Corrupt(corrupt)));
    assert_eq!(producer.free(), Err(corrupt));
    assert_eq!(corrupt.to_string(), "corrupt ring: head 5 and tail 4 in a capacity of 4");
    region.word(HEAD).store(0, Ordering::Relaxed);
    assert_eq!(producer.push(Item::of(9)), Err(PushError::Full));

    let tail = 1 << 40;
    region.word(TAIL).store(tail, Ordering::Relaxed);
    let corrupt = Corrupt { head: 0, tail, capacity: 4 };
    let mut out = Vec::new();
    assert_eq!(consumer.pop(), Err(corrupt));
    assert_eq!(consumer.len(), Err(corrupt));
    assert_eq!(consumer.is_empty(), Err(corrupt));
    assert_eq!(consumer.pop_batch(&mut out, 2), Err(corrupt));
    assert!(out.is_empty());
    region.word(TAIL).store(4, Ordering::Relaxed);
    assert_eq!(consumer.pop(), Ok(Some(Item::of(0))));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 2_000 }, failure_persistence: None, ..Default::default()
    })]

    /// A peer writes anything to any word between any two operations: no panic, no element beyond
    /// the capacity, and (under miri and the allocator's eyes) no access outside the region.
    #[test]
    fn scribbling_does_no_harm(
        scribbles in prop::collection::vec(
            (0..56usize, prop_oneof![any::<u64>(), 0..10u64, (u64::MAX - 9)..=u64::MAX], 0..5u8),
            1..40,
        ),
    ) {
        let region = Region::with_ring(8);
        let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
        let mut out = Vec::new();
        for (word, value, operation) in scribbles {
            region.scribble(word * 8, value);
            match operation {
                0 => _ = producer.push(Item::of(value)),
                1 => _ = producer.stage(Item::of(value)),
                2 => _ = consumer.pop(),
                3 => if let Ok(count) = consumer.pop_batch(&mut out, 100) {
                    prop_assert!(count <= 8);
                },
                _ => {
                    drop((producer, consumer));
                    let Ok(new) = region.producer() else { return Ok(()) };
                    producer = new;
                    let Ok(new) = region.consumer() else { return Ok(()) };
                    consumer = new;
                }
            }
        }
    }
}

#[test]
fn order_is_kept_across_threads() {
    let count = if cfg!(miri) { 200 } else { 200_000 };
    let region = Region::with_ring(16);
    let (mut producer, mut consumer) = (region.producer().unwrap(), region.consumer().unwrap());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0;
            while next < count {
                match producer.push(Item::of(next)) {
                    Ok(()) => next += 1,
                    Err(PushError::Full) => thread::yield_now(),
                    Err(PushError::Corrupt(corrupt)) => panic!("{corrupt}"),
                }
            }
        });
        let mut out = Vec::new();
        let mut expected = 0;
        while expected < count {
            if consumer.pop_batch(&mut out, 5).unwrap() == 0 {
                thread::yield_now();
            }
            for item in out.drain(..) {
                assert_eq!(item, Item::of(expected));
                expected += 1;
            }
        }
    });
    assert!(consumer.is_abandoned());
}
