//! Sockets of a transport that threads receive from: each thread has its own, of one group.
//!
//! A thread's [`Receiver`] hands over what has come to one socket. The transport still polls all of them,
//! in the place of threads that have no turn, and at the end takes what is left: a socket may have both
//! at once. What they share is counted in atomics.

use super::Shared;
use super::batch::{BATCH, Batch};
use crate::{InFlight, Peer, Socket, Waiter};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whom the transport tells of its end.
#[derive(Default)]
pub(super) struct Receivers {
    pub(super) closing: AtomicBool,
    sockets: Mutex<Vec<Arc<dyn Socket>>>,
    open: AtomicUsize,
}

impl Receivers {
    /// The receivers are to end.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        let sockets =
            std::mem::take(&mut *self.sockets.lock().unwrap_or_else(PoisonError::into_inner));
        sockets.iter().for_each(|socket| socket.nudge());
    }

    /// Whether one may still hand something over.
    pub(super) fn any(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }
}

/// Datagrams that threads receive, each from sockets of its own: see [`crate::Transport::lend_datagrams`].
#[derive(Clone)]
pub struct Datagrams {
    pub(super) shared: Arc<Shared>,
    /// Of each thread.
    pub(super) sockets: usize,
    pub(super) limit: usize,
}

impl Datagrams {
    /// The owner of `waiter` does not wait for them.
    pub fn unwatch(&self, waiter: &Waiter) {
        self.shared.sockets.iter().for_each(|socket| waiter.forget(socket.as_fd()));
    }

    /// For the thread of that number: one for each of its sockets.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn receivers(&self, thread: usize) -> io::Result<Vec<(OwnedFd, Receiver)>> {
        let own = thread * self.sockets..(thread + 1) * self.sockets;
        own.map(|index| {
            let socket = self.shared.sockets[index].try_clone()?;
            let (shared, batch) = (self.shared.clone(), Batch::new(self.limit));
            shared.receivers.open.fetch_add(1, Ordering::SeqCst);
            Ok((socket, Receiver { shared, index: index as u16, batch }))
        })
        .collect()
    }
}

/// A thread's, of one socket.
pub struct Receiver {
    shared: Arc<Shared>,
    index: u16,
    batch: Batch,
}

impl Receiver {
    /// The thread waits by `socket` from now on, which is nudged at the end.
    pub fn waits_by(&self, socket: Arc<dyn Socket>) {
        let receivers = &self.shared.receivers;
        receivers.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    }

    /// The thread is to end, and leaves what there is to the transport.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared.receivers.closing.load(Ordering::SeqCst)
    }

    /// Hands over what one system call brings, and says how many were malformed; `None`: nothing has
    /// come. `each` may wait.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8], Peer, InFlight)) -> Option<u64> {
        let shared = &self.shared;
        let socket = shared.sockets[usize::from(self.index)].as_fd();
        let got = match self.batch.receive(socket, BATCH) {
            Ok(got) => got,
            Err(Errno::AGAIN) => return None,
            Err(_) => {
                shared.receive_errors.fetch_add(1, Ordering::Relaxed);
                return Some(0);
            }
        };
        let mut malformed = 0;
        for datagram in self.batch.received(got) {
            match datagram {
                Some((from, payload)) => {
                    if shared.take(from) {
                        let peer = Peer::Udp { socket: self.index, from };
                        each(payload, peer, InFlight::datagram(shared.clone(), from));
                    }
                }
                None => malformed += 1,
            }
        }
        Some(malformed)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.receivers.open.fetch_sub(1, Ordering::SeqCst);
    }
}
