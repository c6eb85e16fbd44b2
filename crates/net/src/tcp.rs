//! Kernel TCP: each frame (see [`crate::Framer`]) is a request, each response a frame.
//!
//! The dispatcher's thread owns [`Tcp`]: it accepts, reads and cuts frames, and it alone opens and
//! closes connections. Workers write responses through [`outbox`], one short lock per connection.
//! An epoll instance of its own watches everything; connections are edge-triggered.
//!
//! Invariants:
//! * a connection that may have bytes to read, or has held back frames, is in `ready`, `ending` or
//!   paused; all others announce themselves by an edge;
//! * a slot's generation grows when its connection goes, so that an answer, an event or a
//!   completion for the old connection is recognised and discarded;
//! * bytes that the dispatcher has no room for stay in the kernel, but for the rest of one read;
//! * one poll does a bounded amount of work, however many connections come, go and send: this is the
//!   thread that keeps the quanta.

use crate::error::OpenError;
use crate::socket::drain;
use crate::{Completion, Intake, Outcome, PeakTrim, Peer, Reply, Status, Transport};
pub use config::{OnFin, TcpConfig, Wire};
use connection::{Connection, Next, Table};
use deadline::Deadlines;
use outbox::Outboxes;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
pub(crate) use stream::StreamRequest;
pub use stream::{Stream, Turn};
pub use streams::{Accepted, Acceptor, Socket, Streams};
use token::Token;
pub use unix::Listen;
use unix::SocketFile;

mod accept;
mod bind;
mod budget;
mod config;
mod connection;
mod counters;
mod deadline;
mod ends;
mod outbox;
mod share;
mod stream;
mod streams;
mod token;
pub(crate) mod unix;
mod unsent;

/// Bytes that one system call reads at most.
const READ_BYTES: usize = 64 << 10;
/// Turns that connections may have in one poll, and bytes after which none begins.
const MOST_TURNS: usize = 64;
const MOST_BYTES: usize = 512 << 10;
/// Events that one poll takes; the rest stays readable.
const EVENTS: usize = 32;

/// Kernel TCP on one or more addresses.
///
/// A peer's FIN ends its requests, not its answers, unless [`TcpConfig::on_fin`] says otherwise:
/// the connection is closed when those in progress have ended and their responses are out. The same
/// goes for a peer that announced too long a frame. Where it is we who end it, our FIN follows the
/// last response, and the connection lingers for the peer's ([`TcpConfig::fin_wait`]). A reset ends
/// everything at once.
///
/// After [`Transport::close`], nothing is accepted or read any more; frames that were read are still
/// handed over. `poll` answers `Closed` once every connection is gone: each goes when all its requests
/// have been [`Transport::completed`], the kernel has taken all its responses and the peer has closed
/// or the time for that is over; [`TcpConfig::linger`] after `close` those that are left are reset.
///
/// Memory: an idle connection has no buffer. What a connection has in progress and unsent is bounded
/// ([`TcpConfig::in_limit`], [`TcpConfig::out_limit`]), and so is what all have together
/// ([`TcpConfig::memory`]).
pub struct Tcp {
    config: TcpConfig,
    shared: Arc<Outboxes>,
    listeners: Vec<OwnedFd>,
    addresses: Vec<SocketAddr>,
    /// Of Unix sockets; their files go with this.
    paths: Vec<SocketFile>,
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// Slot, generation; one that has gone is passed over.
    ready: VecDeque<(u32, u32)>,
    scratch: Box<[u8]>,
    /// Readable while `ready` is left non-empty for another reason than want of room.
    again: Arc<OwnedFd>,
    again_signalled: bool,
    /// Connections of which no more requests come, that have something to do: slot, generation.
    ending: VecDeque<(u32, u32)>,
    /// Paused because the memory of all connections together is used up, and how many of these are
    /// to be looked at.
    starved: VecDeque<(u32, u32)>,
    to_feed: usize,
    /// Slots that are to be searched for connections to evict, and where the search is.
    to_search: usize,
    search_at: usize,
    /// Requests in progress whose connections have gone, and the bytes that they count.
    orphans: usize,
    orphan_bytes: usize,
    /// Connections have gone that had requests in progress, and the dispatcher was not told.
    departed: bool,
    deadlines: Deadlines,
    ebb: PeakTrim,
    /// Given up for a moment to accept and close a connection when there are no descriptors left.
    spare: Option<OwnedFd>,
    closing: bool,
    /// Threads serve the connections: nothing is accepted or read here.
    lent: Option<Streams>,
}

impl Tcp {
    /// Takes the events that there are and acts on all but the readable bytes, which `ready` is for.
    fn take_events(&mut self) {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It fails for an interrupted call alone, and then the next poll sees the events.
        let Ok((events, _)) = epoll::wait(&self.shared.epoll, &mut events, Some(&zero)) else {
            return;
        };
        for event in events {
            match Token::from(event.data) {
                Token::Connection { slot, generation } => {
                    self.connection_event(slot, generation, event.flags);
                }
                Token::Listener(index) => self.accept(index as usize),
                Token::Again => {
                    drain(&*self.again);
                    self.again_signalled = false;
                }
                Token::Timer => self.expire(),
            }
        }
    }

    fn connection_event(&mut self, slot: u32, generation: u32, flags: EventFlags) {
        let Some(connection) = self.connection(slot, generation) else { return };
        if connection.doomed.is_some() {
            return;
        }
        let parts = connection.parting.is_some();
        // Once both FINs are out, that is a hang-up, too, and there may be more to read before.
        if flags.contains(EventFlags::ERR) || flags.contains(EventFlags::HUP) && !parts {
            return self.hang_up(slot);
        }
        connection.fin_seen |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP);
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP) && !connection.eof
        {
            connection.readable = true;
            if !connection.paused {
                self.enqueue(slot);
            }
        }
        self.heed_fin(slot);
        if flags.contains(EventFlags::OUT) {
            self.flush(slot);
        }
    }

    fn flush(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        match self.shared.flush(slot, connection.generation) {
            Ok(moved) => {
                connection.touched |= moved;
                self.feed_later();
                self.settle(slot);
            }
            Err(_) => self.doom(slot, false),
        }
    }

    /// Gives ready connections their turns.
    fn serve_ready(&mut self, now_tsc: u64, into: &mut dyn Intake) {
        let mut read = 0;
        for _ in 0..MOST_TURNS {
            if into.room() == 0 || read >= MOST_BYTES {
                return;
            }
            let Some((slot, generation)) = self.ready.pop_front() else { return };
            let connection = self.connections[slot as usize].as_mut();
            let living = connection.filter(|found| found.generation == generation);
            let Some(connection) = living else { continue };
            connection.queued = false;
            if connection.doomed.is_some() {
                continue;
            }
            let mut table = Table {
                burst: self.config.burst,
                in_limit: self.config.in_limit,
                scratch: &mut self.scratch,
                budget: &self.shared.budget,
                shared: &self.shared,
                read: &mut read,
                now_tsc,
            };
            match connection.turn(slot, &mut table, into) {
                Next::More => self.enqueue(slot),
                Next::Wait => self.waits(slot),
                Next::Pause => self.pause(slot),
                Next::End { malformed } => {
                    if let Some(counter) = malformed.counter(&self.shared.counters) {
                        counter.fetch_add(1, Relaxed);
                        into.malformed(1);
                    }
                    connection.stop_reading(true);
                    self.enqueue(slot);
                }
                Next::Gone => self.doom(slot, false),
            }
            self.heed_fin(slot);
        }
    }

    /// Gives it a turn: among those that bring requests, or among those that end.
    fn enqueue(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        if connection.doomed.is_none() && connection.brings() {
            if !connection.queued {
                connection.queued = true;
                self.ready.push_back((slot, connection.generation));
            }
        } else if !connection.ending {
            connection.ending = true;
            self.ending.push_back((slot, connection.generation));
        }
    }

    fn connection(&mut self, slot: u32, generation: u32) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(slot as usize)?.as_mut()?;
        (connection.generation == generation).then_some(connection)
    }

    fn is_closed(&self) -> bool {
        if let Some(streams) = &self.lent {
            return streams.0.is_closed();
        }
        self.closing && self.free.len() == self.connections.len()
    }
}

impl Transport for Tcp {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.is_closed() {
            return Status::Closed;
        }
        self.take_events();
        self.note_filled();
        self.relieve();
        self.end_some();
        self.feed();
        self.serve_ready(now_tsc, into);
        if std::mem::take(&mut self.departed) {
            into.departed();
        }
        self.ebb.note(self.shared.budget.used());
        self.settle_again(into.room());
        self.deadlines.arm();
        if self.is_closed() { Status::Closed } else { Status::Open }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.shared.clone()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.shared.epoll.as_raw_fd()]
    }

    fn completed(&mut self, completion: &Completion) {
        let Peer::Tcp { connection: slot, generation } = completion.peer else { return };
        if self.lent.is_some() {
            return; // Its end is reported in another way.
        }
        if completion.outcome == Outcome::Orphaned {
            self.shared.counters.orphaned.fetch_add(1, Relaxed);
        }
        self.shared.finish(slot, generation, completion.outcome);
        self.give_back(slot, generation, completion.request_bytes as usize);
        self.feed_later();
        if self.to_feed > 0 || !self.ending.is_empty() {
            self.wake();
        }
    }

    fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if let Some(streams) = &self.lent {
            return streams.0.close();
        }
        self.listeners.clear();
        for slot in 0..self.connections.len() as u32 {
            if let Some(connection) = &mut self.connections[slot as usize] {
                connection.stop_reading(false);
                connection.paused = false;
                self.enqueue(slot);
            }
        }
        let by = Instant::now().checked_add(self.config.linger);
        if let Some(by) = by {
            self.deadlines.set(deadline::ALL, &mut None, by);
            self.deadlines.arm();
        }
        self.wake();
    }

    fn brings(&self) -> bool {
        self.lent.is_none()
    }

    fn lend_streams(&mut self) -> Option<Streams> {
        self.lend()
    }

    fn splits(&self, _: usize) -> bool {
        true
    }

    fn split(&mut self, parts: usize) -> Result<Vec<Box<dyn Transport>>, OpenError> {
        let others = self.parts(parts)?.into_iter();
        Ok(others.map(|part| -> Box<dyn Transport> { Box::new(part) }).collect())
    }

    fn describe(&self) -> String {
        let (inet, unix) = match self.config.wire {
            Wire::Frames | Wire::ShortFrames => ("tcp", "unix"),
            Wire::Http => ("http", "http+unix"),
        };
        let inet = self.addresses.iter().map(|address| format!("{inet}://{address}"));
        let unix = self.paths.iter().map(|file| format!("{unix}://{}", file.path().display()));
        inet.chain(unix).collect::<Vec<_>>().join(",")
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.shared.counters.list();
        all.push(("tcp_memory_bytes", self.shared.budget.used() as u64));
        all
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if let Some(streams) = &self.lent {
            streams.0.abandon();
        }
        // Workers may hold the other side for longer; the sockets must not live that long.
        for slot in 0..self.connections.len() as u32 {
            self.release(slot, false);
        }
    }
}
