//! Why frames of an interface can't be had: one message a case, each with what is missing. Cold path.

use rustix::io::Errno;
use std::io;
use thiserror::Error;

/// Why frames of an interface can't be had.
#[derive(Debug, Error)]
pub enum XdpError {
    /// No such interface.
    #[error("no such network interface; `ip link` lists them")]
    NoInterface,
    /// A loopback or a tunnel.
    #[error("not an Ethernet interface")]
    NotEthernet,
    /// The kernel has no `AF_XDP`.
    #[error("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.9 or later)")]
    NoKernel,
    /// The process may not.
    #[error("not permitted to {what}: this needs {capability}")]
    Capability {
        /// What was tried.
        what: &'static str,
        /// What is missing.
        capability: &'static str,
    },
    /// Too little memory may be locked.
    #[error("no memory for frames: a higher `ulimit -l`, CAP_IPC_LOCK, or a smaller `frames=`")]
    Memory,
    /// Another program is attached.
    #[error(
        "the interface has an XDP program already; `ip link show` names it, `ip link set … xdp off` \
             ends it"
    )]
    InUse,
    /// Another socket has the queue.
    #[error("another AF_XDP socket has queue {0}")]
    QueueInUse(u32),
    /// The driver can't do what was asked for.
    #[error("its driver has no such mode as was asked for; without `mode=` there is another")]
    Mode,
    /// The kernel refused for another reason.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl XdpError {
    pub(crate) fn system(what: &'static str, error: Errno) -> Self {
        Self::System { what, source: error.into() }
    }

    pub(crate) fn of_socket(error: Errno) -> Self {
        match error {
            Errno::PERM | Errno::ACCESS => {
                Self::Capability { what: "open an AF_XDP socket", capability: "CAP_NET_RAW" }
            }
            Errno::AFNOSUPPORT => Self::NoKernel,
            other => Self::system("socket", other),
        }
    }

    pub(crate) fn of_memory(error: Errno) -> Self {
        match error {
            Errno::NOBUFS | Errno::NOMEM | Errno::PERM => Self::Memory,
            Errno::NOSYS | Errno::NOPROTOOPT => Self::NoKernel,
            other => Self::system("AF_XDP memory", other),
        }
    }

    pub(crate) fn of_bind(error: Errno, queue: u32) -> Self {
        match error {
            Errno::BUSY => Self::QueueInUse(queue),
            Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => Self::Mode,
            Errno::NODEV | Errno::NETDOWN => Self::system("bind (is the interface up?)", error),
            other => Self::system("bind", other),
        }
    }

    pub(crate) fn of_bpf(what: &'static str, capability: &'static str, error: Errno) -> Self {
        match error {
            Errno::PERM | Errno::ACCESS => Self::Capability { what, capability },
            Errno::BUSY | Errno::EXIST => Self::InUse,
            other => Self::system(what, other),
        }
    }
}
