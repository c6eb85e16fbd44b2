//! How a dispatcher sleeps that has no core of its own: epoll over its transports' descriptors and
//! one event counter for all other wakers.
//!
//! One thread owns the [`Waiter`]; any thread may hold a [`Waker`]. A wake is never lost: it stays
//! until a `wait` has seen it, so the loop is simply *work, find nothing, wait, work*. While the
//! dispatcher works, a wake costs a fence and a load of a cache line that is not written.
//!
//! `state` is `IDLE` (works, no news), `NEWS` or `ASLEEP`. Only the waiter leaves `NEWS`; a waker
//! that finds `ASLEEP` and puts `NEWS` there writes to the event counter. The write may come after
//! the sleeper was woken by something else: then it makes one later `wait` return for nothing.

use crate::socket::{drain, event, signal};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

const IDLE: u32 = 0;
const NEWS: u32 = 1;
const ASLEEP: u32 = 2;

/// Token of the waiter's own event counter; the others are numbered from 0.
const BELL: u64 = u64::MAX;
/// Descriptors reported by one system call; the rest stays readable.
const EVENTS: usize = 16;

/// Sleeps until a descriptor is readable, a [`Waker`] wakes it, or a time has passed.
pub struct Waiter {
    epoll: OwnedFd,
    shared: Arc<Shared>,
}

struct Shared {
    state: AtomicU32,
    bell: OwnedFd,
}

/// Wakes the owner of a [`Waiter`].
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waiter {
    /// Over `fds` (see [`crate::Transport::wait_fds`]), which stay the caller's and must stay open
    /// as long as they are to be watched.
    ///
    /// # Errors
    /// What the kernel says: no more descriptors, or one of `fds` is none.
    pub fn new(fds: &[RawFd]) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = event()?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        for (index, &fd) in fds.iter().enumerate() {
            if fd < 0 {
                return Err(Errno::BADF.into());
            }
            // SAFETY: not negative, and used for this one call, to which a closed descriptor is an
            // error and not a danger.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            epoll::add(&epoll, fd, EventData::new_u64(index as u64), EventFlags::IN)?;
        }
        let shared = Arc::new(Shared { state: AtomicU32::new(IDLE), bell });
        Ok(Self { epoll, shared })
    }

    /// Watches one of its descriptors no more.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        // One that it does not watch stays so.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Sleeps until a descriptor is readable, a wake has come since the last `wait`, a signal
    /// handler ran, or `timeout` has passed (`None`: as long as it takes; resolution: that of the
    /// kernel's timers). May also return for nothing. The answer: whether a descriptor is readable.
    ///
    /// # Errors
    /// Only what epoll says to a descriptor that is none.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        // Where there is news, the descriptors are looked at all the same, without sleeping.
        let timeout = if self.falls_asleep() { timeout } else { Some(Duration::ZERO) };
        self.look(timeout)
    }

    /// Waits by another sleep, which ends when the waiter (see its `AsFd`) is readable.
    ///
    /// # Errors
    /// As for [`Waiter::wait`].
    pub fn wait_by(&mut self, sleep: impl FnOnce()) -> io::Result<bool> {
        if self.falls_asleep() {
            sleep();
        }
        self.look(Some(Duration::ZERO))
    }

    /// From here on a waker signals; false: one has been here.
    fn falls_asleep(&self) -> bool {
        let state = &self.shared.state;
        state.compare_exchange(IDLE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn look(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let state = &self.shared.state;
        // Beyond the range of the kernel's time: 292 thousand million years are no timeout at all.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let slept = epoll::wait(&self.epoll, &mut events, timeout.as_ref());
        // Everything that a waker did before its wake is visible from here on.
        state.swap(IDLE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let events = match slept {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut readable = false;
        for event in events {
            if event.data.u64() == BELL {
                drain(&self.shared.bell);
            } else {
                readable = true;
            }
        }
        Ok(readable)
    }

    /// A handle that wakes this waiter.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker { shared: self.shared.clone() }
    }
}

impl AsRawFd for Waiter {
    /// Readable when `wait` would not sleep for a descriptor's sake.
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl AsFd for Waiter {
    /// Readable when `wait` would not sleep for a descriptor's sake.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Waker {
    /// Makes the present or the next `wait` return. What the caller did before is visible to the
    /// waiter's thread after that. Never blocks.
    pub fn wake(&self) {
        let state = &self.shared.state;
        // Orders what the caller published before the load, as the waiter's fence orders its `IDLE`
        // before its next look: either we see the `IDLE`, or the waiter sees what was published.
        fence(Ordering::SeqCst);
        if state.load(Ordering::Relaxed) != NEWS && state.swap(NEWS, Ordering::SeqCst) == ASLEEP {
            signal(&self.shared.bell);
        }
    }
}
