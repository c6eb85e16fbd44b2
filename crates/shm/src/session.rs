//! How a program and the daemon meet: messages over a Unix socket of sequenced packets.
//!
//! ```text
//!   program                                   daemon
//!   connect                                   accept; who it is: SO_PEERCRED
//!   Hello { spec, name }  + fd of its page ─►
//!                                          ◄─ Welcome { slots }  + fd of the board, or Refused { why }
//!   Poller  + fd ─► (any time later)
//!   close = leaves                            close = the daemon has ended
//!
//!   connect
//!   Status ─►                              ◄─ Answer  + fd of a file with the text
//! ```
//!
//! A message is one packet of a fixed size for its kind. What does not parse is an error; the socket
//! is then closed.

use crate::board::Slot;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recvmsg, sendmsg, socket_with, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: u32 = u32::from_le_bytes(*b"CRTL");
const VERSION: u32 = 1;
const HELLO: u32 = 1;
const WELCOME: u32 = 2;
const REFUSED: u32 = 3;
const POLLER: u32 = 4;
const STATUS: u32 = 5;
const ANSWER: u32 = 6;
/// Of a name or a reason.
const TEXT: usize = 108;
/// Of the answer to a question, in bytes.
const MOST_ANSWER: u64 = 1 << 24;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Packet {
    magic: u32,
    version: u32,
    kind: u32,
    first_slot: u32,
    slots: u32,
    text: [u8; TEXT],
}

/// Where the daemon listens unless it is told otherwise: `$CURTAILD`, or else `curtaild.sock` in
/// `$XDG_RUNTIME_DIR`, or else `/tmp/curtaild-UID.sock`.
#[must_use]
pub fn default_path() -> PathBuf {
    if let Some(path) = std::env::var_os("CURTAILD").filter(|path| !path.is_empty()) {
        return path.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(folder) => Path::new(&folder).join("curtaild.sock"),
        None => format!("/tmp/curtaild-{}.sock", rustix::process::geteuid().as_raw()).into(),
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The system says no.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The other side has closed the socket.
    #[error("the other side has closed the connection")]
    Closed,
    /// The daemon does not take the program.
    #[error("the daemon refuses: {0}")]
    Refused(String),
    /// What came is no message of this version.
    #[error("not a message of this version of Curtail: {0}")]
    Message(&'static str),
}

impl From<Errno> for SessionError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// The daemon's answer to a program that it takes.
#[derive(Debug)]
pub struct Welcome {
    /// The board, to be mapped by [`crate::BoardView::map`].
    pub board: OwnedFd,
    /// The slot of its first kthread; the others follow.
    pub first_slot: Slot,
    /// How many it has.
    pub slots: u32,
}

/// What a program says.
#[derive(Debug)]
pub enum Request {
    /// It wants to be taken.
    Hello {
        /// What it calls itself: for people.
        name: String,
        /// Its page, to be mapped by [`crate::PageView::map`].
        page: OwnedFd,
    },
    /// The descriptor that becomes readable when a packet has come for it: to be looked at while
    /// all its kthreads are parked.
    Poller(OwnedFd),
    /// It wants to know what the daemon does, and no more: [`Session::answer`].
    Status,
}

/// One end of a session.
#[derive(Debug)]
pub struct Session(OwnedFd);

impl Session {
    /// A program's: connects to the daemon and hands in its page. Waits for the answer, for 5 s at
    /// most. The name is cut to 108 bytes.
    ///
    /// # Errors
    /// Where nothing listens there, the daemon refuses, or it answers nonsense.
    pub fn connect(
        path: &Path,
        name: &str,
        page: BorrowedFd<'_>,
    ) -> Result<(Self, Welcome), SessionError> {
        let session = Self::to(path)?;
        session.send(HELLO, (0, 0), name, Some(page))?;
        let (packet, fd) = session.receive()?;
        session.limit(None)?;
        match (packet.kind, fd) {
            (WELCOME, Some(board)) => {
                let (first_slot, slots) = (Slot(packet.first_slot), packet.slots);
                Ok((session, Welcome { board, first_slot, slots }))
            }
            (REFUSED, _) => Err(SessionError::Refused(text_of(&packet))),
            _ => Err(SessionError::Message("no answer to a hello")),
        }
    }

    /// What the daemon says of itself: a JSON object. Waits for 5 s at most.
    ///
    /// # Errors
    /// Where nothing listens there, or it answers nonsense.
    pub fn status(path: &Path) -> Result<String, SessionError> {
        let session = Self::to(path)?;
        session.send(STATUS, (0, 0), "", None)?;
        let (ANSWER, Some(fd)) = session.receive().map(|(packet, fd)| (packet.kind, fd))? else {
            return Err(SessionError::Message("no answer to a question"));
        };
        let mut text = String::new();
        std::fs::File::from(fd).take(MOST_ANSWER).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Connected, with a limit of 5 s for what is received.
    fn to(path: &Path) -> Result<Self, SessionError> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let session = Self(socket);
        session.limit(Some(Duration::from_secs(5)))?;
        Ok(session)
    }

    /// A program's: see [`Request::Poller`].
    ///
    /// # Errors
    /// Where the daemon has ended.
    pub fn pass_poller(&self, poller: BorrowedFd<'_>) -> Result<(), SessionError> {
        self.send(POLLER, (0, 0), "", Some(poller))
    }

    /// A program's: waits until the daemon has ended. (It says nothing more after its welcome.)
    pub fn wait_for_end(&self) {
        while matches!(self.receive(), Ok(_) | Err(SessionError::Message(_))) {}
    }

    /// A program's: it leaves. [`Session::wait_for_end`] returns, on whichever thread.
    pub fn leave(&self) {
        // It fails where the other side has left already.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// The daemon's: the program is taken.
    ///
    /// # Errors
    /// Where it has gone.
    pub fn welcome(
        &self,
        board: BorrowedFd<'_>,
        first: Slot,
        slots: u32,
    ) -> Result<(), SessionError> {
        self.send(WELCOME, (first.0, slots), "", Some(board))
    }

    /// The daemon's: the program is not taken.
    ///
    /// # Errors
    /// Where it has gone.
    pub fn refuse(&self, why: &str) -> Result<(), SessionError> {
        self.send(REFUSED, (0, 0), why, None)
    }

    /// The daemon's: the answer to [`Request::Status`].
    ///
    /// # Errors
    /// Where the peer has gone, or the system says no.
    pub fn answer(&self, text: &str) -> Result<(), SessionError> {
        let file = rustix::fs::memfd_create("curtail-answer", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(file);
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        self.send(ANSWER, (0, 0), "", Some(file.as_fd()))
    }

    /// The daemon's: what the program says next; `None`: nothing yet.
    ///
    /// # Errors
    /// Where it has gone, or says nonsense.
    pub fn next_request(&self) -> Result<Option<Request>, SessionError> {
        let (packet, fd) = match self.receive() {
            Err(SessionError::System(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(None);
            }
            received => received?,
        };
        match (packet.kind, fd) {
            (HELLO, Some(page)) => Ok(Some(Request::Hello { name: text_of(&packet), page })),
            (POLLER, Some(poller)) => Ok(Some(Request::Poller(poller))),
            (STATUS, None) => Ok(Some(Request::Status)),
            (HELLO | POLLER, None) => Err(SessionError::Message("it lacks its descriptor")),
            _ => Err(SessionError::Message("a kind that does not exist")),
        }
    }

    /// The daemon's: the peer's process and user, as the kernel knows them.
    ///
    /// # Errors
    /// What the system says.
    pub fn peer(&self) -> io::Result<(rustix::process::Pid, u32)> {
        let peer = sockopt::socket_peercred(&self.0)?;
        Ok((peer.pid, peer.uid.as_raw()))
    }

    fn limit(&self, most: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, most)?)
    }

    fn send(
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

    fn receive(&self) -> Result<(Packet, Option<OwnedFd>), SessionError> {
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

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn text_of(packet: &Packet) -> String {
    let end = packet.text.iter().position(|&byte| byte == 0).unwrap_or(TEXT);
    String::from_utf8_lossy(&packet.text[..end]).into_owned()
}

/// The daemon's socket. Its file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`, for this user only. A file that a dead daemon left is taken over.
    ///
    /// # Errors
    /// Where another daemon lives there, the file is something else, or the system says no.
    pub fn bind(path: &Path) -> Result<Self, SessionError> {
        let new = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        };
        let (socket, address) = (new()?, SocketAddrUnix::new(path)?);
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                match connect(&new()?, &address) {
                    Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
                    Ok(()) | Err(Errno::AGAIN) => {
                        return Err(SessionError::System(io::Error::new(
                            io::ErrorKind::AddrInUse,
                            format!("another daemon listens at {}", path.display()),
                        )));
                    }
                    Err(error) => return Err(error.into()),
                }
                bind(&socket, &address)?;
            }
            bound => bound?,
        }
        let listener = Self { socket, path: path.to_owned() };
        rustix::fs::chmod(path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        listen(&listener.socket, 128)?;
        Ok(listener)
    }

    /// The next program that connects; `None`: there is none now. Its session does not block.
    ///
    /// # Errors
    /// What the system says: no more descriptors.
    pub fn accept(&self) -> io::Result<Option<Session>> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Session(socket))),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
