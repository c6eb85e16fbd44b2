//! `AF_XDP`: frames of an interface of the kernel's, past the kernel's network.
//!
//! A program at the interface hands requests for our addresses to sockets that share memory with us,
//! one socket for each of the interface's queues; all else goes the usual way. An address that the
//! interface has is resolved by the kernel; for one that it has not, we answer ARP and NDP. Program
//! and sockets go with their descriptors.

use super::{PacketConfig, PacketDriver, Packets, reserve};
use crate::error::OpenError;
pub use crate::error::XdpError;
use interface::Interface;
use program::Served;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
pub use socket::AfXdp;
use socket::Shape;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

mod bpf;
mod interface;
mod program;
mod ring;
mod socket;

/// What the kernel keeps free in front of a frame, and Ethernet's header with a tag.
const AROUND: usize = 256 + 18;

/// The kernel takes a queue back from a socket some time after that was closed.
const RETURN: Duration = Duration::from_millis(500);

/// How frames pass between the device and us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// The device reads and writes our memory.
    ZeroCopy,
    /// The kernel's driver copies.
    Copy,
    /// The kernel copies, as its driver has no hook for programs.
    Generic,
}

impl XdpMode {
    const fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zerocopy",
            Self::Copy => "copy",
            Self::Generic => "generic",
        }
    }
}

/// Settings of [`Packets::xdp`].
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// The least that will do; `None`: the best that there is. Default `None`.
    pub mode: Option<XdpMode>,
    /// Frames of a queue for each way, 64 to 32,768; rounded up to a power of two. Default 2,048.
    pub frames: usize,
    /// See [`PacketConfig::limit`].
    pub limit: usize,
    /// See [`PacketConfig::in_progress`].
    pub in_progress: usize,
    /// See [`PacketConfig::partial`].
    pub partial: bool,
}

impl Default for XdpConfig {
    fn default() -> Self {
        Self { mode: None, frames: 2_048, limit: 2_048, in_progress: 16 << 10, partial: false }
    }
}

/// Why this process can't use `AF_XDP`, as far as that is seen without an interface; `None`: it can.
#[must_use]
pub fn why_not() -> Option<XdpError> {
    let attempt = || -> Result<(), XdpError> {
        rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None)
            .map_err(XdpError::of_socket)?;
        let anywhere = SocketAddr::from(([192, 0, 2, 1], 1));
        program(&[Served { address: anywhere, is_ours_alone: true }], 1).map(drop)
    };
    attempt().err()
}

/// A program and its map.
fn program(served: &[Served], queues: u32) -> Result<(OwnedFd, OwnedFd), XdpError> {
    let map = bpf::map(queues)
        .map_err(|error| XdpError::of_bpf("make a BPF map", "CAP_BPF (or CAP_SYS_ADMIN)", error))?;
    let code = program::build(served, map.as_raw_fd());
    let program = bpf::load(&code).map_err(|error| {
        XdpError::of_bpf("load an XDP program", "CAP_BPF and CAP_NET_ADMIN", error)
    })?;
    Ok((map, program))
}

/// What keeps the program at the interface, and the ports that it takes from the kernel taken there.
struct Attached {
    _link: OwnedFd,
    _reserved: Vec<OwnedFd>,
    map: OwnedFd,
    is_generic: bool,
}

impl Attached {
    fn new(
        interface: &Interface,
        served: &[Served],
        reserved: Vec<OwnedFd>,
        wanted: Option<XdpMode>,
    ) -> Result<Self, XdpError> {
        let (map, program) = program(served, interface.queues)?;
        let link = |generic| bpf::link(&program, interface.index, generic);
        let failed = |error| XdpError::of_bpf("attach an XDP program", "CAP_NET_ADMIN", error);
        let (link, is_generic) = match wanted {
            Some(XdpMode::Generic) => (link(true).map_err(failed)?, true),
            Some(_) => (link(false).map_err(failed)?, false),
            None => match link(false) {
                Ok(link) => (link, false),
                // It has the hook and won't have us, because of the MTU say.
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::RANGE | Errno::TOOBIG) => {
                    (link(true).map_err(failed)?, true)
                }
                Err(error) => return Err(failed(error)),
            },
        };
        Ok(Self { _link: link, _reserved: reserved, map, is_generic })
    }

    /// Opens a queue in the best of the modes that will do.
    fn open(self: &Arc<Self>, shape: Shape, wanted: Option<XdpMode>) -> Result<AfXdp, XdpError> {
        let until = Instant::now() + RETURN;
        let open = |zero_copy| loop {
            match AfXdp::open(Shape { zero_copy, ..shape }, self.clone()) {
                Err(XdpError::QueueInUse(_)) if Instant::now() < until => sleep(RETURN / 100),
                other => return other,
            }
        };
        let zero_copy = matches!(wanted, None | Some(XdpMode::ZeroCopy)) && !self.is_generic;
        let queue = match zero_copy {
            true => match open(true) {
                Err(XdpError::Mode | XdpError::System { .. }) if wanted.is_none() => open(false),
                other => other,
            },
            false => open(false),
        }?;
        bpf::enter(&self.map, shape.queue, queue.socket())
            .map_err(|error| XdpError::system("BPF map", error))?;
        Ok(queue)
    }
}

impl Packets {
    /// Serves `addresses`, UDP, by all queues of an interface. Ports of addresses that the kernel has
    /// are taken from it: of those, 0 lets it choose.
    ///
    /// # Errors
    /// [`OpenError::Xdp`] says what is missing; or a setting is out of range.
    pub fn xdp(
        name: &str,
        addresses: &[SocketAddr],
        config: &XdpConfig,
    ) -> Result<Self, OpenError> {
        OpenError::within("frames", config.frames, 64, 1 << 15)?;
        let failed = |reason| OpenError::Xdp { interface: name.to_owned(), reason };
        let interface = Interface::find(name).map_err(failed)?;
        let mut served = Vec::new();
        let mut reserved = Vec::new();
        for &address in addresses {
            let (address, socket) = reserve(address)?;
            served.push(Served { address, is_ours_alone: socket.is_none() });
            reserved.extend(socket);
        }
        let attached = Attached::new(&interface, &served, reserved, config.mode);
        let attached = Arc::new(attached.map_err(failed)?);
        let page = rustix::param::page_size();
        let mtu = interface.mtu.min(page - AROUND);
        let frame_bytes = if mtu + AROUND <= 2_048 { 2_048 } else { page };
        let mut queues = Vec::new();
        for queue in 0..interface.queues {
            let shape = Shape {
                interface: interface.index,
                queue,
                frames: config.frames.next_power_of_two() as u32,
                frame_bytes: frame_bytes as u32,
                zero_copy: false,
            };
            queues.push(attached.open(shape, config.mode).map_err(failed)?);
        }
        let mode = queues.first().map_or(XdpMode::Copy, |one| one.mode(attached.is_generic));
        let queues = queues.into_iter().map(|one| Box::new(one) as Box<dyn PacketDriver>);
        let addresses: Vec<_> = served.iter().map(|one| one.address).collect();
        let url = |address| format!("xdp://{name}/{address}?mode={}", mode.name());
        let urls: Vec<_> = addresses.iter().map(url).collect();
        let config = PacketConfig {
            limit: config.limit,
            in_progress: config.in_progress,
            partial: config.partial,
            ..PacketConfig::new(urls.join(","), interface.hardware, mtu)
        };
        Self::new(queues.collect(), &addresses, &config)
    }
}
