//! Datagrams over Unix sockets, as in std.

use super::address;
use super::handle::{handle, pass_on, timeouts};
use crate::block::Deadline;
use crate::socket::{Operations, Side, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// As [`std::os::unix::net::UnixDatagram`]; [`crate::net`] says what differs.
pub struct UnixDatagram {
    source: Source,
}

type Std = std::os::unix::net::UnixDatagram;

handle!(UnixDatagram, std::os::unix::net::UnixDatagram, Other);
timeouts!(UnixDatagram, std::os::unix::net::UnixDatagram);

impl UnixDatagram {
    /// Bound to that path, which must not be there yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        Std::bind(path).map(Self::from)
    }

    /// Bound to that address.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        Std::bind_addr(address).map(Self::from)
    }

    /// Without an address.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn unbound() -> io::Result<Self> {
        Std::unbound().map(Self::from)
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = Std::pair()?;
        Ok((Self::of(one.into()), Self::of(other.into())))
    }

    /// Lets [`UnixDatagram::send`] send to that path.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.with_std(|socket| socket.connect(path))
    }

    /// Waits for a datagram: its length, cut to that of `buffer`, and where it is from.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock` at the timeout.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (read, from) = self.source.recv_from(buffer, false)?;
        Ok((read, address::unix(from)?))
    }

    /// Waits for a datagram; returns its length.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock` at the timeout.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.recv(buffer)
    }

    /// Sends a datagram to the socket at that path, and waits while it has no room; returns its
    /// length.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock` at the timeout.
    pub fn send_to<P: AsRef<Path>>(&self, data: &[u8], path: P) -> io::Result<usize> {
        self.send_when_there_is_room(data, &SocketAddrUnix::new(path.as_ref())?)
    }

    /// Sends a datagram to that address: see [`UnixDatagram::send_to`].
    ///
    /// # Errors
    /// As there.
    pub fn send_to_addr(&self, data: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.send_when_there_is_room(data, &address::of_unix(address)?)
    }

    /// Sends a datagram to the socket that it is connected to, and waits while that has no room;
    /// returns its length.
    ///
    /// # Errors
    /// Not connected, or what the kernel says; `WouldBlock` at the timeout.
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.source.write(data)
    }

    /// The kernel tells a sender that is not connected of its own buffer, never of the receiver's.
    /// One that is connected sees both: so another socket waits for us.
    fn send_when_there_is_room(&self, data: &[u8], to: &SocketAddrUnix) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut until = None;
        loop {
            let ticks = self.source.ticks(Side::Write);
            match rustix::net::sendto(self, data, flags, to) {
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => continue,
                result => return Ok(result?),
            }
            let until = *until
                .get_or_insert_with(|| self.source.timeout(Side::Write).and_then(Deadline::after));
            if self.source.is_nonblocking() || !self.has_room() {
                self.source.wait(Side::Write, ticks, until)?;
                continue;
            }
            let family = AddressFamily::UNIX;
            let probe = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            match rustix::net::connect(&probe, to) {
                Ok(()) => self.source.wait_through(probe.as_fd(), ticks, until)?,
                // It takes datagrams of one peer alone, or has gone: sending says so.
                Err(Errno::PERM | Errno::CONNREFUSED | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether its own buffer has some.
    fn has_room(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(self, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

pass_on! {
    UnixDatagram:
    /// Lets [`UnixDatagram::send`] send to that address.
    connect_addr(address: &SocketAddr) -> ();
    /// The peer's address; an error where it is not connected (any more).
    peer_addr() -> SocketAddr;
    /// Ends one direction, or both. Waits in that direction end, in whatever thread.
    shutdown(how: Shutdown) -> ();
}
