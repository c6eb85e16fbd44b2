//! Buffers for one `recvmmsg`, made once and owned by the dispatcher's thread.
//!
//! The kernel's message headers hold pointers into the buffers, so they live on the stack of the one
//! function that makes the call and never outlive it; only plain bytes are kept between calls.

use crate::socket;
use rustix::io::Errno;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams that one system call takes at most.
pub(super) const BATCH: usize = 32;

/// What is known of a received datagram.
#[derive(Clone, Copy)]
struct Received {
    /// Payload bytes; `None`: it was longer than the limit.
    bytes: Option<usize>,
    /// How much of the sender's address the kernel wrote.
    name_bytes: usize,
}

/// The buffers of one batch.
pub(super) struct Batch {
    bytes: Box<[u8]>,
    /// `sockaddr_in6` is the larger of the two kinds of address that come here.
    names: [libc::sockaddr_in6; BATCH],
    received: [Received; BATCH],
    limit: usize,
}

impl Batch {
    /// For datagrams of up to `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        // SAFETY: `sockaddr_in6` is a C struct of integers, for which all-zero is a value.
        let names = unsafe { mem::zeroed() };
        Self {
            bytes: vec![0; limit * BATCH].into_boxed_slice(),
            names,
            received: [Received { bytes: None, name_bytes: 0 }; BATCH],
            limit,
        }
    }

    /// Receives up to `want` (at most [`BATCH`]) datagrams and says how many there are.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, want: usize) -> Result<usize, Errno> {
        let want = want.min(BATCH);
        let bytes = self.bytes.as_mut_ptr();
        let names = self.names.as_mut_ptr();
        let mut pieces: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
            // `i < BATCH` and the buffer has `BATCH * limit` bytes.
            iov_base: bytes.wrapping_add(i * self.limit).cast(),
            iov_len: self.limit,
        });
        let pieces = pieces.as_mut_ptr();
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|i| {
            // SAFETY: `mmsghdr` is a C struct of integers and nullable pointers.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_name = names.wrapping_add(i).cast();
            header.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_in6>() as _;
            header.msg_hdr.msg_iov = pieces.wrapping_add(i);
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        // SAFETY: the first `want` headers are initialised; each points to one piece, which covers
        // `limit` bytes of `self.bytes` that no other piece covers, and to one entry of
        // `self.names` with its true size. All of it is writable and outlives the call, through
        // which alone the kernel uses the pointers. A null timeout is allowed.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                want as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        if got < 0 {
            return Err(socket::last_error());
        }
        let got = got as usize;
        for (header, received) in headers.iter().zip(&mut self.received).take(got) {
            let whole = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            received.bytes = whole.then_some(header.msg_len as usize);
            received.name_bytes = header.msg_hdr.msg_namelen as usize;
        }
        Ok(got)
    }

    /// The first `count` datagrams of the last call: sender and payload, or `None` for one that is
    /// empty, too long, or from no address that could be answered.
    pub(super) fn received(
        &self,
        count: usize,
    ) -> impl Iterator<Item = Option<(SocketAddr, &[u8])>> {
        let datagrams = self.bytes.chunks_exact(self.limit).zip(&self.names).zip(&self.received);
        datagrams.take(count).map(|((buffer, name), received)| {
            let payload = buffer.get(..received.bytes?)?;
            let from = sender(name, received.name_bytes)?;
            (!payload.is_empty()).then_some((from, payload))
        })
    }
}

fn sender(name: &libc::sockaddr_in6, written: usize) -> Option<SocketAddr> {
    match libc::c_int::from(name.sin6_family) {
        libc::AF_INET if written >= mem::size_of::<libc::sockaddr_in>() => {
            // SAFETY: a `sockaddr_in` is smaller than and aligned like a `sockaddr_in6`, all of
            // whose bytes are initialised, and any bytes make a valid `sockaddr_in`.
            let v4 = unsafe { ptr::from_ref(name).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if written >= mem::size_of::<libc::sockaddr_in6>() => {
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
        }
        _ => None,
    }
}
