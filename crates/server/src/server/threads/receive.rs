//! Threads that receive datagrams: one on each kthread for each address, from a socket of its own, so
//! that none receives for others ([`curtail_net::Datagrams`]).
//!
//! **What comes to a busy kthread.** Its thread waits for its turn like any other. As soon as its
//! kthread or an idle one looks at the socket, it is ready, and goes on where there is room. Where none
//! looks, since one runs something long and the others sleep, the ingress loop does.
//!
//! **The ingress loop** receives what lies in all sockets, each [`LOOK`] while requests are in the
//! system, or have just been. It sleeps for longer only while none is; the first request then wakes it
//! ([`LongSleep`]).
//!
//! Under a core allocator all datagrams are the ingress loop's: there most kthreads have no core most of
//! the time.

use super::context::{KthreadsShared, Refused, WorkerContext};
use crate::ask::tag;
use curtail_net::{Datagrams, InFlight, Peer, Receiver};
use curtail_rt::socket::{Side, Source};
use curtail_rt::thread::{Builder, KThread, yield_now};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::server::threads::receive";

/// How often the ingress loop looks at all sockets.
pub(super) const LOOK: Duration = Duration::from_micros(500);

/// Where so many requests lie on a kthread that have not started, its socket is read after so many turns
/// of theirs.
const BACKLOG: usize = 64;

/// Whether the ingress loop sleeps for long, where datagrams come to the kthreads.
pub(super) struct LongSleep {
    /// Datagrams come to the kthreads.
    pub lent: bool,
    asleep: AtomicBool,
}

impl LongSleep {
    pub(super) fn new(lent: bool) -> Self {
        Self { lent, asleep: AtomicBool::new(false) }
    }

    /// The ingress loop is going to sleep for long, if it then finds no request in the system.
    pub(super) fn begin(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // A request that is let in from here on sees this, or is seen.
        fence(Ordering::SeqCst);
    }
}

impl KthreadsShared {
    pub(super) fn wake_ingress_loop(&self) {
        self.ingress_loop.iter().for_each(|ingress_loop| ingress_loop.parker.unpark());
    }

    /// A request starts.
    #[inline]
    pub(super) fn end_long_sleep(&self) {
        let LongSleep { lent, asleep } = &self.long_sleep;
        if !lent {
            return;
        }
        fence(Ordering::SeqCst);
        if asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::Relaxed) {
            self.wake_ingress_loop();
        }
    }
}

/// The calling kthread receives datagrams of that transport from now on.
pub(super) fn start(
    common: &Arc<KthreadsShared>,
    datagrams: &Datagrams,
    transport: u16,
) -> io::Result<()> {
    for (socket, receiver) in datagrams.receivers(WorkerContext::here().index)? {
        let source = Arc::new(Source::new(socket, false));
        receiver.waits_by(source.clone());
        let receive_loop = ReceiveLoop { common: common.clone(), source, receiver, transport };
        drop(Builder::new().start_here(move || receive_loop.serve(), true)?);
    }
    Ok(())
}

/// A thread that receives. It may go on on another kthread whenever it waits.
struct ReceiveLoop {
    common: Arc<KthreadsShared>,
    source: Arc<Source>,
    receiver: Receiver,
    transport: u16,
}

impl ReceiveLoop {
    /// Until the server closes.
    fn serve(mut self) {
        while !self.receiver.is_closing() {
            let ticks = self.source.ticks(Side::Read);
            if self.receive() {
                continue;
            }
            if let Err(error) = self.source.wait(Side::Read, ticks, None) {
                tracing::warn!(target: LOG, %error, "receiving datagrams");
                curtail_rt::time::sleep(LOOK);
            }
        }
        let Self { common, receiver, .. } = self;
        // What is left is the transport's, which ends after this.
        drop(receiver);
        common.wake_ingress_loop();
    }

    /// Takes what one call brings; false: nothing has come.
    fn receive(&mut self) -> bool {
        // Those that are here go first, as with connections.
        for _ in 0..BACKLOG {
            if KThread::here().spare_threads() < BACKLOG {
                break;
            }
            yield_now();
        }
        let (common, transport) = (&*self.common, self.transport);
        let submit =
            |payload: &[u8], peer, in_flight| submit(common, transport, payload, peer, in_flight);
        let Some(malformed) = self.receiver.receive(submit) else { return false };
        common.malformed.fetch_add(malformed, Ordering::Relaxed);
        KThread::here().share_spare();
        KThread::spend();
        true
    }
}

/// A datagram becomes a request. The application, which is asked about it, may wait: after that this
/// may be another kthread.
fn submit(
    common: &KthreadsShared,
    transport: u16,
    payload: &[u8],
    peer: Peer,
    in_flight: InFlight,
) {
    let mut request = WorkerContext::here().take_request();
    request.body.payload.extend_from_slice(payload);
    request.body.tag = tag(payload);
    request.origin.arrived_tsc = curtail_rt::clock::now();
    if let Err(why) = WorkerContext::here().admit(&mut request) {
        if why == Refused::NoRoom {
            request.body.response.send(&*common.replies[usize::from(transport)], peer);
        }
        return WorkerContext::here().put_away(request);
    }
    request.origin.peer = peer;
    request.origin.transport = transport;
    request.origin.in_flight = Some(in_flight);
    WorkerContext::here().start(request);
}
