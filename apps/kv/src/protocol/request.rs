//! Requests. Layout, little-endian: magic 0, version 1, opcode 2, flags 3 (zero), key length 4..6,
//! value length 6..8, id 8..16, in a SCAN its limit 16..20, then key and value.

use super::{
    LIMIT_LENGTH, MAX_KEY, MAX_VALUE, Opcode, ProtocolError, REQUEST_HEADER, REQUEST_MAGIC,
    VERSION, u16_at, u64_at,
};

/// What a request asks for, with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// The value of `key`.
    Get {
        /// Which key.
        key: &'a [u8],
    },
    /// Set the value of `key`.
    Put {
        /// Which key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Remove `key`.
    Delete {
        /// Which key.
        key: &'a [u8],
    },
    /// Walk through the keys from `start` on and below `end`.
    Scan {
        /// The first key of the range; empty: the first that there is.
        start: &'a [u8],
        /// The first key beyond the range; empty: none is.
        end: &'a [u8],
        /// How many entries at most; [`NO_LIMIT`](super::NO_LIMIT): all.
        limit: u32,
    },
}

impl Op<'_> {
    /// Its opcode.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Get { .. } => Opcode::Get,
            Self::Put { .. } => Opcode::Put,
            Self::Delete { .. } => Opcode::Delete,
            Self::Scan { .. } => Opcode::Scan,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The client's name for it; the reply carries it back.
    pub id: u64,
    /// What it asks for.
    pub op: Op<'a>,
}

impl<'a> Request<'a> {
    /// Reads a request, without copying anything.
    ///
    /// # Errors
    /// What is wrong with `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProtocolError> {
        let (header, mut body) =
            bytes.split_first_chunk::<REQUEST_HEADER>().ok_or(ProtocolError::Short)?;
        if header[0] != REQUEST_MAGIC {
            return Err(ProtocolError::Magic);
        }
        if header[1] != VERSION {
            return Err(ProtocolError::Version);
        }
        let opcode = Opcode::from_wire(header[2]).ok_or(ProtocolError::Opcode)?;
        if header[3] != 0 {
            return Err(ProtocolError::NotZero);
        }
        let key_length = usize::from(u16_at(header, 4));
        let value_length = usize::from(u16_at(header, 6));
        let id = u64_at(header, 8);
        check_lengths(opcode, key_length, value_length)?;
        let mut limit = 0;
        if opcode == Opcode::Scan {
            let (field, rest) = body.split_first_chunk().ok_or(ProtocolError::Length)?;
            (limit, body) = (u32::from_le_bytes(*field), rest);
        }
        if body.len() != key_length + value_length {
            return Err(ProtocolError::Length);
        }
        let (key, value) = body.split_at(key_length);
        let op = match opcode {
            Opcode::Get => Op::Get { key },
            Opcode::Put => Op::Put { key, value },
            Opcode::Delete => Op::Delete { key },
            Opcode::Scan => Op::Scan { start: key, end: value, limit },
        };
        Ok(Self { id, op })
    }

    /// Appends the request to `out`.
    ///
    /// # Errors
    /// [`ProtocolError::KeyTooLong`] and [`ProtocolError::ValueTooLong`]; `out` is unchanged.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let opcode = self.op.opcode();
        let (key, value, limit) = match self.op {
            Op::Get { key } | Op::Delete { key } => (key, &[][..], None),
            Op::Put { key, value } => (key, value, None),
            Op::Scan { start, end, limit } => (start, end, Some(limit)),
        };
        check_lengths(opcode, key.len(), value.len())?;
        let mut header = [0; REQUEST_HEADER];
        header[..3].copy_from_slice(&[REQUEST_MAGIC, VERSION, opcode as u8]);
        // Both lengths have been checked against limits that fit.
        header[4..6].copy_from_slice(&(key.len() as u16).to_le_bytes());
        header[6..8].copy_from_slice(&(value.len() as u16).to_le_bytes());
        header[8..].copy_from_slice(&self.id.to_le_bytes());
        out.reserve(REQUEST_HEADER + LIMIT_LENGTH + key.len() + value.len());
        out.extend_from_slice(&header);
        if let Some(limit) = limit {
            out.extend_from_slice(&limit.to_le_bytes());
        }
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        Ok(())
    }
}

/// What follows the header: a key and a value, or for a SCAN the two keys of its range.
fn check_lengths(opcode: Opcode, key: usize, value: usize) -> Result<(), ProtocolError> {
    if key > MAX_KEY || (opcode == Opcode::Scan && value > MAX_KEY) {
        return Err(ProtocolError::KeyTooLong);
    }
    match opcode {
        Opcode::Get | Opcode::Delete if value != 0 => Err(ProtocolError::NotZero),
        Opcode::Put if value > MAX_VALUE => Err(ProtocolError::ValueTooLong),
        _ => Ok(()),
    }
}

/// The opcode of a request, by one look at its third byte: for classifying, which must be quick.
/// `None`: no request of this version.
#[must_use]
pub fn opcode_of(bytes: &[u8]) -> Option<Opcode> {
    match bytes {
        [REQUEST_MAGIC, VERSION, opcode, ..] => Opcode::from_wire(*opcode),
        _ => None,
    }
}

/// The id of a request that may otherwise be malformed, or of another version (all have it at the
/// same place); 0 where it has none.
#[must_use]
pub fn id_of(bytes: &[u8]) -> u64 {
    match bytes.get(..REQUEST_HEADER) {
        Some(header) if header[0] == REQUEST_MAGIC => u64_at(header, 8),
        _ => 0,
    }
}
