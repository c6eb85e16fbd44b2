//! The bytes of a request on its way in: a copy, since the transport's are gone when it goes on.

use crate::message::INLINE;

/// A larger buffer is not kept for the next request.
const KEEP_BYTES: usize = 16 << 10;

/// What is short lies in place.
#[derive(Default)]
pub(crate) struct Payload {
    small: [u8; INLINE],
    length: usize,
    large: Vec<u8>,
}

impl Payload {
    #[inline]
    pub(crate) fn set(&mut self, bytes: &[u8]) {
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
