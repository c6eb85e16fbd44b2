//! Shared memory: clients on the same host, each with a session of its own.
//!
//! A session is a connection of a Unix socket, by which the server passes sealed memory with two
//! rings of frames: requests and answers. Nobody enters the kernel as long as both sides are awake.
//! A side that is going to sleep says so in the memory, and is woken by a byte on the socket; the end
//! of the socket is the end of the session.
//!
//! The dispatcher's thread owns [`Shm`] and takes requests; workers put answers in (`place`). A
//! client is never trusted: what it wrote is copied before it is looked at, and one whose indices or
//! frames can't be is disconnected. Each request gets one answer, or is told why there is none.
//!
//! Invariant: a session's generation is not used again for 2³² sessions, so what comes late for it finds nothing.

use crate::error::OpenError;
use crate::socket::drain;
use crate::tcp::unix::{SocketFile, bind};
use crate::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
pub use client::{ShmClient, ShmRefused};
use curtail_ring::frames::{FrameError, FrameReader};
use place::{Backlog, Place, SessionLink, Shared};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use segment::{CANCELLED, DROPPED, FAILED, MORE, MOST_REQUESTS, RING_BYTES, ROOM, SILENT, Segment};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod client;
mod hello;
mod place;
mod segment;

/// Polls between two looks at the sockets, where the dispatcher does not sleep.
const LOOK: u32 = 256;
/// Requests of one session before another's turn.
const BURST: usize = 32;
const MOST_ACCEPTS: usize = 8;
/// How long closing waits for clients that don't take their answers.
const LINGER_SECONDS: i64 = 5;
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Settings of [`Shm`].
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// Bytes of each of a session's two rings, 4 KiB to 64 MiB; rounded up to a power of two. A
    /// request or an answer has half of it at most. Default 256 KiB.
    pub ring: usize,
    /// Sessions at a time, 1 to 4,096. Default 64.
    pub sessions: usize,
    /// Requests of a session in progress, 1 to 65,536; rounded up to a power of two. Default 1,024.
    pub requests: usize,
    /// Bytes of answers of a session that may wait for room in its ring, each counted as 64 more; a
    /// client that lets more pile up is disconnected. Default 4 MiB.
    pub out_limit: usize,
}

impl Default for ShmConfig {
    fn default() -> Self {
        Self { ring: 256 << 10, sessions: 64, requests: 1_024, out_limit: 4 << 20 }
    }
}

/// The dispatcher's side.
pub struct Shm {
    shared: Arc<Shared>,
    config: ShmConfig,
    epoll: OwnedFd,
    listener: Option<(OwnedFd, SocketFile)>,
    path: PathBuf,
    timer: OwnedFd,
    /// Given up where there are no descriptors for a client that is to be turned away.
    spare: Option<OwnedFd>,
    sessions: Box<[Option<Session>]>,
    /// The sessions that there are.
    active: Vec<u32>,
    last_generation: u32,
    /// The session that has the next turn, of `active`.
    first: usize,
    polls: u32,
    /// Clients were told that the dispatcher sleeps.
    is_armed: bool,
    /// The last poll ended for want of room.
    is_starved: bool,
    is_closing: bool,
    /// Nobody waits any more for clients to take their answers.
    is_over: bool,
    buffer: Vec<u8>,
    accepted: u64,
    refused: u64,
    lies: u64,
}

struct Session {
    link: Arc<SessionLink>,
    reader: FrameReader,
    generation: u32,
    in_progress: usize,
}

impl Shm {
    /// Listens on a Unix socket, by its file, which goes with the transport.
    ///
    /// # Errors
    /// [`OpenError`]: a setting is out of range, or what the kernel said.
    pub fn listen(path: &Path, config: &ShmConfig) -> Result<Self, OpenError> {
        let ring = OpenError::within("ring", config.ring, RING_BYTES.0, RING_BYTES.1)?;
        let sessions = OpenError::within("sessions", config.sessions, 1, 4_096)?;
        let requests = OpenError::within("requests", config.requests, 1, MOST_REQUESTS)?;
        let out_limit = OpenError::within("out", config.out_limit, 1, 1 << 30)?;
        let (ring, requests) = (ring.next_power_of_two(), requests.next_power_of_two());
        let failed = |error| OpenError::system("epoll", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed)?;
        let (socket, file) = bind(path, 128)?;
        let spare = spare(&epoll);
        let watch =
            |fd: &OwnedFd, token| epoll::add(&epoll, fd, EventData::new_u64(token), EventFlags::IN);
        watch(&socket, LISTENER).map_err(failed)?;
        watch(&timer, TIMER).map_err(failed)?;
        let places = (0..sessions).map(|_| Place::default()).collect();
        Ok(Self {
            shared: Arc::new(Shared { places, out_limit, dropped: AtomicU64::new(0) }),
            config: ShmConfig { ring, sessions, requests, out_limit },
            epoll,
            listener: Some((socket, file)),
            path: path.to_owned(),
            timer,
            spare,
            sessions: (0..sessions).map(|_| None).collect(),
            active: Vec::new(),
            last_generation: 0,
            first: 0,
            polls: 0,
            is_armed: false,
            is_starved: false,
            is_closing: false,
            is_over: false,
            buffer: Vec::new(),
            accepted: 0,
            refused: 0,
            lies: 0,
        })
    }

    /// Sees to the sockets: new sessions, bells, and those that have ended.
    fn look(&mut self, into: &mut dyn Intake) {
        let mut space = [const { MaybeUninit::uninit() }; 64];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut space, Some(&now)) else { return };
        for event in events.iter() {
            match event.data.u64() {
                LISTENER => self.accept(),
                TIMER => self.is_over |= drain(&self.timer) > 0,
                token => {
                    let (slot, generation) = (token as u32, (token >> 32) as u32);
                    let session = self.sessions[slot as usize].as_ref();
                    let Some(session) = session.filter(|one| one.generation == generation) else {
                        continue;
                    };
                    if !hello::answer(&session.link.socket) {
                        self.end(slot, into);
                    }
                }
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTS {
            let Some((listener, _)) = &self.listener else { return };
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    // A socket that is dropped tells its client that there is no session.
                    let done = self.admit(socket).is_some();
                    self.accepted += u64::from(done);
                    self.refused += u64::from(!done);
                }
                Err(Errno::AGAIN) => return,
                // The spare descriptor takes it, and closes it: it would be reported for ever.
                Err(Errno::MFILE | Errno::NFILE) if self.spare.take().is_some() => {
                    let had_one = accept_with(listener, SocketFlags::CLOEXEC).map(drop).is_ok();
                    self.spare = spare(&self.epoll);
                    self.refused += u64::from(had_one);
                    if !had_one {
                        return;
                    }
                }
                // One that has gone already, or none can be had now: it stays readable.
                Err(_) => {
                    self.spare = self.spare.take().or_else(|| spare(&self.epoll));
                    self.refused += 1;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) -> Option<()> {
        let Some(slot) = self.sessions.iter().position(Option::is_none) else {
            let _ = hello::greet(&socket, None);
            return None;
        };
        let segment = Segment::create(self.config.ring, self.config.requests).ok()?;
        hello::greet(&socket, Some(segment.fd())).ok()?;
        // 0 is no generation, and the tokens of the listener and the timer are no session's.
        self.last_generation = self.last_generation % (u32::MAX - 1) + 1;
        let generation = self.last_generation;
        let token = EventData::new_u64(u64::from(generation) << 32 | slot as u64);
        epoll::add(&self.epoll, &socket, token, EventFlags::IN).ok()?;
        let link = Arc::new(SessionLink::new(segment, socket, self.config.requests));
        self.shared.places[slot].enter(link.clone(), generation);
        let reader = FrameReader::default();
        self.sessions[slot] = Some(Session { link, reader, generation, in_progress: 0 });
        self.active.push(slot as u32);
        Some(())
    }

    fn end(&mut self, slot: u32, into: &mut dyn Intake) {
        let Some(session) = self.sessions[slot as usize].take() else { return };
        let _ = epoll::delete(&self.epoll, &session.link.socket);
        self.active.retain(|other| *other != slot);
        let unsent = self.shared.places[slot as usize].leave();
        self.shared.dropped.fetch_add(unsent, Ordering::Relaxed);
        if session.in_progress > 0 {
            into.departed();
        }
    }

    /// One session's turn; false: it is to end.
    fn serve(&mut self, slot: u32, now_tsc: u64, into: &mut dyn Intake) -> bool {
        let place = &self.shared.places[slot as usize];
        let has_backlog = place.has_backlog.load(Ordering::Relaxed);
        let backlog = if has_backlog { place.flush() } else { Backlog::None };
        let Some(session) = &mut self.sessions[slot as usize] else { return true };
        match backlog {
            Backlog::Broken => return false,
            Backlog::Some => return !(self.is_over && session.in_progress == 0),
            Backlog::None if self.is_closing => return session.in_progress > 0,
            Backlog::None => {}
        }
        let lane = session.link.segment.requests();
        let mut taken = Ok(());
        for _ in 0..BURST {
            if into.room() == 0 || session.in_progress >= self.config.requests {
                break;
            }
            match session.reader.next(lane, &mut self.buffer) {
                Ok(None) => break,
                Ok(Some(frame)) if session.link.begin(frame.tag) => {
                    session.in_progress += 1;
                    let (generation, tag) = (session.generation, frame.tag);
                    let from = Peer::Shm { session: slot, generation, tag };
                    into.request_in(&mut self.buffer, from, now_tsc);
                }
                Ok(Some(_)) => taken = Err(FrameError::Corrupt),
                Err(error) => taken = Err(error),
            }
            if taken.is_err() {
                self.lies += 1;
                into.malformed(1);
                return false;
            }
        }
        if session.reader.release(lane) && session.link.segment.client().is_asked(ROOM) {
            hello::ring(&session.link.socket);
        }
        true
    }

    /// Whether a poll would find something in that session.
    fn has_something(&self, slot: u32) -> bool {
        let Some(session) = &self.sessions[slot as usize] else { return false };
        let backlog = self.shared.places[slot as usize].has_backlog.load(Ordering::Relaxed);
        // What waits for room is told of by the socket.
        !backlog
            && !self.is_closing
            && !self.is_starved
            && session.in_progress < self.config.requests
            && !session.reader.is_empty(session.link.segment.requests())
    }
}

fn spare(epoll: &OwnedFd) -> Option<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(epoll, 0).ok()
}

impl Transport for Shm {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        let has_slept = std::mem::take(&mut self.is_armed);
        if has_slept {
            for session in self.sessions.iter().flatten() {
                session.link.segment.dispatcher().cease();
            }
        }
        self.polls = self.polls.wrapping_add(1);
        if has_slept || self.polls.is_multiple_of(LOOK) {
            self.look(into);
        }
        // By place, as sessions that end leave the list.
        let count = self.active.len();
        self.first = if count == 0 { 0 } else { (self.first + 1) % count };
        let mut at = self.first;
        for _ in 0..count {
            if at >= self.active.len() {
                at = 0;
            }
            let Some(&slot) = self.active.get(at) else { break };
            if self.serve(slot, now_tsc, into) {
                at += 1;
            } else {
                self.end(slot, into);
            }
        }
        self.is_starved = into.room() == 0;
        match self.is_closing && self.active.is_empty() {
            true => Status::Closed,
            false => Status::Open,
        }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.shared.clone()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.epoll.as_raw_fd()]
    }

    fn before_wait(&mut self) -> bool {
        self.is_armed = true;
        for session in self.sessions.iter().flatten() {
            session.link.segment.dispatcher().ask(MORE);
        }
        !self.active.iter().any(|&slot| self.has_something(slot))
    }

    fn completed(&mut self, completion: &Completion) {
        let Peer::Shm { session: slot, generation, .. } = completion.peer else { return };
        let session = self.sessions.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(session) = session.filter(|one| one.generation == generation) else { return };
        session.in_progress = session.in_progress.saturating_sub(1);
        let why = match completion.outcome {
            Outcome::Done => SILENT,
            Outcome::Failed => FAILED,
            Outcome::Dropped => DROPPED,
            Outcome::Orphaned | Outcome::Cancelled | Outcome::Abandoned => CANCELLED,
        };
        // Where there was an answer, this is none.
        self.shared.answer(completion.peer, why, &[]);
    }

    fn close(&mut self) {
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        if let Some((listener, _)) = self.listener.take() {
            let _ = epoll::delete(&self.epoll, &listener);
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec { tv_sec: LINGER_SECONDS, tv_nsec: 0 };
        let end = Itimerspec { it_interval: none, it_value };
        self.is_over = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &end).is_err();
    }

    fn describe(&self) -> String {
        format!("shm://{}", self.path.display())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("shm_responses_dropped", self.shared.dropped()),
            ("shm_sessions", self.active.len() as u64),
            ("shm_accepted", self.accepted),
            ("shm_refused", self.refused),
            ("shm_lies", self.lies),
        ]
    }
}
