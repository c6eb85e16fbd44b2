//! What a handler answers.

use curtail_net::{Peer, Reply};
use std::io;

/// A larger buffer is not kept for the next response.
const KEEP_BYTES: usize = 4 << 10;

/// The bytes of a response. Its buffer is reused from request to request.
#[derive(Debug, Default)]
pub struct Response {
    bytes: Vec<u8>,
    refuses: bool,
}

impl Response {
    /// Adds `bytes` at the end.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The whole buffer, to encode into.
    #[inline]
    pub fn as_mut_vec(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where it stays empty, the client learns that the request was not served, in the words of the
    /// transport: an empty frame or datagram, which no other answer is, or a status of HTTP.
    #[inline]
    pub fn refuse(&mut self) {
        self.refuses = true;
    }

    /// Whether there is something to send.
    #[inline]
    pub(crate) fn is_answer(&self) -> bool {
        self.refuses || !self.bytes.is_empty()
    }

    /// Sends it, if there is something to send.
    #[inline]
    pub(crate) fn send(&self, by: &dyn Reply, to: Peer) {
        if !self.bytes.is_empty() {
            by.reply(to, &self.bytes);
        } else if self.refuses {
            by.refuse(to);
        }
    }

    /// What is in it.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes everything out again. A buffer that has grown large is freed: there are as many
    /// as there were requests at a time.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.refuses = false;
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        }
    }
}

impl io::Write for Response {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Response::write(self, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
