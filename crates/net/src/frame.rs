//! Frames in a byte stream: a little-endian `u32` length, then that many bytes.
//!
//! [`Framer`] is a pure state machine, one per connection, on the dispatcher's thread. A frame that
//! lies whole in what was just read is lent out where it lies; only the beginning of a frame whose
//! end has not come is copied and kept. Invariant: memory grows with the bytes that came, never with
//! the length that a peer announced.

/// Bytes of the length in front of each frame.
pub const HEADER_BYTES: usize = 4;

/// A buffer larger than this is given back once it is empty.
const KEEP_BYTES: usize = 4 << 10;

/// A peer announced a frame above the limit: the stream can't be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The announced length in bytes.
    pub announced: u32,
}

/// Cuts a stream into frames.
#[derive(Debug)]
pub struct Framer {
    /// Bytes of earlier input; those before `start` are done with.
    held: Vec<u8>,
    start: usize,
    limit: usize,
}

impl Framer {
    /// For frames of up to `limit` bytes, header not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { held: Vec::new(), start: 0, limit }
    }

    /// The next whole frame, from what is held and then from the front of `input`, which is
    /// shortened by what was used. `None`: all of `input` was used and the frame's end has not come.
    ///
    /// # Errors
    /// [`TooLong`], again at every further call.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'a [u8]>, TooLong> {
        if self.start == self.held.len() {
            self.clear();
            return match measure(input, self.limit)? {
                Some(end) if end <= input.len() => {
                    let (frame, rest) = input.split_at(end);
                    *input = rest;
                    Ok(Some(&frame[HEADER_BYTES..]))
                }
                _ => {
                    self.held.extend_from_slice(input);
                    *input = &[];
                    Ok(None)
                }
            };
        }
        self.fill(HEADER_BYTES, input);
        let Some(end) = measure(&self.held[self.start..], self.limit)? else { return Ok(None) };
        self.fill(end, input);
        let begin = self.start;
        if self.held.len() < begin + end {
            return Ok(None);
        }
        self.start = begin + end;
        Ok(Some(&self.held[begin + HEADER_BYTES..begin + end]))
    }

    /// Keeps `input` for later calls of [`Framer::next`], undecoded.
    pub fn hold(&mut self, input: &[u8]) {
        if !input.is_empty() {
            self.compact();
            self.held.extend_from_slice(input);
        }
    }

    /// Whether [`Framer::next`] has an answer without further input: a frame or an error.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let held = &self.held[self.start..];
        match measure(held, self.limit) {
            Ok(end) => end.is_some_and(|end| end <= held.len()),
            Err(_) => true,
        }
    }

    /// Bytes held: those of a frame whose end has not come, and those that were put off.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.len() - self.start
    }

    /// Bytes of memory that the framer has.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Forgets what is held.
    pub fn clear(&mut self) {
        self.start = 0;
        if self.held.capacity() > KEEP_BYTES {
            self.held = Vec::new();
        } else {
            self.held.clear();
        }
    }

    /// Moves bytes from `input` until `count` are held, or it is empty.
    fn fill(&mut self, count: usize, input: &mut &[u8]) {
        let missing = count.saturating_sub(self.held_bytes()).min(input.len());
        if missing > 0 {
            let (taken, rest) = input.split_at(missing);
            self.compact();
            self.held.extend_from_slice(taken);
            *input = rest;
        }
    }

    fn compact(&mut self) {
        self.held.drain(..self.start);
        self.start = 0;
    }
}

/// Header and payload of the frame at the front of `bytes`, in bytes, where the header is there.
fn measure(bytes: &[u8], limit: usize) -> Result<Option<usize>, TooLong> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let announced = u32::from_le_bytes(*header);
    let length = announced as usize;
    if length > limit { Err(TooLong { announced }) } else { Ok(Some(HEADER_BYTES + length)) }
}
