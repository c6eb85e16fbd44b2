//! The workers' half of the connections: responses, written at once where the kernel takes them.
//!
//! One outbox a slot, each under its own mutex, which is held for a system call at most. Any worker
//! writes; the dispatcher opens, closes and flushes.
//!
//! Invariants, under the lock: `unsent` is non-empty exactly while `EPOLLOUT` is armed (changing
//! the interest makes the kernel look anew, so no edge is lost); a thread that finds `unsent`
//! non-empty appends, so frames never interleave; `generation` is that of the connection in
//! `socket`, or the next one's where there is none; after `broken` nothing is written, and the
//! dispatcher is about to learn of it. The budget knows the capacity of `unsent`, which is none
//! while that is empty.
//!
//! Where threads serve the connections ([`super::streams`]), the connection's thread has the
//! dispatcher's part. It watches the socket by itself, and is woken instead of an edge.

use super::budget::Budget;
use super::counters::Counters;
use super::streams::Socket;
use super::token::Token;
use super::unsent::Unsent;
use crate::http::{self, Asked, Date};
use crate::{Kept, Peer, Reply, TcpConfig, Wire};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg, shutdown, sockopt};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod answers;

/// Bytes that the dispatcher flushes for one connection before it looks at the others again.
const FLUSH_BYTES: usize = 64 << 10;

pub(super) struct Outboxes {
    slots: Box<[Slot]>,
    wire: Wire,
    limit: usize,
    pub(super) epoll: OwnedFd,
    pub(super) counters: Counters,
    pub(super) budget: Budget,
    /// Threads serve the connections; set before the first of them.
    pub(super) by_threads: AtomicBool,
    /// Connections that have got something unsent since the dispatcher last asked: slot, generation.
    filled: Mutex<Vec<(u32, u32)>>,
    has_filled: AtomicBool,
}

/// On cache lines of its own (two: the processor fetches pairs).
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    /// The generation whose connection lives, and [`ALIVE`]; anything else where none does. Written
    /// under the lock, for looks without it.
    living: AtomicU64,
    outbox: Mutex<Outbox>,
}

const ALIVE: u64 = 1 << 32;

#[derive(Default)]
struct Outbox {
    generation: u32,
    socket: Option<Arc<dyn Socket>>,
    unsent: Unsent,
    /// Since when its peer has taken none of it.
    since: Option<Instant>,
    /// Responses of which bytes have gone to `unsent` since it was last empty.
    responses: u64,
    broken: bool,
    /// HTTP: what the answer to the request in progress depends on, until that is written.
    asked: Option<Asked>,
    /// What the server keeps of the connection.
    kept: Kept,
}

impl Outboxes {
    pub(super) fn new(config: &TcpConfig, epoll: OwnedFd) -> Self {
        Self {
            slots: (0..config.connections).map(|_| Slot::default()).collect(),
            wire: config.wire,
            limit: config.out_limit,
            epoll,
            counters: Counters::default(),
            budget: Budget::new(config.memory),
            by_threads: AtomicBool::new(false),
            filled: Mutex::default(),
            has_filled: AtomicBool::new(false),
        }
    }

    fn lock(&self, slot: u32) -> Option<MutexGuard<'_, Outbox>> {
        let slot = self.slots.get(slot as usize)?;
        // Nothing in here panics half-way.
        Some(slot.outbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What looks without the lock see; the caller has it.
    fn set_living(&self, slot: u32, living: u64) {
        if let Some(slot) = self.slots.get(slot as usize) {
            slot.living.store(living, Relaxed);
        }
    }

    /// Puts a connection into a free slot and watches it; its generation.
    pub(super) fn open(&self, slot: u32, socket: Arc<dyn Socket>) -> Result<u32, Errno> {
        let mut outbox = self.lock(slot).ok_or(Errno::INVAL)?;
        let generation = outbox.generation;
        if !self.by_threads.load(Relaxed) {
            let token = Token::Connection { slot, generation };
            epoll::add(&self.epoll, socket.as_fd(), token.into(), interest(false))?;
        }
        outbox.socket = Some(socket);
        self.set_living(slot, ALIVE | u64::from(generation));
        Ok(generation)
    }

    /// Takes the connection out of its slot.
    pub(super) fn release(&self, slot: u32, reset: bool) {
        let Some(mut outbox) = self.lock(slot) else { return };
        let Some(socket) = outbox.socket.take() else { return };
        outbox.generation = outbox.generation.wrapping_add(1);
        self.set_living(slot, 0);
        self.counters.dropped.fetch_add(outbox.responses, Relaxed);
        if reset || outbox.broken {
            // Else the kernel would keep for minutes what the peer does not read.
            let _ = sockopt::set_socket_linger(socket.as_fd(), Some(Duration::ZERO));
        }
        outbox.empty(&self.budget);
        outbox.broken = false;
        outbox.asked = None;
        let kept = outbox.kept.take();
        drop(outbox);
        // The server's code: not under the lock.
        drop(kept);
    }

    pub(super) fn is_flushed(&self, slot: u32) -> bool {
        self.lock(slot).is_none_or(|outbox| outbox.unsent.is_empty())
    }

    pub(super) fn is_broken(&self, slot: u32) -> bool {
        self.lock(slot).is_none_or(|outbox| outbox.broken)
    }

    /// Since when the peer has taken nothing of what waits; `None`: nothing does.
    pub(super) fn waits_since(&self, slot: u32) -> Option<Instant> {
        self.lock(slot)?.since
    }

    /// Bytes of memory that what waits has.
    pub(super) fn unsent_bytes(&self, slot: u32) -> usize {
        self.lock(slot).map_or(0, |outbox| outbox.unsent.capacity())
    }

    pub(super) fn has_filled(&self) -> bool {
        self.has_filled.load(Relaxed)
    }

    /// Connections in which something waits, and did not when this was last asked.
    pub(super) fn take_filled(&self) -> Vec<(u32, u32)> {
        if !self.has_filled() {
            return Vec::new();
        }
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_filled.store(false, Relaxed);
        std::mem::take(&mut filled)
    }

    /// Sends our FIN: all responses have been written. False: there is no connection any more.
    pub(super) fn part(&self, slot: u32) -> bool {
        let socket = self.lock(slot).and_then(|outbox| outbox.socket.clone());
        socket.is_some_and(|socket| shutdown(socket.as_fd(), Shutdown::Write).is_ok())
    }

    /// Writes what waits, as far as the kernel takes it. Answers whether any of it went out.
    pub(super) fn flush(&self, slot: u32, generation: u32) -> Result<bool, Errno> {
        let Some(mut outbox) = self.lock(slot) else { return Ok(false) };
        let Some(socket) = outbox.socket.clone() else { return Ok(false) };
        let mut moved = 0;
        while !outbox.unsent.is_empty() && moved < FLUSH_BYTES {
            let front = outbox.unsent.front();
            let piece = &front[..front.len().min(FLUSH_BYTES - moved)];
            match send(socket.as_fd(), piece, flags()) {
                Ok(count) => {
                    let before = outbox.unsent.capacity();
                    outbox.unsent.consume(count);
                    self.budget.swap_unsent(before, outbox.unsent.capacity());
                    moved += count;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let more = !outbox.unsent.is_empty();
        if !more {
            outbox.empty(&self.budget);
        } else if moved > 0 {
            outbox.since = Some(Instant::now());
        }
        // Where the kernel would have taken more, no edge is to come: arming anew makes one.
        if !more || moved == FLUSH_BYTES {
            self.arm(&*socket, slot, generation, more)?;
        }
        Ok(moved > 0)
    }

    fn arm(
        &self,
        socket: &dyn Socket,
        slot: u32,
        generation: u32,
        writable: bool,
    ) -> Result<(), Errno> {
        if self.by_threads.load(Relaxed) {
            return Ok(());
        }
        let token = Token::Connection { slot, generation };
        epoll::modify(&self.epoll, socket.as_fd(), token.into(), interest(writable))
    }

    /// Sends one response. `Err`: it can't be delivered.
    fn send(&self, slot: u32, generation: u32, payload: &[u8]) -> Result<(), ()> {
        match self.wire {
            Wire::Frames => {
                let length = u32::try_from(payload.len()).map_err(drop)?;
                self.write(slot, generation, &length.to_le_bytes(), payload)
            }
            Wire::ShortFrames => {
                let length = u16::try_from(payload.len()).map_err(drop)?;
                self.write(slot, generation, &length.to_be_bytes(), payload)
            }
            Wire::Http => {
                let asked = self.take_asked(slot, generation).ok_or(())?;
                let (head, body) = http::answer(payload, asked, &Date::now());
                self.write(slot, generation, head.as_bytes(), body)
            }
        }
    }

    /// Head and body of one response.
    fn write(&self, slot: u32, generation: u32, header: &[u8], payload: &[u8]) -> Result<(), ()> {
        let mut outbox = self.lock(slot).ok_or(())?;
        if outbox.generation != generation || outbox.broken {
            return Err(());
        }
        let socket = outbox.socket.clone().ok_or(())?;
        let was_empty = outbox.unsent.is_empty();
        let sent = if was_empty { write_frame(&*socket, header, payload) } else { Ok(0) };
        let Ok(sent) = sent else {
            // Broken by the peer: epoll tells the dispatcher.
            outbox.broken = true;
            self.set_living(slot, 0);
            drop(outbox);
            socket.nudge();
            return Err(());
        };
        let rest = header.len() + payload.len() - sent;
        if rest == 0 {
            return Ok(());
        }
        outbox.responses += 1;
        let mut fits = outbox.unsent.len() + rest <= self.budget.unsent_share(self.limit);
        if fits {
            let before = outbox.unsent.capacity();
            let length = header.len();
            let header = header.get(sent..).unwrap_or_default();
            let payload = &payload[sent.saturating_sub(length)..];
            fits = outbox.unsent.push(header).and_then(|()| outbox.unsent.push(payload)).is_ok();
            self.budget.swap_unsent(before, outbox.unsent.capacity());
            if was_empty {
                outbox.since = Some(Instant::now());
            }
            if was_empty && !self.by_threads.load(Relaxed) {
                let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
                filled.push((slot, generation));
                self.has_filled.store(true, Relaxed);
            }
        }
        if fits && (!was_empty || self.arm(&*socket, slot, generation, true).is_ok()) {
            drop(outbox);
            if was_empty {
                socket.nudge();
            }
            return Ok(());
        }
        // Too much waits for a peer that does not read. The dispatcher sees the shutdown and
        // closes; it counts this response with the others that waited.
        outbox.broken = true;
        self.set_living(slot, 0);
        self.counters.unread.fetch_add(1, Relaxed);
        let _ = shutdown(socket.as_fd(), Shutdown::Both);
        drop(outbox);
        socket.nudge();
        Ok(())
    }
}

impl Outbox {
    /// Nothing waits any more.
    fn empty(&mut self, budget: &Budget) {
        self.responses = 0;
        self.since = None;
        budget.swap_unsent(self.unsent.capacity(), 0);
        self.unsent = Unsent::default();
    }
}

impl Reply for Outboxes {
    fn reply(&self, to: Peer, payload: &[u8]) {
        let sent = match to {
            Peer::Tcp { connection, generation } => self.send(connection, generation, payload),
            _ => Err(()),
        };
        if sent.is_err() {
            self.counters.dropped.fetch_add(1, Relaxed);
        }
    }

    fn refuse(&self, to: Peer) {
        let _http_does_by_the_outcome = (self.wire != Wire::Http).then(|| self.reply(to, &[]));
    }

    fn dropped(&self) -> u64 {
        self.counters.dropped.load(Relaxed)
    }

    /// Exact soon after the fact: a request that begins just then is run for nothing.
    fn is_gone(&self, peer: Peer) -> bool {
        let Peer::Tcp { connection, generation } = peer else { return false };
        let slot = self.slots.get(connection as usize);
        slot.is_none_or(|slot| slot.living.load(Relaxed) != ALIVE | u64::from(generation))
    }

    fn with_state(&self, peer: Peer, f: &mut dyn FnMut(&mut Kept)) -> bool {
        let Peer::Tcp { connection, generation } = peer else { return false };
        let Some(mut outbox) = self.lock(connection) else { return false };
        let lives = outbox.generation == generation && outbox.socket.is_some();
        if lives {
            f(&mut outbox.kept);
        }
        lives
    }
}

/// Bytes that the kernel took of a frame.
fn write_frame(socket: &dyn Socket, header: &[u8], payload: &[u8]) -> Result<usize, Errno> {
    let pieces = [IoSlice::new(header), IoSlice::new(payload)];
    loop {
        match sendmsg(socket.as_fd(), &pieces, &mut SendAncillaryBuffer::default(), flags()) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            other => return other,
        }
    }
}

fn flags() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

fn interest(writable: bool) -> EventFlags {
    let reading = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writable { reading | EventFlags::OUT } else { reading }
}
