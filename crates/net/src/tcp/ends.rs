//! How connections end: their times, their lingering, their release.
//!
//! What ends goes through `ending`, of which one poll does a bounded part: closing a socket takes the
//! kernel microseconds, and thousands may be reset at a time.

use super::connection::{Connection, Next};
use super::deadline::ALL;
use super::{OnFin, Tcp};
use crate::socket::{drain, signal};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Connections in `ending` that one poll looks at.
const MOST_ENDS: usize = 16;
/// Deadlines that one poll looks at.
const MOST_DUE: usize = 64;
/// Looks for idleness in a row that see nothing, half its time apart.
pub(super) const QUIET_LOOKS: u8 = 2;

impl Tcp {
    /// Does what the connections that end have to do.
    pub(super) fn end_some(&mut self) {
        for _ in 0..MOST_ENDS {
            let Some((slot, generation)) = self.ending.pop_front() else { return };
            let mut scratch = std::mem::take(&mut self.scratch);
            if let Some(connection) = self.connection(slot, generation) {
                connection.ending = false;
                match (connection.doomed, connection.discard(&mut scratch)) {
                    (Some(reset), _) => self.release(slot, reset),
                    (None, Next::Gone) => self.release(slot, false),
                    (None, Next::More) => self.enqueue(slot),
                    (None, _) => self.settle(slot),
                }
            }
            self.scratch = scratch;
        }
    }

    /// It is to be released; `reset`: the kernel is not to go on sending what it holds.
    pub(super) fn doom(&mut self, slot: u32, reset: bool) {
        if let Some(connection) = &mut self.connections[slot as usize] {
            connection.doomed = Some(reset);
            self.enqueue(slot);
        }
    }

    /// Where a FIN says so, a peer that has sent one and waits for answers has gone.
    pub(super) fn heed_fin(&mut self, slot: u32) {
        if self.config.on_fin == OnFin::Answer {
            return;
        }
        let Some(connection) = &self.connections[slot as usize] else { return };
        if connection.fin_seen
            && connection.in_flight > 0
            && connection.doomed.is_none()
            && self.shared.owes_answer(slot)
        {
            self.hang_up(slot);
        }
    }

    /// Its peer has gone.
    pub(super) fn hang_up(&mut self, slot: u32) {
        let Some(connection) = &self.connections[slot as usize] else { return };
        if connection.in_flight > 0 {
            if self.shared.owes_answer(slot) && !self.shared.is_broken(slot) {
                self.shared.counters.hung_up.fetch_add(1, Relaxed);
            }
            self.shared.give_up(slot);
        }
        self.doom(slot, false);
    }

    /// Where everything is done, goes on towards the end: our FIN, the peer's, the release.
    pub(super) fn settle(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        if connection.doomed.is_some()
            || connection.brings()
            || connection.in_flight > 0
            || !self.shared.is_flushed(slot)
        {
            return;
        }
        if connection.eof || connection.is_insatiable() || self.shared.is_broken(slot) {
            return self.doom(slot, false);
        }
        if connection.parting.is_none() {
            if !self.shared.part(slot) {
                return self.doom(slot, false);
            }
            let now = Instant::now();
            let by = now.checked_add(self.config.fin_wait).unwrap_or(now);
            connection.parting = Some(by);
            connection.readable = true;
            self.look_at(slot, by);
            self.enqueue(slot);
        }
    }

    /// Closes a connection now.
    pub(super) fn release(&mut self, slot: u32, reset: bool) {
        let Some(mut connection) = self.connections[slot as usize].take() else { return };
        self.deadlines.clear(slot, &mut connection.entry);
        self.shared.budget.swap_inward(connection.framer_bytes, 0);
        self.departed |= connection.in_flight > 0;
        self.orphans += connection.in_flight as usize;
        self.orphan_bytes += connection.in_bytes;
        self.shared.release(slot, reset);
        self.free.push(slot);
        self.feed_later();
    }

    /// Has a connection looked at by then.
    pub(super) fn look_at(&mut self, slot: u32, at: Instant) {
        if let Some(connection) = &mut self.connections[slot as usize] {
            self.deadlines.set(slot, &mut connection.entry, at);
        }
    }

    /// It waits for its peer, which may owe us the rest of a frame.
    pub(super) fn waits(&mut self, slot: u32) {
        // Responses that wait are another matter, see `note_filled`.
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        if let Some(stall) = self.config.stall
            && connection.begun.is_none()
            && connection.in_flight == 0
            && connection.owes()
        {
            let now = Instant::now();
            connection.begun = Some(now);
            if let Some(at) = now.checked_add(stall) {
                self.look_at(slot, at);
                self.deadlines.arm();
            }
        }
    }

    /// Responses have begun to wait: they are to be taken in time.
    pub(super) fn note_filled(&mut self) {
        if self.shared.has_filled() && self.shared.budget.is_scarce() {
            self.want_relief();
        }
        for (slot, generation) in self.shared.take_filled() {
            if let Some(stall) = self.config.stall
                && self.connection(slot, generation).is_some()
                && let Some(at) = self.shared.waits_since(slot).and_then(|s| s.checked_add(stall))
            {
                self.look_at(slot, at);
            }
        }
    }

    /// The timer has expired: looks at those whose time has come.
    pub(super) fn expire(&mut self) {
        self.deadlines.expired();
        let now = Instant::now();
        for _ in 0..MOST_DUE {
            match self.deadlines.next_due(now) {
                None => return,
                Some(ALL) => return self.linger_over(),
                Some(slot) => self.look(slot, now),
            }
        }
    }

    fn look(&mut self, slot: u32, now: Instant) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        connection.entry = None;
        if connection.doomed.is_some() {
            return;
        }
        let counters = &self.shared.counters;
        if connection.parting.is_some_and(|by| by <= now) {
            counters.no_fin.fetch_add(1, Relaxed);
            return self.doom(slot, false);
        }
        let mut next = connection.parting;
        let mut until = |time: Option<Instant>| next = [next, time].into_iter().flatten().min();
        if let Some(stall) = self.config.stall {
            let begun = connection.begun.filter(|_| connection.in_flight == 0);
            for since in [begun, self.shared.waits_since(slot)].into_iter().flatten() {
                let by = since.checked_add(stall);
                if by.is_some_and(|by| by <= now) {
                    counters.stalled.fetch_add(1, Relaxed);
                    return self.doom(slot, true);
                }
                until(by);
            }
        }
        if let Some(idle) = self.config.idle.filter(|_| connection.parting.is_none()) {
            if connection.idle_look.is_none_or(|at| at <= now) {
                if is_idle(connection) {
                    counters.idle.fetch_add(1, Relaxed);
                    return self.dismiss(slot);
                }
                connection.idle_look = now.checked_add(idle / 2);
            }
            until(connection.idle_look);
        }
        if let Some(at) = next {
            self.look_at(slot, at);
        }
    }

    /// An idle connection ends: with a FIN, unless its peer has not even taken its responses.
    fn dismiss(&mut self, slot: u32) {
        if !self.shared.is_flushed(slot) {
            return self.doom(slot, true);
        }
        if let Some(connection) = &mut self.connections[slot as usize] {
            connection.stop_reading(true);
            self.enqueue(slot);
        }
    }

    /// Keeps `again` readable exactly while there is work that `poll` left although there was room.
    pub(super) fn settle_again(&mut self, room: usize) {
        let wanted = room > 0 && !self.ready.is_empty()
            || !self.ending.is_empty()
            || self.to_feed > 0 && !self.starved.is_empty()
            || self.needs_relief();
        if wanted && !self.again_signalled {
            signal(&*self.again);
        } else if !wanted && self.again_signalled {
            drain(&*self.again);
        }
        self.again_signalled = wanted;
    }

    /// Something has come up outside of `poll`.
    pub(super) fn wake(&mut self) {
        if !self.again_signalled {
            self.again_signalled = true;
            signal(&*self.again);
        }
    }

    /// The time for closing is over.
    fn linger_over(&mut self) {
        for slot in 0..self.connections.len() as u32 {
            self.doom(slot, true);
        }
    }
}

/// One more look for idleness; true: it was the last.
fn is_idle(connection: &mut Connection) -> bool {
    if connection.touched || connection.in_flight > 0 || connection.queued || connection.paused {
        connection.touched = false;
        connection.quiet_looks = 0;
    } else {
        connection.quiet_looks += 1;
    }
    connection.quiet_looks >= QUIET_LOOKS
}
