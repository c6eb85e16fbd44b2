//! One connection as its thread sees it: what to do next, and until when to wait. The thread itself
//! reads, waits and makes requests of the frames.

use super::connection::{Ending, MOST_DISCARDED, REQUEST_BYTES};
use super::ends::QUIET_LOOKS;
use super::streams::{Inner, Live};
use crate::InFlight;
use crate::frame::{Framer, TooLong};
use crate::{Outcome, Peer};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

mod times;

/// A read asks for no less, however little memory is left.
const LEAST_READ: usize = 4 << 10;

/// A connection's reading half. Its thread's; the connection is released with it.
pub struct Stream {
    live: Arc<Live>,
    framer: Framer,
    /// Further input makes requests.
    open: bool,
    /// The peer's FIN has been read.
    eof: bool,
    /// The peer has gone, as [`Stream::look_for_peer`] has found.
    left: bool,
    /// It ended for want of memory, its own or that of all.
    paused: bool,
    /// Since when the peer has owed us the rest of a frame.
    begun: Option<Instant>,
    quiet_looks: u8,
    idle_look: Option<Instant>,
    /// Our FIN is out, and by when the peer's is to come.
    parting: Option<Instant>,
    discarded: usize,
    reset: bool,
}

/// What a connection's thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To take the frames that are held ([`Stream::next`]), and then to read so many bytes at most, if
    /// any.
    Bring(usize),
    /// To read so many bytes at most, and forget them ([`Stream::discard`]).
    Discard(usize),
    /// To wait: for input, for room to write, for a nudge.
    Wait,
    /// To end.
    Over,
}

/// A request in progress; dropped when it has ended.
pub(crate) struct StreamRequest {
    live: Arc<Live>,
    bytes: usize,
}

impl StreamRequest {
    pub(crate) fn has_hung_up(&self) -> bool {
        self.live.has_hung_up()
    }

    pub(crate) fn ended(&self, outcome: Outcome) {
        let Live { slot, generation, .. } = *self.live;
        self.live.inner.shared.finish(slot, generation, outcome);
    }

    pub(crate) fn orphaned(&self) {
        self.live.inner.shared.counters.orphaned.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for StreamRequest {
    fn drop(&mut self) {
        let live = &*self.live;
        live.inner.shared.budget.swap_inward(self.bytes, 0);
        live.in_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        live.touched.store(true, Ordering::Relaxed);
        live.in_flight.fetch_sub(1, Ordering::Release);
        live.inner.feed();
        if live.awaits.load(Ordering::Relaxed) {
            live.nudge();
        }
    }
}

impl Stream {
    pub(super) fn new(live: Arc<Live>) -> Self {
        let config = &live.inner.config;
        let idle_look = config.idle.and_then(|idle| Instant::now().checked_add(idle / 2));
        Self {
            framer: config.framer(),
            open: true,
            eof: false,
            left: false,
            paused: false,
            begun: None,
            quiet_looks: 0,
            idle_look,
            parting: None,
            discarded: 0,
            reset: false,
            live,
        }
    }

    /// Where its answers go.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.live.peer()
    }

    /// Requests before others are to have their turn.
    #[must_use]
    pub fn burst(&self) -> usize {
        self.inner().config.burst
    }

    fn inner(&self) -> &Inner {
        &self.live.inner
    }

    fn in_flight(&self) -> u32 {
        self.live.in_flight.load(Ordering::Acquire)
    }

    /// The socket has announced its peer's end, perhaps: where answers are owed, the kernel is
    /// asked what it is.
    pub fn look_for_peer(&mut self) {
        let asks = !self.left && self.parting.is_none() && self.in_flight() > 0;
        if asks && self.live.inner.shared.owes_answer(self.live.slot) && self.live.has_hung_up() {
            self.left = true;
            self.live.inner.shared.counters.hung_up.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is next. The thread has asked before for how often its socket has announced something.
    pub fn turn(&mut self) -> Turn {
        let now = Instant::now();
        let live = self.live.clone();
        let shared = &live.inner.shared;
        self.answer_refused();
        if self.framer.wants_continue() {
            shared.interim(live.slot, live.generation);
        }
        if self.framer.is_ended() {
            self.stop(true);
        }
        // Until the kernel takes no more: then it says when it does.
        while !shared.is_flushed(live.slot) {
            match shared.flush(live.slot, live.generation) {
                Ok(true) => {
                    live.touched.store(true, Ordering::Relaxed);
                    live.inner.feed();
                }
                Ok(false) => break,
                Err(_) => return Turn::Over,
            }
        }
        if self.left || shared.is_broken(live.slot) {
            return Turn::Over;
        }
        if live.evicted.load(Ordering::Relaxed) {
            return self.over_by_reset();
        }
        if shared.budget.is_scarce() && !shared.is_flushed(live.slot) {
            live.inner.relieve();
        }
        if let Some(by) = self.inner().closes_by() {
            self.stop(false);
            if by <= now {
                return self.over_by_reset();
            }
        }
        if self.owes() {
            // The last request's end starts the time for the rest of the frame.
            live.awaits.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        self.note_begun(now);
        if let Some(over) = self.look_at_times(now) {
            return over;
        }
        if self.open || self.framer.is_ready() { self.bring() } else { self.part(now) }
    }

    /// While it brings requests.
    fn bring(&mut self) -> Turn {
        let live = self.live.clone();
        let (inner, shared) = (&*live.inner, &live.inner.shared);
        if !self.has_share() {
            let first = !std::mem::replace(&mut self.paused, true);
            let own = live.in_bytes.load(Ordering::Relaxed) + self.framer.capacity();
            let counters = &shared.counters;
            let busy = self.in_flight() > 0;
            let has_all = busy && (own >= inner.config.in_limit || self.framer.is_http());
            if first && !(busy && self.framer.is_http()) {
                let counter = if has_all { &counters.paused } else { &counters.starved };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            if !has_all && (self.in_flight() == 0 || shared.budget.is_scarce()) {
                inner.relieve();
            }
            live.awaits.store(true, Ordering::Relaxed);
            inner.starve(&live);
            if !self.has_share() {
                return Turn::Wait;
            }
        }
        self.paused = false;
        // It need not be notified of ends, unless the rest of a frame is owed after the last.
        live.awaits.store(self.owes(), Ordering::Relaxed);
        Turn::Bring(if self.open { self.most() } else { 0 })
    }

    /// Bytes that one read may bring.
    fn most(&self) -> usize {
        (self.inner().shared.budget.free() / 4).clamp(LEAST_READ, usize::MAX)
    }

    /// No more requests come: when all have ended and are answered, our FIN, the peer's, the end.
    fn part(&mut self, now: Instant) -> Turn {
        let live = self.live.clone();
        let shared = &live.inner.shared;
        live.awaits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.in_flight() > 0 || !shared.is_flushed(live.slot) {
            return Turn::Wait;
        }
        if self.eof || self.discarded > MOST_DISCARDED {
            return Turn::Over;
        }
        if self.parting.is_none() {
            if !shared.part(live.slot) {
                return Turn::Over;
            }
            self.parting = Some(now.checked_add(self.inner().config.fin_wait).unwrap_or(now));
        }
        Turn::Discard(self.most())
    }

    fn over_by_reset(&mut self) -> Turn {
        self.reset = true;
        Turn::Over
    }

    /// Whether it may have more. With nothing in progress only what all have counts, so that one
    /// frame may be larger than its share; half of what is free, for a buffer that grows doubles.
    #[must_use]
    pub fn has_share(&self) -> bool {
        let in_flight = self.in_flight();
        let own = self.live.in_bytes.load(Ordering::Relaxed) + self.framer.capacity();
        let free = self.inner().shared.budget.free();
        let limit = self.inner().config.in_limit;
        if self.framer.is_http() && in_flight > 0 {
            return false;
        }
        if in_flight == 0 { own < free.div_ceil(2) } else { own < limit.min(free / 4) }
    }

    /// The next frame, of what is held and of `input`; `None`: there is none yet, and `input` is used
    /// up.
    ///
    /// # Errors
    /// It is too long: no more requests will come ([`Stream::end`]).
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'a [u8]>, TooLong> {
        let Live { slot, generation, .. } = *self.live;
        let shared = &self.live.inner.shared;
        self.answer_refused();
        if self.framer.wants_continue() {
            shared.interim(slot, generation);
        }
        let found = self.framer.next_asked(input)?;
        Ok(found.map(|(frame, asked)| {
            shared.ask(slot, generation, asked);
            frame
        }))
    }

    /// The last request of HTTP has been refused without an answer, as nothing is in progress.
    fn answer_refused(&self) {
        if self.framer.is_http() && self.in_flight() == 0 {
            let Live { slot, generation, .. } = *self.live;
            self.live.inner.shared.finish(slot, generation, Outcome::Dropped);
        }
    }

    /// A frame of so many bytes has become a request.
    #[must_use]
    pub fn begin(&self, bytes: usize) -> InFlight {
        let bytes = bytes + REQUEST_BYTES;
        self.inner().shared.budget.swap_inward(0, bytes);
        self.live.in_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.live.in_flight.fetch_add(1, Ordering::Relaxed);
        self.live.touched.store(true, Ordering::Relaxed);
        InFlight::stream(StreamRequest { live: self.live.clone(), bytes })
    }

    /// Whether requests of its are in progress, so that a frame more is to have its share.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.in_flight() > 0
    }

    /// Whether further input makes requests.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a frame is held, or what can be no frame.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.framer.is_ready()
    }

    /// Keeps `input` until there is a share for it.
    pub fn hold(&mut self, input: &[u8]) {
        self.framer.hold(input);
    }

    /// Tells the budget what the frame that has begun has. After a turn that brought something.
    pub fn account(&self) {
        let capacity = self.framer.capacity();
        let before = self.live.framer_bytes.swap(capacity, Ordering::Relaxed);
        self.inner().shared.budget.swap_inward(before, capacity);
    }

    /// No more requests come: the peer's FIN was read, or a frame is too long. True: in the middle of
    /// a frame.
    pub fn end(&mut self, too_long: bool) -> bool {
        self.eof |= !too_long;
        if let Some(refusal) = self.framer.refusal().filter(|_| too_long) {
            self.live.inner.shared.refuse(self.live.slot, self.live.generation, refusal);
        }
        let ending = match (too_long, self.framer.held_bytes() > 0 && self.open) {
            (true, _) => Ending::TooLong,
            (false, true) => Ending::Cut,
            (false, false) => Ending::Clean,
        };
        self.stop(true);
        let counter = ending.counter(&self.live.inner.shared.counters);
        counter.map(|counter| counter.fetch_add(1, Ordering::Relaxed)).is_some()
    }

    /// Bytes were read that make no requests.
    pub fn discard(&mut self, bytes: usize) {
        self.discarded += bytes;
    }

    /// Input makes no more requests. `forget`: nor do frames that are held.
    fn stop(&mut self, forget: bool) {
        self.open = false;
        if forget {
            self.framer.clear();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.live.inner.release(&self.live, self.reset);
    }
}
