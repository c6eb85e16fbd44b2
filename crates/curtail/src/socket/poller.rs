//! A kthread's view of its threads' sockets: one epoll, and a bell that ends its sleep.

use crate::clock::{self, Clock};
use crate::thread::Bell;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Token of the bell.
const BELL: u64 = u64::MAX;
/// Events that one system call brings.
const EVENTS: usize = 64;
/// How often a busy kthread asks the kernel.
const LOOK_NS: u64 = 10_000;

/// See the module's head.
pub(crate) struct Poller {
    epoll: OwnedFd,
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
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
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

    /// Makes ready who waits for sockets that have become so, unless it was asked just now.
    pub(crate) fn look(&self, now: u64) {
        if now.wrapping_sub(self.last_look.get()) > self.look_cycles {
            self.last_look.set(now);
            self.wait(Some(Duration::ZERO));
        }
    }

    /// The same, and sleeps until there is something, the bell rings, or `most` has passed.
    pub(crate) fn wait(&self, most: Option<Duration>) {
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, timeout.as_ref()) else {
            return; // A signal's handler ran.
        };
        for event in events {
            if event.data.u64() == BELL {
                let _ = rustix::io::read(&self.bell.0, &mut [0; 8]);
            }
        }
        self.last_look.set(clock::now());
    }
}
