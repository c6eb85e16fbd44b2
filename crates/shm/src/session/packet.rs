//! One message: a packet, with one descriptor at most.

use super::{Session, SessionError};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: u32 = u32::from_le_bytes(*b"CRTL");
const VERSION: u32 = 2;
pub(super) const HELLO: u32 = 1;
pub(super) const WELCOME: u32 = 2;
pub(super) const REFUSED: u32 = 3;
pub(super) const POLLER: u32 = 4;
pub(super) const STATUS: u32 = 5;
pub(super) const ANSWER: u32 = 6;
pub(super) const PORT: u32 = 7;
pub(super) const OPENED: u32 = 8;
pub(super) const POLL_PAGES: u32 = 9;
/// Of a name or a reason.
pub(super) const TEXT: usize = 1_004;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Packet {
    magic: u32,
    version: u32,
    pub(super) kind: u32,
    pub(super) first_slot: u32,
    pub(super) slots: u32,
    text: [u8; TEXT],
}

impl Packet {
    /// A name or a reason.
    pub(super) fn text(&self) -> String {
        let end = self.text.iter().position(|&byte| byte == 0).unwrap_or(TEXT);
        String::from_utf8_lossy(&self.text[..end]).into_owned()
    }
}

impl Session {
    pub(super) fn send(
        &self,
        kind: u32,
        (first_slot, slots): (u32, u32),
        text: &str,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(), SessionError> {
        let mut packet =
            Packet { magic: MAGIC, version: VERSION, kind, first_slot, slots, text: [0; TEXT] };
        let most = (0..=text.len().min(TEXT)).rev().find(|&at| text.is_char_boundary(at));
        let text = &text.as_bytes()[..most.unwrap_or(0)];
        packet.text[..text.len()].copy_from_slice(text);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd]);
        if let Some(fds) = &fds {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)), "room for one");
        }
        let parts = [IoSlice::new(packet.as_bytes())];
        match sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(SessionError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn receive(&self) -> Result<(Packet, Option<OwnedFd>), SessionError> {
        let mut bytes = [0; size_of::<Packet>()];
        // What does not fit is closed by the kernel.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(SessionError::Closed),
                received => break received?,
            }
        };
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fd = rights.flatten().next();
        if received.bytes == 0 {
            return Err(SessionError::Closed);
        }
        if received.bytes != bytes.len() || received.flags.contains(ReturnFlags::TRUNC) {
            return Err(SessionError::Message("its size"));
        }
        let packet = Packet::read_from_bytes(&bytes).expect("of that size");
        if packet.magic != MAGIC {
            return Err(SessionError::Message("its magic"));
        }
        if packet.version != VERSION {
            return Err(SessionError::Message("its version"));
        }
        Ok((packet, fd))
    }
}
