//! Why a request is not taken, and what its client is told.

use super::plain;

/// Why a request is not taken. Its connection ends with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Bad,
    /// Another version of HTTP.
    Version,
    /// A method that the transport would have to serve, or that is longer than all others.
    Method,
    /// A transfer coding.
    Coding,
    /// Something that is expected of the server.
    Expectation,
    TargetTooLong,
    BodyTooLong,
    HeadTooLong,
}

impl Refusal {
    /// Its answer, as a handler would write it.
    pub(crate) fn answer(self) -> Vec<u8> {
        let (status, text) = match self {
            Self::Bad => (400, "this is no request of HTTP/1\n"),
            Self::Version => (505, "this server speaks HTTP/1.1\n"),
            Self::Method => (501, "this server has no such method\n"),
            Self::Coding => (501, "a body comes as it is here, or in chunks\n"),
            Self::Expectation => (417, "this server knows the expectation 100-continue alone\n"),
            Self::TargetTooLong => (414, "the target is longer than this server takes\n"),
            Self::BodyTooLong => (413, "the body is longer than this server takes\n"),
            Self::HeadTooLong => (431, "the head is longer than this server takes\n"),
        };
        plain(status, text)
    }
}
