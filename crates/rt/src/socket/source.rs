//! A descriptor that threads wait for.
//!
//! **How a wait begins.** The operation is tried first. If it would block, the thread enters the
//! queue of readers or writers, unless `ticks` has grown since before the try: the poller counts it
//! up, under the queue's lock, at each event, so no event falls between the try and the wait. A
//! thread that was woken tries again; one that is woken for nothing waits again.
//!
//! **Who is notified.** The source is registered, edge-triggered and for both directions, with the
//! poller of the kthread on which a thread first waits for it, and moves to another where a thread
//! waits while none waits elsewhere. A poller wakes waiters of any kthread, so where a source is
//! registered matters for speed alone. A poller that goes wakes all that wait for its sources.
//!
//! **Its end.** The last handle closes the descriptor and gives the slot back. Events on their way
//! carry the slot's generation, and are dropped by it.
//!
//! Plain threads wait in `poll(2)` instead.

use super::slab;
use super::slot::{NO_FD, Slot, Waiters};
use crate::block::{self, Deadline, Wait};
use crate::thread::KThread;
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
}

/// A handle of a source. The last one closes it.
#[derive(Debug)]
pub struct Source {
    slot: &'static Slot,
}

impl Clone for Source {
    fn clone(&self) -> Self {
        self.slot.handles.fetch_add(1, Ordering::Relaxed);
        Self { slot: self.slot }
    }
}

impl Source {
    /// Of a descriptor that threads may wait for: a socket; `tcp`: a stream over TCP.
    pub fn new(fd: OwnedFd, tcp: bool) -> Self {
        let slot = slab::take();
        slot.set_drainable(tcp);
        slot.fd.store(fd.into_raw_fd(), Ordering::Relaxed);
        slot.handles.store(1, Ordering::Relaxed);
        Self { slot }
    }

    /// Of a descriptor of another's, who says by [`Source::let_go`] before it is closed.
    pub fn borrowed(fd: RawFd) -> Self {
        let slot = slab::take();
        slot.set_drainable(false);
        slot.borrowed.store(true, Ordering::Relaxed);
        slot.fd.store(fd, Ordering::Relaxed);
        slot.handles.store(1, Ordering::Relaxed);
        Self { slot }
    }

    /// Of a borrowed descriptor, which is about to be closed: ends all waits.
    pub fn let_go(self) {
        self.slot.closed.store(true, Ordering::Release);
        self.slot.read.signal();
        self.slot.write.signal();
    }

    /// Whether both are handles of one source.
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.slot, other.slot)
    }

    pub(super) fn slot(&self) -> &'static Slot {
        self.slot
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.slot.fd.load(Ordering::Relaxed)
    }

    pub(super) fn waiters(&self, side: Side) -> &'static Waiters {
        match side {
            Side::Read => &self.slot.read,
            Side::Write => &self.slot.write,
        }
    }

    /// As `set_read_timeout` and `set_write_timeout`.
    ///
    /// # Errors
    /// A timeout of zero.
    pub(crate) fn set_timeout(&self, side: Side, timeout: Option<Duration>) -> io::Result<()> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a timeout of zero"));
        }
        self.waiters(side).set_timeout(timeout);
        Ok(())
    }

    pub(crate) fn timeout(&self, side: Side) -> Option<Duration> {
        self.waiters(side).timeout()
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.slot.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.slot.nonblocking.load(Ordering::Relaxed)
    }

    fn is_closed(&self) -> bool {
        self.slot.closed.load(Ordering::Acquire)
    }

    /// Whether this is the only handle.
    pub(crate) fn is_alone(&self) -> bool {
        self.slot.handles.load(Ordering::Acquire) == 1
    }

    /// Ends all waits, and lets those to come fail.
    pub(crate) fn close(&self) {
        self.slot.closed.store(true, Ordering::Release);
        // Ends waits in the kernel. One that is not connected says so; the rest is done all the same.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Both);
        self.slot.read.signal();
        self.slot.write.signal();
    }

    /// Of a TCP stream that one thread alone waits for, on its [`Side::Read`] for both.
    pub fn of_one_thread(fd: OwnedFd) -> Self {
        let source = Self::new(fd, true);
        source.slot.set_one_thread();
        source
    }

    /// A thread that waits to read looks again.
    pub fn nudge(&self) {
        self.slot.read.signal();
    }

    /// All threads that wait for it look again.
    pub fn nudge_both(&self) {
        self.slot.read.signal();
        self.slot.write.signal();
    }

    /// Of a stream over TCP, or of one thread: its peer has ended its half or all of it, as an
    /// event has said; or has sent urgent data, or nothing was known of it.
    pub fn may_have_ended(&self) -> bool {
        self.slot.is_undrainable()
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.slot.is_tcp()
    }

    /// Whether a read would find nothing, if the readers have these ticks.
    pub(super) fn is_drained(&self, ticks: u32) -> bool {
        self.slot.is_drained(ticks)
    }

    /// How often `side` may have become ready so far: asked before a try, for [`Source::wait`].
    pub fn ticks(&self, side: Side) -> u32 {
        self.waiters(side).ticks()
    }

    /// Tries `operation` until it would not block, waiting in between for `side`.
    ///
    /// # Errors
    /// What it says; `WouldBlock` when the side's timeout is over; `ConnectionAborted` after
    /// [`Source::close`].
    #[inline]
    pub(super) fn insist<T>(
        &self,
        side: Side,
        operation: impl FnMut() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let timeout = || self.waiters(side).timeout().and_then(Deadline::after);
        self.insist_until(side, timeout, None, operation)
    }

    /// [`Source::insist`] for reads of a stream of bytes: see [`Slot::set_drained`].
    #[inline]
    pub(super) fn insist_on_stream<T>(
        &self,
        operation: impl FnMut() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let timeout = || self.slot.read.timeout().and_then(Deadline::after);
        let ticks = self.ticks(Side::Read);
        let may_wait = !self.is_nonblocking() && KThread::current_tcb().is_some();
        let drained = (may_wait && self.slot.is_drained(ticks)).then_some(ticks);
        self.insist_until(Side::Read, timeout, drained, operation)
    }

    /// [`Source::insist`] with a deadline of the caller's, which is asked when it begins to wait.
    /// `found_nothing`: no need to try if the side has these ticks still.
    #[inline]
    pub(super) fn insist_until<T>(
        &self,
        side: Side,
        deadline: impl FnOnce() -> Option<Deadline>,
        mut found_nothing: Option<u32>,
        mut operation: impl FnMut() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let mut deadline = Some(deadline);
        let mut until = None;
        loop {
            let before = found_nothing.take();
            let ticks = before.unwrap_or_else(|| self.ticks(side));
            if before.is_none() {
                match operation() {
                    Ok(value) => {
                        KThread::spend();
                        return Ok(value);
                    }
                    Err(Errno::AGAIN) => {}
                    Err(Errno::INTR) => {
                        KThread::spend();
                        continue;
                    }
                    Err(error) => {
                        KThread::spend();
                        return Err(self.error(error));
                    }
                }
            }
            if let Some(deadline) = deadline.take() {
                until = deadline();
            }
            self.wait(side, ticks, until)?;
        }
    }

    /// Waits until `side` may be ready; at once if it may since it had these ticks.
    #[inline(never)]
    pub fn wait(&self, side: Side, ticks: u32, until: Option<Deadline>) -> io::Result<()> {
        self.may_wait()?;
        if KThread::current_tcb().is_none() {
            let flags = match side {
                Side::Read => PollFlags::IN | PollFlags::RDHUP,
                Side::Write => PollFlags::OUT,
            };
            return wait_in_kernel(&mut [PollFd::new(self, flags)], until);
        }
        self.slot.register(self.as_fd(), KThread::here().poller()?)?;
        self.sleep(side, ticks, until)
    }

    /// Waits until `other`, which the caller closes then, has room for what is to be written here.
    pub(crate) fn wait_through(
        &self,
        other: BorrowedFd<'_>,
        ticks: u32,
        until: Option<Deadline>,
    ) -> io::Result<()> {
        self.may_wait()?;
        if KThread::current_tcb().is_none() {
            // The end of this one is reported in any case.
            let own = PollFd::new(self, PollFlags::empty());
            let other = PollFd::from_borrowed_fd(other, PollFlags::OUT);
            return wait_in_kernel(&mut [own, other], until);
        }
        let epoll = KThread::here().poller()?.epoll();
        epoll::add(epoll.as_fd(), other, self.slot.data(), EventFlags::OUT | EventFlags::ET)?;
        // It leaves by being closed, of which nothing here hears.
        epoll.count_source(true);
        self.sleep(Side::Write, ticks, until)
    }

    /// What the kernel says of a socket that was shut down is not said of one that was closed.
    #[cold]
    pub(super) fn error(&self, error: Errno) -> io::Error {
        match self.is_closed() {
            true => io::Error::new(io::ErrorKind::ConnectionAborted, "closed"),
            false => error.into(),
        }
    }

    pub(super) fn may_wait(&self) -> io::Result<()> {
        if self.is_closed() {
            return Err(self.error(Errno::AGAIN));
        }
        match self.is_nonblocking() {
            true => Err(Errno::AGAIN.into()),
            false => Ok(()),
        }
    }

    /// The calling thread of Curtail's waits until it is signalled, or was since those ticks.
    fn sleep(&self, side: Side, ticks: u32, until: Option<Deadline>) -> io::Result<()> {
        let waiters = self.waiters(side);
        let still = || waiters.ticks() == ticks && !self.is_closed();
        match block::wait_in(&waiters.queue, 0, until, still, || {}) {
            Wait::NotNeeded | Wait::Woken(_) => Ok(()),
            Wait::Expired => Err(expired()),
        }
    }

    /// The descriptor, for others; a duplicate where there are more handles.
    ///
    /// # Panics
    /// Where a duplicate is needed and the process has no descriptor left.
    pub(crate) fn into_fd(self) -> OwnedFd {
        if !self.is_alone() {
            return self.as_fd().try_clone_to_owned().expect("a descriptor for the duplicate");
        }
        if let Some(epoll) = self.slot.leave_place() {
            let _ = epoll::delete(epoll.as_fd(), self.as_fd());
        }
        let fd = self.slot.fd.swap(NO_FD, Ordering::Relaxed);
        // SAFETY: taken out of the only handle, so it is the caller's alone.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }
}

/// A wait was over before what it was for: its own time, or else this does not return where it can say
/// nothing.
pub(super) fn expired() -> io::Error {
    match (block::over_limit(), block::cancelled()) {
        (true, Some(cancelled)) => cancelled.into(),
        (true, None) => block::end_by_limit(),
        (false, _) => Errno::AGAIN.into(),
    }
}

/// A plain thread's wait.
fn wait_in_kernel(fds: &mut [PollFd<'_>], until: Option<Deadline>) -> io::Result<()> {
    let left = match until.map(Deadline::left) {
        None => None,
        Some(None) => return Err(Errno::AGAIN.into()),
        Some(Some(left)) => Timespec::try_from(left).ok(),
    };
    match poll(fds, left.as_ref()) {
        // Whether its time is over is seen at the next turn, after one more try.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as there is a handle.
        unsafe { BorrowedFd::borrow_raw(self.raw_fd()) }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let slot = self.slot;
        if slot.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let borrowed = slot.borrowed.load(Ordering::Relaxed);
        slot.clear();
        let fd = slot.fd.swap(NO_FD, Ordering::Relaxed);
        if fd != NO_FD && !borrowed {
            // SAFETY: the last handle's, so no borrow of it is left.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        slab::give(slot);
    }
}
