//! The wire protocol, version 1: `docs/kv-protocol.md` is its specification.
//!
//! Codecs for both sides: borrowed, without allocation, and total: any bytes whatsoever are either a
//! message or an error. A message is the payload of one datagram, or of one length-prefixed frame on
//! a stream; nothing here knows which.

mod reply;
mod request;

pub use reply::{Checksum, Listed, Reply, ReplyWriter, Status};
pub use request::{Op, Request, id_of, opcode_of};

/// The first byte of a request.
pub const REQUEST_MAGIC: u8 = b'Q';
/// The first byte of a reply.
pub const REPLY_MAGIC: u8 = b'R';
/// The version that is spoken here.
pub const VERSION: u8 = 1;
/// Length of a request without limit, key and value, in bytes. It is short for a reason: with a key
/// of [`KEY_LENGTH`](crate::load::KEY_LENGTH) a GET has 32 bytes, which the runtime hands from core
/// to core in a single cache line.
pub const REQUEST_HEADER: usize = 16;
/// Length of a SCAN's limit, which stands behind the header, in bytes.
pub const LIMIT_LENGTH: usize = 4;
/// Length of a reply without its body, in bytes.
pub const REPLY_HEADER: usize = 40;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 1024;
/// The longest value, in bytes.
pub const MAX_VALUE: usize = 32 * 1024;
/// How many keys the reply to a SCAN lists at most.
pub const MAX_LISTED: usize = 8;
/// The longest request, in bytes.
pub const MAX_REQUEST: usize = REQUEST_HEADER + MAX_KEY + MAX_VALUE;
const _: () = assert!(MAX_VALUE <= u16::MAX as usize && LIMIT_LENGTH + MAX_KEY <= MAX_VALUE);
/// The longest reply, in bytes; like [`MAX_REQUEST`] it fits into one UDP datagram.
pub const MAX_REPLY: usize = REPLY_HEADER + MAX_VALUE;
/// The limit of a SCAN that has none.
pub const NO_LIMIT: u32 = u32::MAX;

const _: () = assert!(MAX_REQUEST <= 65_507 && MAX_REPLY <= 65_507);
const _: () = assert!(MAX_LISTED * (2 + MAX_KEY) <= MAX_VALUE);

/// What is asked for.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// A key's value.
    Get = 1,
    /// Set a key's value.
    Put = 2,
    /// Remove a key.
    Delete = 3,
    /// Walk through a range of keys.
    Scan = 4,
}

impl Opcode {
    /// Every opcode; its position is its class in the server.
    pub const ALL: [Self; 4] = [Self::Get, Self::Put, Self::Delete, Self::Scan];

    /// `get`, `put`, `delete` or `scan`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Scan => "scan",
        }
    }

    /// The position in [`Opcode::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Get),
            2 => Some(Self::Put),
            3 => Some(Self::Delete),
            4 => Some(Self::Scan),
            _ => None,
        }
    }
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Shorter than its header.
    #[error("shorter than a header")]
    Short,
    /// Does not begin as a message of this kind does.
    #[error("wrong first byte")]
    Magic,
    /// Another version of the protocol.
    #[error("unknown version")]
    Version,
    /// No such opcode.
    #[error("unknown opcode")]
    Opcode,
    /// No such status.
    #[error("unknown status")]
    Status,
    /// A field that must be zero is not.
    #[error("a field that must be zero is not")]
    NotZero,
    /// A key above [`MAX_KEY`].
    #[error("key too long")]
    KeyTooLong,
    /// A value above [`MAX_VALUE`].
    #[error("value too long")]
    ValueTooLong,
    /// The length is not what the header says.
    #[error("length does not match the header")]
    Length,
    /// The listing in the reply to a SCAN does not fill the body, or is longer than it may be.
    #[error("malformed listing")]
    Listing,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
