//! Back pressure: connections that have their share are not read, until something is returned. And
//! relief: what is held by peers that are slow is got back by evicting them.

use super::Tcp;
use super::connection::REQUEST_BYTES;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Starved connections that one poll looks at.
const MOST_FED: usize = 16;
/// Slots among which one poll looks for a connection to evict.
const MOST_LOOKS: usize = 64;

impl Tcp {
    /// It has its share. Either what it has in progress wakes it as it ends, or (where other
    /// connections have the memory) it waits in line.
    pub(super) fn pause(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        connection.paused = true;
        let own = connection.in_bytes + connection.framer_bytes;
        let counters = &self.shared.counters;
        if connection.in_flight > 0 && connection.is_http() {
            // Its turn comes when that is answered.
        } else if connection.in_flight > 0 && own >= self.config.in_limit {
            counters.paused.fetch_add(1, Relaxed);
        } else {
            counters.starved.fetch_add(1, Relaxed);
            let alone = connection.in_flight == 0;
            self.starve(slot);
            if alone || self.shared.budget.is_scarce() {
                self.want_relief();
            }
        }
        self.waits(slot);
    }

    /// It stands in line.
    fn starve(&mut self, slot: u32) {
        if let Some(connection) = &mut self.connections[slot as usize]
            && !connection.starving
        {
            connection.starving = true;
            self.starved.push_back((slot, connection.generation));
        }
    }

    /// A request has ended: gives back what it counted.
    pub(super) fn give_back(&mut self, slot: u32, generation: u32, bytes: usize) {
        let bytes = bytes + REQUEST_BYTES;
        let in_limit = self.config.in_limit;
        let budget = &self.shared.budget;
        let connection = self.connections.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(connection) = connection.filter(|found| found.generation == generation) else {
            // Its connection has gone before it.
            self.orphans = self.orphans.saturating_sub(1);
            let less =
                if self.orphans == 0 { self.orphan_bytes } else { bytes.min(self.orphan_bytes) };
            self.orphan_bytes -= less;
            budget.swap_inward(less, 0);
            return;
        };
        connection.in_flight = connection.in_flight.saturating_sub(1);
        // Exactly nothing with the last, even where a middleman has changed requests' lengths.
        let last = connection.in_flight == 0;
        let less = if last { connection.in_bytes } else { bytes.min(connection.in_bytes) };
        connection.in_bytes -= less;
        budget.swap_inward(less, 0);
        connection.touched = true;
        let has_share = connection.has_share(in_limit, budget);
        if connection.paused && has_share {
            connection.paused = false;
            self.enqueue(slot);
            self.wake();
        } else if connection.paused && last {
            self.starve(slot);
        }
        if last {
            self.after_last(slot);
        }
    }

    /// Nothing of the connection is in progress any more.
    fn after_last(&mut self, slot: u32) {
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        if connection.brings() {
            // The rest of a frame is awaited from now on.
            connection.begun = None;
            self.waits(slot);
        } else {
            self.settle(slot);
        }
    }

    /// Memory has been returned: the connections that wait for it are to be looked at, each once.
    pub(super) fn feed_later(&mut self) {
        self.to_feed = self.starved.len();
    }

    /// Looks at some of the connections that wait for memory.
    pub(super) fn feed(&mut self) {
        for _ in 0..MOST_FED.min(self.to_feed) {
            self.to_feed -= 1;
            let Some((slot, generation)) = self.starved.pop_front() else { return };
            let (in_limit, shared) = (self.config.in_limit, self.shared.clone());
            let Some(connection) = self.connection(slot, generation) else { continue };
            connection.starving = false;
            if !connection.paused {
                continue;
            }
            if connection.has_share(in_limit, &shared.budget) {
                connection.paused = false;
                self.enqueue(slot);
            } else {
                self.starve(slot);
            }
        }
    }

    /// All slots are to be looked at for connections to evict.
    pub(super) fn want_relief(&mut self) {
        self.to_search = self.connections.len();
    }

    pub(super) fn needs_relief(&self) -> bool {
        self.to_search > 0 && (!self.starved.is_empty() || self.shared.budget.is_scarce())
    }

    /// Looks at some slots, and evicts the connection among them that has been slowest, of those
    /// whose peers hold no less than half of what connections have on average.
    pub(super) fn relieve(&mut self) {
        if !self.needs_relief() {
            return;
        }
        let count = self.connections.len();
        let in_use = count - self.free.len();
        let mut slowest: Option<(Instant, u32)> = None;
        for _ in 0..MOST_LOOKS.min(self.to_search) {
            self.to_search -= 1;
            self.search_at = (self.search_at + 1) % count;
            let slot = self.search_at as u32;
            let Some(connection) = &self.connections[self.search_at] else { continue };
            let begun = connection.begun.filter(|_| connection.in_flight == 0);
            let frame = begun.map_or(0, |_| connection.framer_bytes);
            let held = frame + self.shared.unsent_bytes(slot);
            if connection.doomed.is_some() || 2 * held * in_use < self.shared.budget.used() {
                continue;
            }
            let since = [begun, self.shared.waits_since(slot)].into_iter().flatten().min();
            slowest = since.into_iter().map(|since| (since, slot)).chain(slowest).min();
        }
        if let Some((_, slot)) = slowest {
            self.shared.counters.evicted.fetch_add(1, Relaxed);
            self.doom(slot, true);
        }
    }
}
