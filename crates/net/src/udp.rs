//! Kernel UDP: a datagram is a request, its answer goes back by the socket it came in by.
//!
//! The dispatcher's thread owns [`Udp`] and receives, in batches, into buffers made once. The
//! workers share the sockets and send on them: the kernel serialises that, so no lock is ours.
//! Invariant: sockets are non-blocking and live as long as either side does.

use crate::error::OpenError;
use crate::{Completion, Intake, Peer, Reply, Status, Transport};
use crate::{group, socket};
use batch::{BATCH, Batch};
use lent::Receivers;
pub use lent::{Datagrams, Receiver};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketType, sendto, sockopt};
pub(crate) use share::Shares;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod batch;
mod lent;
mod share;

/// The largest payload that a UDP datagram can have, in bytes.
const MOST_BYTES: usize = 65_535;
/// Batches that one socket may fill in one poll: malformed datagrams use up no room, and a flood
/// of them must not keep the dispatcher here.
const MOST_BATCHES: usize = 3;
/// Attempts to send one response while the socket's send buffer is full.
const SEND_ATTEMPTS: usize = 16;
/// Pauses between two such attempts.
const SEND_PAUSES: usize = 64;

/// Settings of [`Udp`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Largest request in bytes, 1 to 65,535; what is larger is malformed. Default 2,048.
    pub limit: usize,
    /// Wanted size of each socket's receive buffer in bytes. Default 4 MiB; the kernel may give
    /// less (`net.core.rmem_max`), see the counter `receive_buffer_bytes`.
    pub receive_buffer: usize,
    /// Requests that all peers together may have in progress. No peer gets more than an eighth of what
    /// is left of it, and at least 16; what it sends beyond that is dropped. Several dispatchers have a
    /// part each. Default 16,384.
    pub in_progress: usize,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self { limit: 2_048, receive_buffer: 4 << 20, in_progress: 16 << 10 }
    }
}

/// Kernel UDP on one or more addresses.
///
/// Empty and over-long datagrams are malformed: counted and dropped. So that others need not wait for
/// a peer that asks without end, what it sends beyond its share is dropped, too
/// ([`UdpConfig::in_progress`]). Errors that the network
/// reports are counted and stop nothing. After [`Transport::close`], the kernel lets nothing more in, and
/// `poll` answers `Closed` when it has handed over what had come; what is under way is still answered,
/// as the workers hold the sockets too.
pub struct Udp {
    shared: Arc<Shared>,
    batch: Batch,
    addresses: Vec<SocketAddr>,
    /// The socket that the next poll asks first. It changes, so that a busy socket can't starve the
    /// others.
    first: usize,
    receive_buffer: u64,
    /// Threads receive, each from its part of the sockets.
    lent: bool,
    /// Nothing more is let in; what has come is still handed over.
    closing: bool,
    closed: bool,
    config: UdpConfig,
}

/// What the workers see.
pub(crate) struct Shared {
    sockets: Vec<OwnedFd>,
    shares: Shares,
    receivers: Receivers,
    dropped: AtomicU64,
    receive_errors: AtomicU64,
    over_share: AtomicU64,
}

impl Udp {
    /// Listens on `addresses`; the index of each is the `socket` of [`Peer::Udp`].
    ///
    /// # Errors
    /// [`OpenError`]: no address, a setting out of range, or what the kernel said.
    pub fn bind(addresses: &[SocketAddr], config: &UdpConfig) -> Result<Self, OpenError> {
        if addresses.is_empty() {
            return Err(OpenError::NoAddress);
        }
        OpenError::within("number of UDP addresses", addresses.len(), 1, 1 << 16)?;
        OpenError::within("requests in progress", config.in_progress, 1, 1 << 30)?;
        OpenError::within("largest datagram", config.limit, 1, MOST_BYTES)?;
        let bind = |&address: &SocketAddr| socket::bind(address, SocketType::DGRAM);
        let bound = addresses.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let (sockets, addresses) = bound.into_iter().unzip();
        Ok(Self::over(sockets, addresses, config))
    }

    fn over(sockets: Vec<OwnedFd>, addresses: Vec<SocketAddr>, config: &UdpConfig) -> Self {
        Self {
            receive_buffer: enlarge(&sockets, config),
            shared: Arc::new(Shared {
                sockets,
                shares: Shares::new(config.in_progress),
                receivers: Receivers::default(),
                dropped: AtomicU64::new(0),
                receive_errors: AtomicU64::new(0),
                over_share: AtomicU64::new(0),
            }),
            batch: Batch::new(config.limit),
            addresses,
            first: 0,
            lent: false,
            closing: false,
            closed: false,
            config: config.clone(),
        }
    }

    /// For each of the other parts, of so many, a socket beside each of these.
    fn sockets_beside(&self, parts: usize) -> Result<Vec<Vec<OwnedFd>>, OpenError> {
        if parts == 1 {
            return Ok(Vec::new());
        }
        group::split(&self.shared.sockets, parts, |socket| {
            group::join(socket, SocketType::DGRAM, parts, |_| Ok(()))
        })
    }

    /// Receives from one socket until it is empty, there is no room, or its share is used up. True: it
    /// is known to be empty.
    fn receive(&mut self, index: usize, now_tsc: u64, into: &mut dyn Intake) -> bool {
        let socket = self.shared.sockets[index].as_fd();
        for _ in 0..MOST_BATCHES {
            let want = into.room().min(BATCH);
            if want == 0 {
                return false;
            }
            let got = match self.batch.receive(socket, want) {
                Ok(got) => got,
                Err(Errno::AGAIN) => return true,
                // An ICMP error about an earlier response, an interrupted call, memory pressure:
                // each is reported once and says nothing about the next datagram.
                Err(_) => {
                    self.shared.receive_errors.fetch_add(1, Relaxed);
                    continue;
                }
            };
            let mut malformed = 0;
            for datagram in self.batch.received(got) {
                match datagram {
                    Some((from, _)) if !self.shared.take(from) => {}
                    Some((from, payload)) => {
                        let from = Peer::Udp { socket: index as u16, from };
                        into.request(payload, from, now_tsc);
                    }
                    None => malformed += 1,
                }
            }
            if malformed > 0 {
                into.malformed(malformed);
            }
            // Another call would say that it is empty, which matters at the end alone.
            if got < want && !self.closing {
                return false;
            }
        }
        false
    }
}

impl Transport for Udp {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.closed {
            return Status::Closed;
        }
        let count = self.shared.sockets.len();
        // Before the looks: what they had is in their sockets, or handed over.
        let mut empty = !self.shared.receivers.any();
        for step in 0..count {
            empty &= self.receive((self.first + step) % count, now_tsc, into);
        }
        self.first = (self.first + 1) % count;
        self.closed = self.closing && empty;
        if self.closed { Status::Closed } else { Status::Open }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.shared.clone()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.shared.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    fn completed(&mut self, completion: &Completion) {
        if let Peer::Udp { from, .. } = completion.peer {
            self.shared.give(from);
        }
    }

    fn close(&mut self) {
        // Where the kernel lets more in, what has come can't be told from what comes.
        self.closed |= self.shared.sockets.iter().any(|socket| group::shut(socket).is_err());
        self.closing = true;
        self.shared.receivers.close();
    }

    fn lend_datagrams(&mut self, threads: usize) -> Option<Datagrams> {
        let sockets = self.addresses.len();
        if self.lent || sockets * threads > 1 << 16 {
            return None;
        }
        let others: Vec<OwnedFd> =
            self.sockets_beside(threads).ok()?.into_iter().flatten().collect();
        self.receive_buffer = self.receive_buffer.min(enlarge(&others, &self.config));
        Arc::get_mut(&mut self.shared)?.sockets.extend(others);
        self.lent = true;
        Some(Datagrams { shared: self.shared.clone(), sockets, limit: self.config.limit })
    }

    fn brings(&self) -> bool {
        !self.lent
    }

    fn splits(&self, _: usize) -> bool {
        true
    }

    fn split(&mut self, parts: usize) -> Result<Vec<Box<dyn Transport>>, OpenError> {
        let in_progress = self.config.in_progress.div_ceil(parts);
        let config = UdpConfig { in_progress, ..self.config.clone() };
        let sockets = self.sockets_beside(parts)?;
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.shares = Shares::new(in_progress);
        }
        let part = |sockets| -> Box<dyn Transport> {
            Box::new(Self::over(sockets, self.addresses.clone(), &config))
        };
        Ok(sockets.into_iter().map(part).collect())
    }

    fn describe(&self) -> String {
        let urls: Vec<_> = self.addresses.iter().map(|a| format!("udp://{a}")).collect();
        urls.join(",")
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("udp_responses_dropped", self.shared.dropped()),
            ("udp_receive_errors", self.shared.receive_errors.load(Relaxed)),
            ("udp_over_share", self.shared.over_share.load(Relaxed)),
            ("udp_kernel_dropped", self.shared.sockets.iter().map(socket::kernel_drops).sum()),
            ("udp_receive_buffer_bytes", self.receive_buffer),
        ]
    }
}

/// Makes their receive buffers as large as wanted, if that may be; the least of them, in bytes.
fn enlarge(sockets: &[OwnedFd], config: &UdpConfig) -> u64 {
    let buffer = |socket: &OwnedFd| {
        socket::enlarge_receive_buffer(socket, config.receive_buffer);
        sockopt::socket_recv_buffer_size(socket).unwrap_or(0) as u64
    };
    sockets.iter().map(buffer).min().unwrap_or(u64::MAX)
}

impl Shared {
    /// Whether a datagram of that peer's is let in; one more is in progress then.
    fn take(&self, from: SocketAddr) -> bool {
        let fits = self.shares.take(from);
        if !fits {
            self.over_share.fetch_add(1, Relaxed);
        }
        fits
    }

    /// One has ended.
    pub(crate) fn give(&self, from: SocketAddr) {
        self.shares.give(from);
    }

    fn send(&self, socket: u16, to: SocketAddr, payload: &[u8]) -> Result<(), Errno> {
        let socket = self.sockets.get(usize::from(socket)).ok_or(Errno::BADF)?;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut last = Errno::AGAIN;
        for _ in 0..SEND_ATTEMPTS {
            match sendto(socket, payload, flags, &to) {
                Ok(_) => return Ok(()),
                Err(full @ (Errno::AGAIN | Errno::NOBUFS)) => {
                    last = full;
                    for _ in 0..SEND_PAUSES {
                        std::hint::spin_loop();
                    }
                }
                // The second is an ICMP error about an earlier datagram, delivered here.
                Err(other @ (Errno::INTR | Errno::CONNREFUSED)) => last = other,
                Err(other) => return Err(other),
            }
        }
        Err(last)
    }
}

impl Reply for Shared {
    fn reply(&self, to: Peer, payload: &[u8]) {
        let sent = match to {
            Peer::Udp { socket, from } => self.send(socket, from, payload),
            _ => Err(Errno::INVAL),
        };
        if sent.is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}
