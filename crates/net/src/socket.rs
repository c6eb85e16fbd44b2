//! What the socket transports share: bound non-blocking sockets and small descriptor helpers.

use crate::error::OpenError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A bound, non-blocking, close-on-exec socket and the address it has got. No other socket has it.
///
/// IPv6 sockets take IPv6 only, so that `0.0.0.0:p` and `[::]:p` can stand side by side in one list
/// and mean what they say.
pub(crate) fn bind(
    address: SocketAddr,
    kind: SocketType,
) -> Result<(OwnedFd, SocketAddr), OpenError> {
    let attempt = || {
        let socket = bind_with(address, kind, false)?;
        let bound = local_address(&socket)?;
        Ok((socket, bound))
    };
    attempt().map_err(|error| OpenError::of(address, error))
}

/// A socket like those of [`bind`], at an address that others have with which it may be shared.
pub(crate) fn bind_beside(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, OpenError> {
    bind_with(address, kind, true).map_err(|error| OpenError::of(address, error))
}

fn bind_with(address: SocketAddr, kind: SocketType, beside: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if kind == SocketType::STREAM {
        // A restarted server need not wait for TIME_WAIT. Not for datagrams: there it would
        // let a second server take the first one's packets.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if beside {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// The address that a socket is bound to.
pub(crate) fn local_address(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(net::getsockname(socket)?)
}

/// A non-blocking event counter.
pub(crate) fn event() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
}

/// Makes an event counter readable. It cannot fail short of 2⁶⁴ − 2 unread signals, and then it is
/// readable already.
pub(crate) fn signal(event: impl AsFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// Takes the count out of an event counter or an expired timer; 0 where there is none.
pub(crate) fn drain(event: impl AsFd) -> u64 {
    let mut count = [0_u8; 8];
    match rustix::io::read(event, &mut count) {
        Ok(8) => u64::from_ne_bytes(count),
        _ => 0,
    }
}

/// Whether a stream's connection has ended. `by_fin`: or the peer's half of it.
pub(crate) fn has_gone(socket: BorrowedFd<'_>, by_fin: bool) -> bool {
    let fin = if by_fin { PollFlags::RDHUP } else { PollFlags::empty() };
    let mut asked = [PollFd::from_borrowed_fd(socket, fin)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let answered = poll(&mut asked, Some(&now)).is_ok_and(|count| count > 0);
    answered && asked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | fin)
}

/// Why the last call of the C library's failed.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Asks for a receive buffer of `bytes`: above the system's limit where this process may, else as
/// large as allowed.
pub(crate) fn enlarge_receive_buffer(socket: impl AsFd, bytes: usize) {
    if sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        // The kernel clamps to net.core.rmem_max by itself; what came of it is in the counters.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, bytes);
    }
}

/// Has the kernel take no more than about `bytes` of a stream beyond what it has sent already: the
/// rest is better kept where it is counted. What is on its way is not limited by this.
pub(crate) fn limit_unsent(socket: impl AsFd, bytes: u32) -> Result<(), Errno> {
    // SAFETY: the kernel reads one `u32`, of the length that is passed, from a place that outlives the
    // call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(last_error()) }
}

/// Datagrams that the kernel dropped because this socket's receive buffer was full.
pub(crate) fn kernel_drops(socket: impl AsFd) -> u64 {
    // `SK_MEMINFO_VARS` and `SK_MEMINFO_DROPS` of the kernel's `sock_diag.h`.
    const VALUES: usize = 9;
    const DROPS: usize = 8;
    let mut values = [0_u32; VALUES];
    let mut bytes = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `values`, which has as many, and the new
    // length to `bytes`. Any bytes make valid integers.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    // An older kernel gives fewer values, or none: then it stays 0.
    if answer == 0 { values[DROPS].into() } else { 0 }
}
