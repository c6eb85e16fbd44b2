//! A TCP connection's thread: it reads, and makes a thread of each request.
//!
//! A connection's thread stays on its kthread, as all do that have started; its requests are handed
//! in there, where others may take them. It answers for nothing: a request's thread writes its own
//! response. What the peer does not take at once waits in the connection's outbox, and its thread
//! sends it. It has one place to wait: its source, for the peer and for the threads that nudge it
//! ([`curtail_net::Socket`]).

use super::context::{Refused, WorkerContext};
use super::request::Request;
use crate::Response;
use curtail_net::{Stream, Turn};
use curtail_rt::block::Deadline;
use curtail_rt::clock;
use curtail_rt::socket::{Side, Source};
use curtail_rt::thread::{KThread, yield_now};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Where so many requests lie on a kthread that have not started, a connection is read after so many
/// turns of theirs.
const BACKLOG: usize = 64;

/// What has come of a connection's turn to bring requests.
enum Brought {
    /// It may bring more.
    More,
    /// Its peer has sent no more.
    Nothing,
    /// The connection is broken.
    Gone,
}

/// A TCP connection, as its thread has it.
pub(super) struct Connection {
    stream: Stream,
    source: Arc<Source>,
    transport: u16,
    /// At these ticks its peer was looked for, and was there.
    looked: Option<u32>,
}

impl Connection {
    /// One that was accepted, of that transport.
    pub(super) fn new(stream: Stream, source: Arc<Source>, transport: u16) -> Self {
        Self { stream, source, transport, looked: None }
    }

    /// Its thread's life.
    pub(super) fn serve(mut self) {
        self.live();
        let worked = self.stream.is_working();
        drop(self); // It is released.
        if worked {
            KThread::here().notify_all();
        }
    }

    fn live(&mut self) {
        loop {
            // Before everything that is looked at: what changes from here on ends the wait.
            let ticks = self.source.ticks(Side::Read);
            self.look_for_peer(ticks);
            let waits = match self.stream.turn() {
                Turn::Over => return,
                Turn::Wait => true,
                Turn::Discard(most) => match self.discard(ticks, most) {
                    Brought::Gone => return,
                    Brought::More => false,
                    Brought::Nothing => true,
                },
                Turn::Bring(most) => match self.bring(ticks, most) {
                    Brought::Gone => return,
                    Brought::More => false,
                    Brought::Nothing => true,
                },
            };
            if waits && self.wait(ticks).is_err() {
                return;
            }
        }
    }

    /// A connection whose requests are in progress may not be read: of one of HTTP, and where there
    /// is no share for more. So its end is asked for where it was announced.
    fn look_for_peer(&mut self, ticks: u32) {
        if self.source.may_have_ended() && self.looked != Some(ticks) && self.stream.is_working() {
            self.looked = Some(ticks);
            self.stream.look_for_peer();
        }
    }

    fn wait(&self, ticks: u32) -> io::Result<()> {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        let until = self.stream.until().and_then(|at| Deadline::after(left(at)));
        match self.source.wait(Side::Read, ticks, until) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    fn discard(&mut self, ticks: u32, most: usize) -> Brought {
        let mut buffer = WorkerContext::here().take_buffer();
        let most = most.min(buffer.len());
        let read = self.source.try_read(ticks, &mut buffer[..most]);
        WorkerContext::here().give_buffer(buffer);
        match read {
            Ok(Some(0)) => {
                self.stream.end(false);
                Brought::More
            }
            Ok(Some(bytes)) => {
                self.stream.discard(bytes);
                Brought::More
            }
            Ok(None) => Brought::Nothing,
            Err(_) => Brought::Gone,
        }
    }

    /// Hands frames in that are held, and then those of one read.
    fn bring(&mut self, ticks: u32, most: usize) -> Brought {
        // Those that are here go first: what is read beyond would wait here or be refused, and both
        // take the time that these need. It waits in the kernel, and its peer in the end. But not
        // for ever: they may be other peers' requests, and those peers may ask without end.
        for _ in 0..BACKLOG {
            if KThread::here().spare_threads() < BACKLOG {
                break;
            }
            yield_now();
        }
        let burst = self.stream.burst();
        let mut left = burst;
        self.submit(&mut &[][..], &mut left);
        let mut brought = Brought::More;
        // What was held may have been the last request, or none that is taken. Then there is nothing
        // to wait for here, and the next turn knows.
        let as_before = left == burst && self.stream.is_open();
        // What is held is without its share, or has had its turn.
        if as_before && most > 0 && !self.stream.is_ready() {
            let mut buffer = WorkerContext::here().take_buffer();
            let most = most.min(buffer.len());
            match self.source.try_read(ticks, &mut buffer[..most]) {
                Ok(Some(0)) => self.end(false),
                Ok(Some(bytes)) => self.submit(&mut &buffer[..bytes], &mut left),
                Ok(None) => brought = Brought::Nothing,
                Err(_) => brought = Brought::Gone,
            }
            WorkerContext::here().give_buffer(buffer);
        }
        self.stream.account();
        if left < burst {
            KThread::here().share_spare();
        }
        if left == 0 {
            yield_now();
        }
        brought
    }

    /// No more requests come.
    fn end(&mut self, too_long: bool) {
        if self.stream.end(too_long) {
            WorkerContext::here().common().note_malformed();
        }
    }

    /// Frames become requests, until there are none, or something is against it. Then what was read
    /// is kept.
    fn submit(&mut self, input: &mut &[u8], left: &mut usize) {
        while *left > 0 {
            if self.stream.is_working() && !self.stream.has_share() {
                break;
            }
            let mut request = WorkerContext::here().take_request();
            match self.stream.next(input) {
                Ok(Some(frame)) => request.body.payload.extend_from_slice(frame),
                Ok(None) => return WorkerContext::here().put_away(request),
                Err(_) => {
                    WorkerContext::here().put_away(request);
                    *input = &[];
                    return self.end(true);
                }
            }
            *left -= 1;
            request.origin.arrived_tsc = clock::now();
            if let Err(why) = WorkerContext::here().admit(&mut request) {
                if why == Refused::NoRoom {
                    self.refuse(&request.body.response);
                }
                WorkerContext::here().put_away(request);
                continue;
            }
            let Request { origin, body, .. } = &mut *request;
            origin.peer = self.stream.peer();
            origin.transport = self.transport;
            origin.in_flight = Some(self.stream.begin(body.payload.len()));
            WorkerContext::here().start(request);
        }
        self.stream.hold(input);
    }

    /// Says that there is no room for a request.
    #[cold]
    fn refuse(&self, refusal: &Response) {
        let reply = &WorkerContext::here().common().replies[usize::from(self.transport)];
        refusal.send(&**reply, self.stream.peer());
    }
}
