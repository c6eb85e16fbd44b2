//! What goes over the wire: 16 bytes each way, little endian.
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 0..8 | tag: anything; comes back | the request's tag |
//! | 8..10 | class, by index | the request's class |
//! | 10..12 | zero | status: 0 done, 1 overloaded, 2 malformed |
//! | 12..16 | wanted service in nanoseconds (at most 4.29 s); 0: an empty handler | the same |
//!
//! A request may be longer; what is beyond 16 bytes is not looked at. One that is shorter, or whose
//! reserved bytes are not zero, is answered as malformed.

/// Length of a request and of an answer.
pub const BYTES: usize = 16;

/// A request for service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back in the answer.
    pub tag: u64,
    /// Class, by index.
    pub class: u16,
    /// Wanted service time.
    pub service_ns: u32,
}

impl Request {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        encode(self.tag, self.class, 0, self.service_ns)
    }

    /// From bytes; `None`: malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, class, reserved, service_ns) = decode(bytes)?;
        (reserved == 0).then_some(Self { tag, class, service_ns })
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// It got its service.
    Done = 0,
    /// There was no room for it.
    Overloaded = 1,
    /// It was no request.
    Malformed = 2,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's.
    pub tag: u64,
    /// The request's.
    pub class: u16,
    /// What became of it.
    pub status: Status,
    /// The request's.
    pub service_ns: u32,
}

impl Answer {
    /// The answer to a request.
    #[must_use]
    pub fn to(request: &Request, status: Status) -> Self {
        let &Request { tag, class, service_ns } = request;
        Self { tag, class, status, service_ns }
    }

    /// The answer to what is no request; carries what there is of a tag.
    #[must_use]
    pub fn to_garbage(bytes: &[u8]) -> Self {
        let mut tag = [0; 8];
        let some = bytes.len().min(8);
        tag[..some].copy_from_slice(&bytes[..some]);
        let tag = u64::from_le_bytes(tag);
        Self { tag, class: 0, status: Status::Malformed, service_ns: 0 }
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        encode(self.tag, self.class, self.status as u16, self.service_ns)
    }

    /// From bytes; `None`: no answer.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, class, status, service_ns) = decode(bytes)?;
        let status = match status {
            0 => Status::Done,
            1 => Status::Overloaded,
            2 => Status::Malformed,
            _ => return None,
        };
        Some(Self { tag, class, status, service_ns })
    }
}

fn encode(tag: u64, class: u16, third: u16, service_ns: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&tag.to_le_bytes());
    bytes[8..10].copy_from_slice(&class.to_le_bytes());
    bytes[10..12].copy_from_slice(&third.to_le_bytes());
    bytes[12..].copy_from_slice(&service_ns.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u64, u16, u16, u32)> {
    let bytes: &[u8; BYTES] = bytes.first_chunk()?;
    let (tag, rest) = bytes.split_first_chunk()?;
    let (class, rest) = rest.split_first_chunk()?;
    let (third, rest) = rest.split_first_chunk()?;
    let service_ns = rest.first_chunk()?;
    Some((
        u64::from_le_bytes(*tag),
        u16::from_le_bytes(*class),
        u16::from_le_bytes(*third),
        u32::from_le_bytes(*service_ns),
    ))
}
