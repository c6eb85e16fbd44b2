//! Where a session's answers go: the workers' side, one place for each session that there can be.
//!
//! A worker marks the request's tag as answered, and the dispatcher, when the request has ended
//! without, does the same; whoever is first answers. Answers are put into the ring under the place's
//! lock. Those that find no room wait beside it, in order, until the dispatcher puts them in.

use super::hello;
use super::segment::{MORE, PLAIN, ROOM, Segment, TOO_LONG};
use crate::{Peer, Reply};
use curtail_ring::frames::{FrameError, FrameWriter};
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an answer that waits is counted as, beyond its bytes.
const EACH: usize = 64;

/// What both sides of the server have of a session.
pub(super) struct SessionLink {
    pub(super) segment: Segment,
    pub(super) socket: OwnedFd,
    /// By the low bits of a request's tag: `tag << 1`, and whether it has no answer yet.
    tags: Box<[AtomicU64]>,
}

impl SessionLink {
    pub(super) fn new(segment: Segment, socket: OwnedFd, requests: usize) -> Self {
        Self { segment, socket, tags: (0..requests).map(|_| AtomicU64::new(0)).collect() }
    }

    fn place(&self, tag: u32) -> &AtomicU64 {
        &self.tags[tag as usize & (self.tags.len() - 1)]
    }

    /// A request of that tag begins; false: one of its place has no answer yet. The dispatcher's.
    pub(super) fn begin(&self, tag: u32) -> bool {
        let place = self.place(tag);
        let is_free = place.load(Ordering::Acquire) & 1 == 0;
        if is_free {
            place.store(u64::from(tag) << 1 | 1, Ordering::Release);
        }
        is_free
    }

    /// Whether the caller is the one who answers.
    fn claim(&self, tag: u32) -> bool {
        let (old, new) = (u64::from(tag) << 1 | 1, u64::from(tag) << 1);
        let place = self.place(tag);
        place.load(Ordering::Relaxed) == old
            && place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// What the workers see.
pub(super) struct Shared {
    pub(super) places: Box<[Place]>,
    pub(super) out_limit: usize,
    pub(super) dropped: AtomicU64,
}

#[derive(Default)]
pub(super) struct Place {
    /// The generation of the session that is here; 0: none.
    generation: AtomicU32,
    /// Answers wait for room, or the session is to end.
    pub(super) has_backlog: AtomicBool,
    out: Mutex<Option<Out>>,
}

struct Out {
    link: Arc<SessionLink>,
    generation: u32,
    writer: FrameWriter,
    waiting: VecDeque<(u32, u8, Box<[u8]>)>,
    waiting_bytes: usize,
    /// It is to end.
    is_broken: bool,
}

/// What is left of the answers that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    None,
    Some,
    /// The session is to end.
    Broken,
}

impl Place {
    pub(super) fn enter(&self, link: Arc<SessionLink>, generation: u32) {
        let writer = FrameWriter::default();
        let (waiting, waiting_bytes, is_broken) = (VecDeque::new(), 0, false);
        *self.lock() = Some(Out { link, generation, writer, waiting, waiting_bytes, is_broken });
        self.generation.store(generation, Ordering::Release);
    }

    /// The session has ended; how many answers waited.
    pub(super) fn leave(&self) -> u64 {
        self.generation.store(0, Ordering::Release);
        self.has_backlog.store(false, Ordering::Relaxed);
        self.lock().take().map_or(0, |out| out.waiting.len() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Out>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in what there is room for. The dispatcher's.
    pub(super) fn flush(&self) -> Backlog {
        let mut out = self.lock();
        let Some(out) = &mut *out else { return Backlog::None };
        let left = out.flush();
        self.has_backlog.store(left != Backlog::None, Ordering::Relaxed);
        left
    }
}

impl Shared {
    /// Gives that request that answer; false: it has one, or its session has ended.
    pub(super) fn answer(&self, to: Peer, kind: u8, payload: &[u8]) -> bool {
        let Peer::Shm { session, generation, tag } = to else { return false };
        let Some(place) = self.places.get(session as usize) else { return false };
        let mut out = place.lock();
        let Some(out) = out.as_mut().filter(|out| out.generation == generation) else {
            return false;
        };
        if !out.link.claim(tag) {
            return false;
        }
        match out.send(tag, kind, payload, self.out_limit) {
            Backlog::None => return true,
            Backlog::Some => {}
            // The dispatcher may be asleep: the end of its own socket wakes it.
            Backlog::Broken => drop(shutdown(&out.link.socket, Shutdown::Both)),
        }
        place.has_backlog.store(true, Ordering::Relaxed);
        true
    }
}

impl Out {
    fn send(&mut self, tag: u32, kind: u8, payload: &[u8], out_limit: usize) -> Backlog {
        if self.is_broken {
            return Backlog::Broken;
        }
        if self.waiting.is_empty() {
            match self.push(tag, kind, payload) {
                Ok(()) => {
                    self.ring();
                    return Backlog::None;
                }
                Err(FrameError::Full) => {}
                Err(_) => return Backlog::Broken,
            }
        }
        self.waiting_bytes += payload.len() + EACH;
        if self.waiting_bytes > out_limit {
            self.is_broken = true;
            return Backlog::Broken;
        }
        self.waiting.push_back((tag, kind, payload.into()));
        self.flush()
    }

    fn push(&mut self, tag: u32, kind: u8, payload: &[u8]) -> Result<(), FrameError> {
        let lane = self.link.segment.answers();
        let pushed = match self.writer.push(lane, tag, kind, payload) {
            Err(FrameError::TooLong) => self.writer.push(lane, tag, TOO_LONG, &[]),
            pushed => pushed,
        };
        self.is_broken |= pushed == Err(FrameError::Corrupt);
        pushed
    }

    fn flush(&mut self) -> Backlog {
        let link = self.link.clone();
        let mut asked = false;
        let mut any = false;
        while let (Some((tag, kind, payload)), false) = (self.waiting.pop_front(), self.is_broken) {
            match self.push(tag, kind, &payload) {
                Ok(()) => {
                    any = true;
                    self.waiting_bytes -= payload.len() + EACH;
                }
                Err(_) => {
                    self.waiting.push_front((tag, kind, payload));
                    if asked {
                        break;
                    }
                    // Once more: it may have made room before it could see that.
                    link.segment.waiting().ask(ROOM);
                    asked = true;
                }
            }
        }
        if any {
            self.ring();
        }
        match (self.is_broken, self.waiting.is_empty()) {
            (true, _) => Backlog::Broken,
            (false, true) => Backlog::None,
            (false, false) => Backlog::Some,
        }
    }

    fn ring(&self) {
        if self.link.segment.client().is_asked(MORE) {
            hello::ring(&self.link.socket);
        }
    }
}

impl Reply for Shared {
    fn reply(&self, to: Peer, payload: &[u8]) {
        if !self.answer(to, PLAIN, payload) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `completed` says it.
    fn refuse(&self, _: Peer) {}

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn is_gone(&self, peer: Peer) -> bool {
        let Peer::Shm { session, generation, .. } = peer else { return false };
        let place = self.places.get(session as usize);
        place.is_none_or(|place| place.generation.load(Ordering::Acquire) != generation)
    }
}
