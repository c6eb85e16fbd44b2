//! The bytes of a request on its way in: a copy, since the transport's are gone when it goes on, or
//! the transport's buffer itself.

use crate::message::INLINE;

/// A larger buffer is not kept for the next request.
const KEEP_BYTES: usize = 16 << 10;

/// How a transport brings a request's bytes.
pub(crate) enum Incoming<'a> {
    /// To be copied.
    Lent(&'a [u8]),
    /// All of a buffer, to be taken for another one.
    Given(&'a mut Vec<u8>),
}

/// What is short lies in place.
#[derive(Default)]
pub(crate) struct Payload {
    small: [u8; INLINE],
    length: usize,
    large: Vec<u8>,
}

impl Payload {
    #[inline]
    pub(crate) fn set(&mut self, brought: Incoming<'_>) {
        let bytes = match brought {
            Incoming::Given(buffer) if buffer.len() > INLINE => {
                self.length = buffer.len();
                std::mem::swap(&mut self.large, buffer);
                return;
            }
            Incoming::Given(buffer) => &buffer[..],
            Incoming::Lent(bytes) => bytes,
        };
        self.length = bytes.len();
        if self.is_small() {
            self.small[..bytes.len()].copy_from_slice(bytes);
        } else {
            self.large.clear();
            self.large.extend_from_slice(bytes);
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Whether it fits into a message.
    #[inline]
    pub(crate) fn is_small(&self) -> bool {
        self.length <= INLINE
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.is_small() { &self.small[..self.length] } else { &self.large }
    }

    /// The bytes of a short one, and some that mean nothing.
    #[inline]
    pub(crate) fn small(&self) -> &[u8; INLINE] {
        &self.small
    }

    /// The buffer of one that is not short: taken in exchange for another.
    pub(crate) fn large(&mut self) -> &mut Vec<u8> {
        &mut self.large
    }

    /// Gives a buffer back that is too large to be kept.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.large.capacity() > KEEP_BYTES {
            self.large = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_keeps_its_buffer_and_a_short_one_is_copied() {
        let mut payload = Payload::default();
        let mut buffer = vec![7; INLINE + 1];
        let place = buffer.as_ptr();
        payload.set(Incoming::Given(&mut buffer));
        assert_eq!((payload.bytes(), payload.bytes().as_ptr()), (&[7; INLINE + 1][..], place));
        assert!(buffer.is_empty(), "it has what was here");
        let mut buffer = vec![8; INLINE];
        payload.set(Incoming::Given(&mut buffer));
        assert_eq!((payload.bytes(), buffer.len()), (&[8; INLINE][..], INLINE));
        payload.set(Incoming::Lent(&[9; 100]));
        assert_eq!((payload.bytes(), payload.len()), (&[9; 100][..], 100));
    }
}
