//! What an epoll event is about, in the 64 bits that the kernel keeps for us.

use rustix::event::epoll::EventData;

/// Slots are fewer than 2²⁰, so the numbers from here on are free for other uses.
const OTHER: u32 = u32::MAX - 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The generation tells apart an event that was on its way when its connection went.
    Connection {
        slot: u32,
        generation: u32,
    },
    Listener(u32),
    Again,
    Timer,
}

impl From<Token> for EventData {
    fn from(token: Token) -> Self {
        let (high, low) = match token {
            Token::Connection { slot, generation } => (slot, generation),
            Token::Listener(index) => (OTHER, index),
            Token::Again => (OTHER + 1, 0),
            Token::Timer => (OTHER + 2, 0),
        };
        Self::new_u64(u64::from(high) << 32 | u64::from(low))
    }
}

impl From<EventData> for Token {
    fn from(data: EventData) -> Self {
        let (high, low) = ((data.u64() >> 32) as u32, data.u64() as u32);
        match high.checked_sub(OTHER) {
            None => Self::Connection { slot: high, generation: low },
            Some(0) => Self::Listener(low),
            Some(1) => Self::Again,
            Some(_) => Self::Timer,
        }
    }
}
