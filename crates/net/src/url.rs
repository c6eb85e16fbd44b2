//! `udp://IP:PORT?option=value` and `tcp://…`, and comma-separated lists of them. Cold path.

use crate::error::{OpenError, Reason};
use crate::{Both, Tcp, TcpConfig, Transport, Udp, UdpConfig};
use std::net::SocketAddr;
use std::time::Duration;

const UDP_OPTIONS: &str = "max=SIZE, rcvbuf=SIZE, requests=N";
const TCP_OPTIONS: &str = "max=SIZE, in=SIZE, out=SIZE, memory=SIZE, connections=N, burst=N, \
     backlog=N, stall=DURATION, idle=DURATION, keepalive=DURATION, finwait=DURATION, linger=DURATION";

/// Opens what a URL names, or one transport for a comma-separated list of URLs.
///
/// * `udp://IP:PORT` with `max` (largest datagram), `rcvbuf` (receive buffer) and `requests` (in progress,
///   of all peers): see [`UdpConfig`];
/// * `tcp://IP:PORT` with `max` (largest frame), `in` and `out` (bytes in progress and unsent that a
///   connection may have), `memory` (that all may have), `connections`, `burst` (requests of one
///   connection before another's turn), `backlog`, `stall` (the time to end a begun frame and to
///   take responses), `idle` (after which a silent connection is closed), `keepalive` (after which a
///   silent peer is probed), `finwait` (for the peer's FIN after ours) and `linger` (how long closing
///   may take): see [`TcpConfig`]. `stall`, `idle` and `keepalive` may be `off`.
///
/// Sizes are bytes, or end in `k` or `m` (1,024 and its square); durations end in `ms` or `s`. IPv6
/// addresses stand in brackets. Port 0: the kernel chooses, see [`Transport::local_addrs`]. All URLs
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
    let Wanted { udp, tcp, udp_config, tcp_config, .. } = wanted;
    Ok(match (udp.is_empty(), tcp.is_empty()) {
        (false, true) => Box::new(Udp::bind(&udp, &udp_config)?),
        (true, false) => Box::new(Tcp::bind(&tcp, &tcp_config)?),
        _ => Box::new(Both::new(Udp::bind(&udp, &udp_config)?, Tcp::bind(&tcp, &tcp_config)?)),
    })
}

/// What a list asks for.
#[derive(Default)]
struct Wanted {
    udp: Vec<SocketAddr>,
    tcp: Vec<SocketAddr>,
    udp_config: UdpConfig,
    tcp_config: TcpConfig,
    /// Scheme, name and value of each option, to find contradictions.
    seen: Vec<(String, String, String)>,
}

impl Wanted {
    fn add(&mut self, url: &str) -> Result<(), Reason> {
        let (scheme, rest) = url.split_once("://").ok_or(Reason::Scheme)?;
        if !matches!(scheme, "udp" | "tcp") {
            return Err(Reason::Scheme);
        }
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let parsed = address.parse().map_err(|_| Reason::Address(address.to_owned()))?;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            self.remember(scheme, name, value)?;
            if scheme == "udp" {
                self.set_udp(name, value)?;
            } else {
                self.set_tcp(name, value)?;
            }
        }
        if scheme == "udp" {
            self.udp.push(parsed)
        } else {
            self.tcp.push(parsed)
        }
        Ok(())
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

    fn set_tcp(&mut self, name: &str, value: &str) -> Result<(), Reason> {
        let config = &mut self.tcp_config;
        match name {
            "max" => config.limit = size(name, value)?,
            "out" => config.out_limit = size(name, value)?,
            "connections" => config.connections = size(name, value)?,
            "burst" => config.burst = size(name, value)?,
            "backlog" => config.backlog = size(name, value)?,
            "in" => config.in_limit = size(name, value)?,
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
    if value == "off" { Ok(None) } else { duration(name, value).map(Some) }
}

fn duration(name: &str, value: &str) -> Result<Duration, Reason> {
    let parsed = if let Some(digits) = value.strip_suffix("ms") {
        number(digits).map(Duration::from_millis)
    } else {
        value.strip_suffix('s').and_then(number).map(Duration::from_secs)
    };
    parsed.ok_or_else(|| bad(name, value, "a duration, like 500ms or 30s"))
}

/// Digits only: `u64::from_str` would take a sign too.
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn bad(name: &str, value: &str, expected: &'static str) -> Reason {
    Reason::Value { name: name.to_owned(), value: value.to_owned(), expected }
}
