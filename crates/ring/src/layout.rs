//! The one layout of an SPSC ring, on the heap and in shared memory.
//!
//! ```text
//!   0  magic u64 | version u32 | element align u32 | capacity u64 | element size u64
//! 128  tail u64, state u32      written by the producer only
//! 256  head u64, state u32      written by the consumer only
//! 384  slots
//! ```
//!
//! Head and tail count elements since the beginning and wrap at 2⁶⁴; an index is their low bits.
//! The invariant: `tail − head ≤ capacity`. A side that shares the ring with another process checks
//! it, and every field of the header, on a copy that the other side can't change any more.

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use std::alloc;
use std::fmt;
use std::mem::MaybeUninit;

/// "CURTRING", little endian.
#[cfg(not(loom))]
const MAGIC: u64 = u64::from_le_bytes(*b"CURTRING");
/// Of the layout above.
#[cfg(not(loom))]
const VERSION: u32 = 1;
/// Two cache lines: adjacent-line prefetch makes pairs of lines travel together.
pub(crate) const LINE: usize = 128;

/// The side has never been there or is there.
pub(crate) const PRESENT: u32 = 0;
/// The side has said goodbye.
pub(crate) const LEFT: u32 = 1;

/// What one side writes.
#[repr(C, align(128))]
pub(crate) struct Side {
    /// Producer: tail; consumer: head.
    pub(crate) index: AtomicU64,
    /// [`PRESENT`] or [`LEFT`].
    pub(crate) state: AtomicU32,
}

impl Side {
    fn new() -> Self {
        Self { index: AtomicU64::new(0), state: AtomicU32::new(PRESENT) }
    }
}

/// Everything before the slots.
#[repr(C, align(128))]
pub(crate) struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    element_align: AtomicU32,
    capacity: AtomicU64,
    element_size: AtomicU64,
    pub(crate) producer: Side,
    pub(crate) consumer: Side,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Header, magic) == 0);
    assert!(offset_of!(Header, version) == 8);
    assert!(offset_of!(Header, element_align) == 12);
    assert!(offset_of!(Header, capacity) == 16);
    assert!(offset_of!(Header, element_size) == 24);
    assert!(offset_of!(Header, producer) == 128);
    assert!(offset_of!(Header, consumer) == 256);
    assert!(offset_of!(Side, index) == 0);
    assert!(offset_of!(Side, state) == 8);
    assert!(size_of::<Header>() == 384 && align_of::<Header>() == LINE);
};

/// One element's place.
pub(crate) type Slot<T> = UnsafeCell<MaybeUninit<T>>;

impl Header {
    /// An empty ring on the heap: without the magic, as no process attaches to it.
    pub(crate) fn unsealed<T>(capacity: u64) -> Self {
        Self {
            magic: AtomicU64::new(0),
            version: AtomicU32::new(0),
            element_align: AtomicU32::new(align_of::<T>() as u32),
            capacity: AtomicU64::new(capacity),
            element_size: AtomicU64::new(size_of::<T>() as u64),
            producer: Side::new(),
            consumer: Side::new(),
        }
    }

    /// Makes an empty ring of what is all zeroes, the magic last: a side that sees it sees the
    /// rest.
    #[cfg(not(loom))]
    pub(crate) fn seal<T>(&self, capacity: u64) {
        self.element_align.store(align_of::<T>() as u32, Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.element_size.store(size_of::<T>() as u64, Ordering::Relaxed);
        self.version.store(VERSION, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Reads every field once and checks it against `T` and the region's length; the capacity that
    /// holds from now on, whatever the header says later.
    #[cfg(not(loom))]
    pub(crate) fn validate<T>(&self, region_bytes: usize) -> Result<u64, AttachError> {
        let magic = self.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(AttachError::Magic { found: magic });
        }
        let version = self.version.load(Ordering::Relaxed);
        if version != VERSION {
            return Err(AttachError::Version { found: version, expected: VERSION });
        }
        let size = self.element_size.load(Ordering::Relaxed);
        let align = self.element_align.load(Ordering::Relaxed);
        if size != size_of::<T>() as u64 || align as usize != align_of::<T>() {
            return Err(AttachError::Element { size, align });
        }
        let capacity = self.capacity.load(Ordering::Relaxed);
        let needed = usize::try_from(capacity)
            .ok()
            .filter(|capacity| capacity.is_power_of_two())
            .and_then(Layout::bytes_for::<T>)
            .ok_or(AttachError::Capacity { found: capacity })?;
        if needed > region_bytes {
            return Err(AttachError::TooSmall { needed, found: region_bytes });
        }
        Ok(capacity)
    }

    /// Whether all that was put in has been taken out, as far as the caller sees.
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.consumer.index.load(Ordering::Acquire);
        self.producer.index.load(Ordering::Acquire) == head
    }

    /// Head and tail, if they can be those of a ring of `capacity`.
    pub(crate) fn indices(&self, capacity: u64) -> Result<(u64, u64), Corrupt> {
        let tail = self.producer.index.load(Ordering::Acquire);
        let head = self.consumer.index.load(Ordering::Acquire);
        Corrupt::check(head, tail, capacity).map(|_| (head, tail))
    }
}

/// Sizes of rings.
pub struct Layout;

impl Layout {
    /// Alignment of the beginning of a ring, in bytes.
    pub const ALIGN: usize = LINE;

    /// How many bytes a ring of at least `capacity` elements takes, a multiple of
    /// [`Layout::ALIGN`], so that rings may follow one another; `None` where no memory is that large.
    #[must_use]
    pub fn bytes_for<T>(capacity: usize) -> Option<usize> {
        Self::of::<T>(Self::round(capacity)?).map(|(layout, _)| layout.size())
    }

    /// `capacity` as a ring has it: a power of two, at least 1.
    pub(crate) fn round(capacity: usize) -> Option<usize> {
        capacity.checked_next_power_of_two()
    }

    /// The memory of a ring, and where in it the slots begin. `capacity` is a power of two.
    pub(crate) fn of<T>(capacity: usize) -> Option<(alloc::Layout, usize)> {
        const { assert!(align_of::<T>() <= LINE, "elements may be aligned to 128 bytes at most") };
        let slots = alloc::Layout::array::<Slot<T>>(capacity).ok()?;
        let (layout, offset) = alloc::Layout::new::<Header>().extend(slots).ok()?;
        Some((layout.pad_to_align(), offset))
    }
}

/// Why a region is not a ring that one can attach to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The region does not begin at a multiple of [`Layout::ALIGN`].
    Misaligned,
    /// The region is shorter than the ring.
    TooSmall {
        /// Bytes that the ring needs.
        needed: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// It is no ring, or it has not been initialised yet.
    Magic {
        /// What stands in its place.
        found: u64,
    },
    /// Another version's layout.
    Version {
        /// The region's.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// It holds elements of another type.
    Element {
        /// Their size in bytes.
        size: u64,
        /// Their alignment in bytes.
        align: u32,
    },
    /// The capacity is not a power of two, or larger than any memory.
    Capacity {
        /// The region's.
        found: u64,
    },
    /// The indices contradict each other.
    Corrupt(Corrupt),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned => write!(f, "the region is not aligned to {LINE} bytes"),
            Self::TooSmall { needed, found } => {
                write!(f, "the ring takes {needed} bytes, the region has {found}")
            }
            Self::Magic { found } => write!(f, "no ring here (magic {found:#018x})"),
            Self::Version { found, expected } => {
                write!(f, "the ring has version {found}, this program knows {expected}")
            }
            Self::Element { size, align } => {
                write!(f, "the ring holds other elements ({size} bytes, aligned to {align})")
            }
            Self::Capacity { found } => write!(f, "{found} is no ring's capacity"),
            Self::Corrupt(corrupt) => corrupt.fmt(f),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<Corrupt> for AttachError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

/// The other side has written an index that no correct peer writes. Nothing was read or written
/// on its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Elements taken out so far.
    pub head: u64,
    /// Elements put in so far.
    pub tail: u64,
    /// Elements that the ring can hold.
    pub capacity: u64,
}

impl Corrupt {
    /// How many elements are between `head` and `tail`, if that many can be.
    #[inline]
    pub(crate) fn check(head: u64, tail: u64, capacity: u64) -> Result<u64, Self> {
        let len = tail.wrapping_sub(head);
        if len <= capacity { Ok(len) } else { Err(Self { head, tail, capacity }) }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, tail, capacity } = self;
        write!(f, "corrupt ring: head {head} and tail {tail} in a capacity of {capacity}")
    }
}

impl std::error::Error for Corrupt {}
