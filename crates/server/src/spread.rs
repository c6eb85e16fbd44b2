//! The transports of several dispatchers.
//!
//! A transport of sockets is split: each dispatcher has sockets of its own, and the kernel deals out
//! what comes ([`Transport::split`]); so is one over a device's queues, where they suffice. Any other is polled by all dispatchers, one at a time
//! ([`Shared`]): who has room takes what has come, and tells it what became of that.

use curtail_net::{Completion, Intake, Kept, OpenError, Peer, Reply, Status, Transport};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The transports that each of so many dispatchers polls.
pub(crate) fn spread(
    transports: Vec<Box<dyn Transport>>,
    dispatchers: usize,
) -> Result<Vec<Vec<Box<dyn Transport>>>, OpenError> {
    let mut each: Vec<Vec<_>> = (0..dispatchers).map(|_| Vec::new()).collect();
    for mut transport in transports {
        let parts = match dispatchers {
            1 => vec![transport],
            _ if transport.splits(dispatchers) => {
                let others = transport.split(dispatchers)?;
                std::iter::once(transport).chain(others).collect()
            }
            _ => share(transport, dispatchers),
        };
        each.iter_mut().zip(parts).for_each(|(own, part)| own.push(part));
    }
    Ok(each)
}

fn share(transport: Box<dyn Transport>, dispatchers: usize) -> Vec<Box<dyn Transport>> {
    let inner = Arc::new(Mutex::new(Inner { transport, closing: false }));
    let part = |index| -> Box<dyn Transport> {
        Box::new(Shared { inner: inner.clone(), reports: index == 0 })
    };
    (0..dispatchers).map(part).collect()
}

struct Inner {
    transport: Box<dyn Transport>,
    closing: bool,
}

/// What a dispatcher has of a transport that all of them poll.
///
/// The lock is held for one call. A dispatcher that finds another one polling goes on: what that one
/// leaves is left for want of its room, so it looks again; or the descriptors tell of it, to all.
struct Shared {
    inner: Arc<Mutex<Inner>>,
    /// What it counts is reported once.
    reports: bool,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Shared {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        match self.inner.try_lock() {
            Ok(mut inner) => inner.transport.poll(now_tsc, into),
            Err(TryLockError::WouldBlock) => Status::Open,
            // It panicked, and ends the server.
            Err(TryLockError::Poisoned(_)) => Status::Closed,
        }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        let reply = self.inner().transport.reply();
        if self.reports { reply } else { Arc::new(Uncounted(reply)) }
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.inner().transport.wait_fds()
    }

    fn before_wait(&mut self) -> bool {
        self.inner().transport.before_wait()
    }

    fn completed(&mut self, completion: &Completion) {
        self.inner().transport.completed(completion);
    }

    fn close(&mut self) {
        let mut inner = self.inner();
        if !std::mem::replace(&mut inner.closing, true) {
            inner.transport.close();
        }
    }

    fn describe(&self) -> String {
        self.inner().transport.describe()
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner().transport.local_addrs()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        if self.reports { self.inner().transport.counters() } else { Vec::new() }
    }
}

/// Sends by a transport whose losses another one reports.
struct Uncounted(Arc<dyn Reply>);

impl Reply for Uncounted {
    fn reply(&self, to: Peer, payload: &[u8]) {
        self.0.reply(to, payload);
    }

    fn refuse(&self, to: Peer) {
        self.0.refuse(to);
    }

    fn dropped(&self) -> u64 {
        0
    }

    fn is_gone(&self, peer: Peer) -> bool {
        self.0.is_gone(peer)
    }

    fn with_state(&self, peer: Peer, f: &mut dyn FnMut(&mut Kept)) -> bool {
        self.0.with_state(peer, f)
    }
}
