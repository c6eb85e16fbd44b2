//! Replies. Layout, little-endian: magic 0, version 1, opcode 2, status 3, body length 4..8, id
//! 8..16, service time 16..24, checksum 24..32, entries 32..36, flags 36..40 (zero), body.

use super::{
    MAX_KEY, MAX_LISTED, MAX_VALUE, Opcode, ProtocolError, REPLY_HEADER, REPLY_MAGIC, VERSION,
    id_of, opcode_of, u32_at, u64_at,
};

/// How a request ended.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// As asked for.
    Ok = 0,
    /// GET: the key has no value.
    NotFound = 1,
    /// The request was malformed; the body says what is wrong.
    BadRequest = 2,
    /// The server had no room for the request and did nothing.
    Overloaded = 3,
    /// The server failed; the body says why. Whether a write took place is not known.
    Failed = 4,
}

impl Status {
    const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Ok),
            1 => Some(Self::NotFound),
            2 => Some(Self::BadRequest),
            3 => Some(Self::Overloaded),
            4 => Some(Self::Failed),
            _ => None,
        }
    }
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The request's id; 0 where it could not be made out.
    pub id: u64,
    /// The request's opcode; `None` where it could not be made out.
    pub opcode: Option<Opcode>,
    /// How it ended.
    pub status: Status,
    /// Time on a core in the handler, in nanoseconds, without what it was pre-empted for; 0: not
    /// measured.
    pub service_ns: u64,
    /// SCAN: how many entries it went through.
    pub entries: u32,
    /// SCAN: the [`Checksum`] of those.
    pub checksum: u64,
    /// GET: the value. SCAN: the listing, see [`Reply::listed`]. Not `Ok`: a text for people.
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads a reply, without copying anything.
    ///
    /// # Errors
    /// What is wrong with `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProtocolError> {
        let (header, body) =
            bytes.split_first_chunk::<REPLY_HEADER>().ok_or(ProtocolError::Short)?;
        if header[0] != REPLY_MAGIC {
            return Err(ProtocolError::Magic);
        }
        if header[1] != VERSION {
            return Err(ProtocolError::Version);
        }
        let opcode = match header[2] {
            0 => None,
            byte => Some(Opcode::from_wire(byte).ok_or(ProtocolError::Opcode)?),
        };
        let status = Status::from_wire(header[3]).ok_or(ProtocolError::Status)?;
        if header[36..] != [0; 4] {
            return Err(ProtocolError::NotZero);
        }
        let reply = Self {
            id: u64_at(header, 8),
            opcode,
            status,
            service_ns: u64_at(header, 16),
            checksum: u64_at(header, 24),
            entries: u32_at(header, 32),
            body,
        };
        if body.len() > MAX_VALUE {
            return Err(ProtocolError::ValueTooLong);
        }
        if body.len() != u32_at(header, 4) as usize {
            return Err(ProtocolError::Length);
        }
        if !reply.is_scan() && (reply.entries, reply.checksum) != (0, 0) {
            return Err(ProtocolError::NotZero);
        }
        if reply.is_scan() && !reply.listing_fits() {
            return Err(ProtocolError::Listing);
        }
        Ok(reply)
    }

    fn is_scan(&self) -> bool {
        self.opcode == Some(Opcode::Scan) && self.status == Status::Ok
    }

    fn listing_fits(&self) -> bool {
        let mut keys = self.listed();
        let count = keys.by_ref().count();
        keys.rest.is_empty() && count <= MAX_LISTED && count <= self.entries as usize
    }

    /// The first keys that a SCAN went through: all of them, or [`MAX_LISTED`]. Other replies list
    /// none.
    #[must_use]
    pub fn listed(&self) -> Listed<'a> {
        Listed { rest: if self.is_scan() { self.body } else { &[] } }
    }
}

/// The keys that the reply to a SCAN lists, in order.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Listed<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (key, rest) = rest.split_at_checked(length).filter(|_| length <= MAX_KEY)?;
        self.rest = rest;
        Some(key)
    }
}

/// A checksum over the entries that a SCAN went through, in their order. Client and server compute
/// it alike; it is quick, and no defence against an attacker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksum {
    /// Takes in one entry.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) {
        self.bytes(key);
        self.bytes(value);
    }

    /// The sum so far; 0 of no entry.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        self.word(u64::from_le_bytes(last));
        // One more than the length: zeros, were they empty, would leave a sum of 0 as it is.
        self.word(bytes.len() as u64 + 1);
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Writes one reply at the end of a buffer: first a place for the header, then the body, which the
/// caller appends, at last the header.
#[derive(Debug)]
pub struct ReplyWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    id: u64,
    opcode: Option<Opcode>,
}

impl<'o> ReplyWriter<'o> {
    /// A reply to the request with this id and opcode, behind what is in `out`.
    pub fn new(out: &'o mut Vec<u8>, id: u64, opcode: Option<Opcode>) -> Self {
        let start = out.len();
        out.resize(start + REPLY_HEADER, 0);
        Self { out, start, id, opcode }
    }

    /// A reply to a request of which anything may be wrong.
    pub fn to_bytes(out: &'o mut Vec<u8>, request: &[u8]) -> Self {
        Self::new(out, id_of(request), opcode_of(request))
    }

    /// The buffer; the body goes to its end, at most [`MAX_VALUE`] bytes.
    pub fn body(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Takes back what was written of the body.
    pub fn clear_body(&mut self) {
        self.out.truncate(self.start + REPLY_HEADER);
    }

    /// Puts a key at the end of a SCAN's listing. A key above [`MAX_KEY`] cannot be listed: the
    /// listing leaves it out.
    pub fn list(&mut self, key: &[u8]) {
        if key.len() <= MAX_KEY {
            self.out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            self.out.extend_from_slice(key);
        }
    }

    /// A reply with what is in the body.
    pub fn finish(self, status: Status, service_ns: u64) {
        self.header(status, service_ns, 0, 0);
    }

    /// The reply to a SCAN that has succeeded.
    pub fn finish_scan(self, service_ns: u64, entries: u32, checksum: Checksum) {
        self.header(Status::Ok, service_ns, entries, checksum.value());
    }

    /// A reply with a text for people instead of a body.
    pub fn finish_error(mut self, status: Status, service_ns: u64, text: &str) {
        self.clear_body();
        let text = &text.as_bytes()[..text.len().min(MAX_VALUE)];
        self.out.extend_from_slice(text);
        self.header(status, service_ns, 0, 0);
    }

    fn header(self, status: Status, service_ns: u64, entries: u32, checksum: u64) {
        let body = self.out.len() - self.start - REPLY_HEADER;
        debug_assert!(body <= MAX_VALUE, "a body of {body} bytes is too long");
        let header = &mut self.out[self.start..self.start + REPLY_HEADER];
        let opcode = self.opcode.map_or(0, |opcode| opcode as u8);
        header[..4].copy_from_slice(&[REPLY_MAGIC, VERSION, opcode, status as u8]);
        header[4..8].copy_from_slice(&(body as u32).to_le_bytes());
        header[8..16].copy_from_slice(&self.id.to_le_bytes());
        header[16..24].copy_from_slice(&service_ns.to_le_bytes());
        header[24..32].copy_from_slice(&checksum.to_le_bytes());
        header[32..36].copy_from_slice(&entries.to_le_bytes());
    }
}
