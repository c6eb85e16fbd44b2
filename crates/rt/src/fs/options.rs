//! How a file is opened.

use super::File;
use super::file::{by_ring, retry};
use io_uring::{opcode, types};
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// As [`std::fs::OpenOptions`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// For nothing so far.
    #[must_use]
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
        }
    }

    /// To be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// To be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// To be written at its end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Empty at first.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Made where it is missing.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Made, or else opening it fails.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// The permissions of a new file, before the process's mask. Default: `0o666`.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Opens it.
    ///
    /// # Errors
    /// `InvalidInput` for options that contradict each other, and for a path with a zero byte; what the
    /// kernel says.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let flags = self.flags()?;
        let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
        let mode = Mode::from_raw_mode(self.mode);
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
            .flags(flags.bits().cast_signed())
            .mode(self.mode)
            .build();
        // SAFETY: the path is here until this returns.
        match unsafe { by_ring(open) } {
            // SAFETY: new, and the caller's alone.
            Some(Ok(fd)) => Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }.into()),
            Some(Err(error)) => Err(error.into()),
            None => Ok(retry(|| rustix::fs::open(&path, flags, mode))?.into()),
        }
    }

    /// What std makes of the same.
    fn flags(&self) -> io::Result<OFlags> {
        let contradiction = || io::Error::from(io::ErrorKind::InvalidInput);
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OFlags::RDONLY,
            (false, true, false) => OFlags::WRONLY,
            (true, true, false) => OFlags::RDWR,
            (false, _, true) => OFlags::WRONLY | OFlags::APPEND,
            (true, _, true) => OFlags::RDWR | OFlags::APPEND,
            (false, false, false) => return Err(contradiction()),
        };
        let changes = self.truncate || self.create || self.create_new;
        let is_odd = match (self.write, self.append) {
            (true, false) => false,
            (false, false) => changes,
            (_, true) => self.truncate && !self.create_new,
        };
        if is_odd {
            return Err(contradiction());
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => OFlags::CREATE | OFlags::EXCL,
            (true, true, false) => OFlags::CREATE | OFlags::TRUNC,
            (true, false, false) => OFlags::CREATE,
            (false, true, false) => OFlags::TRUNC,
            (false, false, false) => OFlags::empty(),
        };
        Ok(access | creation | OFlags::CLOEXEC | OFlags::LARGEFILE)
    }
}
