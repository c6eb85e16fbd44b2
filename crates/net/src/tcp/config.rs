//! Settings of the TCP transport.

use std::time::Duration;

/// Settings of [`crate::Tcp`].
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Largest request in bytes, header not counted. A larger one ends its connection. Default
    /// 1 MiB.
    pub limit: usize,
    /// Response bytes that a connection may have waiting beyond what the kernel takes. A peer that
    /// lets more pile up is disconnected. Default 4 MiB.
    pub out_limit: usize,
    /// Connections at a time; one that comes when all are taken is closed at once. Default 1,024.
    pub connections: usize,
    /// Requests of one connection before it is another's turn. Default 16.
    pub burst: usize,
    /// Connections that wait in the kernel to be accepted. Default 1,024.
    pub backlog: usize,
    /// A connection with nothing under way that for this time (to one and a half of it) neither
    /// completes a frame nor takes bytes of a response is closed. Default `None`: never.
    pub idle: Option<Duration>,
    /// After [`crate::Transport::close`], connections that still have something under way get this long.
    /// Default 5 s.
    pub linger: Duration,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            limit: 1 << 20,
            out_limit: 4 << 20,
            connections: 1_024,
            burst: 16,
            backlog: 1_024,
            idle: None,
            linger: Duration::from_secs(5),
        }
    }
}
