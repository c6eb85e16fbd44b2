//! Frames of bytes in a ring of words that two processes share.
//!
//! One side owns a [`FrameWriter`], the other a [`FrameReader`]; each is given the [`Lane`], which is
//! where the ring lies, with every call. A frame is a word (`tag << 32 | kind << 28 | bytes`) and its
//! payload, and lies in one piece: where it would not fit before the end, a word of the kind `SKIP`
//! sends the reader to the beginning.
//!
//! Neither side trusts the other. Each keeps its own index and never reads it back; the other's index
//! and each frame's word are read once and checked on the copy ([`FrameError::Corrupt`]). All of the
//! lane is atomics, so a peer that writes while its frame is copied spoils the copy and nothing else.
//!
//! [`Bell`] is the word by which a side that goes to sleep asks to be woken.

use crate::sync::{AtomicU64, Ordering, fence};
use std::fmt;

const WORD: usize = size_of::<u64>();
/// Nothing more comes before the end of the ring.
const SKIP: u8 = 15;
const MOST_LEN: u64 = 1 << 28;

/// Where a ring lies.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    tail: &'a AtomicU64,
    head: &'a AtomicU64,
    words: &'a [AtomicU64],
}

/// Why a frame was not put in, or none can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// There is no room for it now.
    Full,
    /// There will never be.
    TooLong,
    /// What the other side wrote can't be.
    Corrupt,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the ring is full",
            Self::TooLong => "the frame is longer than half of the ring",
            Self::Corrupt => "the other side of the ring wrote what can't be",
        })
    }
}

impl std::error::Error for FrameError {}

impl<'a> Lane<'a> {
    /// A ring in `words`, of which frames were written up to `tail` and read up to `head`.
    ///
    /// # Panics
    /// The number of words is no power of two, or below 4.
    #[must_use]
    pub fn new(tail: &'a AtomicU64, head: &'a AtomicU64, words: &'a [AtomicU64]) -> Self {
        assert!(words.len().is_power_of_two() && words.len() >= 4, "{} words", words.len());
        Self { tail, head, words }
    }

    /// The longest payload: a frame has half of the ring at most, so that it fits wherever the
    /// indices stand.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        (self.words.len() / 2 - 1) * WORD
    }

    fn at(&self, index: u64) -> usize {
        index as usize & (self.words.len() - 1)
    }

    /// Words in `head..tail`, if that can be.
    fn filled(&self, head: u64, tail: u64) -> Result<u64, FrameError> {
        let filled = tail.wrapping_sub(head);
        if filled <= self.words.len() as u64 { Ok(filled) } else { Err(FrameError::Corrupt) }
    }
}

/// Puts frames in.
#[derive(Debug, Default)]
pub struct FrameWriter {
    tail: u64,
    /// The reader's index when we looked last.
    head: u64,
}

impl FrameWriter {
    /// Puts one frame in and shows it. `kind` is below 15.
    ///
    /// # Errors
    /// [`FrameError`]; nothing was put in.
    pub fn push(
        &mut self,
        lane: Lane<'_>,
        tag: u32,
        kind: u8,
        payload: &[u8],
    ) -> Result<(), FrameError> {
        debug_assert!(kind < SKIP);
        if !self.has_room(lane, payload.len())? {
            return Err(FrameError::Full);
        }
        let (mut at, size) = (lane.at(self.tail), lane.words.len());
        let needed = 1 + payload.len().div_ceil(WORD);
        if needed > size - at {
            lane.words[at].store(u64::from(SKIP) << 28, Ordering::Relaxed);
            self.tail = self.tail.wrapping_add((size - at) as u64);
            at = 0;
        }
        let word = u64::from(tag) << 32 | u64::from(kind) << 28 | payload.len() as u64;
        lane.words[at].store(word, Ordering::Relaxed);
        let mut chunks = payload.chunks_exact(WORD);
        let places = &lane.words[at + 1..at + needed];
        for (place, chunk) in places.iter().zip(&mut chunks) {
            let chunk = chunk.try_into().expect("a chunk is a word");
            place.store(u64::from_ne_bytes(chunk), Ordering::Relaxed);
        }
        let rest = chunks.remainder();
        if let (Some(place), false) = (places.last(), rest.is_empty()) {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            place.store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(needed as u64);
        lane.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Whether there is room for a payload of so many bytes now.
    ///
    /// # Errors
    /// There never will be, or the reader's index can't be.
    pub fn has_room(&mut self, lane: Lane<'_>, bytes: usize) -> Result<bool, FrameError> {
        if bytes > lane.most_bytes() || bytes as u64 >= MOST_LEN {
            return Err(FrameError::TooLong);
        }
        let (at, size) = (lane.at(self.tail), lane.words.len());
        let needed = 1 + bytes.div_ceil(WORD);
        let skipped = if needed > size - at { size - at } else { 0 };
        let fits = |filled| filled as usize + skipped + needed <= size;
        if fits(self.tail.wrapping_sub(self.head)) {
            return Ok(true);
        }
        let head = lane.head.load(Ordering::Acquire);
        let filled = lane.filled(head, self.tail)?;
        self.head = head;
        Ok(fits(filled))
    }
}

/// A frame that was taken out: a copy, which the other side can't change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// As it was pushed.
    pub tag: u32,
    /// As it was pushed.
    pub kind: u8,
    /// The payload.
    pub bytes: &'a [u8],
}

/// Takes frames out, in order.
#[derive(Debug, Default)]
pub struct FrameReader {
    head: u64,
    /// What the writer may see of it.
    released: u64,
    /// The writer's index when we looked last.
    tail: u64,
}

impl FrameReader {
    /// The next frame, copied to `buffer`, which has nothing else in it then. Its place goes back to the writer
    /// with [`FrameReader::release`].
    ///
    /// # Errors
    /// [`FrameError::Corrupt`]; then it is so for ever.
    pub fn next<'b>(
        &mut self,
        lane: Lane<'_>,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Frame<'b>>, FrameError> {
        if self.head == self.tail {
            let tail = lane.tail.load(Ordering::Acquire);
            lane.filled(self.head, tail)?;
            self.tail = tail;
            if self.head == tail {
                return Ok(None);
            }
        }
        let (mut at, size) = (lane.at(self.head), lane.words.len());
        let mut word = lane.words[at].load(Ordering::Relaxed);
        let mut left = self.tail.wrapping_sub(self.head);
        let kind = |word: u64| (word >> 28) as u8 & 15;
        let mut skipped = 0;
        if kind(word) == SKIP {
            skipped = (size - at) as u64;
            // A frame follows, at the beginning.
            if at == 0 || left <= skipped {
                return Err(FrameError::Corrupt);
            }
            left -= skipped;
            at = 0;
            word = lane.words[0].load(Ordering::Relaxed);
        }
        let bytes = (word & (MOST_LEN - 1)) as usize;
        let needed = 1 + bytes.div_ceil(WORD);
        if kind(word) == SKIP || needed > size / 2 || needed > size - at || needed as u64 > left {
            return Err(FrameError::Corrupt);
        }
        let room = (needed - 1) * WORD;
        buffer.clear();
        buffer.reserve(room);
        let places = &lane.words[at + 1..at + needed];
        for (chunk, place) in buffer.spare_capacity_mut().chunks_exact_mut(WORD).zip(places) {
            chunk.write_copy_of_slice(&place.load(Ordering::Relaxed).to_ne_bytes());
        }
        // SAFETY: there is capacity for as many words as there are places, and each was written; the
        // frame's bytes are no more than those.
        unsafe { buffer.set_len(bytes) };
        self.head = self.head.wrapping_add(skipped + needed as u64);
        Ok(Some(Frame { tag: (word >> 32) as u32, kind: kind(word), bytes: buffer }))
    }

    /// Gives the places of all frames that were taken back to the writer; whether there were any.
    pub fn release(&mut self, lane: Lane<'_>) -> bool {
        let any = self.released != self.head;
        if any {
            self.released = self.head;
            lane.head.store(self.head, Ordering::Release);
        }
        any
    }

    /// Whether there is nothing to take, not even an error.
    #[must_use]
    pub fn is_empty(&self, lane: Lane<'_>) -> bool {
        self.head == self.tail && lane.tail.load(Ordering::Acquire) == self.head
    }
}

/// A word by which one side asks the other to wake it. The asker asks, looks once more for what it
/// waits for, and sleeps only then; the other side makes that visible first and looks at the word
/// then. The fences on both sides make at least one see the other.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'a>(pub &'a AtomicU64);

impl Bell<'_> {
    /// Asks to be woken for any of `reasons`, a set of bits.
    pub fn ask(self, reasons: u64) {
        self.0.store(reasons, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The asker is awake.
    pub fn cease(self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the other side has asked for that: then it is to be woken, and by the caller, who is
    /// told once.
    #[must_use]
    pub fn is_asked(self, reason: u64) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & reason != 0
            && self.0.swap(0, Ordering::Relaxed) & reason != 0
    }
}
