//! TCP, as in std.

use super::address;
use super::handle::{handle, listener, pass_on, stream, timeouts, widen};
use crate::block::Deadline;
use crate::socket::{Operations, Side, Source};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::ManuallyDrop;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A connection, as [`std::net::TcpStream`]; [`crate::net`] says what differs.
pub struct TcpStream {
    source: Source,
}

handle!(TcpStream, std::net::TcpStream, Tcp);
timeouts!(TcpStream, std::net::TcpStream);
stream!(TcpStream);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    /// No address, or what the last one's connection failed for.
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        address::each(&mut address.to_socket_addrs()?, |address| Self::open(&address, None))
    }

    /// Connects, or gives up after `timeout`.
    ///
    /// # Errors
    /// `TimedOut`; `InvalidInput` for a timeout of zero; what the connection failed for.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a timeout of zero"));
        }
        Self::open(address, Deadline::after(timeout)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "connection timed out")
            }
            _ => error,
        })
    }

    fn open(address: &SocketAddr, until: Option<Deadline>) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = Self::of(socket_with(family, SocketType::STREAM, flags, None)?);
        stream.source.connect(address, until)?;
        Ok(stream)
    }

    /// Reads, and leaves what is read to be read again.
    ///
    /// # Errors
    /// As a read.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.peek(buffer)
    }
}

pass_on! {
    TcpStream:
    /// The peer's address; an error where it is not connected (any more).
    peer_addr() -> SocketAddr;
    /// Ends one direction, or both. Waits in that direction end, in whatever thread.
    shutdown(how: Shutdown) -> ();
    /// Whether small writes are sent at once (`TCP_NODELAY`).
    set_nodelay(nodelay: bool) -> ();
    /// See [`TcpStream::set_nodelay`].
    nodelay() -> bool;
    /// How many routers a packet may pass (`IP_TTL`).
    set_ttl(ttl: u32) -> ();
    /// See [`TcpStream::set_ttl`].
    ttl() -> u32;
}

/// Takes connections, as [`std::net::TcpListener`]; [`crate::net`] says what differs.
pub struct TcpListener {
    source: Source,
}

handle!(TcpListener, std::net::TcpListener, Listener);
listener!(TcpListener, std::net::TcpListener);

impl TcpListener {
    /// Listens at the first of the addresses that can be had. Port 0: any that is free. As many
    /// connections may wait to be accepted as the kernel allows.
    ///
    /// # Errors
    /// No address, or what the last one failed for.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        widen(&listener)?;
        Ok(Self::from(listener))
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// No descriptor is left, for example; `ConnectionAborted` after [`TcpListener::close`].
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (fd, peer) = self.source.accept()?;
        Ok((TcpStream::of(fd), address::ip(peer)?))
    }

    /// All connections to come, one after the other. Never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }
}

pass_on! {
    TcpListener:
    /// How many routers a packet may pass (`IP_TTL`).
    set_ttl(ttl: u32) -> ();
    /// See [`TcpListener::set_ttl`].
    ttl() -> u32;
}

/// See [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}
