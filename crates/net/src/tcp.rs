//! Kernel TCP: each frame (see [`crate::Framer`]) is a request, each response a frame.
//!
//! The dispatcher's thread owns [`Tcp`]: it accepts, reads and cuts frames, and it alone opens and
//! closes connections. Workers write responses through [`outbox`], one short lock per connection.
//! An epoll instance of its own watches everything; connections are edge-triggered.
//!
//! Invariants:
//! * a connection that may have bytes to read, or has held back frames, is in `ready`; all others
//!   announce themselves by an edge;
//! * a slot's generation grows when its connection goes, so that an answer, an event or a completion
//!   for the old one finds nobody;
//! * bytes that the dispatcher has no room for stay in the kernel, but for the rest of one read.

use crate::error::OpenError;
use crate::socket::{self, drain, signal};
use crate::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
pub use config::TcpConfig;
use connection::{Connection, Next};
use outbox::Outboxes;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{SocketType, listen};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use token::Token;

mod accept;
mod config;
mod connection;
mod outbox;
mod token;

/// Bytes that one system call reads at most.
const READ_BYTES: usize = 64 << 10;
/// Turns that connections may have in one poll, so that a poll ends although senders don't.
const MOST_TURNS: usize = 256;
/// Events that one poll takes; the rest stays readable.
const EVENTS: usize = 256;

/// Kernel TCP on one or more addresses.
///
/// A peer's FIN ends its requests, not its answers: the connection is closed when those under way
/// have ended and their responses are out. The same goes for a peer that announced too long a frame.
/// A reset ends everything at once.
///
/// After [`Transport::close`], nothing is accepted or read any more, and requests that were not
/// handed over are forgotten. `poll` answers `Closed` once every connection is gone: each goes when
/// all its requests have been [`Transport::completed`] and the kernel has taken all its responses;
/// [`TcpConfig::linger`] after `close` those that are left are reset. The end of that time makes
/// [`Transport::wait_fds`] readable.
///
/// Memory: an idle connection has no buffer. One that sends has at most a frame and one read
/// (64 KiB); one that doesn't read its responses at most [`TcpConfig::out_limit`].
pub struct Tcp {
    config: TcpConfig,
    shared: Arc<Outboxes>,
    listeners: Vec<OwnedFd>,
    addresses: Vec<SocketAddr>,
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    scratch: Box<[u8]>,
    /// Readable while `ready` is left non-empty for another reason than want of room.
    again: OwnedFd,
    again_signalled: bool,
    /// Ticks twice in [`TcpConfig::idle`].
    idle_timer: Option<OwnedFd>,
    /// Expires [`TcpConfig::linger`] after `close`.
    linger_timer: Option<OwnedFd>,
    /// Given up for a moment to accept and close a connection when there are no descriptors left.
    spare: Option<OwnedFd>,
    closing: bool,
}

impl Tcp {
    /// Listens on `addresses`.
    ///
    /// # Errors
    /// [`OpenError`]: no address, a setting out of range, or what the kernel said.
    pub fn bind(addresses: &[SocketAddr], config: &TcpConfig) -> Result<Self, OpenError> {
        if addresses.is_empty() {
            return Err(OpenError::NoAddress);
        }
        let count = OpenError::within("connections", config.connections, 1, 1 << 20)?;
        OpenError::within("largest frame", config.limit, 0, u32::MAX as usize)?;
        OpenError::within("unsent bytes", config.out_limit, 0, u32::MAX as usize)?;
        OpenError::within("burst", config.burst, 1, 1 << 20)?;
        let backlog = OpenError::within("backlog", config.backlog, 1, 1 << 20)?;
        let system = |error| OpenError::system("TCP transport", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system)?;
        let mut listeners = Vec::new();
        let mut bound = Vec::new();
        for (index, &address) in addresses.iter().enumerate() {
            let (socket, local) = socket::bind(address, SocketType::STREAM)?;
            listen(&socket, backlog as i32).map_err(|error| OpenError::of(address, error))?;
            let token = Token::Listener(index as u32).into();
            epoll::add(&epoll, &socket, token, EventFlags::IN).map_err(system)?;
            listeners.push(socket);
            bound.push(local);
        }
        let again = socket::event().map_err(system)?;
        epoll::add(&epoll, &again, Token::Again.into(), EventFlags::IN).map_err(system)?;
        let mut idle_timer = None;
        if let Some(idle) = config.idle {
            let every = (idle / 2).max(Duration::from_millis(1));
            idle_timer = Some(timer(&epoll, Token::Idle, every, true).map_err(system)?);
        }
        Ok(Self {
            shared: Arc::new(Outboxes::new(count, config.out_limit, epoll)),
            listeners,
            addresses: bound,
            connections: (0..count).map(|_| None).collect(),
            free: (0..count as u32).rev().collect(),
            ready: VecDeque::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            again,
            again_signalled: false,
            idle_timer,
            linger_timer: None,
            spare: accept::spare(),
            closing: false,
            config: config.clone(),
        })
    }

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
                    drain(&self.again);
                    self.again_signalled = false;
                }
                Token::Idle => self.tick(),
                Token::Linger => self.linger_over(),
            }
        }
    }

    fn connection_event(&mut self, slot: u32, generation: u32, flags: EventFlags) {
        let Some(connection) = self.connection(slot, generation) else { return };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            return self.release(slot, false);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP) && connection.reading {
            connection.readable = true;
            connection.fin_seen |= flags.contains(EventFlags::RDHUP);
            self.enqueue(slot);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(slot);
        }
    }

    fn flush(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        match self.shared.flush(slot, connection.generation) {
            Ok(moved) => {
                if moved {
                    connection.quiet_ticks = 0;
                }
                self.release_if_finished(slot);
            }
            Err(_) => self.release(slot, false),
        }
    }

    /// Gives ready connections their turns.
    fn serve_ready(&mut self, now_tsc: u64, into: &mut dyn Intake) {
        for _ in 0..MOST_TURNS {
            if into.room() == 0 {
                return;
            }
            let Some(slot) = self.ready.pop_front() else { return };
            let Some(connection) = &mut self.connections[slot as usize] else { continue };
            connection.queued = false;
            let turn = connection.turn(slot, self.config.burst, &mut self.scratch, now_tsc, into);
            match turn {
                Next::More => self.enqueue(slot),
                Next::Wait => {}
                Next::End { malformed } => {
                    if let Some(counter) = malformed.counter(&self.shared.counters) {
                        counter.fetch_add(1, Relaxed);
                        into.malformed(1);
                    }
                    self.stop_reading(slot);
                }
                Next::Gone => self.release(slot, false),
            }
        }
    }

    fn enqueue(&mut self, slot: u32) {
        if let Some(connection) = &mut self.connections[slot as usize]
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push_back(slot);
        }
    }

    fn connection(&mut self, slot: u32, generation: u32) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(slot as usize)?.as_mut()?;
        (connection.generation == generation).then_some(connection)
    }

    /// No more requests from there; what is under way is finished.
    fn stop_reading(&mut self, slot: u32) {
        if let Some(connection) = &mut self.connections[slot as usize] {
            connection.stop_reading();
            self.release_if_finished(slot);
        }
    }

    fn release_if_finished(&mut self, slot: u32) {
        if let Some(connection) = &self.connections[slot as usize]
            && !connection.reading
            && connection.in_flight == 0
            && self.shared.is_flushed(slot)
        {
            self.release(slot, false);
        }
    }

    /// Closes a connection now. `reset`: the kernel is not to go on sending what it holds.
    fn release(&mut self, slot: u32, reset: bool) {
        let Some(connection) = self.connections[slot as usize].take() else { return };
        if connection.queued {
            self.ready.retain(|&other| other != slot);
        }
        self.shared.release(slot, reset);
        self.free.push(slot);
    }

    fn tick(&mut self) {
        if let Some(timer) = &self.idle_timer {
            drain(timer);
        }
        for slot in 0..self.connections.len() as u32 {
            let Some(connection) = &mut self.connections[slot as usize] else { continue };
            if connection.in_flight > 0 || connection.queued {
                continue;
            }
            connection.quiet_ticks += 1;
            if connection.quiet_ticks > 2 {
                self.shared.counters.idle.fetch_add(1, Relaxed);
                let unsent = !self.shared.is_flushed(slot);
                self.release(slot, unsent);
            }
        }
    }

    fn linger_over(&mut self) {
        self.linger_timer = None;
        for slot in 0..self.connections.len() as u32 {
            self.release(slot, true);
        }
    }

    /// Keeps `again` readable exactly while there is work that `poll` left although there was room.
    fn settle_again(&mut self, room: usize) {
        let wanted = room > 0 && !self.ready.is_empty();
        if wanted && !self.again_signalled {
            signal(&self.again);
        } else if !wanted && self.again_signalled {
            drain(&self.again);
        }
        self.again_signalled = wanted;
    }

    fn is_closed(&self) -> bool {
        self.closing && self.free.len() == self.connections.len()
    }
}

impl Transport for Tcp {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.is_closed() {
            return Status::Closed;
        }
        self.take_events();
        self.serve_ready(now_tsc, into);
        self.settle_again(into.room());
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
        if completion.outcome == Outcome::Orphaned {
            self.shared.counters.orphaned.fetch_add(1, Relaxed);
        }
        if let Some(connection) = self.connection(slot, generation) {
            connection.in_flight = connection.in_flight.saturating_sub(1);
            connection.quiet_ticks = 0;
            self.release_if_finished(slot);
        }
    }

    fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        self.listeners.clear();
        for slot in 0..self.connections.len() as u32 {
            self.stop_reading(slot);
        }
        match timer(&self.shared.epoll, Token::Linger, self.config.linger, false) {
            Ok(timer) => self.linger_timer = Some(timer),
            // No descriptor left to measure the time with, so it is over.
            Err(_) => self.linger_over(),
        }
    }

    fn describe(&self) -> String {
        let urls: Vec<_> = self.addresses.iter().map(|a| format!("tcp://{a}")).collect();
        urls.join(",")
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.shared.counters.list()
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        // Workers may hold the other side for longer; the sockets must not live that long.
        for slot in 0..self.connections.len() as u32 {
            self.release(slot, false);
        }
    }
}

/// A timer in `epoll` that expires after `time`, and so on where it is `periodic`.
fn timer(
    epoll: &OwnedFd,
    token: Token,
    time: Duration,
    periodic: bool,
) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would disarm it; what the kernel's time can't hold is as good as for ever.
    let time = time.clamp(Duration::from_nanos(1), Duration::from_secs(u32::MAX.into()));
    let value = Timespec::try_from(time).unwrap_or(none);
    let interval = if periodic { value } else { none };
    let times = Itimerspec { it_interval: interval, it_value: value };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    let token: EventData = token.into();
    epoll::add(epoll, &timer, token, EventFlags::IN)?;
    Ok(timer)
}
