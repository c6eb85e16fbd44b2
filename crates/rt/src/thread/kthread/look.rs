//! The world around the threads: what others, time and sockets make ready, and sleep.

use super::KThread;
use crate::block::Expiry;
use crate::clock::{self, Clock};
use crate::socket::uring::Asks;
use crate::socket::{Epoll, Poller};
use std::sync::Arc;
use std::time::Duration;

impl KThread {
    /// Makes ready what has become so: from elsewhere, by time, by a socket.
    #[inline]
    pub fn poll(&self, now: u64) {
        self.drain_inbox();
        self.look_for_packets();
        self.fire_deadlines(now);
        if !self.wheel.is_empty() {
            self.fire(now);
        }
        if let Some(poller) = self.poller.get() {
            poller.look(now, !self.has_threads());
        }
    }

    /// Looks for work as a kthread without any does: it asks the kernel about sockets each time.
    pub fn poll_closely(&self, now: u64) {
        self.drain_inbox();
        self.look_for_packets();
        self.fire_deadlines(now);
        if !self.wheel.is_empty() {
            self.fire(now);
        }
        if let Some(poller) = self.poller.get() {
            poller.look_now(now);
        }
    }

    /// Packets that a core allocator has received for it.
    #[inline]
    fn look_for_packets(&self) {
        if let Some(client) = &self.client {
            client.look_for_packets(self.shared.stealable());
        }
    }

    /// Ends the waits whose time is over, by the system's clock, too: the TSC's rate is not known as
    /// exactly.
    pub(crate) fn fire(&self, now: u64) {
        let mut now_ns = None;
        self.wheel.advance(now, |timer| {
            let Expiry { node, end_ns } = timer.what;
            let left = end_ns.saturating_sub(*now_ns.get_or_insert_with(clock::monotonic_ns));
            if left > 0 {
                // SAFETY: it has just been taken out, and its owner is still there, as below.
                return unsafe { self.wheel.set(timer, now + Clock::get().cycles(left)) };
            }
            // SAFETY: a set timer's node is alive: its owner cancels the timer before it goes.
            let node = unsafe { &*node };
            if node.expire() {
                // SAFETY: it blocks here, and its wait was ended by us.
                unsafe { Self::make_ready(node.who().as_tcb()) };
            }
        });
        if now_ns.is_some() {
            clock::refine(now);
        }
    }

    /// This kthread's poller, in use since the first thread waited for a socket.
    ///
    /// # Errors
    /// What the kernel says: no more descriptors, as there were none when the kthread started.
    pub(crate) fn poller(&self) -> std::io::Result<&Poller> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let poller = self.spare_poller.take().map_or_else(Poller::new, Ok)?;
        self.shared.parker.set_bell(poller.bell());
        self.shared.set_sockets(&poller);
        if let Some(client) = &self.client {
            client.add_poller(&poller);
        }
        Ok(self.poller.get_or_init(|| poller))
    }

    /// Where its ring is, if what asks goes by that.
    #[inline]
    pub(crate) fn ring(&self, asks: Asks) -> Option<&Arc<Epoll>> {
        let plan = self.io.get();
        if !plan.has_ring(asks) {
            return None;
        }
        let epoll = self.poller().ok()?.epoll();
        epoll.make_ring(plan)?;
        Some(epoll)
    }

    /// It is about to have no core: what was pushed into its ring is handed over.
    pub(in crate::thread) fn turn_ring(&self) {
        self.poller.get().inspect(|poller| {
            poller.turn();
        });
    }

    /// How long nothing becomes ready by time; `most` at most.
    pub fn time_left(&self, most: Option<Duration>) -> Option<Duration> {
        let deadline = self.deadlines.get().and_then(crate::block::Wheel::next_tsc);
        let due = self.wheel.next_tsc().into_iter().chain(deadline).min();
        let now = clock::now();
        let due = due.map(|tsc| Duration::from_nanos(Clock::get().ns(tsc.saturating_sub(now))));
        match (due, most) {
            (Some(due), Some(most)) => Some(due.min(most)),
            (due, most) => due.or(most),
        }
    }

    /// Sleeps until something is ready, a timer is due, or `most` has passed, unless `work`, asked
    /// after the announcement, finds some.
    #[inline]
    pub fn rest(&self, work: impl FnOnce() -> bool, most: Option<Duration>) {
        let most = self.time_left(most);
        if most.is_some_and(|most| most.is_zero()) {
            return;
        }
        let kept = self.give_own_back();
        let most = kept.map_or(most, |soon| Some(most.map_or(soon, |most| most.min(soon))));
        let work = || self.has_any_mail() || work();
        match self.poller.get() {
            Some(poller) => self.shared.parker.sleep(work, || poller.wait(most)),
            None => self.shared.parker.sleep(work, || self.shared.parker.nap(most)),
        }
    }
}
