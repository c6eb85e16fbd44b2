//! Memory that is shared with the kernel, and the four rings in it by which frames change hands.
//!
//! A ring has one producer and one consumer, of which the kernel is one. Who has a [`Ring`] is the
//! other: it writes its own index and reads the kernel's. Invariant: an entry is read or written only
//! between the two indices, on the side that is ours.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Mapped memory.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread; access goes by the methods, whose callers
// see to it that no two of them touch the same bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of our own.
    pub(super) fn anonymous(bytes: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel likes, is nobody else's.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, bytes })
    }

    /// A ring of a socket.
    fn of(socket: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: as above.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, socket, offset) }?;
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, bytes })
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where so many bytes lie, if they do.
    fn place(&self, at: u64, bytes: usize) -> Option<NonNull<u8>> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(bytes)?;
        // SAFETY: within the mapping, as the comparison says.
        (end <= self.bytes).then(|| unsafe { self.start.add(at) })
    }

    /// # Safety
    /// Neither the kernel nor another thread writes these bytes as long as the slice lives.
    pub(super) unsafe fn slice(&self, at: u64, bytes: usize) -> Option<&[u8]> {
        let place = self.place(at, bytes)?;
        // SAFETY: within the mapping, which lives as long as `self`; nobody writes, says the caller.
        Some(unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes) })
    }

    /// # Safety
    /// Nobody else reads or writes these bytes as long as the slice lives.
    #[expect(clippy::mut_from_ref, reason = "frames of one memory are lent to several threads")]
    pub(super) unsafe fn slice_mut(&self, at: u64, bytes: usize) -> Option<&mut [u8]> {
        let place = self.place(at, bytes)?;
        // SAFETY: within the mapping, which lives as long as `self`; it is the caller's alone.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), bytes) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and no pointer into it is left: all are below `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// What lies in rings: any bytes are a value.
pub(super) trait Entry: Copy {}

impl Entry for u64 {}

/// A frame with its length, as `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) options: u32,
}

impl Entry for Descriptor {}

/// One of the rings.
pub(super) struct Ring<T> {
    /// Keeps the pointers true.
    _memory: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
}

// SAFETY: the pointers lead into the mapping that the ring owns.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `size` entries, a power of two, which the socket has been told of.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        at: &XdpRingOffset,
        size: u32,
    ) -> Result<Self, Errno> {
        // Kernels before 5.4 have no flags, and are told of all.
        let flags = at.flags.ok_or(Errno::NOSYS)?;
        let entries = size as usize * size_of::<T>();
        let memory = Mapping::of(socket, page, at.desc as usize + entries)?;
        let word = |at| memory.place(at, 4).map(NonNull::cast::<AtomicU32>).ok_or(Errno::INVAL);
        Ok(Self {
            producer: word(at.producer)?,
            consumer: word(at.consumer)?,
            flags: word(flags)?,
            entries: memory.place(at.desc, entries).ok_or(Errno::INVAL)?.cast(),
            size,
            _memory: memory,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of the mapping, which both sides access atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// Whether the kernel wants to be called before it looks.
    pub(super) fn needs_wake(&self) -> bool {
        // SAFETY: as above.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }

    /// Entries between producer and consumer.
    pub(super) fn filled(&self) -> u32 {
        let producer = self.producer().load(Ordering::Acquire);
        producer.wrapping_sub(self.consumer().load(Ordering::Acquire)).min(self.size)
    }

    /// As consumer: takes entries out, as many as there are and have room.
    pub(super) fn take(&mut self, into: &mut [T]) -> usize {
        let first = self.consumer().load(Ordering::Relaxed);
        let count = (self.filled() as usize).min(into.len());
        for (index, to) in into[..count].iter_mut().enumerate() {
            let at = first.wrapping_add(index as u32) & (self.size - 1);
            // SAFETY: within the ring by the mask, and between the indices, where the producer does not
            // write; its index was read with `Acquire`. Any bytes are a value.
            *to = unsafe { self.entries.add(at as usize).read() };
        }
        self.consumer().store(first.wrapping_add(count as u32), Ordering::Release);
        count
    }

    /// As producer: puts one in. False: the ring is full.
    pub(super) fn put(&mut self, entry: T) -> bool {
        if self.filled() == self.size {
            return false;
        }
        let at = self.producer().load(Ordering::Relaxed);
        // SAFETY: within the ring by the mask, and not between the indices: the consumer, whose index
        // was read with `Acquire`, has done with that entry.
        unsafe { self.entries.add((at & (self.size - 1)) as usize).write(entry) };
        self.producer().store(at.wrapping_add(1), Ordering::Release);
        true
    }
}
