//! Requests in a byte stream: frames (a length, then that many bytes), or HTTP/1.1 ([`crate::http`]), of
//! which each request, head and body, counts as a frame. The length is a little-endian `u32`, or of short
//! frames a big-endian `u16`.
//!
//! [`Framer`] is a pure state machine, one per connection, on the dispatcher's thread. A frame that
//! lies whole in what was just read is lent out where it lies; only the beginning of a frame whose
//! end has not come is copied and kept, and so is a body in chunks, which are joined there.
//! Invariant: memory grows with the bytes that came, never with the length that a peer announced.

use crate::http::{self, Asked, Chunks, Refusal, Whole};

/// Bytes of the length in front of each frame.
pub const HEADER_BYTES: usize = 4;

/// Bytes of the length in front of each short frame.
const SHORT_HEADER_BYTES: usize = 2;

/// A buffer larger than this is freed once it is empty.
const KEEP_BYTES: usize = 4 << 10;

/// A peer announced a frame above the limit: the stream can't be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The announced length in bytes.
    pub announced: u32,
}

/// A frame, and what the answer to a request of HTTP depends on.
type Cut<'a> = (&'a [u8], Option<Asked>);

/// Cuts a stream into frames.
#[derive(Debug)]
pub struct Framer {
    /// Bytes of earlier input; those before `start` are done with.
    held: Vec<u8>,
    start: usize,
    limit: usize,
    /// Frames are short ones.
    short: bool,
    http: Option<Http>,
}

/// What is known of the request that `held` begins with.
#[derive(Debug, Default)]
struct Http {
    /// So many of its bytes were looked at, and are no whole head.
    seen: usize,
    found: Option<Result<Whole, Refusal>>,
    /// Its body comes in chunks, not all of which have come.
    chunks: Option<Chunks>,
    /// [`http::CONTINUE`] was asked for: each request does so once.
    continued: bool,
    /// The last request said that no more come: what does is not looked at.
    ended: bool,
}

impl Http {
    /// Looks at what is held from `start` on, as far as that may tell something new, and joins
    /// chunks.
    fn look(&mut self, held: &mut Vec<u8>, start: usize, limit: usize) {
        if self.found.is_none() && !self.ended {
            self.look_at_head(&held[start..], limit);
        }
        let Some(chunks) = &mut self.chunks else { return };
        match chunks.join(held, start, limit) {
            Ok(None) => return,
            Ok(Some(end)) => {
                self.found = self.found.map(|found| found.map(|whole| Whole { end, ..whole }));
            }
            Err(refusal) => self.found = Some(Err(refusal)),
        }
        self.chunks = None;
    }

    fn look_at_head(&mut self, held: &[u8], limit: usize) {
        // A head ends with a line.
        let new = held.get(self.seen..).unwrap_or_default();
        let tells = new.contains(&b'\n') || held.len() >= http::MOST_HEAD;
        // What can be no request is to be refused before its first line ends.
        if tells || self.seen == 0 && !held.is_empty() {
            self.found = http::look(held, limit).transpose();
        }
        self.seen = held.len();
        if let Some(Ok(Whole { head, end: Whole::OPEN, .. })) = self.found {
            self.chunks = Some(Chunks::after(head));
        }
    }

    /// The request at the front has been handed over.
    fn next(&mut self, whole: Whole) {
        *self = Self { ended: !whole.asked.keep, ..Self::default() };
    }
}

impl Framer {
    /// For frames of up to `limit` bytes, header not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { held: Vec::new(), start: 0, limit, short: false, http: None }
    }

    /// For short frames, as DNS has them over TCP (RFC 1035 §4.2.2), of up to `limit` bytes.
    #[must_use]
    pub const fn short(limit: usize) -> Self {
        Self { held: Vec::new(), start: 0, limit, short: true, http: None }
    }

    /// For requests of HTTP/1.1 with bodies of up to `limit` bytes.
    #[must_use]
    pub fn http(limit: usize) -> Self {
        Self { http: Some(Http::default()), ..Self::new(limit) }
    }

    pub(crate) const fn is_http(&self) -> bool {
        self.http.is_some()
    }

    /// What is wrong with the request at the front, after [`TooLong`].
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.http.as_ref()?.found?.err()
    }

    /// Of HTTP, after [`TooLong`]: the status that says what is wrong with the request at the front.
    #[must_use]
    pub fn refused_with(&self) -> Option<u16> {
        self.refusal().map(Refusal::status)
    }

    /// The last request said that no more come.
    pub(crate) fn is_ended(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.ended)
    }

    /// Whether the client waits for a word before it sends a body. Asked once.
    pub(crate) fn wants_continue(&mut self) -> bool {
        let Some(http) = &mut self.http else { return false };
        let waits = matches!(http.found, Some(Ok(Whole { waits: true, .. })));
        waits && !std::mem::replace(&mut http.continued, true)
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
        let found = self.next_asked(input)?;
        Ok(found.map(|(frame, _)| frame))
    }

    /// [`Framer::next`], with what the answer to a request of HTTP depends on.
    pub(crate) fn next_asked<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Cut<'a>>, TooLong> {
        if self.http.is_some() {
            let found = self.next_http(input)?;
            return Ok(found.map(|(request, asked)| (request, Some(asked))));
        }
        let found = self.next_frame(input)?;
        Ok(found.map(|frame| (frame, None)))
    }

    fn next_frame<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'a [u8]>, TooLong> {
        if self.start == self.held.len() {
            self.clear();
            return match self.measure(input)? {
                Some(end) if end <= input.len() => {
                    let (frame, rest) = input.split_at(end);
                    *input = rest;
                    Ok(Some(&frame[self.header()..]))
                }
                _ => {
                    self.held.extend_from_slice(input);
                    *input = &[];
                    Ok(None)
                }
            };
        }
        self.fill(self.header(), input);
        let Some(end) = self.measure(&self.held[self.start..])? else { return Ok(None) };
        self.fill(end, input);
        let begin = self.start;
        if self.held.len() < begin + end {
            return Ok(None);
        }
        self.start = begin + end;
        Ok(Some(&self.held[begin + self.header()..begin + end]))
    }

    fn next_http<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<(&'a [u8], Asked)>, TooLong> {
        const NOT_TAKEN: TooLong = TooLong { announced: 0 };
        if self.is_ended() {
            *input = &[];
            return Ok(None);
        }
        let Some(http) = &mut self.http else { return Ok(None) };
        if self.start == self.held.len() {
            if input.is_empty() {
                return Ok(None);
            }
            match http::look(input, self.limit) {
                Ok(Some(whole)) if whole.end <= input.len() => {
                    http.next(whole);
                    let (request, rest) = input.split_at(whole.end);
                    *input = rest;
                    return Ok(Some((request, whole.asked)));
                }
                _ => {
                    http.found = None;
                    http.seen = 0;
                    self.held.clear();
                    self.start = 0;
                }
            }
        }
        self.hold(input);
        *input = &[];
        let Some(http) = &mut self.http else { return Ok(None) };
        let whole = match http.found {
            Some(Ok(whole)) => whole,
            Some(Err(_)) => return Err(NOT_TAKEN),
            None => return Ok(None),
        };
        let begin = self.start;
        if self.held.len() - begin < whole.end {
            return Ok(None);
        }
        self.start = begin + whole.end;
        http.next(whole);
        http.look(&mut self.held, self.start, self.limit);
        Ok(Some((&self.held[begin..self.start], whole.asked)))
    }

    /// Keeps `input` for later calls of [`Framer::next`], undecoded.
    pub fn hold(&mut self, input: &[u8]) {
        if !input.is_empty() && !self.is_ended() {
            self.compact();
            self.held.extend_from_slice(input);
            if let Some(http) = &mut self.http {
                http.look(&mut self.held, 0, self.limit);
            }
        }
    }

    /// Whether [`Framer::next`] has an answer without further input: a frame or an error.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let held = &self.held[self.start..];
        if let Some(http) = &self.http {
            return !http.ended
                && match http.found {
                    Some(Ok(whole)) => whole.end <= held.len(),
                    Some(Err(_)) => true,
                    None => false,
                };
        }
        match self.measure(held) {
            Ok(end) => end.is_some_and(|end| end <= held.len()),
            Err(_) => true,
        }
    }

    /// Bytes held: those of a frame whose end has not come, and those that were put off.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        if self.is_ended() { 0 } else { self.held.len() - self.start }
    }

    /// Bytes of memory that the framer has.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Forgets what is held.
    pub fn clear(&mut self) {
        self.start = 0;
        if let Some(http) = &mut self.http {
            *http = Http { ended: http.ended, ..Http::default() };
        }
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

    const fn header(&self) -> usize {
        if self.short { SHORT_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// Header and payload of the frame at the front of `bytes`, in bytes, where the header is there.
    fn measure(&self, bytes: &[u8]) -> Result<Option<usize>, TooLong> {
        let announced = match self.short {
            true => bytes.first_chunk().map(|header| u16::from_be_bytes(*header).into()),
            false => bytes.first_chunk().map(|header| u32::from_le_bytes(*header)),
        };
        let Some(announced) = announced else { return Ok(None) };
        let length = announced as usize;
        if length > self.limit {
            Err(TooLong { announced })
        } else {
            Ok(Some(self.header() + length))
        }
    }
}
