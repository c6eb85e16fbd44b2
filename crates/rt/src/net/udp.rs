//! UDP, as in std.

use super::address;
use super::handle::{handle, pass_on, timeouts};
use crate::socket::{Operations, Side, Source};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// As [`std::net::UdpSocket`]; [`crate::net`] says what differs.
pub struct UdpSocket {
    source: Source,
}

handle!(UdpSocket, std::net::UdpSocket, Other);
timeouts!(UdpSocket, std::net::UdpSocket);

impl UdpSocket {
    /// Bound to the first of the addresses that can be had. Port 0: any that is free.
    ///
    /// # Errors
    /// No address, or what the last one failed for.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        std::net::UdpSocket::bind(address).map(Self::from)
    }

    /// Takes datagrams from the first of the addresses that works only, and lets
    /// [`UdpSocket::send`] send there.
    ///
    /// # Errors
    /// No address, or what the kernel says.
    pub fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        self.with_std(|socket| socket.connect(address))
    }

    /// Waits for a datagram: its length, cut to that of `buffer`, and where it is from.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock` at the timeout.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (read, from) = self.source.recv_from(buffer, false)?;
        Ok((read, address::ip(from)?))
    }

    /// [`UdpSocket::recv_from`], and the datagram stays.
    ///
    /// # Errors
    /// As there.
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (read, from) = self.source.recv_from(buffer, true)?;
        Ok((read, address::ip(from)?))
    }

    /// Sends a datagram to the first of the addresses; returns its length.
    ///
    /// # Errors
    /// No address, or what the kernel says; `WouldBlock` at the timeout.
    pub fn send_to<A: ToSocketAddrs>(&self, data: &[u8], address: A) -> io::Result<usize> {
        self.source.send_to(data, &address::first(&address)?)
    }

    /// Waits for a datagram of the peer that it is connected to; returns its length.
    ///
    /// # Errors
    /// What the kernel says: also that an earlier one could not be delivered.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.recv(buffer)
    }

    /// [`UdpSocket::recv`], and the datagram stays.
    ///
    /// # Errors
    /// As there.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.peek(buffer)
    }

    /// Sends a datagram to the peer that it is connected to; returns its length.
    ///
    /// # Errors
    /// Not connected, or what the kernel says.
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.source.write(data)
    }
}

pass_on! {
    UdpSocket:
    /// The peer's address; an error where it is not connected (any more).
    peer_addr() -> SocketAddr;
    /// Whether it may send to broadcast addresses.
    set_broadcast(on: bool) -> ();
    /// See [`UdpSocket::set_broadcast`].
    broadcast() -> bool;
    /// How many routers a packet may pass.
    set_ttl(ttl: u32) -> ();
    /// See [`UdpSocket::set_ttl`].
    ttl() -> u32;
    /// Whether its own multicasts come back to this machine (IPv4).
    set_multicast_loop_v4(on: bool) -> ();
    /// See [`UdpSocket::set_multicast_loop_v4`].
    multicast_loop_v4() -> bool;
    /// How many routers a multicast may pass (IPv4).
    set_multicast_ttl_v4(ttl: u32) -> ();
    /// See [`UdpSocket::set_multicast_ttl_v4`].
    multicast_ttl_v4() -> u32;
    /// Whether its own multicasts come back to this machine (IPv6).
    set_multicast_loop_v6(on: bool) -> ();
    /// See [`UdpSocket::set_multicast_loop_v6`].
    multicast_loop_v6() -> bool;
    /// Joins a group, at the interface of that address.
    join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Joins a group, at the interface of that index; 0: any.
    join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    /// Leaves a group.
    leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Leaves a group.
    leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
}
