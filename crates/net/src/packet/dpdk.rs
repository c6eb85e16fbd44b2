//! DPDK: frames of a device of which the kernel knows nothing, or of one of DPDK's virtual devices.
//!
//! Without the feature `dpdk`, `port` and `eal` are not there, and opening says so. A device is taken
//! from DPDK when a transport is opened and goes back with its last user. DPDK itself starts once in a
//! process and stays.

use super::Packets;
#[cfg(feature = "dpdk")]
use super::{Hardware, PacketConfig, PacketDriver, reserve};
pub use crate::error::DpdkError;
use crate::error::OpenError;
use std::net::SocketAddr;

#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod port;

/// Settings of [`Packets::dpdk`].
#[derive(Clone, Debug)]
pub struct DpdkConfig {
    /// What DPDK is started with beside our own words, such as `--no-huge`. Default: none.
    pub eal: Vec<String>,
    /// The device's arguments, such as `iface=eth0`, with commas in between. Default: none.
    pub arguments: String,
    /// Queues for each way, 1 to 64, over which a device spreads flows. Default 1.
    pub queues: usize,
    /// Frames of a queue for each way, 64 to 32,768; rounded up to a power of two, and to what the
    /// device can. Default 2,048.
    pub frames: usize,
    /// Bytes of the largest packet of the link, 576 to 9,216. Default 1,500.
    pub mtu: usize,
    /// See [`PacketConfig::limit`](super::PacketConfig::limit).
    pub limit: usize,
    /// See [`PacketConfig::in_progress`](super::PacketConfig::in_progress).
    pub in_progress: usize,
    /// See [`PacketConfig::partial`](super::PacketConfig::partial).
    pub partial: bool,
}

impl Default for DpdkConfig {
    fn default() -> Self {
        Self {
            eal: Vec::new(),
            arguments: String::new(),
            queues: 1,
            frames: 2_048,
            mtu: 1_500,
            limit: 2_048,
            in_progress: 16 << 10,
            partial: false,
        }
    }
}

/// The version of the DPDK that is built in; `None`: the feature `dpdk` is off.
#[must_use]
pub fn dpdk_version() -> Option<String> {
    #[cfg(feature = "dpdk")]
    return Some(port::version());
    #[cfg(not(feature = "dpdk"))]
    None
}

/// A device's queues and its Ethernet address, for a transport of one's own.
///
/// # Errors
/// As [`Packets::dpdk`].
#[cfg(feature = "dpdk")]
pub fn dpdk_queues(
    device: &str,
    config: &DpdkConfig,
) -> Result<(Vec<Box<dyn PacketDriver>>, Hardware), OpenError> {
    queues(device, config, Vec::new()).map(|(queues, hardware, _)| (queues, hardware))
}

/// A device's queues, its Ethernet address, and whether it spreads flows over the queues.
#[cfg(feature = "dpdk")]
type Device = (Vec<Box<dyn PacketDriver>>, Hardware, bool);

#[cfg(feature = "dpdk")]
fn queues(
    device: &str,
    config: &DpdkConfig,
    reserved: Vec<std::os::fd::OwnedFd>,
) -> Result<Device, OpenError> {
    OpenError::within("frames", config.frames, 64, 1 << 15)?;
    OpenError::within("queues", config.queues, 1, 64)?;
    OpenError::within("MTU", config.mtu, super::MTU.0, super::MTU.1)?;
    let failed = |reason| OpenError::Dpdk { device: device.to_owned(), reason };
    let (queues, hardware, spreads) = port::open(device, config, reserved).map_err(failed)?;
    Ok((queues.into_iter().map(|one| Box::new(one) as _).collect(), hardware, spreads))
}

impl Packets {
    /// Serves `addresses`, UDP, by a device: a NIC's PCI address, or the name of a virtual device. Ports
    /// of addresses that the kernel has, too, are taken from it: of those, 0 lets it choose.
    ///
    /// # Errors
    /// [`OpenError::Dpdk`] says what is missing; or a setting is out of range.
    #[cfg(feature = "dpdk")]
    pub fn dpdk(
        device: &str,
        addresses: &[SocketAddr],
        config: &DpdkConfig,
    ) -> Result<Self, OpenError> {
        let mut served = Vec::new();
        let mut reserved = Vec::new();
        for &address in addresses {
            let (address, socket) = reserve(address)?;
            served.push(address);
            reserved.extend(socket);
        }
        let (queues, hardware, spreads) = queues(device, config, reserved)?;
        let urls: Vec<_> = served.iter().map(|it| format!("dpdk://{device}/{it}")).collect();
        let config = PacketConfig {
            limit: config.limit,
            in_progress: config.in_progress,
            partial: config.partial,
            spreads,
            ..PacketConfig::new(urls.join(","), hardware, config.mtu)
        };
        Self::new(queues, &served, &config)
    }

    /// Says that the feature `dpdk` is off.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "dpdk"))]
    pub fn dpdk(device: &str, _: &[SocketAddr], _: &DpdkConfig) -> Result<Self, OpenError> {
        Err(OpenError::Dpdk { device: device.to_owned(), reason: DpdkError::NotBuilt })
    }
}
