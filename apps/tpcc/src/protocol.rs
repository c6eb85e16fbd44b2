//! What goes over the wire: 24 bytes each way, little endian.
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 0..8 | tag: anything; comes back | the request's tag |
//! | 8 | transaction: its position in [`Transaction::ALL`] | the same |
//! | 9 | zero | status: 0 committed, 1 rolled back, 2 overloaded, 3 malformed, 4 failed |
//! | 10..16 | zero | zero |
//! | 16..24 | seed, from which the inputs are drawn | a total or a balance in cents, or a count |

use crate::transactions::{Ended, Transaction};

/// Length of a request and of an answer.
pub const BYTES: usize = 24;

/// A request for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back in the answer.
    pub tag: u64,
    /// The transaction's kind.
    pub transaction: Transaction,
    /// Of its inputs.
    pub seed: u64,
}

impl Request {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        encode(self.tag, self.transaction as u8, 0, self.seed)
    }

    /// From bytes; `None`: malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let transaction = *Transaction::ALL.get(usize::from(bytes[8]))?;
        let (tag, seed) = (word(bytes, 0), word(bytes, 16));
        (bytes[9..16] == [0; 7]).then_some(Self { tag, transaction, seed })
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The transaction has done all.
    Committed = 0,
    /// It has undone all.
    RolledBack = 1,
    /// There was no room for it.
    Overloaded = 2,
    /// It was no request.
    Malformed = 3,
    /// Its handler failed.
    Failed = 4,
}

/// An answer to `request`, whatever that is.
#[must_use]
pub fn answer(request: &[u8], status: Status, result: i64) -> [u8; BYTES] {
    let mut tag = [0; 8];
    let some = request.len().min(8);
    tag[..some].copy_from_slice(&request[..some]);
    let transaction = request.get(8).copied().unwrap_or(0);
    encode(u64::from_le_bytes(tag), transaction, status as u8, result as u64)
}

/// An answer's status and number; `None`: it is none.
#[must_use]
pub fn ended(answer: &[u8]) -> Option<(Status, i64)> {
    let bytes: &[u8; BYTES] = answer.try_into().ok()?;
    let status = match bytes[9] {
        0 => Status::Committed,
        1 => Status::RolledBack,
        2 => Status::Overloaded,
        3 => Status::Malformed,
        4 => Status::Failed,
        _ => return None,
    };
    Some((status, word(bytes, 16) as i64))
}

impl From<Ended> for (Status, i64) {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Committed(result) => (Status::Committed, result),
            Ended::RolledBack => (Status::RolledBack, 0),
        }
    }
}

fn encode(tag: u64, transaction: u8, status: u8, last: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&tag.to_le_bytes());
    (bytes[8], bytes[9]) = (transaction, status);
    bytes[16..].copy_from_slice(&last.to_le_bytes());
    bytes
}

fn word(bytes: &[u8; BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
