//! Threads that accept connections: one on each kthread for each listener, so that none waits for a
//! kthread that is busy.
//!
//! A connection's thread stays where it starts. So it starts on the kthread that has the fewest, which
//! may be another than the one that has accepted it: then it goes through that one's [`AcceptQueue`], behind
//! which a thread that accepts there starts it.

use super::connection::Connection;
use super::context::{KthreadsShared, WorkerContext};
use curtail_net::{Accepted, Acceptor, Streams};
use curtail_rt::block::Deadline;
use curtail_rt::socket::{Side, Source};
use curtail_rt::thread::{Builder, KThread};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::server::threads::accept";

/// Where no descriptor is left, it looks again after this time.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// Where a kthread gets connections that others have accepted.
#[derive(Default)]
pub(super) struct AcceptQueue {
    /// Connections that are there or on their way.
    connections: AtomicUsize,
    arrivals: Mutex<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    waiting: Vec<Connection>,
    /// Listeners of threads there that accept, and so start what has arrived.
    listeners: Vec<Arc<Source>>,
}

impl AcceptQueue {
    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        // Nothing in here panics half-way.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calling kthread accepts connections of that transport from now on.
pub(super) fn start(
    common: &Arc<KthreadsShared>,
    streams: &Streams,
    transport: u16,
) -> io::Result<()> {
    let index = WorkerContext::here().index;
    for listener in streams.listeners()? {
        let listener = Arc::new(Source::new(listener, false));
        let acceptor = streams.acceptor(listener.clone());
        common.accept_queues[index].arrivals().listeners.push(listener.clone());
        let accept_loop = AcceptLoop { common: common.clone(), index, listener, transport };
        drop(Builder::new().start_here(move || accept_loop.serve(&acceptor), false)?);
    }
    Ok(())
}

/// A thread that accepts.
struct AcceptLoop {
    common: Arc<KthreadsShared>,
    index: usize,
    listener: Arc<Source>,
    transport: u16,
}

impl AcceptLoop {
    fn accept_queue(&self) -> &AcceptQueue {
        &self.common.accept_queues[self.index]
    }

    /// Until the server closes.
    fn serve(&self, acceptor: &Acceptor) {
        loop {
            let ticks = self.listener.ticks(Side::Read);
            let arrived = std::mem::take(&mut self.accept_queue().arrivals().waiting);
            arrived.into_iter().for_each(|connection| self.begin(connection));
            if acceptor.is_closing() {
                return;
            }
            let again = match self.accept(acceptor) {
                true => None,
                false => Deadline::after(SHORT_OF_DESCRIPTORS),
            };
            if let Err(error) = self.listener.wait(Side::Read, ticks, again)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                tracing::warn!(target: LOG, %error, "accepting connections");
                curtail_rt::time::sleep(SHORT_OF_DESCRIPTORS);
            }
        }
    }

    /// Accepts what waits; false: there are no descriptors for it.
    fn accept(&self, acceptor: &Acceptor) -> bool {
        loop {
            // Clients that never cease to come keep nobody else waiting.
            KThread::spend();
            match acceptor.accept(self.listener.as_fd()) {
                Accepted::Socket(socket) => {
                    let source = Arc::new(Source::of_one_thread(socket));
                    if let Some(stream) = acceptor.admit(source.clone()) {
                        self.place(Connection::new(stream, source, self.transport));
                    }
                }
                Accepted::Gone => {}
                Accepted::Nothing => return true,
                Accepted::Short => return false,
            }
        }
    }

    /// Has a connection begin where the fewest are.
    fn place(&self, connection: Connection) {
        let accept_queues = &self.common.accept_queues;
        let count = |accept_queue: &AcceptQueue| accept_queue.connections.load(Relaxed);
        // Of equals, its own.
        let others = (0..accept_queues.len()).filter(|&index| index != self.index);
        let least = others.min_by_key(|&index| count(&accept_queues[index]));
        let least =
            least.filter(|&other| count(&accept_queues[other]) < count(self.accept_queue()));
        let Some(connection) = self.hand_on(connection, least) else { return };
        self.accept_queue().connections.fetch_add(1, Relaxed);
        self.begin(connection);
    }

    /// Has a connection begin on another kthread; gives it back where that accepts none, not yet or
    /// not any more.
    fn hand_on(&self, connection: Connection, to: Option<usize>) -> Option<Connection> {
        let Some(accept_queue) = to.map(|index| &self.common.accept_queues[index]) else {
            return Some(connection);
        };
        let mut arrivals = accept_queue.arrivals();
        let Some(accept_loop) = arrivals.listeners.last().cloned() else { return Some(connection) };
        accept_queue.connections.fetch_add(1, Relaxed);
        arrivals.waiting.push(connection);
        drop(arrivals);
        accept_loop.nudge();
        None
    }

    /// A connection begins here.
    fn begin(&self, connection: Connection) {
        let counted = Counted(self.common.clone(), self.index);
        let life = move || {
            let _counted = counted;
            connection.serve();
        };
        if let Err(error) = Builder::new().start_here(life, false) {
            tracing::error!(target: LOG, %error, "no thread for a connection");
        }
    }
}

impl Drop for AcceptLoop {
    fn drop(&mut self) {
        let mut arrivals = self.accept_queue().arrivals();
        arrivals.listeners.retain(|listener| !Arc::ptr_eq(listener, &self.listener));
        let left = match arrivals.listeners.is_empty() {
            true => std::mem::take(&mut arrivals.waiting),
            false => Vec::new(),
        };
        drop(arrivals);
        drop(left); // They are closed.
    }
}

/// A connection that is on a kthread.
struct Counted(Arc<KthreadsShared>, usize);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.accept_queues[self.1].connections.fetch_sub(1, Relaxed);
    }
}
