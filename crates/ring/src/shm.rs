//! The SPSC ring in memory that two processes share.
//!
//! One process calls [`init_in`] once; then one attaches a [`Producer`] and one a [`Consumer`], in
//! whichever processes. Neither side trusts the other: the peer may crash, or write anything
//! anywhere in the region at any moment. What is read is copied first and checked on the copy;
//! elements are [`Pod`], so any bytes are a value (whether they make sense is the caller's to
//! check); a contradiction is an error ([`Corrupt`]), and no access ever leaves the region.
//!
//! A peer that crashes never says goodbye: `is_abandoned` tells of orderly departures only. Its
//! successor attaches to the same region and goes on where the indices stand.

use crate::Pod;
use crate::ends::{Reader, View, Writer};
use crate::layout::{AttachError, Corrupt, Header, Layout, Slot};
use std::fmt;
use std::ptr::NonNull;

/// Why nothing was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// There is no room.
    Full,
    /// The consumer's index can't be right.
    Corrupt(Corrupt),
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the ring is full"),
            Self::Corrupt(corrupt) => corrupt.fmt(f),
        }
    }
}

impl std::error::Error for PushError {}

impl From<Corrupt> for PushError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

fn fits(region: NonNull<u8>, bytes: usize, needed: usize) -> Result<(), AttachError> {
    if !region.as_ptr().addr().is_multiple_of(Layout::ALIGN) {
        return Err(AttachError::Misaligned);
    }
    if bytes < needed {
        return Err(AttachError::TooSmall { needed, found: bytes });
    }
    Ok(())
}

/// Makes an empty ring for at least `capacity` elements of `T` at the beginning of a region of
/// `bytes` bytes.
///
/// # Errors
/// Where the region is misaligned or too small, or no memory is as large as `capacity` asks.
///
/// # Safety
/// The region is `bytes` bytes of writable memory that nothing else in this process accesses; no
/// producer or consumer is attached.
pub unsafe fn init_in<T: Pod>(
    region: NonNull<u8>,
    bytes: usize,
    capacity: usize,
) -> Result<(), AttachError> {
    let impossible = AttachError::Capacity { found: capacity as u64 };
    let rounded = Layout::round(capacity).ok_or(impossible)?;
    fits(region, bytes, Layout::bytes_for::<T>(rounded).ok_or(impossible)?)?;
    let header = region.cast::<Header>();
    // SAFETY: aligned and large enough; ours by this function's contract. Zeroes are a header, and
    // what this process had in the padding's place stays here.
    unsafe {
        header.write_bytes(0, 1);
        header.as_ref().seal::<T>(rounded as u64);
    }
    Ok(())
}

/// # Safety
/// As for [`attach_producer`].
unsafe fn view<T: Pod>(region: NonNull<u8>, bytes: usize) -> Result<View<T>, AttachError> {
    fits(region, bytes, size_of::<Header>())?;
    let header = region.cast::<Header>();
    // SAFETY: aligned and large enough; a header is atomics, of which any bytes are values.
    let capacity = unsafe { header.as_ref() }.validate::<T>(bytes)?;
    let (_, offset) =
        Layout::of::<T>(capacity as usize).ok_or(AttachError::Capacity { found: capacity })?;
    // SAFETY: `validate` has found that the region holds header and slots. Slots are `Pod`, so they
    // are initialised whatever is in them.
    Ok(unsafe { View::new(header, region.add(offset).cast::<Slot<T>>(), capacity) })
}

/// Attaches the producer to the ring in a region of `bytes` bytes.
///
/// # Errors
/// Where there is no ring of `T` in the region.
///
/// # Safety
/// The region is `bytes` bytes of initialised memory (whatever is in it) that stay mapped, readable and writable, as long as the
/// answer lives; this process accesses it by one producer and one consumer at most and in no other
/// way.
pub unsafe fn attach_producer<T: Pod>(
    region: NonNull<u8>,
    bytes: usize,
) -> Result<Producer<T>, AttachError> {
    // SAFETY: this function's contract.
    let view = unsafe { view(region, bytes) }?;
    // SAFETY: the only producer here; another in the peer could spoil elements, which are `Pod`,
    // and indices, which are checked.
    Ok(Producer { writer: unsafe { Writer::new(view) }? })
}

/// Attaches the consumer to the ring in a region of `bytes` bytes.
///
/// # Errors
/// Where there is no ring of `T` in the region.
///
/// # Safety
/// As for [`attach_producer`].
pub unsafe fn attach_consumer<T: Pod>(
    region: NonNull<u8>,
    bytes: usize,
) -> Result<Consumer<T>, AttachError> {
    // SAFETY: this function's contract.
    let view = unsafe { view(region, bytes) }?;
    // SAFETY: the only consumer here; as for the producer.
    Ok(Consumer { reader: unsafe { Reader::new(view) }? })
}

/// Attaches a gauge to the ring in a region of `bytes` bytes.
///
/// # Errors
/// Where there is no ring of `T` in the region.
///
/// # Safety
/// The region is `bytes` bytes of initialised memory that stay mapped and readable as long as the
/// answer lives; this process accesses its header in no other way than through this module.
pub unsafe fn attach_gauge<T: Pod>(
    region: NonNull<u8>,
    bytes: usize,
) -> Result<Gauge<T>, AttachError> {
    // SAFETY: this function's contract.
    let view = unsafe { view(region, bytes) }?;
    Ok(Gauge { view })
}

/// Tells code that has neither end whether there is something in the ring: a hint.
pub struct Gauge<T> {
    view: View<T>,
}

// SAFETY: it reads the header's atomics and touches no element.
unsafe impl<T> Send for Gauge<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Gauge<T> {}

impl<T> Gauge<T> {
    /// Whether there is no element. A ring whose indices can't be is not empty: its consumer is to
    /// find out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let indices = self.view.header().indices(self.view.capacity() as u64);
        indices.is_ok_and(|(head, tail)| head == tail)
    }
}

/// Puts elements in. What is staged when it is dropped is published.
pub struct Producer<T> {
    writer: Writer<T>,
}

impl<T: Pod> Producer<T> {
    /// Puts one element in and shows it, together with everything staged before.
    ///
    /// # Errors
    /// [`PushError`]; nothing was put in.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), PushError> {
        self.stage(value)?;
        self.publish();
        Ok(())
    }

    /// Puts one element in; the consumer sees it after [`Producer::publish`].
    ///
    /// # Errors
    /// [`PushError`]; nothing was put in.
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), PushError> {
        if !self.writer.has_room()? {
            return Err(PushError::Full);
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

    /// How many there is room for now.
    ///
    /// # Errors
    /// [`Corrupt`] where the consumer's index can't be right.
    pub fn free(&mut self) -> Result<usize, Corrupt> {
        self.writer.free()
    }

    /// How many elements the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.writer.capacity()
    }

    /// The consumer has said goodbye.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.writer.is_abandoned()
    }
}

/// Takes elements out, in order.
pub struct Consumer<T> {
    reader: Reader<T>,
}

impl<T: Pod> Consumer<T> {
    /// # Safety
    /// The cached index says that there is one.
    #[inline]
    unsafe fn take(&mut self) -> T {
        // SAFETY: by this function's contract the slot is in the ring, and any bytes are a `T`.
        // Volatile: the value is copied once, and what the caller checks is what the caller uses,
        // even while the peer scribbles over the slot.
        unsafe { self.reader.next().with(|slot| slot.read_volatile().assume_init()) }
    }

    /// The next element.
    ///
    /// # Errors
    /// [`Corrupt`] where the producer's index can't be right.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<T>, Corrupt> {
        if self.reader.is_empty()? {
            return Ok(None);
        }
        // SAFETY: not empty.
        let value = unsafe { self.take() };
        self.reader.publish();
        Ok(Some(value))
    }

    /// Copies at most `max` elements to the end of `out`, gives all their places back at once, and
    /// answers how many.
    ///
    /// # Errors
    /// [`Corrupt`] where the producer's index can't be right; `out` is unchanged.
    pub fn pop_batch(&mut self, out: &mut Vec<T>, max: usize) -> Result<usize, Corrupt> {
        let mut available = self.reader.cached();
        if available < max {
            available = self.reader.len()?;
        }
        let count = available.min(max);
        if count == 0 {
            return Ok(0);
        }
        out.reserve(count);
        for _ in 0..count {
            // SAFETY: the cached index covers `count`.
            out.push(unsafe { self.take() });
        }
        self.reader.publish();
        Ok(count)
    }

    /// How many are there now.
    ///
    /// # Errors
    /// [`Corrupt`] where the producer's index can't be right.
    pub fn len(&mut self) -> Result<usize, Corrupt> {
        self.reader.len()
    }

    /// Whether there is none.
    ///
    /// # Errors
    /// [`Corrupt`] where the producer's index can't be right.
    pub fn is_empty(&mut self) -> Result<bool, Corrupt> {
        self.reader.is_empty()
    }

    /// How many elements the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reader.capacity()
    }

    /// The producer has said goodbye.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.reader.is_abandoned()
    }
}
