//! `udp://IP:PORT?option=value`, `tcp://…`, `unix://…`, `http://…`,
//! `shm:///FILE`, `xdp://IFACE/IP:PORT`, `dpdk://DEVICE/IP:PORT`, and comma-separated lists of them. Cold path.

use crate::error::{OpenError, Reason};
use crate::packet::{DpdkConfig, Packets, XdpConfig, XdpMode};
use crate::{Both, Listen, OnFin, Shm, ShmConfig, Tcp, TcpConfig, Transport, Udp, UdpConfig, Wire};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

mod dpdk;

/// Bytes of an answer of HTTP that wait for its client: there is one at a time.
const HTTP_OUT: usize = 64 << 20;

const UDP_OPTIONS: &str = "max=SIZE, rcvbuf=SIZE, requests=N";
const SHM_OPTIONS: &str = "ring=SIZE, sessions=N, requests=N, out=SIZE";
const XDP_OPTIONS: &str = "mode=zerocopy|copy|generic, frames=N, max=SIZE, requests=N, \
     checksum=whole|partial";
const TCP_OPTIONS: &str = "max=SIZE, in=SIZE, out=SIZE, memory=SIZE, connections=N, burst=N, \
     backlog=N, prefix=u32le|u16be, fin=answer|cancel, stall=DURATION, idle=DURATION, keepalive=DURATION, \
     finwait=DURATION, linger=DURATION";

/// Opens what a URL names, or one transport for a comma-separated list of URLs.
///
/// * `udp://IP:PORT` with `max` (largest datagram), `rcvbuf` (receive buffer) and `requests` (in progress,
///   of all peers): see [`UdpConfig`];
/// * `tcp://IP:PORT` with `max` (largest frame), `in` and `out` (bytes in progress and unsent that
///   a connection may have), `memory` (that all may have), `connections`, `burst` (requests of one
///   connection before another's turn), `backlog`, `prefix` (`u32le`, or `u16be` for short frames, see
///   [`Wire`]), `fin` (`answer` or `cancel`, see [`OnFin`]), and the times `stall`, `idle`, `keepalive`, `finwait` and `linger`: see [`TcpConfig`];
/// * `unix:///FILE`: the same as `tcp`, over a Unix socket;
/// * `shm:///FILE`: shared memory, whose sessions begin at that Unix socket, with `ring` (bytes of each
///   of a session's two rings), `sessions`, `requests` (of a session, in progress) and `out` (bytes of
///   answers that wait for room): see [`ShmConfig`]; one in a list;
/// * `xdp://IFACE/IP:PORT`: datagrams past the kernel's network, by that interface, with `mode` (the
///   least that will do), `frames` (of a queue for each way), `max`, `requests`, and `checksum`
///   (`partial`: also those that were left to a device which makes none): see [`XdpConfig`]; of one
///   interface in a list;
/// * `dpdk://DEVICE/IP:PORT`: the same by DPDK, with `args` (the device's arguments) and `eal` (what
///   DPDK is started with), each with `;` between words and `%` before two digits of a byte, `queues`,
///   `frames`, `mtu`, `max`, `requests` and `checksum`: see [`DpdkConfig`]; in place of `xdp`;
/// * `http://IP:PORT` and `http+unix:///FILE`: HTTP/1.1 ([`crate::http`]), with the options of
///   `tcp`; `max` is of a body, and by default `out` is 64 MiB. They stand in a list with others of
///   HTTP only.
///
/// In place of an IP address there may be a name, such as `localhost`: its first IPv4 address, or else
/// its first, is listened on.
///
/// Sizes are bytes, or end in `k` or `m` (1,024 and its square); durations have a unit (`20ms`,
/// `1.5s`) and are 100 days at most; `stall`, `idle` and `keepalive` may be `off`. IPv6 addresses stand in brackets. Port 0: the kernel chooses, see [`Transport::local_addrs`]. All URLs
/// of one kind in a list share one set of options.
///
/// # Errors
/// [`OpenError`] says which part of the URL is wrong, or why the kernel refused the address.
pub fn open(url: &str) -> Result<Box<dyn Transport>, OpenError> {
    let mut wanted = Wanted::default();
    for part in url.split(',') {
        let part = part.trim();
        wanted.add(part).map_err(|reason| OpenError::Url { url: part.to_owned(), reason })?;
    }
    wanted.open()
}

/// What a list asks for.
#[derive(Default)]
struct Wanted {
    udp: Vec<SocketAddr>,
    streams: Vec<Listen>,
    shm: Option<PathBuf>,
    /// By DPDK or not, the interface or device, and where on it.
    packets: Option<(bool, String, Vec<SocketAddr>)>,
    http: bool,
    udp_config: UdpConfig,
    tcp_config: TcpConfig,
    shm_config: ShmConfig,
    xdp_config: XdpConfig,
    dpdk_config: DpdkConfig,
    /// Scheme, name and value of each option, to find contradictions.
    seen: Vec<(String, String, String)>,
}

impl Wanted {
    fn add(&mut self, url: &str) -> Result<(), Reason> {
        const SCHEMES: [&str; 8] =
            ["udp", "tcp", "unix", "http", "http+unix", "shm", "xdp", "dpdk"];
        let (scheme, rest) = url.split_once("://").ok_or(Reason::Scheme)?;
        if !SCHEMES.contains(&scheme) {
            return Err(Reason::Scheme);
        }
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let http = scheme.starts_with("http");
        let is_first = self.udp.is_empty()
            && self.streams.is_empty()
            && self.shm.is_none()
            && self.packets.is_none();
        if self.http != http && !is_first {
            return Err(Reason::Mixed);
        }
        if http && !self.http {
            self.http = true;
            self.tcp_config = TcpConfig { out_limit: HTTP_OUT, ..TcpConfig::http() };
        }
        match scheme {
            "unix" | "http+unix" | "shm" if !place.starts_with('/') => {
                return Err(Reason::File(place.to_owned()));
            }
            "unix" | "http+unix" => self.streams.push(Listen::Unix(place.into())),
            "shm" => {
                if self.shm.replace(place.into()).is_some() {
                    return Err(Reason::Twice);
                }
            }
            "xdp" | "dpdk" => self.add_packets(scheme == "dpdk", place)?,
            _ => {
                // `http://127.0.0.1:80/` is what people copy.
                let place = if http { place.strip_suffix('/').unwrap_or(place) } else { place };
                let found = resolve(place).ok_or_else(|| Reason::Address(place.to_owned()))?;
                match scheme {
                    "udp" => self.udp.push(found),
                    _ => self.streams.push(Listen::Inet(found)),
                }
            }
        }
        // All that are no datagrams are one transport, with one set of options.
        let kind = if matches!(scheme, "udp" | "shm" | "xdp" | "dpdk") { scheme } else { "tcp" };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            self.remember(kind, name, value)?;
            match kind {
                "udp" => self.set_udp(name, value)?,
                "shm" => self.set_shm(name, value)?,
                "xdp" => self.set_xdp(name, value)?,
                "dpdk" => dpdk::set(&mut self.dpdk_config, name, value)?,
                _ => self.set_tcp(name, value)?,
            }
        }
        Ok(())
    }

    /// `IFACE/IP:PORT`, or `DEVICE/IP:PORT`.
    fn add_packets(&mut self, by_dpdk: bool, place: &str) -> Result<(), Reason> {
        let named = place.split_once('/').filter(|(interface, _)| !interface.is_empty());
        let form = if by_dpdk { Reason::Device } else { Reason::Interface };
        let (interface, address) = named.ok_or_else(|| form(place.to_owned()))?;
        let found = resolve(address).ok_or_else(|| Reason::Address(address.to_owned()))?;
        let first = || (by_dpdk, interface.to_owned(), vec![]);
        let (known_by_dpdk, known, addresses) = self.packets.get_or_insert_with(first);
        if (*known_by_dpdk, &**known) != (by_dpdk, interface) {
            return Err(Reason::Interfaces);
        }
        addresses.push(found);
        Ok(())
    }

    fn open(self) -> Result<Box<dyn Transport>, OpenError> {
        let mut all: Option<Box<dyn Transport>> = None;
        if !self.udp.is_empty() {
            all = Some(Box::new(Udp::bind(&self.udp, &self.udp_config)?));
        }
        if !self.streams.is_empty() {
            let streams = Tcp::listen(&self.streams, &self.tcp_config)?;
            all = Some(match all {
                Some(others) => Box::new(Both::new(others, streams)),
                None => Box::new(streams),
            });
        }
        if let Some(path) = self.shm {
            let shm = Shm::listen(&path, &self.shm_config)?;
            all = Some(match all {
                Some(others) => Box::new(Both::with_shm(others, shm)),
                None => Box::new(shm),
            });
        }
        if let Some((by_dpdk, interface, addresses)) = self.packets {
            let packets = match by_dpdk {
                true => Packets::dpdk(&interface, &addresses, &self.dpdk_config)?,
                false => Packets::xdp(&interface, &addresses, &self.xdp_config)?,
            };
            all = Some(match all {
                Some(others) => Box::new(Both::with_packets(others, packets)),
                None => Box::new(packets),
            });
        }
        all.ok_or(OpenError::NoAddress)
    }

    fn remember(&mut self, scheme: &str, name: &str, value: &str) -> Result<(), Reason> {
        let same = |(s, n, _): &&(String, String, String)| s == scheme && n == name;
        match self.seen.iter().find(same) {
            Some((_, _, before)) if before != value => Err(Reason::Conflict(name.to_owned())),
            Some(_) => Ok(()),
            None => {
                self.seen.push((scheme.to_owned(), name.to_owned(), value.to_owned()));
                Ok(())
            }
        }
    }

    fn set_udp(&mut self, name: &str, value: &str) -> Result<(), Reason> {
        let config = &mut self.udp_config;
        match name {
            "max" => config.limit = size(name, value)?,
            "rcvbuf" => config.receive_buffer = size(name, value)?,
            "requests" => config.in_progress = size(name, value)?,
            _ => return Err(Reason::Option { name: name.to_owned(), known: UDP_OPTIONS }),
        }
        Ok(())
    }

    fn set_shm(&mut self, name: &str, value: &str) -> Result<(), Reason> {
        let config = &mut self.shm_config;
        match name {
            "ring" => config.ring = size(name, value)?,
            "sessions" => config.sessions = size(name, value)?,
            "requests" => config.requests = size(name, value)?,
            "out" => config.out_limit = size(name, value)?,
            _ => return Err(Reason::Option { name: name.to_owned(), known: SHM_OPTIONS }),
        }
        Ok(())
    }

    fn set_xdp(&mut self, name: &str, value: &str) -> Result<(), Reason> {
        let config = &mut self.xdp_config;
        match name {
            "mode" => config.mode = Some(mode(name, value)?),
            "frames" => config.frames = size(name, value)?,
            "max" => config.limit = size(name, value)?,
            "requests" => config.in_progress = size(name, value)?,
            "checksum" => config.partial = is_partial(name, value)?,
            _ => return Err(Reason::Option { name: name.to_owned(), known: XDP_OPTIONS }),
        }
        Ok(())
    }

    fn set_tcp(&mut self, name: &str, value: &str) -> Result<(), Reason> {
        let config = &mut self.tcp_config;
        match name {
            "max" => config.limit = size(name, value)?,
            "out" => config.out_limit = size(name, value)?,
            "connections" => config.connections = size(name, value)?,
            "burst" => config.burst = size(name, value)?,
            "backlog" => config.backlog = size(name, value)?,
            "in" => config.in_limit = size(name, value)?,
            "prefix" if !self.http => config.wire = prefix(name, value)?,
            "fin" => config.on_fin = on_fin(name, value)?,
            "memory" => config.memory = size(name, value)?,
            "stall" => config.stall = time_or_off(name, value)?,
            "idle" => config.idle = time_or_off(name, value)?,
            "keepalive" => config.keepalive = time_or_off(name, value)?,
            "finwait" => config.fin_wait = duration(name, value)?,
            "linger" => config.linger = duration(name, value)?,
            _ => return Err(Reason::Option { name: name.to_owned(), known: TCP_OPTIONS }),
        }
        Ok(())
    }
}

/// An IP address and a port, or a name and a port.
fn resolve(address: &str) -> Option<SocketAddr> {
    if let Ok(parsed) = address.parse() {
        return Some(parsed);
    }
    let (host, port) = address.rsplit_once(':')?;
    let known = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if host.is_empty() || !host.chars().all(known) || number(port).is_none() {
        return None;
    }
    let found: Vec<_> = address.to_socket_addrs().ok()?.collect();
    found.iter().find(|found| found.is_ipv4()).or(found.first()).copied()
}

fn size(name: &str, value: &str) -> Result<usize, Reason> {
    let (digits, unit) = if let Some(digits) = value.strip_suffix(['k', 'K']) {
        (digits, 1 << 10)
    } else if let Some(digits) = value.strip_suffix(['m', 'M']) {
        (digits, 1 << 20)
    } else {
        (value, 1)
    };
    let parsed = number(digits).and_then(|n| usize::try_from(n).ok()?.checked_mul(unit));
    parsed.ok_or_else(|| bad(name, value, "a number, like 2048, 64k or 1m"))
}

fn time_or_off(name: &str, value: &str) -> Result<Option<Duration>, Reason> {
    match value {
        "off" => Ok(None),
        "0" => Err(bad(name, value, "a duration, like 500ms or 30s, or off")),
        _ => duration(name, value).map(Some),
    }
}

fn duration(name: &str, value: &str) -> Result<Duration, Reason> {
    // A number without a unit is none; of all, the grammar would take 0.
    let parsed = curtail_notation::duration_ns(value).ok().filter(|_| number(value).is_none());
    let parsed = parsed.map(Duration::from_nanos);
    parsed.ok_or_else(|| bad(name, value, "a duration, like 500ms or 30s"))
}

fn mode(name: &str, value: &str) -> Result<XdpMode, Reason> {
    match value {
        "zerocopy" => Ok(XdpMode::ZeroCopy),
        "copy" => Ok(XdpMode::Copy),
        "generic" => Ok(XdpMode::Generic),
        _ => Err(bad(name, value, "zerocopy, copy or generic")),
    }
}

fn is_partial(name: &str, value: &str) -> Result<bool, Reason> {
    match value {
        "whole" => Ok(false),
        "partial" => Ok(true),
        _ => Err(bad(name, value, "whole or partial")),
    }
}

fn on_fin(name: &str, value: &str) -> Result<OnFin, Reason> {
    match value {
        "answer" => Ok(OnFin::Answer),
        "cancel" => Ok(OnFin::Cancel),
        _ => Err(bad(name, value, "answer or cancel")),
    }
}

fn prefix(name: &str, value: &str) -> Result<Wire, Reason> {
    match value {
        "u32le" => Ok(Wire::Frames),
        "u16be" => Ok(Wire::ShortFrames),
        _ => Err(bad(name, value, "u32le or u16be")),
    }
}

/// Digits only: `u64::from_str` would take a sign too.
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn bad(name: &str, value: &str, expected: &'static str) -> Reason {
    Reason::Value { name: name.to_owned(), value: value.to_owned(), expected }
}
