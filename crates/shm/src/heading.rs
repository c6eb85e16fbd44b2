//! What every shared memory of ours begins with, and how it is checked.

use crate::memory::MapError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is to stand in a heading.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) magic: u64,
    pub(crate) version: u32,
    pub(crate) header_bytes: u32,
    pub(crate) line_bytes: u32,
}

/// The first field of a header.
#[repr(C)]
pub(crate) struct Heading {
    magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) header_bytes: AtomicU32,
    pub(crate) line_bytes: AtomicU32,
    /// Of the lines that follow the header.
    pub(crate) count: AtomicU32,
}

impl Heading {
    /// Writes everything; the magic last, so that a side that sees it sees what was written before.
    pub(crate) fn write(&self, kind: &Kind, count: u32) {
        self.version.store(kind.version, Ordering::Relaxed);
        self.header_bytes.store(kind.header_bytes, Ordering::Relaxed);
        self.line_bytes.store(kind.line_bytes, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        self.magic.store(kind.magic, Ordering::Release);
    }

    /// The count, whatever it is, of memory of that kind.
    pub(crate) fn check(&self, kind: &Kind) -> Result<u32, MapError> {
        if self.magic.load(Ordering::Acquire) != kind.magic {
            return Err(MapError::Magic(kind.name));
        }
        let found = self.version.load(Ordering::Relaxed);
        if found != kind.version {
            return Err(MapError::Version { found, needed: kind.version });
        }
        if self.header_bytes.load(Ordering::Relaxed) != kind.header_bytes
            || self.line_bytes.load(Ordering::Relaxed) != kind.line_bytes
        {
            return Err(MapError::Header("its sizes"));
        }
        Ok(self.count.load(Ordering::Relaxed))
    }
}
