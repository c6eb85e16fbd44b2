//! What the kernel knows of a network interface, asked by `ioctl`: that sees the network namespace
//! that the thread is in, which `/sys` need not. Cold path.

use super::XdpError;
use crate::packet::Hardware;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `ETHTOOL_GCHANNELS` of the kernel's `ethtool.h`.
const CHANNELS: u32 = 0x3c;
/// `SIOCETHTOOL`.
const ETHTOOL: libc::c_ulong = 0x8946;

pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) hardware: Hardware,
    pub(super) mtu: usize,
    /// Queues that frames come in by.
    pub(super) queues: u32,
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

impl Interface {
    pub(super) fn find(name: &str) -> Result<Self, XdpError> {
        let failed = |error: Errno| XdpError::System { what: "socket", source: error.into() };
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .map_err(failed)?;
        let missing = |_| XdpError::NoInterface;
        let index = netdevice::name_to_index(&socket, name).map_err(missing)?;
        let mut request = request(name).ok_or(XdpError::NoInterface)?;
        ask(&socket, libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the call that succeeded has written this part of the union.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(XdpError::NotEthernet);
        }
        let hardware = std::array::from_fn(|at| address.sa_data[at] as u8);
        ask(&socket, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: as above.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        let queues = queues(&socket, &mut request);
        Ok(Self { index, hardware, mtu: mtu.max(0) as usize, queues })
    }
}

/// A question about the interface of that name.
fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: `ifreq` is a C struct of characters and a union of plain values and nullable pointers,
    // for which all-zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last character stays zero.
    let place = request.ifr_name.get_mut(..name.len())?;
    if name.len() >= libc::IFNAMSIZ {
        return None;
    }
    for (to, from) in place.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

fn ask(socket: &OwnedFd, what: libc::c_ulong, request: &mut libc::ifreq) -> Result<(), XdpError> {
    // SAFETY: these questions read the name and write within the `ifreq`, which outlives the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut *request) };
    let error = || XdpError::System { what: "ioctl", source: io::Error::last_os_error() };
    if answer == 0 { Ok(()) } else { Err(error()) }
}

/// A device that does not say has one.
fn queues(socket: &OwnedFd, request: &mut libc::ifreq) -> u32 {
    let mut channels = Channels { command: CHANNELS, ..Channels::default() };
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: for this command the kernel reads and writes one `struct ethtool_channels` where the
    // pointer says, which outlives the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL as _, &raw mut *request) };
    match answer {
        0 => (channels.receive + channels.combined).max(1),
        _ => 1,
    }
}
