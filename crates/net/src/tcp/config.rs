//! Settings of the TCP transport.

use crate::error::OpenError;
use crate::frame::Framer;
use std::time::Duration;

/// What the bytes of a connection are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// Frames: see [`Framer`].
    #[default]
    Frames,
    /// Short frames: a big-endian `u16` in front of each, as DNS has them over TCP. An answer of more
    /// than 65,535 bytes is not sent, and counted as dropped.
    ShortFrames,
    /// HTTP/1.1: see [`crate::http`].
    Http,
}

/// What the end of a peer's bytes (its FIN) says of its requests in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFin {
    /// It has no more to ask, and reads answers still: `printf … | nc` does, and some clients of
    /// RPC and HTTP. It has gone when it resets the connection, or a write to it fails.
    #[default]
    Answer,
    /// It has gone: they are cancelled, and not answered.
    Cancel,
}

/// Settings of [`crate::Tcp`].
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// What the bytes are. Default: frames.
    pub wire: Wire,
    /// What a peer's FIN says of its requests in progress. TCP does not tell a peer that has closed
    /// its socket from one that has ended its sending half, before something is sent to it. (A Unix
    /// socket does, and a peer that has closed it has gone in any case.) Default:
    /// [`OnFin::Answer`].
    pub on_fin: OnFin,
    /// Largest request in bytes, header not counted (of HTTP: of its body). A larger one ends its
    /// connection. Default 1 MiB.
    pub limit: usize,
    /// Bytes of requests that a connection may have in progress (received, and not ended), each
    /// counted as 512 more than it has. While there are more, the connection is not read; a single
    /// request may be larger. Default 4 MiB.
    pub in_limit: usize,
    /// Response bytes that a connection may have waiting beyond what the kernel takes. A peer that
    /// lets more pile up is disconnected. Default 4 MiB.
    pub out_limit: usize,
    /// Bytes that all connections together may have: begun frames, requests in progress, responses
    /// that wait. No connection gets more than a part of what is left of it (a quarter for
    /// requests, half for responses). Where little is left, connections are disconnected that hold
    /// much of it by begun frames or by responses that they don't take, the slowest first. Several
    /// dispatchers have a part each. Default 256 MiB.
    pub memory: usize,
    /// Connections at a time, of each of several dispatchers; one that comes when all are taken is closed
    /// at once. Default 1,024.
    pub connections: usize,
    /// Requests of one connection before it is another's turn. Default 16.
    pub burst: usize,
    /// Connections that wait in the kernel to be accepted. Default 1,024.
    pub backlog: usize,
    /// A peer that has begun a frame must end it within this time, where none of its requests is in
    /// progress; one that has responses waiting must take some of them. Else it is disconnected.
    /// Default 30 s. `None`: never.
    pub stall: Option<Duration>,
    /// A connection with nothing in progress that for this time (to one and a half of it) neither
    /// completes a frame nor takes bytes of a response is closed. Default 10 min. `None`: never.
    pub idle: Option<Duration>,
    /// A peer that sends nothing for this time is asked whether it is still there,
    /// and has half a minute to answer; one that acknowledges nothing for as long is given up, too.
    /// Whole seconds. Default 60 s. `None`: the system's defaults.
    pub keepalive: Option<Duration>,
    /// A connection that ends from our side sends its FIN after the last response, and waits so long
    /// for its peer's; what comes meanwhile is discarded. (Were it closed at once, the kernel would
    /// answer late input with a reset, which destroys responses on their way.) Default 1 s.
    pub fin_wait: Duration,
    /// After [`crate::Transport::close`], connections that still have something under way get this
    /// long. Default 5 s.
    pub linger: Duration,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            wire: Wire::default(),
            on_fin: OnFin::default(),
            limit: 1 << 20,
            in_limit: 4 << 20,
            out_limit: 4 << 20,
            memory: 256 << 20,
            connections: 1_024,
            burst: 16,
            backlog: 1_024,
            stall: Some(Duration::from_secs(30)),
            idle: Some(Duration::from_secs(600)),
            keepalive: Some(Duration::from_secs(60)),
            fin_wait: Duration::from_secs(1),
            linger: Duration::from_secs(5),
        }
    }
}

impl TcpConfig {
    /// The usual settings, of HTTP.
    #[must_use]
    pub fn http() -> Self {
        Self { wire: Wire::Http, ..Self::default() }
    }

    /// What cuts the bytes of one connection.
    pub(super) fn framer(&self) -> Framer {
        match self.wire {
            Wire::Frames => Framer::new(self.limit),
            Wire::ShortFrames => Framer::short(self.limit),
            Wire::Http => Framer::http(self.limit),
        }
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        OpenError::within("connections", self.connections, 1, 1 << 20)?;
        OpenError::within("largest frame", self.limit, 0, u32::MAX as usize)?;
        OpenError::within("bytes in progress", self.in_limit, 0, u32::MAX as usize)?;
        OpenError::within("unsent bytes", self.out_limit, 0, u32::MAX as usize)?;
        // A frame that grows byte by byte may take twice its length.
        OpenError::within("memory", self.memory, 4 * self.limit.max(1 << 14), usize::MAX)?;
        OpenError::within("burst", self.burst, 1, 1 << 20)?;
        OpenError::within("backlog", self.backlog, 1, 1 << 20)?;
        Ok(())
    }
}
