//! A kthread's side of a port: the thread that takes packets in, and answers that go out.

use super::AllocatorClient;
use super::port::Lanes;
use crate::thread::{Thread, park};
use curtail_ring::shm::PushError;
use curtail_shm::{Answer, Arrival};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The target of what is logged here.
const LOG: &str = "curtail::thread::elastic::gate";

/// No more are taken in while so many requests lie there that have not started.
const BACKLOG: usize = 64;
/// Packets that are taken in at once.
const AT_ONCE: usize = 16;

/// A kthread's side of a port. The kthread's own.
#[derive(Default)]
pub(super) struct Gate {
    /// As of the client's link.
    lanes: RefCell<Option<Arc<Lanes>>>,
    /// The thread that takes packets in.
    porter: OnceCell<Thread>,
    /// It waits until there are some.
    sleeps: Cell<bool>,
    /// In whose ring; `None`: in the kthread's own.
    victim: Cell<Option<usize>>,
}

impl Gate {
    pub(super) fn set_lanes(&self, lanes: Option<Arc<Lanes>>) {
        self.lanes.replace(lanes);
    }

    fn wake(&self, victim: Option<usize>) {
        self.victim.set(victim);
        if self.sleeps.replace(false)
            && let Some(porter) = self.porter.get()
        {
            porter.unpark();
        }
    }
}

/// What has become of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Yes,
    /// The daemon has yet to send others: later.
    Later,
    /// Its session is over.
    Never,
}

impl AllocatorClient {
    /// The calling thread takes packets in on this kthread.
    pub fn set_porter(&self, porter: Thread) {
        let _ = self.gate.porter.set(porter);
    }

    /// Its porter waits until there are packets, or it is unparked.
    pub fn wait_for_packets(&self) {
        self.gate.sleeps.set(true);
        park();
        self.gate.sleeps.set(false);
    }

    /// Takes what has come, a bounded number, and tells by what session.
    pub fn take_packets(&self, into: &mut Vec<Arrival>) -> u32 {
        let from = self.gate.victim.take().unwrap_or(self.index as usize);
        let lanes = self.gate.lanes.borrow().clone();
        if let Some(lanes) = lanes
            && let Err(error) = lanes.take(from, into, AT_ONCE)
        {
            self.distrust(&error);
        }
        self.epoch.get()
    }

    /// Sends an answer to what came by that session.
    pub fn send(&self, session: u32, answer: Answer) -> Sent {
        if session != self.epoch.get() {
            return Sent::Never;
        }
        let lanes = self.gate.lanes.borrow();
        let Some(lanes) = &*lanes else { return Sent::Never };
        match lanes.send(self.index as usize, answer) {
            Ok(()) => Sent::Yes,
            Err(PushError::Full) if self.epoch.get() == self.elastic.epoch() => Sent::Later,
            Err(PushError::Full) => Sent::Never,
            Err(PushError::Corrupt(error)) => {
                self.distrust(&error);
                Sent::Never
            }
        }
    }

    /// The daemon writes what can't be: it is left, and registered with anew.
    #[cold]
    fn distrust(&self, error: &dyn std::fmt::Display) {
        let kthread = self.index;
        tracing::warn!(
            target: LOG, kthread, "the core allocator is left, whose ring can't be: {error}"
        );
        if let Some(link) = &*self.link.borrow() {
            // Before the watcher learns of the end.
            self.elastic.is_distrusted.store(true, Ordering::Release);
            link.leave();
        }
    }

    /// Wakes the porter if packets have come for this kthread, which has so many requests to start.
    #[inline]
    pub(in crate::thread) fn look_for_packets(&self, spare: usize) {
        if self.gate.sleeps.get() && spare < BACKLOG {
            let lanes = self.gate.lanes.borrow();
            if lanes.as_ref().is_some_and(|lanes| lanes.wait(self.index as usize)) {
                self.gate.wake(None);
            }
        }
    }

    /// Whether packets wait in the rings of others, and this kthread could take them in.
    pub(in crate::thread) fn others_have_packets(&self) -> bool {
        self.victim().is_some()
    }

    /// Wakes the porter if packets wait in the rings of others; false: there are none.
    pub(in crate::thread) fn take_from_others(&self) -> bool {
        let victim = self.victim();
        if victim.is_some() {
            self.gate.wake(victim);
        }
        victim.is_some()
    }

    fn victim(&self) -> Option<usize> {
        if !self.gate.sleeps.get() {
            return None;
        }
        self.gate.lanes.borrow().as_ref()?.elsewhere(self.index as usize)
    }
}
