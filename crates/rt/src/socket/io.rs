//! What threads ask of a socket, by operation.

use super::source::{Side, Source};
use crate::block::Deadline;
use crate::thread::KThread;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Buffers that one system call takes (`IOV_MAX`).
const MOST_BUFFERS: usize = 1024;
/// The descriptor itself may be in blocking mode; nothing here is.
const RECV: RecvFlags = RecvFlags::DONTWAIT;
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Of a stream, one call moves so many bytes at most: some 20 µs, within which nothing is pre-empted.
const PIECE: usize = 64 << 10;

/// So many bytes were moved: the quantum may be over.
#[inline]
fn look_after(bytes: usize) {
    const MANY: usize = 16 << 10;
    if bytes >= MANY && KThread::current_tcb().is_some() {
        curtail_fiber::safepoint::here();
    }
}

/// How long an accept takes to say that there is no descriptor, or no memory, for a connection.
const SHORT: Duration = Duration::from_millis(1);

fn is_short(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| short.contains(&error))
}

/// Operations that wait for the calling thread alone. A [`Source`] answers them by trying, and
/// waiting for readiness in between, or has the kthread's ring carry them out (`by_ring`).
pub(crate) trait Operations {
    /// Into `buffer`, from a stream: how many bytes; 0: the peer sends no more.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Into several buffers in turn, from a stream: how many bytes.
    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// To a stream, or one datagram to the peer: how many bytes.
    fn write(&self, data: &[u8]) -> io::Result<usize>;
    /// From several buffers in turn, to a stream: how many bytes.
    fn write_vectored(&self, data: &[IoSlice<'_>]) -> io::Result<usize>;
    /// One datagram, from the peer.
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As [`Operations::read`] or [`Operations::recv`]; what is read stays.
    fn peek(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// One datagram, and where it is from; it stays if `peek`.
    fn recv_from(
        &self,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<(usize, Option<SocketAddrAny>)>;
    /// One datagram.
    fn send_to(&self, data: &[u8], to: &impl SocketAddrArg) -> io::Result<usize>;
    /// The next connection. The listening descriptor is in non-blocking mode.
    fn accept(&self) -> io::Result<(OwnedFd, Option<SocketAddrAny>)>;
    /// Connects a descriptor in non-blocking mode.
    fn connect(&self, to: &impl SocketAddrArg, until: Option<Deadline>) -> io::Result<()>;
}

impl Source {
    /// As [`Operations::read`]; `None` where that would wait. `ticks`: the readers', from before.
    pub fn try_read(&self, ticks: u32, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.is_drained(ticks) {
            return Ok(None);
        }
        loop {
            match rustix::net::recv(self, &mut *buffer, RECV) {
                Ok((read, _)) => {
                    self.slot().set_drained(ticks, read < buffer.len() && read > 0);
                    return Ok(Some(read));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl curtail_net::Socket for Source {
    fn nudge(&self) {
        Self::nudge(self);
    }
}

impl Operations for Source {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let most = if self.is_tcp() { buffer.len().min(PIECE) } else { buffer.len() };
        let buffer = &mut buffer[..most];
        if let Some(read) = self.read_by_ring(buffer) {
            return read.inspect(|&read| look_after(read));
        }
        let read = self.insist_on_stream(|| {
            let ticks = self.ticks(Side::Read);
            let (read, _) = rustix::net::recv(self, &mut *buffer, RECV)?;
            // A short read has left nothing behind; the end of the stream stays to be read.
            self.slot().set_drained(ticks, read < buffer.len() && read > 0);
            Ok(read)
        })?;
        look_after(read);
        Ok(read)
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MOST_BUFFERS);
        let buffers = &mut buffers[..most];
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        self.insist(Side::Read, || {
            let mut no_control = RecvAncillaryBuffer::default();
            rustix::net::recvmsg(self, buffers, &mut no_control, RECV).map(|message| message.bytes)
        })
    }

    fn write(&self, data: &[u8]) -> io::Result<usize> {
        let piece = if self.is_tcp() { &data[..data.len().min(PIECE)] } else { data };
        if let Some(sent) = self.write_by_ring(piece) {
            return sent;
        }
        let sent = self.insist(Side::Write, || rustix::net::send(self, piece, SEND));
        look_after(piece.len());
        sent
    }

    fn write_vectored(&self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let data = &data[..data.len().min(MOST_BUFFERS)];
        self.insist(Side::Write, || {
            rustix::net::sendmsg(self, data, &mut SendAncillaryBuffer::default(), SEND)
        })
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.insist(Side::Read, || rustix::net::recv(self, &mut *buffer, RECV).map(|(n, _)| n))
    }

    fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = RECV | RecvFlags::PEEK;
        self.insist(Side::Read, || rustix::net::recv(self, &mut *buffer, flags).map(|(n, _)| n))
    }

    fn recv_from(
        &self,
        buffer: &mut [u8],
        peek: bool,
    ) -> io::Result<(usize, Option<SocketAddrAny>)> {
        let flags = if peek { RECV | RecvFlags::PEEK } else { RECV };
        self.insist(Side::Read, || {
            let (read, _, from) = rustix::net::recvfrom(self, &mut *buffer, flags)?;
            Ok((read, from))
        })
    }

    fn send_to(&self, data: &[u8], to: &impl SocketAddrArg) -> io::Result<usize> {
        self.insist(Side::Write, || rustix::net::sendto(self, data, SEND, to))
    }

    fn accept(&self) -> io::Result<(OwnedFd, Option<SocketAddrAny>)> {
        let accepted = self.accept_by_ring().unwrap_or_else(|| {
            self.insist(Side::Read, || {
                match rustix::net::acceptfrom_with(self, SocketFlags::CLOEXEC) {
                    // It was gone before it was accepted (accept(2)).
                    Err(Errno::CONNABORTED) => Err(Errno::INTR),
                    other => other,
                }
            })
        });
        if accepted.as_ref().is_err_and(is_short) && !self.is_nonblocking() {
            // The connection stays where it is, so a caller that tries again gets the same answer: not
            // before others have had time to close something.
            crate::time::sleep(SHORT);
        }
        accepted
    }

    fn connect(&self, to: &impl SocketAddrArg, until: Option<Deadline>) -> io::Result<()> {
        self.insist_until(
            Side::Write,
            || until,
            None,
            || {
                let mut result = rustix::net::connect(self, to);
                if result == Err(Errno::INPROGRESS) {
                    // On this machine it is often done by now.
                    result = rustix::net::connect(self, to);
                }
                match result {
                    Err(Errno::INPROGRESS | Errno::ALREADY) => Err(Errno::AGAIN),
                    Err(Errno::ISCONN) => Ok(()),
                    other => other,
                }
            },
        )
    }
}
