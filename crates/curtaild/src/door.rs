//! Everything that may happen outside shared memory, in one epoll: programs that connect, speak,
//! leave and die, packets for programs without a running kthread, and the end.

use curtail_shm::session::{Listener, Session, SessionError};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What has happened. The number is a session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The daemon is to end.
    Stop,
    /// A program connects.
    Knock,
    /// A session has something to say, or is over.
    Speaks(u32),
    /// The process has died.
    Died(u32),
    /// Packets have come.
    Packets(u32),
}

const STOP: u64 = 0;
const KNOCK: u64 = 1;
const SPEAKS: u64 = 2;
const DIED: u64 = 3;
const PACKETS: u64 = 4;

impl Event {
    fn encode(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Self::Stop => STOP,
            Self::Knock => KNOCK,
            Self::Speaks(serial) => u64::from(serial) << 3 | SPEAKS,
            Self::Died(serial) => u64::from(serial) << 3 | DIED,
            Self::Packets(serial) => u64::from(serial) << 3 | PACKETS,
        })
    }

    fn decode(data: epoll::EventData) -> Self {
        let (data, serial) = (data.u64(), (data.u64() >> 3) as u32);
        match data & 7 {
            STOP => Self::Stop,
            KNOCK => Self::Knock,
            SPEAKS => Self::Speaks(serial),
            DIED => Self::Died(serial),
            _ => Self::Packets(serial),
        }
    }
}

/// Ends a daemon, from a signal's handler or another thread.
#[derive(Clone, Debug)]
pub struct Stop {
    ours: Arc<UnixStream>,
    theirs: Arc<UnixStream>,
}

impl Stop {
    /// For one daemon.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> Result<Self, crate::Error> {
        let (ours, theirs) = UnixStream::pair().map_err(crate::system("a socket"))?;
        Ok(Self { ours: Arc::new(ours), theirs: Arc::new(theirs) })
    }

    /// The daemon ends when anything is written there.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<UnixStream> {
        self.theirs.try_clone()
    }

    /// The daemon ends soon.
    pub fn stop(&self) {
        // Full: it was asked to before.
        let _ = rustix::io::write(&*self.theirs, b"s");
    }
}

pub(crate) struct Door {
    listener: Listener,
    epoll: OwnedFd,
    /// Knocks are not listened to: there are no descriptors left.
    is_shut: bool,
    _stop: Stop,
}

/// Events that are taken at once.
const AT_ONCE: usize = 64;

impl Door {
    pub(crate) fn open(path: &Path, stop: Stop) -> Result<Self, SessionError> {
        let listener = Listener::bind(path)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, Event::Knock.encode(), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &*stop.ours, Event::Stop.encode(), epoll::EventFlags::IN)?;
        Ok(Self { listener, epoll, is_shut: false, _stop: stop })
    }

    /// What has happened; waits for it no longer than that, or for ever.
    pub(crate) fn wait(&self, most: Option<Duration>) -> io::Result<Vec<Event>> {
        if most != Some(Duration::ZERO) {
            let most = most.map(|most| Timespec {
                tv_sec: most.as_secs() as i64,
                tv_nsec: most.subsec_nanos().into(),
            });
            // Its limit is exact, where epoll's is in milliseconds.
            let _ = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], most.as_ref());
        }
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); AT_ONCE];
        match epoll::wait(&self.epoll, &mut space[..], Some(&now)) {
            Ok((events, _)) => Ok(events.iter().map(|event| Event::decode(event.data)).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next program that connects. Out of descriptors, it is shut until [`Door::reopen`].
    pub(crate) fn accept(&mut self, serial: u32) -> io::Result<Option<Session>> {
        let session = match self.listener.accept() {
            Ok(Some(session)) => session,
            Ok(None) => return Ok(None),
            Err(error) => {
                epoll::delete(&self.epoll, &self.listener)?;
                self.is_shut = true;
                return Err(error);
            }
        };
        self.watch(&session, Event::Speaks(serial))?;
        Ok(Some(session))
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut
    }

    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_shut) {
            let flags = epoll::EventFlags::IN;
            epoll::add(&self.epoll, &self.listener, Event::Knock.encode(), flags)?;
        }
        Ok(())
    }

    /// The event happens whenever the descriptor is readable.
    pub(crate) fn watch(&self, fd: impl AsFd, event: Event) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, event.encode(), epoll::EventFlags::IN)?)
    }

    /// The event happens never, until [`Door::arm`].
    pub(crate) fn watch_unarmed(&self, fd: impl AsFd, event: Event) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, event.encode(), epoll::EventFlags::ONESHOT)?)
    }

    /// The event happens once the descriptor is readable, and then no more; or not at all.
    pub(crate) fn arm(&self, fd: impl AsFd, event: Event, armed: bool) -> io::Result<()> {
        let mut flags = epoll::EventFlags::ONESHOT;
        flags.set(epoll::EventFlags::IN, armed);
        Ok(epoll::modify(&self.epoll, fd, event.encode(), flags)?)
    }

    /// No more events of this descriptor. Closing is not enough where others have it open, too.
    pub(crate) fn forget(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }
}
