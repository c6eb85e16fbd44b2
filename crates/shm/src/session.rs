//! How a program and the daemon meet: messages over a Unix socket of sequenced packets.
//!
//! ```text
//!   program                                   daemon
//!   connect                                   accept; who it is: SO_PEERCRED
//!   Hello { spec, name }  + fd of its page ─►
//!                                          ◄─ Welcome { slots }  + fd of the board, or Refused { why }
//!   Port { address }  + fd of rings ─►
//!                                          ◄─ Opened { address }, or Refused { why }
//!   Poller  + fd ─► (any time later)
//!   PollPages  + fd ─► (any time later)
//!   close = leaves                            close = the daemon has ended
//!
//!   connect
//!   Status ─►                              ◄─ Answer  + fd of a file with the text
//! ```
//!
//! A message is one packet of a fixed size for its kind. What does not parse is an error; the socket
//! is then closed.

mod packet;

use crate::slot::Slot;
use packet::{ANSWER, HELLO, OPENED, POLL_PAGES, POLLER, PORT, REFUSED, STATUS, TEXT, WELCOME};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Of the answer to a question, in bytes.
const MOST_ANSWER: u64 = 1 << 24;

/// Where the daemon listens unless an option says otherwise: `$CURTAILD`, or else `curtaild.sock` in
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
    /// Its kthreads yield when the daemon raises their words, to be mapped by [`crate::PollWords::map`].
    PollPages(OwnedFd),
    /// The daemon is to receive its packets.
    Port {
        /// Where: a URL, as `udp://127.0.0.1:4000`.
        url: String,
        /// Its rings, to be mapped by [`crate::DaemonEnd::map`].
        rings: OwnedFd,
    },
    /// It wants to know what the daemon does, and no more: [`Session::answer`].
    Status,
}

/// One end of a session.
#[derive(Debug)]
pub struct Session(OwnedFd);

impl Session {
    /// A program's: connects to the daemon and hands in its page. Waits for the answer, for 5 s at
    /// most. The name is cut to 1,004 bytes.
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
            (REFUSED, _) => Err(SessionError::Refused(packet.text())),
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

    /// A program's: see [`Request::PollPages`]. A process that gets them can have the program's threads
    /// do anything: see [`Session::is_of_this_user`].
    ///
    /// # Errors
    /// Where the daemon has ended.
    pub fn pass_poll_pages(&self, pages: BorrowedFd<'_>) -> Result<(), SessionError> {
        self.send(POLL_PAGES, (0, 0), "", Some(pages))
    }

    /// Whether the process at the other end is of this one's user.
    #[must_use]
    pub fn is_of_this_user(&self) -> bool {
        self.peer().is_ok_and(|(_, user)| user == rustix::process::geteuid().as_raw())
    }

    /// A program's: the daemon receives packets for it from now on, and puts them into its rings. The
    /// answer is the URL with the port that the kernel chose, where 0 was asked for. To be called
    /// before [`Session::wait_for_end`]. Waits for 30 s at most: a device may take seconds.
    ///
    /// # Errors
    /// Where the URL is longer than 1,004 bytes, the daemon refuses, or it has ended.
    pub fn open_port(&self, url: &str, rings: BorrowedFd<'_>) -> Result<String, SessionError> {
        if url.len() > TEXT {
            return Err(SessionError::Message("its URL is too long"));
        }
        self.send(PORT, (0, 0), url, Some(rings))?;
        self.limit(Some(Duration::from_secs(30)))?;
        let (packet, _) = self.receive().map_err(|error| match error {
            SessionError::System(error) if error.kind() == io::ErrorKind::WouldBlock => {
                io::Error::new(error.kind(), "no answer about a port within 30 s").into()
            }
            other => other,
        })?;
        self.limit(None)?;
        match packet.kind {
            OPENED => Ok(packet.text()),
            REFUSED => Err(SessionError::Refused(packet.text())),
            _ => Err(SessionError::Message("no answer about a port")),
        }
    }

    /// A program's: waits until the daemon has ended. (It says nothing more after its welcome.)
    pub fn wait_for_end(&self) {
        while matches!(self.receive(), Ok(_) | Err(SessionError::Message(_))) {}
    }

    /// Waits until the daemon has ended, for so long at most; true: it has ended.
    #[must_use]
    pub fn ends_within(&self, most: Duration) -> bool {
        let most = rustix::event::Timespec::try_from(most).ok();
        let mut fds = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        let is_ready = rustix::event::poll(&mut fds, most.as_ref()).is_ok_and(|ready| ready > 0);
        is_ready && !matches!(self.receive(), Ok(_) | Err(SessionError::Message(_)))
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

    /// The daemon's: the answer to [`Request::Port`].
    ///
    /// # Errors
    /// Where the program has gone.
    pub fn opened(&self, url: &str) -> Result<(), SessionError> {
        self.send(OPENED, (0, 0), url, None)
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
            (HELLO, Some(page)) => Ok(Some(Request::Hello { name: packet.text(), page })),
            (POLLER, Some(poller)) => Ok(Some(Request::Poller(poller))),
            (POLL_PAGES, Some(pages)) => Ok(Some(Request::PollPages(pages))),
            (STATUS, None) => Ok(Some(Request::Status)),
            (PORT, Some(rings)) => Ok(Some(Request::Port { url: packet.text(), rings })),
            (HELLO | POLLER | POLL_PAGES | PORT, None) => {
                Err(SessionError::Message("it lacks its descriptor"))
            }
            _ => Err(SessionError::Message("a kind that does not exist")),
        }
    }

    /// The peer's process and user, as the kernel knows them: a daemon's are those that listened.
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
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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
