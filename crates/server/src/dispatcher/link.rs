//! A worker, from the dispatcher's side: what goes to it and what comes back.

use crate::engine::Orders;
use crate::message::{Event, Message};
use crate::remote::Remote;
use curtail_policy::JobId;
use curtail_ring::spsc;
use curtail_rt::preempt::Preempt;
use curtail_rt::thread::announce_if_parked;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A worker, as the dispatcher sees it.
pub(crate) struct WorkerLink {
    pub messages: spsc::Producer<Message>,
    /// What the ring had no room for.
    pub overflow: VecDeque<Message>,
    pub events: spsc::Consumer<Event>,
    pub remote: Arc<Remote>,
    pub orders: Arc<Orders>,
    /// Something is staged or was published since the worker was last woken.
    pub dirty: bool,
    pub contended: bool,
}

impl WorkerLink {
    pub(crate) fn new(
        messages: spsc::Producer<Message>,
        events: spsc::Consumer<Event>,
        remote: Arc<Remote>,
        orders: Arc<Orders>,
    ) -> Self {
        Self {
            messages,
            overflow: VecDeque::new(),
            events,
            remote,
            orders,
            dirty: false,
            contended: false,
        }
    }

    /// Tells the worker whether another job would get the core if the worker gave it up; before a
    /// later [`WorkerLink::preempt`] in the eyes of the worker.
    pub(crate) fn set_contended(&mut self, contended: bool) {
        if self.contended != contended {
            self.contended = contended;
            self.remote.signals.contended.store(u32::from(contended), Ordering::Relaxed);
            fence(Ordering::Release);
        }
    }

    /// Asks for what runs there to yield.
    pub(crate) fn preempt(&self, now: u64, how: Preempt) {
        self.remote.signals.raised.store(now, Ordering::Relaxed);
        if how == Preempt::Signal {
            if let Some(ticker) = self.remote.ticker.get() {
                ticker.tick(now);
            }
        } else if let Some(poll) = self.remote.poll.get() {
            poll.raise();
        }
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.dirty = true;
        if self.overflow.is_empty() {
            if let Err(full) = self.messages.stage(message) {
                self.overflow.push_back(full.into_inner());
            }
        } else {
            self.overflow.push_back(message);
        }
    }

    /// Takes back jobs that have not started and found no room.
    pub(super) fn take_back(&mut self, jobs: &mut Vec<JobId>) {
        self.overflow.retain(|message| {
            let started = !message.resume.is_null();
            if !started {
                jobs.push(message.job);
            }
            started
        });
    }

    pub(crate) fn flush(&mut self) {
        while let Some(message) = self.overflow.pop_front() {
            self.dirty = true;
            if let Err(full) = self.messages.stage(message) {
                self.overflow.push_front(full.into_inner());
                break;
            }
        }
        if self.dirty {
            self.dirty = false;
            self.messages.publish();
            self.remote.parker.unpark();
            announce_if_parked(&self.remote.kthread);
        }
    }
}
