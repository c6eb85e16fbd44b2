//! Operations of streams that the kthread's ring carries out, where the program has asked for that.

use super::source::{Side, Source, expired};
use super::uring::{self, Asks, Outcome};
use crate::block::Deadline;
use crate::thread::KThread;
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrStorage;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

/// What a ring sends together with others: for more, one more system call is no matter.
const SMALL: usize = 16 << 10;

type Accepted = (OwnedFd, Option<SocketAddrAny>);

impl Source {
    /// Has the kthread's ring carry an operation out, if streams go by that, and waits for its end;
    /// `None`: it is to be tried, and waited for, as elsewhere.
    ///
    /// # Safety
    /// What the entry names is the operation's alone, as it needs it, until this returns.
    #[inline]
    unsafe fn by_ring(
        &self,
        side: Side,
        entry: impl FnOnce(types::Fd) -> Entry,
    ) -> Option<io::Result<usize>> {
        KThread::current_tcb()?;
        KThread::here().ring(Asks::Streams)?;
        if self.may_wait().is_err() || self.slot().borrowed.load(Ordering::Relaxed) {
            return None;
        }
        let until = || self.waiters(side).timeout().and_then(Deadline::after);
        // SAFETY: by contract; the descriptor is open as long as there is a handle.
        let ended =
            unsafe { uring::interruptible(Asks::Streams, entry(types::Fd(self.raw_fd())), until)? };
        match ended {
            Outcome::Done(Ok(value)) => Some(Ok(value as usize)),
            // What cannot wait is waited for elsewhere, and what another kthread has handed over that
            // has ended since.
            Outcome::Done(Err(Errno::AGAIN | Errno::INTR | Errno::CANCELED)) => None,
            Outcome::Done(Err(error)) => Some(Err(self.error(error))),
            Outcome::Early => Some(Err(expired())),
        }
    }

    /// [`Operations::read`](super::Operations::read), where streams go by a ring.
    #[inline]
    pub(super) fn read_by_ring(&self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let (at, len) = (buffer.as_mut_ptr(), u32::try_from(buffer.len()).ok()?);
        let receive = |fd| opcode::Recv::new(fd, at, len).build();
        // SAFETY: the buffer is borrowed until this returns.
        unsafe { self.by_ring(Side::Read, receive) }
    }

    /// [`Operations::write`](super::Operations::write), where streams go by a ring, and there are
    /// others, or may be soon: alone, it would only be later.
    #[inline]
    pub(super) fn write_by_ring(&self, data: &[u8]) -> Option<io::Result<usize>> {
        KThread::current_tcb()?;
        let ring = KThread::here().ring(Asks::Streams)?.ring()?;
        if data.len() > SMALL || !(ring.has_queued() || KThread::here().has_threads()) {
            return None;
        }
        let (at, len) = (data.as_ptr(), data.len() as u32);
        let send = |fd| opcode::Send::new(fd, at, len).flags(libc::MSG_NOSIGNAL).build();
        // SAFETY: the data is borrowed until this returns.
        unsafe { self.by_ring(Side::Write, send) }
    }

    /// [`Operations::accept`](super::Operations::accept), where streams go by a ring.
    pub(super) fn accept_by_ring(&self) -> Option<io::Result<Accepted>> {
        let mut place = MaybeUninit::<SocketAddrStorage>::zeroed();
        let mut len = size_of::<SocketAddrStorage>() as libc::socklen_t;
        let (address, len_at) = (place.as_mut_ptr().cast(), &raw mut len);
        let accept =
            |fd| opcode::Accept::new(fd, address, len_at).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: both places are here until this returns.
        let fd = match unsafe { self.by_ring(Side::Read, accept)? } {
            Ok(fd) => fd as RawFd,
            // It was gone before it was accepted (accept(2)): the next one.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::CONNABORTED) => return None,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: new, and the caller's alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let has_address = len as usize >= size_of::<libc::sa_family_t>();
        // SAFETY: the kernel has written so much of it.
        let from = has_address.then(|| unsafe { SocketAddrAny::read(place.as_ptr(), len) });
        Some(Ok((fd, from)))
    }
}
