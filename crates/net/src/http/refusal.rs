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
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Bad => 400,
            Self::BodyTooLong => 413,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::HeadTooLong => 431,
            Self::Method | Self::Coding => 501,
            Self::Version => 505,
        }
    }

    /// Its answer, as a handler would write it.
    pub(crate) fn answer(self) -> Vec<u8> {
        let text = match self {
            Self::Bad => "this is no request of HTTP/1\n",
            Self::BodyTooLong => "the body is longer than this server takes\n",
            Self::TargetTooLong => "the target is longer than this server takes\n",
            Self::Expectation => "this server knows the expectation 100-continue alone\n",
            Self::HeadTooLong => "the head is longer than this server takes\n",
            Self::Method => "this server has no such method\n",
            Self::Coding => "a body comes as it is here, or in chunks\n",
            Self::Version => "this server speaks HTTP/1.1\n",
        };
        plain(self.status(), text)
    }
}
