//! The Unix socket of a session: the server's one message, the bell, and how either side learns that
//! the other has gone. A bell is a byte that says nothing.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const MAGIC: [u8; 8] = *b"CURTSHMH";
/// All sessions are taken.
const REFUSED: u8 = 1;
const BYTES: usize = 16;

fn message(refused: bool) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8] = u8::from(refused) * REFUSED;
    bytes
}

/// Passes the session's memory; `None`: there is no session to be had.
pub(super) fn greet(socket: impl AsFd, memory: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = memory.map(|memory| [memory]);
    if let Some(fds) = &fds {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)), "room for one");
    }
    let bytes = message(memory.is_none());
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags)?;
    if sent == BYTES { Ok(()) } else { Err(Errno::AGAIN) }
}

/// The memory that the server passes. Waits for it.
pub(super) fn be_greeted(socket: impl AsFd) -> io::Result<OwnedFd> {
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut bytes = [0; BYTES];
    // What does not fit is closed by the kernel.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let memory = rights.flatten().next();
    match (received.bytes, memory) {
        (0, _) => Err(io::ErrorKind::ConnectionReset.into()),
        (BYTES, None) if bytes == message(true) => {
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, "all its sessions are taken"))
        }
        (BYTES, Some(memory)) if bytes == message(false) => Ok(memory),
        _ => wrong("what listens there is no shm:// of this version of Curtail"),
    }
}

/// Wakes the other side. Where there is no room for a byte, bytes that it has not read wake it.
pub(super) fn ring(socket: impl AsFd) {
    let _ = send(socket, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Reads what the other side rang; false: it has gone.
pub(super) fn answer(socket: impl AsFd) -> bool {
    let mut bytes = [0_u8; 64];
    match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
        Ok((_, count)) => count > 0,
        Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
    }
}
