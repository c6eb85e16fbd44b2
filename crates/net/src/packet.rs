//! Datagrams without the kernel's network: Ethernet, ARP, NDP, IPv4, IPv6 and UDP over a
//! [`PacketDriver`].
//!
//! The dispatcher's thread owns [`Packets`]: it reads frames (`wire`) and answers who asks for our
//! addresses. Workers answer requests by writing into frames that the driver lends (`answer`), to
//! the Ethernet address that the request came from: nothing is learnt, so nothing can be taught
//! wrongly. Invariant: a frame is back with its driver when the call that lent it ends.

use crate::error::OpenError;
use crate::udp::Shares;
use crate::{Completion, Intake, Peer, Reply, Status, Transport};
use answer::{Ends, headers};
use rustix::net::{SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::{Discard, Identity, Seen};

mod answer;
mod dpdk;
mod driver;
mod simulated;
mod wire;
mod xdp;

#[cfg(feature = "dpdk")]
pub use dpdk::dpdk_queues;
pub use dpdk::{DpdkConfig, DpdkError, dpdk_version};
pub use driver::{FrameCount, FrameSender, PacketDriver};
pub use simulated::{Simulated, SimulatedLink};
pub use wire::Hardware;
pub use xdp::{AfXdp, XdpConfig, XdpError, XdpMode, why_not};

/// Frames taken in one call.
const BATCH: usize = 64;
/// Batches of one queue in one poll.
const MOST_BATCHES: usize = 4;
/// Bytes of the smallest link that IPv4 knows and the largest that frames are made for.
const MTU: (usize, usize) = (576, 9_216);

/// What is to be known of the device and its link.
#[derive(Clone, Debug)]
pub struct PacketConfig {
    /// Our Ethernet address.
    pub hardware: Hardware,
    /// Bytes of the largest packet of IP that the link takes; answers are not cut into fragments.
    pub mtu: usize,
    /// Largest request in bytes. Default 2,048.
    pub limit: usize,
    /// Requests that all peers together may have in progress, shared out as by
    /// [`crate::UdpConfig::in_progress`]. Default 16,384.
    pub in_progress: usize,
    /// A datagram whose checksum its sender left to a device that makes none, as on virtual links
    /// within a host, is taken. Default: no.
    pub partial: bool,
    /// The device spreads flows over its queues; otherwise several dispatchers all poll all of them.
    /// Default: yes.
    pub spreads: bool,
    /// What [`Transport::describe`] says.
    pub name: String,
}

impl PacketConfig {
    /// For a link.
    #[must_use]
    pub const fn new(name: String, hardware: Hardware, mtu: usize) -> Self {
        let (limit, in_progress) = (2_048, 16 << 10);
        Self { hardware, mtu, limit, in_progress, partial: false, spreads: true, name }
    }
}

/// The transport over the queues of one device.
pub struct Packets {
    shared: Arc<Shared>,
    queues: Vec<Box<dyn PacketDriver>>,
    first: usize,
    seen: Reader,
    name: String,
    in_progress: usize,
    spreads: bool,
    closed: bool,
}

/// What the workers see.
struct Shared {
    senders: Vec<Arc<dyn FrameSender>>,
    addresses: Vec<SocketAddr>,
    hardware: Hardware,
    mtu: usize,
    dropped: AtomicU64,
    too_long: AtomicU64,
}

/// What becomes of frames.
struct Reader {
    us: Identity,
    shares: Shares,
    refused: [u64; Discard::COUNT],
    arp: u64,
    neighbours: u64,
    over_share: u64,
    partial: u64,
    unanswered: u64,
}

impl Packets {
    /// Serves `addresses` over a device's queues. The index of each queue, and of each address, is
    /// what [`Peer::Packet`] has.
    ///
    /// # Errors
    /// [`OpenError`]: no queue, no address, or a setting out of range.
    pub fn new(
        queues: Vec<Box<dyn PacketDriver>>,
        addresses: &[SocketAddr],
        config: &PacketConfig,
    ) -> Result<Self, OpenError> {
        if addresses.is_empty() {
            return Err(OpenError::NoAddress);
        }
        OpenError::within("number of addresses", addresses.len(), 1, 64)?;
        OpenError::within("queues", queues.len(), 1, 1 << 16)?;
        OpenError::within("requests in progress", config.in_progress, 1, 1 << 30)?;
        OpenError::within("largest datagram", config.limit, 1, 65_535)?;
        OpenError::within("MTU", config.mtu, MTU.0, MTU.1)?;
        let addresses = addresses.to_vec();
        let us = Identity {
            hardware: config.hardware,
            addresses: addresses.clone(),
            limit: config.limit,
            partial: config.partial,
        };
        let packets = Self::over(queues, us, config.mtu, (config.name.clone(), config.in_progress));
        Ok(Self { spreads: config.spreads, ..packets })
    }

    fn over(
        queues: Vec<Box<dyn PacketDriver>>,
        us: Identity,
        mtu: usize,
        (name, in_progress): (String, usize),
    ) -> Self {
        let shared = Shared {
            senders: queues.iter().map(|queue| queue.sender()).collect(),
            addresses: us.addresses.clone(),
            hardware: us.hardware,
            mtu,
            dropped: AtomicU64::new(0),
            too_long: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            queues,
            first: 0,
            seen: Reader::new(us, in_progress),
            name,
            in_progress,
            spreads: true,
            closed: false,
        }
    }

    /// Where the frames of each queue are.
    #[must_use]
    pub fn frames(&self) -> Vec<FrameCount> {
        self.queues.iter().map(|queue| queue.frames()).collect()
    }
}

/// Takes an address' port from the kernel, if it has that address: the address with its port, and
/// what keeps it taken.
fn reserve(address: SocketAddr) -> Result<(SocketAddr, Option<OwnedFd>), OpenError> {
    let ip = address.ip();
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
        return Err(OpenError::NotOne(address));
    }
    match crate::socket::bind(address, SocketType::DGRAM) {
        Ok((socket, bound)) => {
            // Nothing is to come there.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, 0);
            // No scope: a frame has none.
            Ok((SocketAddr::new(ip, bound.port()), Some(socket)))
        }
        Err(OpenError::NotLocal { .. }) if address.port() == 0 => Err(OpenError::NoPort(address)),
        Err(OpenError::NotLocal { .. }) => Ok((address, None)),
        Err(other) => Err(other),
    }
}

impl Reader {
    fn new(us: Identity, in_progress: usize) -> Self {
        Self {
            us,
            shares: Shares::new(in_progress),
            refused: [0; Discard::COUNT],
            arp: 0,
            neighbours: 0,
            over_share: 0,
            partial: 0,
            unanswered: 0,
        }
    }

    fn meet(
        &mut self,
        frame: &[u8],
        (queue, sender): (u16, &dyn FrameSender),
        now_tsc: u64,
        into: &mut dyn Intake,
    ) {
        let ours = self.us.hardware;
        let sent = match wire::read(frame, &self.us) {
            Ok(Seen::Request { address, from, hardware, payload, is_partial }) => {
                self.partial += u64::from(is_partial);
                if self.shares.take(from) {
                    into.request(payload, Peer::Packet { queue, address, hardware, from }, now_tsc);
                } else {
                    self.over_share += 1;
                }
                return;
            }
            Ok(Seen::WhoHas { ours: ip, theirs, hardware }) => {
                self.arp += 1;
                let ends = Ends { ours: (ours, ip), theirs: (hardware, theirs) };
                sender.send(&mut |frame| answer::arp(frame, ends))
            }
            Ok(Seen::Solicited { ours: ip, theirs, hardware }) => {
                self.neighbours += 1;
                let ends = Ends { ours: (ours, ip), theirs: (hardware, theirs) };
                sender.send(&mut |frame| answer::advertisement(frame, ends))
            }
            Err(why) => {
                self.refused[why as usize] += 1;
                if why != Discard::Other {
                    into.malformed(1);
                }
                return;
            }
        };
        self.unanswered += u64::from(!sent);
        sender.wake();
    }
}

impl Transport for Packets {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.closed {
            return Status::Closed;
        }
        let count = self.queues.len();
        for step in 0..count {
            let index = (self.first + step) % count;
            let queue = &mut self.queues[index];
            queue.flush();
            let sender = &*self.shared.senders[index];
            for _ in 0..MOST_BATCHES {
                let want = into.room().min(BATCH);
                let seen = &mut self.seen;
                let mut meet =
                    |frame: &[u8]| seen.meet(frame, (index as u16, sender), now_tsc, into);
                if want == 0 || queue.receive(want, &mut meet) < want {
                    break;
                }
            }
        }
        self.first = (self.first + 1) % count;
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.shared.clone()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        // Where one has to be polled, all are.
        let fds: Option<Vec<_>> = self.queues.iter().map(|queue| queue.wait_fd()).collect();
        fds.unwrap_or_default()
    }

    fn before_wait(&mut self) -> bool {
        // No descriptor tells of what comes where there is none.
        self.queues
            .iter_mut()
            .fold(true, |all, queue| all & queue.flush() & queue.wait_fd().is_some())
    }

    fn completed(&mut self, completion: &Completion) {
        if let Peer::Packet { from, .. } = completion.peer {
            self.seen.shares.give(from);
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }

    /// Each of the others has queues of its own, and answers who asks there for our addresses.
    fn splits(&self, parts: usize) -> bool {
        self.spreads && parts <= self.queues.len()
    }

    fn split(&mut self, parts: usize) -> Result<Vec<Box<dyn Transport>>, OpenError> {
        OpenError::within("dispatchers with queues of their own", parts, 1, self.queues.len())?;
        let mut dealt: Vec<Vec<_>> = (0..parts).map(|_| Vec::new()).collect();
        for (index, queue) in std::mem::take(&mut self.queues).into_iter().enumerate() {
            dealt[index % parts].push(queue);
        }
        let in_progress = self.in_progress.div_ceil(parts);
        let (us, mtu, name) = (self.seen.us.clone(), self.shared.mtu, self.name.clone());
        let mut all = dealt
            .into_iter()
            .map(|queues| Self::over(queues, us.clone(), mtu, (name.clone(), in_progress)));
        all.next().into_iter().for_each(|first| *self = first);
        Ok(all.map(|part| -> Box<dyn Transport> { Box::new(part) }).collect())
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.addresses.clone()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let seen = &self.seen;
        let mut all = vec![
            ("packet_responses_dropped", self.shared.dropped()),
            ("packet_too_long", self.shared.too_long.load(Relaxed)),
            ("packet_over_share", seen.over_share),
            ("packet_arp_requests", seen.arp),
            ("packet_neighbour_solicitations", seen.neighbours),
            ("packet_unanswered", seen.unanswered),
            ("packet_partial_checksums", seen.partial),
        ];
        let missing = self.frames().iter().map(|one| one.total.abs_diff(one.known) as u64).sum();
        all.push(("packet_frames_missing", missing));
        all.push(("packet_queues", self.queues.len() as u64));
        all.extend(Discard::NAMES.into_iter().zip(seen.refused));
        let counted: Vec<_> = self.queues.iter().map(|queue| queue.counters()).collect();
        if let Some(names) = counted.first() {
            all.extend(names.iter().enumerate().map(|(index, (name, _))| {
                (*name, counted.iter().filter_map(|one| Some(one.get(index)?.1)).sum())
            }));
        }
        all
    }
}

impl Shared {
    fn send(&self, to: Peer, payload: &[u8]) -> bool {
        let Peer::Packet { queue, address, hardware, from } = to else { return false };
        let Some(sender) = self.senders.get(usize::from(queue)) else { return false };
        let Some(&ours) = self.addresses.get(usize::from(address)) else { return false };
        if payload.len() + headers(&from) > self.mtu {
            self.too_long.fetch_add(1, Relaxed);
            return false;
        }
        let ends = Ends { ours: (self.hardware, ours), theirs: (hardware, from) };
        let mut write = |frame: &mut [u8]| answer::datagram(frame, ends, payload);
        if !sender.send(&mut write) {
            // Where no frame was free, what is queued is to be sent.
            sender.wake();
            if !sender.send(&mut write) {
                return false;
            }
        }
        sender.wake();
        true
    }
}

impl Reply for Shared {
    fn reply(&self, to: Peer, payload: &[u8]) {
        if !self.send(to, payload) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}
