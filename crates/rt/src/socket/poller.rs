//! A kthread's view of its threads' sockets: one epoll, and a bell that ends its sleep.
//!
//! Its kthread alone waits in it; others register sources with the epoll inside, take them out, and
//! ring.

use super::slab;
use crate::clock::{self, Clock};
use crate::thread::Bell;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Token of the bell. No slot has this index.
const BELL: u64 = u64::MAX;
/// Events that one system call brings. They lie on the stack, which may be a thread's.
const EVENTS: usize = 64;
/// How often it asks again at once where a call brought as many as it can.
const MOST_CALLS: usize = 8;
/// Where a millisecond more or less is no matter.
const COARSE: Duration = Duration::from_millis(100);
/// How often a busy kthread asks the kernel.
const LOOK_NS: u64 = 10_000;

/// What sources are registered with. It stays as long as one is, so that its number in the kernel
/// names it.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
    number: u32,
    /// Its kthread waits in it no more.
    ended: AtomicBool,
}

impl Epoll {
    fn new() -> io::Result<Arc<Self>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { fd, number, ended: AtomicBool::new(false) }))
    }

    /// Its own among all that there ever were; never 0.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether there are events that its kthread has not taken. From any thread.
    pub(crate) fn has_events(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&at_once))
            .is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// See the module's head.
pub(crate) struct Poller {
    epoll: Arc<Epoll>,
    bell: Arc<EventBell>,
    last_look: Cell<u64>,
    look_cycles: u64,
}

struct EventBell(OwnedFd);

impl Bell for EventBell {
    fn ring(&self) {
        // The counter is far from full: the sleeper empties it.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll.fd, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            bell: Arc::new(EventBell(bell)),
            last_look: Cell::new(0),
            look_cycles: Clock::get().cycles(LOOK_NS),
        })
    }

    pub(crate) fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    pub(crate) fn epoll(&self) -> &Arc<Epoll> {
        &self.epoll
    }

    /// Makes the waiters ready whose sockets have become so, unless it was asked just now.
    pub(crate) fn look(&self, now: u64) {
        if now.wrapping_sub(self.last_look.get()) > self.look_cycles {
            self.look_now(now);
        }
    }

    /// The same, in any case.
    pub(crate) fn look_now(&self, now: u64) {
        self.last_look.set(now);
        for _ in 0..MOST_CALLS {
            if self.take(Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) < EVENTS {
                break;
            }
        }
    }

    /// The same, and sleeps until there is something, the bell rings, or `most` has passed.
    pub(crate) fn wait(&self, most: Option<Duration>) {
        // More than the kernel's seconds can hold is for ever.
        let mut timeout = most.and_then(|most| Timespec::try_from(most).ok());
        if most.is_some_and(|most| most < COARSE) {
            // epoll counts in milliseconds, poll does not.
            let _ = poll(&mut [PollFd::new(&self.epoll.fd, PollFlags::IN)], timeout.as_ref());
            timeout = Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        if self.take(timeout.as_ref()) == EVENTS {
            self.look_now(clock::now());
        }
        self.last_look.set(clock::now());
    }

    /// How many events there were.
    fn take(&self, timeout: Option<&Timespec>) -> usize {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll.fd, &mut events, timeout) else {
            return 0; // A signal's handler ran.
        };
        for event in &*events {
            let data = event.data.u64();
            if data == BELL {
                let _ = rustix::io::read(&self.bell.0, &mut [0; 8]);
            } else if let Some(slot) = slab::find(data as u32) {
                slot.deliver((data >> 32) as u32, event.flags);
            }
        }
        events.len()
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Poller {
    /// Threads of other kthreads may wait for what is registered here.
    fn drop(&mut self) {
        self.epoll.ended.store(true, Ordering::Release);
        slab::each(|slot| slot.leave(self.epoll.number));
    }
}
