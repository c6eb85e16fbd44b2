//! The memory of one session: made by the server, passed to the client, written by both.
//!
//! ```text
//!  word 0  magic | version + requests << 32 | words of a ring
//!      16  tail of the requests     32  head of the requests
//!      48  tail of the answers      64  head of the answers
//!      80  the dispatcher sleeps    96  answers wait for room    112  what the client waits for
//!     512  ring of the requests, then that of the answers
//! ```
//!
//! Each side keeps the sizes that it began with, whatever the memory says later.

use curtail_ring::frames::{Bell, Lane};
use curtail_shm::{MapError, Memory};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

const MAGIC: u64 = u64::from_le_bytes(*b"CURTSHM1");
const VERSION: u32 = 1;
/// Where the rings begin, in words.
const RINGS: usize = 512;
/// The smallest and the largest ring in bytes.
pub(super) const RING_BYTES: (usize, usize) = (4 << 10, 64 << 20);
/// Requests that a session may have in progress.
pub(super) const MOST_REQUESTS: usize = 1 << 16;

/// The kinds of frames: requests and answers, and why there is no answer.
pub(super) const PLAIN: u8 = 0;
pub(super) const SILENT: u8 = 1;
pub(super) const FAILED: u8 = 2;
pub(super) const DROPPED: u8 = 3;
pub(super) const CANCELLED: u8 = 4;
pub(super) const TOO_LONG: u8 = 5;

/// What a bell is asked for.
pub(super) const MORE: u64 = 1;
pub(super) const ROOM: u64 = 2;

pub(super) struct Segment {
    memory: Memory,
    ring_words: usize,
}

impl Segment {
    /// Both are powers of two.
    pub(super) fn create(ring_bytes: usize, requests: usize) -> io::Result<Self> {
        let ring_words = ring_bytes / 8;
        let memory = Memory::create_for_both("curtail-shm", (RINGS + 2 * ring_words) * 8)?;
        let words = memory.words();
        words[0].store(MAGIC, Relaxed);
        words[1].store(u64::from(VERSION) | (requests as u64) << 32, Relaxed);
        words[2].store(ring_words as u64, Relaxed);
        Ok(Self { memory, ring_words })
    }

    /// What the server passed, and how many requests may be in progress.
    pub(super) fn open(fd: OwnedFd) -> Result<(Self, usize), MapError> {
        let bytes = |ring: usize| RINGS * 8 + 2 * ring;
        let memory = Memory::share(fd, bytes(RING_BYTES.0), bytes(RING_BYTES.1))?;
        let words = memory.words();
        let heading = [0, 1, 2].map(|at| words[at].load(Relaxed));
        if heading[0] != MAGIC {
            return Err(MapError::Magic("session of shm://"));
        }
        if heading[1] as u32 != VERSION {
            return Err(MapError::Version { found: heading[1] as u32, needed: VERSION });
        }
        let (requests, ring_words) = ((heading[1] >> 32) as usize, heading[2] as usize);
        if !requests.is_power_of_two() || requests > MOST_REQUESTS {
            return Err(MapError::Header("how many requests there may be"));
        }
        let fits = ring_words.checked_mul(2).is_some_and(|both| both == words.len() - RINGS);
        if !fits || !ring_words.is_power_of_two() {
            return Err(MapError::Header("the size of its rings"));
        }
        Ok((Self { memory, ring_words }, requests))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    fn lane(&self, indices: usize, ring: usize) -> Lane<'_> {
        let words = self.memory.words();
        Lane::new(&words[indices], &words[indices + 16], &words[ring..ring + self.ring_words])
    }

    pub(super) fn requests(&self) -> Lane<'_> {
        self.lane(16, RINGS)
    }

    pub(super) fn answers(&self) -> Lane<'_> {
        self.lane(48, RINGS + self.ring_words)
    }

    /// The dispatcher's, for [`MORE`] requests.
    pub(super) fn dispatcher(&self) -> Bell<'_> {
        Bell(&self.memory.words()[80])
    }

    /// Of the answers that wait for [`ROOM`].
    pub(super) fn waiting(&self) -> Bell<'_> {
        Bell(&self.memory.words()[96])
    }

    /// The client's, for [`MORE`] answers, or for [`ROOM`] for requests.
    pub(super) fn client(&self) -> Bell<'_> {
        Bell(&self.memory.words()[112])
    }
}
