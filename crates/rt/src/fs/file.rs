//! An open file.

use super::OpenOptions;
use crate::blocking::blocking;
use crate::socket::uring::{self, Asks};
use crate::thread::KThread;
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::io::Errno;
use std::fs::Metadata;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

/// What one system call moves at most, as in std.
const MOST: usize = 0x7fff_f000;
/// For the kernel: at the file's own position.
const AT_POSITION: u64 = u64::MAX;

/// Has the kthread's ring carry an operation out; `None`: there is none here.
///
/// # Safety
/// What the entry names is the operation's alone, as it needs it, until this returns.
pub(super) unsafe fn by_ring(entry: Entry) -> Option<Result<u32, Errno>> {
    KThread::current_tcb()?;
    loop {
        // SAFETY: by contract.
        match unsafe { uring::uninterruptible(Asks::Files, entry.clone())? } {
            Err(Errno::INTR | Errno::CANCELED) => {}
            result => return Some(result),
        }
    }
}

/// Calls `call` where it may block, as often as a signal ends it.
pub(super) fn retry<T: Send>(mut call: impl FnMut() -> Result<T, Errno> + Send) -> io::Result<T> {
    blocking(|| {
        loop {
            match call() {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    })
}

/// An open file, as [`std::fs::File`]; [`crate::fs`] says what differs.
#[derive(Debug)]
pub struct File {
    file: std::fs::File,
}

impl File {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    /// Makes a file to be written, or empties the one that is there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Makes a file to be read and written.
    ///
    /// # Errors
    /// `AlreadyExists`; what else the kernel says.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// How a file is to be opened.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    fn fd(&self) -> types::Fd {
        types::Fd(self.file.as_raw_fd())
    }

    fn read_from(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = buffer.len().min(MOST);
        let buffer = &mut buffer[..most];
        let read = opcode::Read::new(self.fd(), buffer.as_mut_ptr(), most as u32).offset(offset);
        // SAFETY: the buffer is borrowed, and the file open, until this returns.
        match unsafe { by_ring(read.build()) } {
            Some(read) => Ok(read? as usize),
            None => retry(|| match offset {
                AT_POSITION => rustix::io::read(&self.file, &mut *buffer),
                _ => rustix::io::pread(&self.file, &mut *buffer, offset),
            }),
        }
    }

    fn write_to(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        let data = &data[..data.len().min(MOST)];
        let write = opcode::Write::new(self.fd(), data.as_ptr(), data.len() as u32).offset(offset);
        // SAFETY: the data is borrowed, and the file open, until this returns.
        match unsafe { by_ring(write.build()) } {
            Some(written) => Ok(written? as usize),
            None => retry(|| match offset {
                AT_POSITION => rustix::io::write(&self.file, data),
                _ => rustix::io::pwrite(&self.file, data, offset),
            }),
        }
    }

    fn sync(&self, flags: types::FsyncFlags) -> Option<io::Result<()>> {
        let sync = opcode::Fsync::new(self.fd()).flags(flags).build();
        // SAFETY: the file is open until this returns.
        unsafe { by_ring(sync) }.map(|result| result.map(drop).map_err(io::Error::from))
    }

    /// Reads from `offset` on, wherever the file's position is; how many bytes.
    ///
    /// # Errors
    /// `InvalidInput` for an offset beyond 2⁶³; what the kernel says.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(buffer, valid(offset)?)
    }

    /// Fills the whole buffer from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file ends before; as [`File::read_at`].
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => (buffer, offset) = (&mut buffer[read..], offset + read as u64),
            }
        }
        Ok(())
    }

    /// Writes from `offset` on, wherever the file's position is; how many bytes. A file that was opened
    /// to be appended to is written at its end all the same.
    ///
    /// # Errors
    /// `InvalidInput` for an offset beyond 2⁶³; what the kernel says.
    pub fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(data, valid(offset)?)
    }

    /// Writes all of it from `offset` on.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, mut data: &[u8], mut offset: u64) -> io::Result<()> {
        while !data.is_empty() {
            match self.write_at(data, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => (data, offset) = (&data[written..], offset + written as u64),
            }
        }
        Ok(())
    }

    /// Has all that was written reach the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync_all(&self) -> io::Result<()> {
        match self.sync(types::FsyncFlags::empty()) {
            Some(result) => result,
            None => blocking(|| self.file.sync_all()),
        }
    }

    /// Has what was written reach the disk, without what is not needed to read it again.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync_data(&self) -> io::Result<()> {
        match self.sync(types::FsyncFlags::DATASYNC) {
            Some(result) => result,
            None => blocking(|| self.file.sync_data()),
        }
    }

    /// Its size, times, permissions.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking(|| self.file.metadata())
    }

    /// Cuts it, or fills it up with zeros.
    ///
    /// # Errors
    /// `InvalidInput` for a size beyond 2⁶³; what the kernel says.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        blocking(|| self.file.set_len(size))
    }

    /// A second descriptor of the same file, with the same position.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }
}

/// The kernel takes what is beyond for the file's own position.
fn valid(offset: u64) -> io::Result<u64> {
    match i64::try_from(offset) {
        Ok(_) => Ok(offset),
        Err(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, AT_POSITION)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, AT_POSITION)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_to(data, AT_POSITION)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_to(data, AT_POSITION)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    /// It does not wait.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&self.file).seek(to)
    }
}

impl Seek for File {
    /// It does not wait.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.file.into_raw_fd()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: by contract.
        Self { file: unsafe { std::fs::File::from_raw_fd(fd) } }
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self { file: fd.into() }
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.file.into()
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> Self {
        Self { file }
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> Self {
        file.file
    }
}
