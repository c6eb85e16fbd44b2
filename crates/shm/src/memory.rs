//! Sealed memory: made and written by one process, read by others.

use crate::fork::{self, Place};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

/// Why memory of another process is not mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The system says no.
    #[error("shared memory can't be mapped: {0}")]
    System(#[from] io::Error),
    /// Its owner could still cut it off under us.
    #[error("the shared memory's size is not sealed")]
    NotSealed,
    /// The header is not one of ours.
    #[error("the shared memory is no {0}")]
    Magic(&'static str),
    /// Another version of Curtail wrote it.
    #[error("the shared memory is of version {found}, this program needs {needed}")]
    Version {
        /// Its version.
        found: u32,
        /// Ours.
        needed: u32,
    },
    /// The header contradicts itself or the size of the memory.
    #[error("the shared memory's header makes no sense: {0}")]
    Header(&'static str),
}

impl From<rustix::io::Errno> for MapError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// Mapped memory of a whole number of pages, all of it initialised (a memfd begins as zeroes).
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    fd: OwnedFd,
    /// Both sides write it.
    is_shared: bool,
    /// Of memory that was made here: children of this process leave it alone.
    place: Option<&'static Place>,
}

// SAFETY: a mapping is the process's, not a thread's. All access is by atomics through `at`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl Memory {
    /// New memory, writable here and in no other process.
    pub(crate) fn create(name: &str, bytes: usize) -> io::Result<Self> {
        Self::sealed(name, bytes, SealFlags::FUTURE_WRITE)
    }

    /// New memory that the other side writes, too.
    ///
    /// # Errors
    /// There is no more memory, or there are no more descriptors.
    pub fn create_for_both(name: &str, bytes: usize) -> io::Result<Self> {
        let mut memory = Self::sealed(name, bytes, SealFlags::empty())?;
        memory.is_shared = true;
        Ok(memory)
    }

    fn sealed(name: &str, bytes: usize, more: SealFlags) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, bytes as u64)?;
        let mut memory = Self::map(fd, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        // After our own mapping, which `FUTURE_WRITE` leaves as it is.
        fcntl_add_seals(&memory.fd, SIZE | more | SealFlags::SEAL)?;
        memory.place = Some(fork::enter(memory.start, memory.bytes));
        Ok(memory)
    }

    /// Memory of another process, to be read. At least `least` bytes, and no more than `most`.
    pub(crate) fn view(fd: OwnedFd, least: usize, most: usize) -> Result<Self, MapError> {
        Self::of_other(fd, least, most, ProtFlags::READ)
    }

    /// Memory of another process, to be read and written. At least `least` bytes, and no more than `most`.
    ///
    /// # Errors
    /// Its size is another, or could still change.
    pub fn share(fd: OwnedFd, least: usize, most: usize) -> Result<Self, MapError> {
        let mut memory = Self::of_other(fd, least, most, ProtFlags::READ | ProtFlags::WRITE)?;
        memory.is_shared = true;
        Ok(memory)
    }

    fn of_other(
        fd: OwnedFd,
        least: usize,
        most: usize,
        access: ProtFlags,
    ) -> Result<Self, MapError> {
        // Before the size is asked: it can't change any more.
        if !fcntl_get_seals(&fd)?.contains(SIZE) {
            return Err(MapError::NotSealed);
        }
        let bytes = usize::try_from(fstat(&fd)?.st_size).unwrap_or(0);
        if bytes < least || bytes > most {
            return Err(MapError::Header("its size"));
        }
        Ok(Self::map(fd, bytes, access)?)
    }

    fn map(fd: OwnedFd, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping where the kernel likes; nothing of ours is there.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, &fd, 0) }?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at zero");
        Ok(Self { start, bytes, fd, is_shared: false, place: None })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What another process maps it by.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// All of it, as words that either side writes.
    ///
    /// # Panics
    /// It may only be read here.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        assert!(self.is_shared, "memory that both sides write");
        // SAFETY: the mapping is writable, page-aligned, initialised, that long, and lives as long as
        // `self`. Atomics are right whatever others write meanwhile, and any bytes are a value.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// The `T` at `offset`.
    ///
    /// # Safety
    /// `T` consists of atomics only, so any bytes are a value and others may write meanwhile; where
    /// the memory is a view, they are only loaded.
    ///
    /// # Panics
    /// Where it does not lie within the memory, or is misaligned.
    pub(crate) unsafe fn at<T>(&self, offset: usize) -> &T {
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes));
        assert!(offset.is_multiple_of(align_of::<T>()));
        // SAFETY: within the mapping, which is page-aligned and lives as long as `self`; initialised,
        // and shared access is right for atomics, by this function's contract.
        unsafe { self.start.add(offset).cast::<T>().as_ref() }
    }
}

impl Memory {
    /// The bytes at `offset`, for a ring, which checks what the other side writes there.
    ///
    /// # Panics
    /// Where they do not lie within the memory.
    pub(crate) fn region(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        // SAFETY: within the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.leave();
        }
        // SAFETY: mapped by `map` with that size; references into it borrow `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
