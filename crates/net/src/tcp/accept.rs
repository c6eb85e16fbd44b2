//! New connections, and what happens to those that there is no place for.

use super::Tcp;
use super::connection::Connection;
use super::streams::Streams;
use crate::socket;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Connections accepted in one poll from one listener; the rest keeps it readable.
const MOST_ACCEPTS: usize = 8;

impl Tcp {
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..MOST_ACCEPTS {
            let Some(socket) = self.listeners.get(listener) else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match accept_with(socket, flags) {
                Ok(socket) => self.admit(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) => {
                    if !self.shed(listener) {
                        return;
                    }
                }
                Err(error) => {
                    self.shared.counters.accept_errors.fetch_add(1, Relaxed);
                    if !is_of_one_connection(error) {
                        return;
                    }
                }
            }
        }
    }

    /// From now on threads accept and read; `None`: connections have come already.
    pub(super) fn lend(&mut self) -> Option<Streams> {
        let is_new = self.free.len() == self.connections.len() && !self.closing;
        if !is_new || self.lent.is_some() {
            return None;
        }
        let listeners = std::mem::take(&mut self.listeners);
        for listener in &listeners {
            epoll::delete(&self.shared.epoll, listener).ok()?;
        }
        self.shared.by_threads.store(true, Relaxed);
        let (shared, config) = (self.shared.clone(), self.config.clone());
        let streams = Streams::new(shared, config, listeners, self.again.clone());
        self.lent = Some(streams.clone());
        Some(streams)
    }

    fn admit(&mut self, socket: OwnedFd) {
        let counters = &self.shared.counters;
        let Some(&slot) = self.free.last() else {
            // Closed at once: the peer learns more from that than from silence.
            counters.refused.fetch_add(1, Relaxed);
            return;
        };
        let socket = Arc::new(socket);
        let Ok(generation) = self.shared.open(slot, socket.clone()) else {
            counters.refused.fetch_add(1, Relaxed);
            return;
        };
        counters.accepted.fetch_add(1, Relaxed);
        self.free.pop();
        let connection = Connection::new(socket, generation, self.config.framer());
        self.connections[slot as usize] = Some(connection);
        let look = self.config.idle.and_then(|idle| Instant::now().checked_add(idle / 2));
        if let Some(at) = look {
            self.look_at(slot, at);
        }
    }

    /// No descriptors are left. A connection that is never accepted would keep the listener
    /// readable and wake the dispatcher again and again. So one is accepted by means of the spare
    /// descriptor, and closed. Returns whether that worked.
    fn shed(&mut self, listener: usize) -> bool {
        let had_spare = self.spare.take().is_some();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = had_spare && accept_with(&self.listeners[listener], flags).is_ok();
        if accepted {
            self.shared.counters.refused.fetch_add(1, Relaxed);
        }
        self.spare = spare();
        accepted
    }
}

/// Whether the next connection may be accepted at once. A client that gave up while waiting is gone
/// already, and network errors of a connection yet to be accepted are reported as well (accept(2)); all
/// else, such as no memory, is so the next time, too.
pub(super) fn is_of_one_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::TIMEDOUT
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
    )
}

/// Bytes of responses that the kernel takes for a connection beyond what it has sent.
const KERNEL_UNSENT: u32 = 128 << 10;

/// What accepted connections are to inherit from their listener.
pub(super) fn prepare(listener: impl AsFd, keepalive: Option<Duration>) -> Result<(), Errno> {
    /// Between two questions, and how many a peer may leave unanswered.
    const AGAIN: Duration = Duration::from_secs(10);
    const QUESTIONS: u32 = 3;
    let listener = listener.as_fd();
    // Responses are whole frames, written at once: waiting to fill a segment only delays them.
    sockopt::set_tcp_nodelay(listener, true)?;
    socket::limit_unsent(listener, KERNEL_UNSENT)?;
    if let Some(quiet) = keepalive {
        let quiet = quiet.clamp(Duration::from_secs(1), Duration::from_secs(32_767));
        sockopt::set_tcp_keepidle(listener, quiet)?;
        sockopt::set_tcp_keepintvl(listener, AGAIN)?;
        sockopt::set_tcp_keepcnt(listener, QUESTIONS)?;
        sockopt::set_socket_keepalive(listener, true)?;
        // Questions are asked only where nothing waits to be acknowledged; this is for the others.
        let patience = quiet + AGAIN * QUESTIONS;
        sockopt::set_tcp_user_timeout(listener, patience.as_millis() as u32)?;
    }
    Ok(())
}

/// A descriptor to give up in need.
pub(super) fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_the_next_time_too_is_no_error_of_one_connection() {
        for error in [Errno::NOBUFS, Errno::NOMEM, Errno::INVAL, Errno::BADF, Errno::MFILE] {
            assert!(!is_of_one_connection(error), "{error}");
        }
        assert!(is_of_one_connection(Errno::CONNABORTED));
    }
}
