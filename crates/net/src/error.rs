//! Why a transport could not be opened, and why a request has no response. One message a case; of the
//! first, each with what to do. Cold path.

pub use dpdk::DpdkError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;
pub use xdp::XdpError;

mod dpdk;
mod xdp;

/// Why a transport could not be opened.
#[derive(Error)]
pub enum OpenError {
    /// The URL is not one that [`crate::open`] understands.
    #[error("bad URL `{url}`: {reason}")]
    Url {
        /// The URL, as given.
        url: String,
        /// What is wrong with it.
        reason: Reason,
    },
    /// Another socket is bound to that address.
    #[error("{address}: address already in use; stop the other server or choose another port")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// A process listens on that Unix socket, or the file is something else.
    #[error("{}: in use; stop the other server or choose another file", path.display())]
    UnixInUse {
        /// The file.
        path: PathBuf,
    },
    /// This user may not listen there.
    #[error("{address}: permission denied; ports below 1024 need CAP_NET_BIND_SERVICE")]
    Permission {
        /// The address.
        address: SocketAddr,
    },
    /// No interface of this machine has that address.
    #[error("{address}: not an address of this machine")]
    NotLocal {
        /// The address.
        address: SocketAddr,
    },
    /// Frames of an interface can't be had.
    #[error("xdp://{interface}: {reason}")]
    Xdp {
        /// The interface.
        interface: String,
        /// Why not.
        reason: XdpError,
    },
    /// A device can't be had by DPDK.
    #[error("dpdk://{device}: {reason}")]
    Dpdk {
        /// The device.
        device: String,
        /// Why not.
        reason: DpdkError,
    },
    /// `0.0.0.0` and the like, of a transport past the kernel's network.
    #[error("{0} is not the address of one host")]
    NotOne(SocketAddr),
    /// Port 0 with an address that the kernel does not have.
    #[error(
        "{0} is not an address of this machine, for which the kernel could choose a port: name one"
    )]
    NoPort(SocketAddr),
    /// A setting is out of range.
    #[error("{what} is {value}, not within {least}..={most}")]
    Range {
        /// Which setting.
        what: &'static str,
        /// What was given.
        value: usize,
        /// The least that is possible.
        least: usize,
        /// The most that is possible.
        most: usize,
    },
    /// No address was given.
    #[error("no address to listen on")]
    NoAddress,
    /// The kernel refused for another reason.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
}

/// What is wrong with a URL.
#[derive(Error, PartialEq, Eq)]
pub enum Reason {
    /// None of the schemes that there are.
    #[error(
        "expected udp://IP:PORT, tcp://IP:PORT, unix:///FILE, http://IP:PORT, http+unix:///FILE, \
         shm:///FILE, xdp://IFACE/IP:PORT or dpdk://DEVICE/IP:PORT"
    )]
    Scheme,
    /// HTTP beside frames or datagrams.
    #[error("a list is of frames and datagrams, or of HTTP: give a server two transports")]
    Mixed,
    /// Shared memory, more than once.
    #[error("a list has one shm:// only")]
    Twice,
    /// Interfaces, more than one.
    #[error("a list has xdp:// or dpdk:// of one interface only")]
    Interfaces,
    /// No interface.
    #[error("`{0}` is not IFACE/IP:PORT, like eth0/10.0.0.1:4000")]
    Interface(String),
    /// No device.
    #[error("`{0}` is not DEVICE/IP:PORT, like 0000:03:00.0/10.0.0.1:4000")]
    Device(String),
    /// No path.
    #[error("`{0}` is no file for a Unix socket, like unix:///run/curtail.sock")]
    File(String),
    /// Not an IP address (or a name that is known) and a port.
    #[error("`{0}` is not IP:PORT, like 127.0.0.1:4000 or [::1]:4000, and no name that is known")]
    Address(String),
    /// An option that this transport does not have.
    #[error("no option `{name}` here; there is {known}")]
    Option {
        /// The option.
        name: String,
        /// Those that there are.
        known: &'static str,
    },
    /// An option's value is not what it should be.
    #[error("option `{name}`: `{value}` is not {expected}")]
    Value {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Two URLs of one list give one option two values.
    #[error("option `{0}` was given another value before; one transport serves the whole list")]
    Conflict(String),
}

/// Why there is no response and never will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoResponse {
    /// The handler returned without one.
    #[error("the handler gave no response")]
    Silent,
    /// The handler panicked or threw.
    #[error("the handler failed")]
    Failed,
    /// The server had no room for the request.
    #[error("the server had no room for the request")]
    Dropped,
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// It is longer than the transport carries.
    #[error("longer than the transport carries")]
    TooLong,
    /// The transport was closed first.
    #[error("the transport was closed")]
    Closed,
}

impl OpenError {
    /// The right variant for what the kernel answered to `socket`, `bind` or `listen`.
    pub(crate) fn of(address: SocketAddr, error: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match error {
            Errno::ADDRINUSE => Self::InUse { address },
            Errno::ACCESS | Errno::PERM => Self::Permission { address },
            Errno::ADDRNOTAVAIL => Self::NotLocal { address },
            other => Self::System { what: address.to_string(), source: other.into() },
        }
    }

    /// A call that has nothing to do with an address failed.
    pub(crate) fn system(what: &str, error: rustix::io::Errno) -> Self {
        Self::System { what: what.to_owned(), source: error.into() }
    }

    /// `value`, if it is within bounds.
    pub(crate) fn within(
        what: &'static str,
        value: usize,
        least: usize,
        most: usize,
    ) -> Result<usize, Self> {
        if (least..=most).contains(&value) {
            Ok(value)
        } else {
            Err(Self::Range { what, value, least, most })
        }
    }
}

/// What `main` prints of an error that it returns.
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
