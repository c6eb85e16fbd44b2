//! A connection's times: for the rest of a frame, for silence, for the end.

use super::{QUIET_LOOKS, Stream, Turn};
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Stream {
    /// Since when the rest of a frame is owed.
    pub(super) fn note_begun(&mut self, now: Instant) {
        let begun = match self.owes() && self.in_flight() == 0 {
            true => Some(self.begun.unwrap_or(now)),
            false => None,
        };
        if self.begun != begun {
            self.begun = begun;
            let since = |at: Instant| at.saturating_duration_since(self.inner().epoch).as_millis();
            let ms = begun.map_or(0, |at| since(at).max(1) as u64);
            self.live.begun.store(ms, Ordering::Relaxed);
        }
    }

    pub(super) fn owes(&self) -> bool {
        self.open && self.framer.held_bytes() > 0 && !self.framer.is_ready()
    }

    /// Whether a time is over; what then.
    pub(super) fn look_at_times(&mut self, now: Instant) -> Option<Turn> {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let live = self.live.clone();
        let (config, counters) = (&live.inner.config, &live.inner.shared.counters);
        if is_over(self.parting) {
            counters.no_fin.fetch_add(1, Ordering::Relaxed);
            return Some(Turn::Over);
        }
        if is_over(self.stalls_at()) {
            counters.stalled.fetch_add(1, Ordering::Relaxed);
            return Some(self.over_by_reset());
        }
        let idle = config.idle.filter(|_| self.parting.is_none() && is_over(self.idle_look))?;
        self.idle_look = now.checked_add(idle / 2);
        if live.touched.swap(false, Ordering::Relaxed) || self.in_flight() > 0 || self.paused {
            self.quiet_looks = 0;
        } else {
            self.quiet_looks += 1;
        }
        if self.quiet_looks < QUIET_LOOKS {
            return None;
        }
        counters.idle.fetch_add(1, Ordering::Relaxed);
        if !live.inner.shared.is_flushed(live.slot) {
            return Some(self.over_by_reset());
        }
        self.stop(true);
        None
    }

    /// When its peer has been too slow.
    fn stalls_at(&self) -> Option<Instant> {
        let stall = self.inner().config.stall?;
        let since = [self.begun, self.inner().shared.waits_since(self.live.slot)];
        since.into_iter().flatten().min()?.checked_add(stall)
    }

    /// Until when it waits at most.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        let idle = self.idle_look.filter(|_| self.parting.is_none());
        let all = [self.parting, self.stalls_at(), idle, self.inner().closes_by()];
        all.into_iter().flatten().min()
    }
}
