//! Which way threads reach the kernel: see [`Io`].

use std::str::FromStr;

/// The target of what is logged here.
const LOG: &str = "curtail::socket::uring";

/// How the kernel is asked for what threads wait for: [`RuntimeBuilder::io`](crate::RuntimeBuilder::io).
/// Where io_uring is forbidden, or the kernel is older than 5.19, all of them are [`Io::Epoll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Io {
    /// What has been measured to be quicker: sockets by epoll, files by io_uring.
    #[default]
    Auto,
    /// Sockets by epoll, files by ordinary threads ([`blocking`](fn@crate::blocking)).
    Epoll,
    /// Streams and files by io_uring: reads, writes and accepts of a round of threads are one system
    /// call. For many connections; what is written leaves when the round is over.
    Uring,
}

impl FromStr for Io {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "uring" => Ok(Self::Uring),
            _ => Err(()),
        }
    }
}

impl Io {
    /// Whether io_uring can be had here.
    ///
    /// # Errors
    /// Why not: it is forbidden, or the kernel is too old.
    pub fn check() -> std::io::Result<()> {
        super::Uring::new(IoPlan::default()).map(drop)
    }

    /// What `$CURTAIL_IO` says.
    pub(crate) fn inherited() -> Option<Self> {
        let text = std::env::var("CURTAIL_IO").ok().filter(|text| !text.is_empty())?;
        let io = text.parse().ok();
        if io.is_none() {
            tracing::warn!(target: LOG, %text, "$CURTAIL_IO is none of auto, epoll and uring");
        }
        io
    }
}

/// What asks for a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Streams,
    Files,
}

/// The way to the kernel that the kthreads of one runtime take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoPlan {
    pub io: Io,
    /// For tests: io_uring is refused with this error.
    pub refusal: Option<i32>,
}

impl IoPlan {
    /// Where no program says anything.
    pub(crate) fn inherited() -> Self {
        Self { io: Io::inherited().unwrap_or_default(), refusal: None }
    }

    /// Whether what asks goes by a ring.
    #[inline]
    pub(crate) fn has_ring(self, asks: Asks) -> bool {
        match self.io {
            Io::Auto => asks == Asks::Files,
            Io::Epoll => false,
            Io::Uring => true,
        }
    }

    /// Finds out whether the kernel goes along, where that is asked for.
    pub(crate) fn settle(mut self) -> Self {
        if self.io == Io::Uring
            && let Err(error) = super::Uring::new(self)
        {
            tracing::warn!(target: LOG, %error, "no io_uring here: sockets by epoll");
            self.io = Io::Epoll;
        }
        self
    }
}
