//! The client's side of a session: one thread at a time hands in requests and takes answers.
//!
//! The server is not trusted either: a tag that is not under way, or a frame that can't be, ends the
//! session. A request's tag is its slot, and above that how often the slot was used.

use super::hello;
use super::segment::{CANCELLED, DROPPED, FAILED, MORE, PLAIN, ROOM, SILENT, Segment, TOO_LONG};
use crate::NoResponse;
use curtail_ring::frames::{FrameError, FrameReader, FrameWriter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// Looks in vain between two looks at the socket, which alone tells that the server has gone.
const LOOK: u32 = 4_096;
/// How long [`ShmClient::call`] looks for its answer before it sleeps, in looks.
const PATIENCE: u32 = 2_000;

/// A client of a server's `shm://PATH`: a session.
///
/// Requests are handed in by [`ShmClient::submit`] and answered, in whatever order, through
/// [`ShmClient::receive`]; or one at a time by [`ShmClient::call`].
pub struct ShmClient {
    socket: OwnedFd,
    segment: Segment,
    writer: FrameWriter,
    reader: FrameReader,
    buffer: Vec<u8>,
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// Answers that `call` took for others.
    kept: VecDeque<(u32, Answer)>,
    /// Bytes of the request that there was no room for.
    refused_bytes: Option<usize>,
    /// Looks in vain in a row.
    quiet: u32,
    is_armed: bool,
    has_ended: bool,
}

type Answer = Result<Vec<u8>, NoResponse>;

#[derive(Clone, Copy, Default)]
struct Slot {
    uses: u32,
    is_taken: bool,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShmRefused {
    /// There is no room for it before others are taken or answered.
    #[error("there is no room for the request before others are answered")]
    Full,
    /// There never will be.
    #[error("the request is longer than half of the ring")]
    TooLong,
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
}

impl ShmClient {
    /// Connects. Waits for the server to answer.
    ///
    /// # Errors
    /// No server listens there; all its sessions are taken (`ConnectionRefused`); or what it passes
    /// is no session of this version.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        let memory = hello::be_greeted(&socket)?;
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let (segment, requests) = Segment::open(memory).map_err(invalid)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: socket.into(),
            segment,
            writer: FrameWriter::default(),
            reader: FrameReader::default(),
            buffer: Vec::new(),
            slots: vec![Slot::default(); requests].into(),
            free: (0..requests as u32).rev().collect(),
            kept: VecDeque::new(),
            refused_bytes: None,
            quiet: 0,
            is_armed: false,
            has_ended: false,
        })
    }

    /// The longest request and the longest answer in bytes.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        self.segment.requests().most_bytes()
    }

    /// Requests that have no answer yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Hands in a request; its tag, which comes back with its answer. Never waits.
    ///
    /// # Errors
    /// [`ShmRefused`]; nothing was handed in.
    pub fn submit(&mut self, payload: &[u8]) -> Result<u32, ShmRefused> {
        if self.has_ended {
            return Err(ShmRefused::Closed);
        }
        let Some(&at) = self.free.last() else { return Err(ShmRefused::Full) };
        let slots = self.slots.len();
        let slot = &mut self.slots[at as usize];
        let uses = slot.uses.wrapping_add(1);
        let tag = tag(slots, uses, at);
        match self.writer.push(self.segment.requests(), tag, PLAIN, payload) {
            Ok(()) => {}
            Err(FrameError::Full) => {
                self.refused_bytes = Some(payload.len());
                return Err(ShmRefused::Full);
            }
            Err(FrameError::TooLong) => return Err(ShmRefused::TooLong),
            Err(FrameError::Corrupt) => {
                self.has_ended = true;
                return Err(ShmRefused::Closed);
            }
        }
        *slot = Slot { uses, is_taken: true };
        self.free.pop();
        self.refused_bytes = None;
        if self.segment.dispatcher().is_asked(MORE) {
            hello::ring(&self.socket);
        }
        Ok(tag)
    }

    /// Gives each answer that has come to `take`, by its request's tag; how many. Never waits.
    ///
    /// # Errors
    /// [`NoResponse::Closed`]: the session has ended, and with it all requests under way.
    pub fn receive(
        &mut self,
        mut take: impl FnMut(u32, Result<&[u8], NoResponse>),
    ) -> Result<usize, NoResponse> {
        let mut count = self.kept.len();
        for (tag, answer) in self.kept.drain(..) {
            take(tag, answer.as_deref().map_err(|why| *why));
        }
        count += self.take_all(&mut take);
        if count > 0 {
            return Ok(count);
        }
        if self.has_ended { Err(NoResponse::Closed) } else { Ok(0) }
    }

    fn take_all(&mut self, mut take: impl FnMut(u32, Result<&[u8], NoResponse>)) -> usize {
        self.wake_up();
        let mut count = self.take_ring(&mut take);
        self.quiet = if count == 0 { self.quiet + 1 } else { 0 };
        if self.quiet >= LOOK && !self.has_ended {
            self.quiet = 0;
            self.look_at_socket();
            if self.has_ended {
                // What it answered before it went.
                count = self.take_ring(&mut take);
            }
        }
        count
    }

    fn take_ring(&mut self, mut take: impl FnMut(u32, Result<&[u8], NoResponse>)) -> usize {
        let lane = self.segment.answers();
        let mut count = 0;
        // No more than can be under way: the callback may take its time.
        for _ in 0..self.slots.len() {
            let frame = match self.reader.next(lane, &mut self.buffer) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    self.has_ended = true;
                    break;
                }
            };
            let at = frame.tag & (self.slots.len() as u32 - 1);
            let own = tag(self.slots.len(), self.slots[at as usize].uses, at);
            let slot = &mut self.slots[at as usize];
            let (true, Some(told)) = (slot.is_taken && own == frame.tag, told(frame.kind)) else {
                self.has_ended = true;
                break;
            };
            slot.is_taken = false;
            self.free.push(at);
            count += 1;
            take(frame.tag, told.map(|()| frame.bytes));
        }
        if self.reader.release(lane) && self.segment.waiting().is_asked(ROOM) {
            hello::ring(&self.socket);
        }
        count
    }

    fn look_at_socket(&mut self) {
        self.has_ended |= !hello::answer(&self.socket);
    }

    /// To be called before the caller waits until the client's descriptor is readable: false, there
    /// is something to receive, or room for what was refused.
    pub fn before_wait(&mut self) -> bool {
        self.is_quiet() && self.kept.is_empty()
    }

    /// Asks to be woken; whether there is nothing yet, beside what is kept.
    fn is_quiet(&mut self) -> bool {
        let wants_room = if self.refused_bytes.is_some() { ROOM } else { 0 };
        self.is_armed = true;
        self.segment.client().ask(MORE | wants_room);
        let has_room = self
            .refused_bytes
            .is_some_and(|bytes| self.writer.has_room(self.segment.requests(), bytes) != Ok(false));
        self.reader.is_empty(self.segment.answers()) && !has_room && !self.has_ended
    }

    fn wake_up(&mut self) {
        if mem::take(&mut self.is_armed) {
            self.segment.client().cease();
            self.look_at_socket();
        }
    }

    /// Sleeps until there is something to receive, or room after [`ShmRefused::Full`], or the
    /// session has ended, or the time has passed. May return for nothing.
    ///
    /// # Errors
    /// What the kernel says to a `poll`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.before_wait() { self.sleep(timeout) } else { Ok(()) }
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // Beyond the range of the kernel's time: that is no timeout at all.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut asked = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut asked, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.wake_up();
        Ok(())
    }

    /// Hands in a request and waits for its answer, asleep if it takes long. Answers of others are
    /// kept for [`ShmClient::receive`].
    ///
    /// # Errors
    /// Why there is no answer; [`NoResponse::TooLong`] for a request as well.
    pub fn call(&mut self, payload: &[u8]) -> Result<Vec<u8>, NoResponse> {
        let mut looks = 0;
        let own = loop {
            match self.submit(payload) {
                Ok(tag) => break tag,
                Err(ShmRefused::TooLong) => return Err(NoResponse::TooLong),
                Err(ShmRefused::Closed) => return Err(NoResponse::Closed),
                Err(ShmRefused::Full) => drop(self.take_own(None, &mut looks)?),
            }
        };
        looks = 0;
        loop {
            if let Some(answer) = self.take_own(Some(own), &mut looks)? {
                return answer;
            }
        }
    }

    /// Takes what has come, of which only the own answer is not kept. Sleeps where nothing has for a
    /// while.
    fn take_own(
        &mut self,
        own: Option<u32>,
        looks: &mut u32,
    ) -> Result<Option<Answer>, NoResponse> {
        let mut kept = mem::take(&mut self.kept);
        let mut found = None;
        let count = self.take_all(|tag, answer| {
            let answer = answer.map(<[u8]>::to_vec);
            if own == Some(tag) {
                found = Some(answer);
            } else {
                kept.push_back((tag, answer));
            }
        });
        self.kept = kept;
        if count == 0 {
            if self.has_ended {
                return Err(NoResponse::Closed);
            }
            *looks += 1;
            if *looks < PATIENCE {
                std::hint::spin_loop();
            } else if self.is_quiet() {
                *looks = 0;
                self.sleep(None).map_err(|_| NoResponse::Closed)?;
            }
        }
        Ok(found)
    }
}

impl AsFd for ShmClient {
    /// Readable when there is something to receive, after [`ShmClient::before_wait`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::fmt::Debug for ShmClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmClient").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

fn tag(slots: usize, uses: u32, at: u32) -> u32 {
    uses.wrapping_mul(slots as u32) | at
}

/// What a kind of answer says; `None`: there is none of that kind.
fn told(kind: u8) -> Option<Result<(), NoResponse>> {
    Some(match kind {
        PLAIN => Ok(()),
        SILENT => Err(NoResponse::Silent),
        FAILED => Err(NoResponse::Failed),
        DROPPED => Err(NoResponse::Dropped),
        CANCELLED => Err(NoResponse::Cancelled),
        TOO_LONG => Err(NoResponse::TooLong),
        _ => return None,
    })
}
