//! Unix sockets that connect, as in std.

use super::address;
use super::handle::{handle, listener, pass_on, set_mode, stream, timeouts, widen};
use crate::block;
use crate::socket::{Operations, Side, Source};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long one try to connect waits for a listener that has too many waiting already.
const ONE_TRY: Duration = Duration::from_millis(100);

/// A connection, as [`std::os::unix::net::UnixStream`]; [`crate::net`] says what differs.
pub struct UnixStream {
    source: Source,
}

handle!(UnixStream, std::os::unix::net::UnixStream, Other);
timeouts!(UnixStream, std::os::unix::net::UnixStream);
stream!(UnixStream);

impl UnixStream {
    /// Connects to the listener at that path.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        Self::open(&SocketAddrUnix::new(path.as_ref())?)
    }

    /// Connects to the listener at that address.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect_addr(address: &SocketAddr) -> io::Result<Self> {
        Self::open(&address::of_unix(address)?)
    }

    fn open(address: &SocketAddrUnix) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&fd, address) {
            // The listener has as many waiting as it wants. The kernel has no event for the end of
            // that, only a wait.
            Err(Errno::AGAIN) => wait_for_listener(&fd, address)?,
            result => result?,
        }
        Ok(Self::of(fd))
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self::of(one.into()), Self::of(other.into())))
    }
}

pass_on! {
    UnixStream:
    /// The peer's address; an error where it is not connected (any more).
    peer_addr() -> SocketAddr;
    /// Ends one direction, or both. Waits in that direction end, in whatever thread.
    shutdown(how: Shutdown) -> ();
}

/// Waits on an ordinary thread, in pieces, so that a timeout can end it.
fn wait_for_listener(fd: &OwnedFd, address: &SocketAddrUnix) -> io::Result<()> {
    set_mode(fd, false);
    set_socket_timeout(fd, Timeout::Send, Some(ONE_TRY))?;
    loop {
        match crate::blocking(|| rustix::net::connect(fd, address)) {
            Err(Errno::AGAIN | Errno::INTR) if block::over_limit() => match block::cancelled() {
                Some(cancelled) => return Err(cancelled.into()),
                None => block::end_by_limit(),
            },
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => {
                result?;
                return Ok(set_socket_timeout(fd, Timeout::Send, None)?);
            }
        }
    }
}

/// Takes connections, as [`std::os::unix::net::UnixListener`]; [`crate::net`] says what differs.
pub struct UnixListener {
    source: Source,
}

handle!(UnixListener, std::os::unix::net::UnixListener, Listener);
listener!(UnixListener, std::os::unix::net::UnixListener);

impl UnixListener {
    /// Listens at that path, which must not be there yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        widen(&listener)?;
        Ok(Self::from(listener))
    }

    /// Listens at that address.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::bind_addr(address)?;
        widen(&listener)?;
        Ok(Self::from(listener))
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// No descriptor is left, for example; `ConnectionAborted` after [`UnixListener::close`].
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (fd, peer) = self.source.accept()?;
        Ok((UnixStream::of(fd), address::unix(peer)?))
    }

    /// All connections to come, one after the other. Never ends.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }
}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = UnixIncoming<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.incoming()
    }
}

/// See [`UnixListener::incoming`].
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}
