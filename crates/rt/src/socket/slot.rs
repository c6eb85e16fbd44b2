//! A source's place: who waits for it, what is known of it, and where it is registered.
//!
//! `source` says who touches it and when.

use super::poller::{Epoll, Poller};
use super::slab;
use crate::block::{self, Queue, Spin};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub(super) const NO_FD: RawFd = -1;
const NO_TIMEOUT: u64 = u64::MAX;
/// Beside the ticks in [`Slot::drained`].
const DRAINED: u64 = 1 << 32;

/// Those who wait for one direction.
pub(super) struct Waiters {
    pub queue: Queue,
    /// Grows, under the queue's lock, whenever the direction may have become ready.
    ticks: AtomicU32,
    timeout_ns: AtomicU64,
}

impl Waiters {
    const fn new() -> Self {
        Self {
            queue: Queue::new(),
            ticks: AtomicU32::new(0),
            timeout_ns: AtomicU64::new(NO_TIMEOUT),
        }
    }

    pub(super) fn ticks(&self) -> u32 {
        self.ticks.load(Ordering::Acquire)
    }

    /// It may have become ready: all that wait try again.
    pub(super) fn signal(&self) {
        let any = block::with_queue(&self.queue, |locked| {
            self.ticks.store(self.ticks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
            locked.pop()
        });
        if any {
            block::wake_all(&self.queue);
        }
    }

    /// Whether a thread waits that may still run.
    fn has_any(&self) -> bool {
        let mut any = false;
        block::with_queue(&self.queue, |locked| {
            any = locked.first_live().is_some();
            None
        });
        any
    }

    pub(super) fn set_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map_or(NO_TIMEOUT, |t| u64::try_from(t.as_nanos()).unwrap_or(NO_TIMEOUT));
        self.timeout_ns.store(ns, Ordering::Relaxed);
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        let ns = self.timeout_ns.load(Ordering::Relaxed);
        (ns != NO_TIMEOUT).then(|| Duration::from_nanos(ns))
    }
}

/// One source's place. See the module's head.
pub(super) struct Slot {
    pub index: u32,
    pub next_free: AtomicU32,
    generation: AtomicU32,
    pub fd: AtomicI32,
    pub handles: AtomicU32,
    /// Operations that would wait fail instead.
    pub nonblocking: AtomicBool,
    /// The descriptor is another's, who closes it.
    pub borrowed: AtomicBool,
    /// Waits have ended for good.
    pub closed: AtomicBool,
    /// A short read does not mean that nothing is left for which no event is to come: it is no TCP
    /// stream (descriptors under way end a read of a Unix one), or the peer has ended its direction,
    /// or sent urgent data.
    undrainable: AtomicBool,
    /// It is a stream over TCP.
    tcp: AtomicBool,
    /// One thread has both directions: room to write wakes a thread that waits to read.
    one_thread: AtomicBool,
    /// [`DRAINED`] and the readers' ticks before a read that left nothing, or 0.
    drained: AtomicU64,
    pub read: Waiters,
    pub write: Waiters,
    /// Number of the poller it is registered with, or 0; changes under the lock of `place`.
    at: AtomicU32,
    place: Spin<Option<Arc<Epoll>>>,
}

impl Slot {
    pub(super) const fn new(index: u32) -> Self {
        Self {
            index,
            next_free: AtomicU32::new(slab::NO_SLOT),
            generation: AtomicU32::new(0),
            fd: AtomicI32::new(NO_FD),
            handles: AtomicU32::new(0),
            nonblocking: AtomicBool::new(false),
            borrowed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            undrainable: AtomicBool::new(true),
            tcp: AtomicBool::new(false),
            one_thread: AtomicBool::new(false),
            drained: AtomicU64::new(0),
            read: Waiters::new(),
            write: Waiters::new(),
            at: AtomicU32::new(0),
            place: Spin::new(None),
        }
    }

    /// Its poller has an event for it. An event for the slot's owner before has another generation.
    pub(super) fn deliver(&self, generation: u32, flags: EventFlags) {
        if self.generation.load(Ordering::Acquire) != generation {
            return;
        }
        let over = EventFlags::HUP | EventFlags::ERR;
        let last = EventFlags::RDHUP | EventFlags::PRI | over;
        if flags.intersects(last) {
            // Before the ticks grow.
            self.undrainable.store(true, Ordering::Relaxed);
        }
        if flags.intersects(EventFlags::IN | last) {
            self.read.signal();
        }
        if flags.intersects(EventFlags::OUT | over) {
            self.write.signal();
            if self.one_thread.load(Ordering::Relaxed) {
                self.read.signal();
            }
        }
    }

    /// What wakes writers wakes readers, too.
    pub(super) fn set_one_thread(&self) {
        self.one_thread.store(true, Ordering::Relaxed);
    }

    /// The poller of that number goes: waiters that rely on it register anew.
    pub(super) fn leave(&self, number: u32) {
        if self.at.load(Ordering::Acquire) == number {
            self.read.signal();
            self.write.signal();
        }
    }

    pub(super) fn data(&self) -> EventData {
        let generation = u64::from(self.generation.load(Ordering::Relaxed));
        EventData::new_u64(generation << 32 | u64::from(self.index))
    }

    /// A read was short: unless an event has come since it had these ticks, the next one would find
    /// nothing. (Of a stream of bytes: epoll(7), question 9.)
    pub(super) fn set_drained(&self, ticks: u32, drained: bool) {
        if drained {
            self.drained.store(DRAINED | u64::from(ticks), Ordering::Relaxed);
        } else if self.drained.load(Ordering::Relaxed) != 0 {
            self.drained.store(0, Ordering::Relaxed);
        }
    }

    /// It is a TCP stream, at its beginning.
    pub(super) fn set_drainable(&self, drainable: bool) {
        self.tcp.store(drainable, Ordering::Relaxed);
        self.undrainable.store(!drainable, Ordering::Relaxed);
    }

    /// Whether it is a stream over TCP.
    pub(super) fn is_tcp(&self) -> bool {
        self.tcp.load(Ordering::Relaxed)
    }

    /// Whether a ready socket can't be read until it would block.
    pub(super) fn is_undrainable(&self) -> bool {
        self.undrainable.load(Ordering::Relaxed)
    }

    /// Whether a read would find nothing, if the readers have these ticks. Only where events come.
    pub(super) fn is_drained(&self, ticks: u32) -> bool {
        self.drained.load(Ordering::Relaxed) == DRAINED | u64::from(ticks)
            && self.at.load(Ordering::Relaxed) != 0
            && !self.undrainable.load(Ordering::Relaxed)
    }

    /// It is registered nowhere from now on, as far as it knows: where it was.
    pub(super) fn leave_place(&self) -> Option<Arc<Epoll>> {
        self.place.with(|place| {
            self.at.store(0, Ordering::Release);
            place.take().inspect(|epoll| epoll.count_source(false))
        })
    }

    /// Its owner goes, and closes the descriptor next.
    pub(super) fn clear(&self) {
        // From here on events for it are dropped; one that was let through just before wakes the
        // slot's next owner for nothing, at worst.
        self.generation.fetch_add(1, Ordering::AcqRel);
        drop(self.leave_place());
        for flag in [&self.nonblocking, &self.borrowed, &self.closed, &self.one_thread] {
            flag.store(false, Ordering::Relaxed);
        }
        self.drained.store(0, Ordering::Relaxed);
        self.read.set_timeout(None);
        self.write.set_timeout(None);
    }

    /// Has the calling kthread's poller watch it, unless another poller does so for a waiter.
    pub(super) fn register(&self, fd: BorrowedFd<'_>, poller: &Poller) -> io::Result<()> {
        let epoll = poller.epoll();
        if self.at.load(Ordering::Acquire) == epoll.number() {
            return Ok(());
        }
        self.place.with(|place| {
            if let Some(old) = place
                && (old.number() == epoll.number()
                    || !old.has_ended() && (self.read.has_any() || self.write.has_any()))
            {
                return Ok(());
            }
            let interest = EventFlags::IN
                | EventFlags::OUT
                | EventFlags::RDHUP
                | EventFlags::PRI
                | EventFlags::ET;
            match epoll::add(epoll.as_fd(), fd, self.data(), interest) {
                // A source that was closed, while a duplicate of its descriptor stayed open.
                Err(Errno::EXIST) => epoll::modify(epoll.as_fd(), fd, self.data(), interest)?,
                result => result?,
            }
            epoll.count_source(true);
            if let Some(old) = place.replace(epoll.clone()) {
                old.count_source(false);
                let _ = epoll::delete(old.as_fd(), fd);
            }
            self.at.store(epoll.number(), Ordering::Release);
            Ok(())
        })
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("fd", &self.fd).finish_non_exhaustive()
    }
}
