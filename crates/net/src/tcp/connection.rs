//! The dispatcher's half of a connection: reading, cutting frames, and what is in progress.
//!
//! It brings requests while it is `open`, or while whole frames are held; after that, what comes is
//! discarded, until the peer's FIN or a bound.

use super::budget::Budget;
use super::counters::Counters;
use super::outbox::Outboxes;
use crate::frame::Framer;
use crate::{Intake, Peer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Reads that one turn makes at most: a frame may be long, and so may a stream of small reads.
const READS_PER_TURN: usize = 4;
/// A read asks for no less, however little memory is left.
const LEAST_READ: usize = 4 << 10;
/// A request in progress counts as so many bytes more than it has.
pub(super) const REQUEST_BYTES: usize = 512;
/// From a connection that ends, no more is discarded.
pub(super) const MOST_DISCARDED: usize = 16 << 20;

pub(super) struct Connection {
    /// Shared with the slot's outbox; never closed before both have let go.
    pub(super) socket: Arc<OwnedFd>,
    pub(super) generation: u32,
    framer: Framer,
    /// Requests handed over and not completed, and the bytes that they count.
    pub(super) in_flight: u32,
    pub(super) in_bytes: usize,
    /// The framer's memory, as far as it is in the budget.
    pub(super) framer_bytes: usize,
    /// It is in the transport's `ready`; in its `ending`.
    pub(super) queued: bool,
    pub(super) ending: bool,
    /// Further input makes requests: no FIN, no oversized frame, no `close` yet.
    pub(super) open: bool,
    /// There may be bytes in the kernel; if not, an edge will say so.
    pub(super) readable: bool,
    /// The FIN has been announced: then no edge follows, so only an empty read ends the reading.
    pub(super) fin_seen: bool,
    /// The FIN has been read.
    pub(super) eof: bool,
    /// It is not read for want of memory, its own or that of all connections.
    pub(super) paused: bool,
    /// It is in the transport's `starved`.
    pub(super) starving: bool,
    /// Our FIN is out, and by when the peer's is to come.
    pub(super) parting: Option<Instant>,
    /// To be released as soon as it is its turn; `true`: with a reset.
    pub(super) doomed: Option<bool>,
    discarded: usize,
    /// Since when the peer has owed us the rest of a frame.
    pub(super) begun: Option<Instant>,
    /// Something has happened since the last look for idleness; how many looks saw nothing; when the
    /// next one is due.
    pub(super) touched: bool,
    pub(super) quiet_looks: u8,
    pub(super) idle_look: Option<Instant>,
    /// Its entry among the deadlines.
    pub(super) entry: Option<Instant>,
}

/// After a turn.
pub(super) enum Next {
    /// It has more to do.
    More,
    /// It waits for its peer.
    Wait,
    /// It waits for memory: what it has in progress must end, or what others have.
    Pause,
    /// No further requests will come.
    End {
        /// How the stream ended.
        malformed: Ending,
    },
    /// The connection is broken.
    Gone,
}

#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// Between two frames.
    Clean,
    /// Within a frame.
    Cut,
    /// With a frame longer than allowed.
    TooLong,
}

impl Ending {
    pub(super) fn counter(self, counters: &Counters) -> Option<&AtomicU64> {
        match self {
            Self::Clean => None,
            Self::Cut => Some(&counters.cut),
            Self::TooLong => Some(&counters.too_long),
        }
    }
}

/// What a turn needs of the transport.
pub(super) struct Table<'a> {
    pub(super) burst: usize,
    pub(super) in_limit: usize,
    pub(super) scratch: &'a mut [u8],
    pub(super) budget: &'a Budget,
    pub(super) shared: &'a Outboxes,
    /// Bytes read so far in this poll.
    pub(super) read: &'a mut usize,
    pub(super) now_tsc: u64,
}

impl Connection {
    pub(super) fn new(socket: Arc<OwnedFd>, generation: u32, framer: Framer) -> Self {
        Self {
            socket,
            generation,
            framer,
            in_flight: 0,
            in_bytes: 0,
            framer_bytes: 0,
            queued: false,
            ending: false,
            open: true,
            readable: false,
            fin_seen: false,
            eof: false,
            paused: false,
            starving: false,
            parting: None,
            doomed: None,
            discarded: 0,
            begun: None,
            touched: false,
            quiet_looks: 0,
            idle_look: None,
            entry: None,
        }
    }

    /// Input makes no more requests. `forget`: nor do frames that are held.
    pub(super) fn stop_reading(&mut self, forget: bool) {
        self.open = false;
        self.begun = None;
        if forget {
            self.framer.clear();
        }
    }

    /// Requests may come from it.
    pub(super) fn brings(&self) -> bool {
        self.open || self.framer.is_ready()
    }

    /// It has one request in progress at a time.
    pub(super) fn is_http(&self) -> bool {
        self.framer.is_http()
    }

    /// Whether it may have more. With nothing in progress only what all have counts, so that one
    /// frame may be larger than its share; half of what is free, for a buffer that grows doubles.
    pub(super) fn has_share(&self, in_limit: usize, budget: &Budget) -> bool {
        let (own, free) = (self.in_bytes + self.framer_bytes, budget.free());
        if self.is_http() && self.in_flight > 0 {
            return false;
        }
        if self.in_flight == 0 { own < free.div_ceil(2) } else { own < in_limit.min(free / 4) }
    }

    /// Hands over up to `burst` requests.
    pub(super) fn turn(&mut self, slot: u32, table: &mut Table<'_>, into: &mut dyn Intake) -> Next {
        let next = self.bring(slot, table, into);
        self.account(table.budget);
        next
    }

    /// Tells the budget what the framer has now.
    fn account(&mut self, budget: &Budget) {
        let capacity = self.framer.capacity();
        budget.swap_inward(self.framer_bytes, capacity);
        self.framer_bytes = capacity;
    }

    fn bring(&mut self, slot: u32, table: &mut Table<'_>, into: &mut dyn Intake) -> Next {
        let mut left = table.burst;
        // Not lent to the table: `input` lies in it while the table is used.
        let scratch = std::mem::take(&mut table.scratch);
        let mut input: &[u8] = &[];
        let mut next = None;
        for reads in 0.. {
            next = self.hand_over(&mut input, &mut left, slot, table, into);
            if next.is_some() || !self.readable || !self.open || reads == READS_PER_TURN {
                break;
            }
            self.account(table.budget);
            if !self.has_share(table.in_limit, table.budget) {
                next = Some(Next::Pause);
                break;
            }
            let most = (table.budget.free() / 4).clamp(LEAST_READ, scratch.len());
            match self.read(&mut scratch[..most]) {
                Ok(count) => {
                    *table.read += count;
                    input = &scratch[..count];
                }
                Err(end) => {
                    next = Some(end);
                    break;
                }
            }
        }
        table.scratch = scratch;
        next.unwrap_or_else(|| self.pause())
    }

    /// Frames to the intake, until there are none, or something is against it. In that case what
    /// was read is kept.
    fn hand_over(
        &mut self,
        input: &mut &[u8],
        left: &mut usize,
        slot: u32,
        table: &Table<'_>,
        into: &mut dyn Intake,
    ) -> Option<Next> {
        let peer = Peer::Tcp { connection: slot, generation: self.generation };
        loop {
            if *left == 0 || into.room() == 0 {
                self.framer.hold(input);
                return Some(self.pause());
            }
            let waits = !input.is_empty() || self.framer.is_ready();
            if waits && !self.has_share(table.in_limit, table.budget) {
                self.framer.hold(input);
                return Some(Next::Pause);
            }
            match self.framer.next_asked(input) {
                Ok(Some((frame, asked))) => {
                    let bytes = frame.len() + REQUEST_BYTES;
                    table.shared.ask(slot, self.generation, asked);
                    into.request(frame, peer, table.now_tsc);
                    table.budget.swap_inward(0, bytes);
                    self.in_bytes += bytes;
                    self.in_flight += 1;
                    self.begun = None;
                    self.touched = true;
                    *left -= 1;
                    if self.framer.is_ended() {
                        return Some(Next::End { malformed: Ending::Clean });
                    }
                }
                Ok(None) => {
                    if self.framer.wants_continue() {
                        table.shared.interim(slot, self.generation);
                    }
                    return None;
                }
                Err(_) => {
                    if let Some(refusal) = self.framer.refusal() {
                        table.shared.refuse(slot, self.generation, refusal);
                    }
                    return Some(Next::End { malformed: Ending::TooLong });
                }
            }
        }
    }

    /// One read: how many bytes came, which may be none.
    fn read(&mut self, scratch: &mut [u8]) -> Result<usize, Next> {
        match recv(&self.socket, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => {
                self.eof = true;
                self.readable = false;
                let within = self.framer.held_bytes() > 0;
                let malformed = if within { Ending::Cut } else { Ending::Clean };
                Err(Next::End { malformed })
            }
            Ok((_, count)) => {
                // Less than asked for is all there was, and what comes later makes an edge.
                self.readable = count == scratch.len() || self.fin_seen;
                Ok(count)
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(_) => Err(Next::Gone),
        }
    }

    /// Reads what makes no requests any more.
    pub(super) fn discard(&mut self, scratch: &mut [u8]) -> Next {
        if !self.readable || self.is_insatiable() {
            return Next::Wait;
        }
        match self.read(scratch) {
            Ok(count) => self.discarded += count,
            Err(end) => return end,
        }
        if self.readable { Next::More } else { Next::Wait }
    }

    /// It has sent so much that nothing more of it is read.
    pub(super) fn is_insatiable(&self) -> bool {
        self.discarded > MOST_DISCARDED
    }

    /// Whether the peer owes us the rest of a frame.
    pub(super) fn owes(&self) -> bool {
        self.open && self.framer.held_bytes() > 0 && !self.framer.is_ready()
    }

    fn pause(&self) -> Next {
        if self.readable && self.open || self.framer.is_ready() { Next::More } else { Next::Wait }
    }
}
