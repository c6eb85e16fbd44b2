//! Files for threads.
//!
//! [`File`], [`OpenOptions`], [`read`], [`read_to_string`] and [`write()`] are std's of these names, with
//! std's signatures, and one difference: what blocks, blocks the thread that calls, and its kthread
//! goes on with others. Where the kernel has io_uring, opening, reading, writing and syncing are
//! operations of the kthread's ring; elsewhere, and for what else may block, an ordinary thread makes
//! the system call ([`blocking`](fn@crate::blocking)). On a plain thread they are std's.
//!
//! Nothing ends such a call early: a [`timeout`](crate::time::timeout) around it, and a cancellation of
//! the request, count from the next wait after it.

mod file;
mod options;

pub use file::File;
pub use options::OpenOptions;

use std::io::{self, Read, Write};
use std::path::Path;

/// All bytes of a file, as [`std::fs::read`].
///
/// # Errors
/// As those of opening and reading.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    File::open(path)?.read_to_end(&mut data)?;
    Ok(data)
}

/// A file's text, as [`std::fs::read_to_string`].
///
/// # Errors
/// As those of opening and reading; `InvalidData` where it is not UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a whole file, as [`std::fs::write`].
///
/// # Errors
/// As those of creating and writing.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}
