//! What goes through [`crate::Rings`]: a packet on its way to a kthread, and what became of it.
//!
//! Any bytes are values of these types. Their accessors check what they answer.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Of a packet or of an answer, at most: what an Ethernet frame holds of UDP over IPv4.
pub const MOST_BYTES: usize = 1_472;

/// Where a packet came from, in whatever words the daemon has for that. A program gives them back
/// as they are.
pub type PeerWords = [u64; 5];

/// A packet for a kthread.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Arrival {
    /// From where.
    pub peer: PeerWords,
    /// When it arrived (TSC).
    pub arrived_tsc: u64,
    length: u64,
    bytes: [u8; MOST_BYTES],
}

/// What became of a packet.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Answer {
    /// As in its [`Arrival`].
    pub peer: PeerWords,
    /// As in its [`Arrival`].
    pub arrived_tsc: u64,
    /// When it began to run (TSC).
    pub started_tsc: u64,
    /// When it was done (TSC).
    pub finished_tsc: u64,
    /// Cycles on a core.
    pub ran_cycles: u64,
    /// The first eight bytes of the packet.
    pub tag: u64,
    /// How often it was pre-empted.
    pub preemptions: u32,
    /// Bytes of the packet.
    pub request_bytes: u32,
    /// Its class.
    pub class: u16,
    outcome: u16,
    length: u32,
    bytes: [u8; MOST_BYTES],
}

impl Arrival {
    /// `None`: there are more than [`MOST_BYTES`].
    #[must_use]
    pub fn new(peer: PeerWords, arrived_tsc: u64, payload: &[u8]) -> Option<Self> {
        let mut arrival =
            Self { peer, arrived_tsc, length: payload.len() as u64, bytes: [0; MOST_BYTES] };
        arrival.bytes.get_mut(..payload.len())?.copy_from_slice(payload);
        Some(arrival)
    }

    /// The packet; `None`: its length can't be right.
    #[must_use]
    pub fn payload(&self) -> Option<&[u8]> {
        self.bytes.get(..usize::try_from(self.length).ok()?)
    }
}

impl Answer {
    /// To that packet; nothing is known of it yet.
    #[must_use]
    pub fn to(peer: PeerWords, arrived_tsc: u64) -> Self {
        let mut answer = Self::new_zeroed();
        (answer.peer, answer.arrived_tsc) = (peer, arrived_tsc);
        answer
    }

    /// What is answered; false: there are more than [`MOST_BYTES`], and nothing is.
    #[must_use]
    pub fn set_payload(&mut self, payload: &[u8]) -> bool {
        match self.bytes.get_mut(..payload.len()) {
            Some(bytes) => {
                bytes.copy_from_slice(payload);
                self.length = payload.len() as u32;
                true
            }
            None => false,
        }
    }

    /// What is answered, nothing if it is empty; `None`: its length can't be right.
    #[must_use]
    pub fn payload(&self) -> Option<&[u8]> {
        self.bytes.get(..usize::try_from(self.length).ok()?)
    }

    /// How it ended, in the program's words. Any value may come.
    #[must_use]
    pub fn outcome(&self) -> u16 {
        self.outcome
    }

    /// See [`Answer::outcome`].
    pub fn set_outcome(&mut self, outcome: u16) {
        self.outcome = outcome;
    }
}
