//! A server's port that the core allocator has for it: datagrams come from the kthreads' rings, and
//! answers go the same way back. The ingress loop has no part in it but the end.
//!
//! On each kthread a thread takes packets in and makes a thread of each, as a connection's does
//! (`super::connection`). The request's thread answers; it waits where the ring is full, so that no
//! answer is lost while the daemon takes them.

use super::context::{KthreadsShared, Refused, WorkerContext};
use super::request::{Body, Packet, Request, RequestOrigin};
use crate::ask::tag;
use curtail_net::{Intake, Outcome, Peer, Reply, Status, Transport};
use curtail_rt::clock;
use curtail_rt::thread::{Builder, KThread, Port, Sent, current, yield_now};
use curtail_shm::{Answer, Arrival};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A daemon that takes no answers for so long is not waited for.
const PATIENCE_NS: u64 = 100_000_000;

/// What the ingress loop sees of the port: a transport that brings nothing.
pub(in crate::server) struct PortLine {
    port: Arc<Port>,
    /// Never readable: nothing comes this way.
    silent: OwnedFd,
}

impl PortLine {
    pub(in crate::server) fn new(port: Arc<Port>) -> io::Result<Self> {
        Ok(Self { port, silent: eventfd(0, EventfdFlags::CLOEXEC)? })
    }
}

impl Transport for PortLine {
    fn poll(&mut self, _: u64, _: &mut dyn Intake) -> Status {
        if self.port.is_closed() { Status::Closed } else { Status::Open }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(PortReply(self.port.clone()))
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.silent.as_raw_fd()]
    }

    fn close(&mut self) {
        self.port.close();
    }

    fn brings(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        format!("daemon+{}", self.port.url())
    }
}

/// Counts what could not be sent; answers go through the rings.
struct PortReply(Arc<Port>);

impl Reply for PortReply {
    fn reply(&self, _: Peer, _: &[u8]) {}

    fn dropped(&self) -> u64 {
        self.0.unsent()
    }
}

/// The calling kthread takes packets in from now on.
pub(super) fn start(common: &Arc<KthreadsShared>, port: &Arc<Port>) -> io::Result<()> {
    let port_loop = PortLoop { common: common.clone(), port: port.clone(), arrivals: Vec::new() };
    Builder::new().start_here(move || port_loop.serve(), false).map(drop)
}

/// The thread that takes packets in.
struct PortLoop {
    common: Arc<KthreadsShared>,
    port: Arc<Port>,
    arrivals: Vec<Arrival>,
}

impl PortLoop {
    /// Until the server closes.
    fn serve(mut self) {
        let kthread = KThread::here();
        let Some(client) = kthread.client() else { return };
        client.set_porter(current());
        self.port.add_porter(current());
        while !self.port.is_closed() {
            let session = client.take_packets(&mut self.arrivals);
            let mut arrivals = std::mem::take(&mut self.arrivals);
            let any = !arrivals.is_empty();
            arrivals.drain(..).for_each(|arrival| self.submit(&arrival, session));
            self.arrivals = arrivals;
            if any {
                kthread.share_spare();
            }
            // The kthread tells of more when it has looked around.
            client.wait_for_packets();
        }
    }

    fn submit(&self, arrival: &Arrival, session: u32) {
        let (context, common) = (WorkerContext::here(), &*self.common);
        let Some(payload) = arrival.payload() else { return common.note_malformed() };
        let mut request = context.take_request();
        let Request { origin, body, .. } = &mut *request;
        body.payload.extend_from_slice(payload);
        body.tag = tag(payload);
        // No transport answers it.
        origin.peer = Peer::None;
        // The daemon's word: no request has come from the future.
        origin.arrived_tsc = arrival.arrived_tsc.min(clock::now());
        body.packet =
            Some(Packet { peer: arrival.peer, arrived_tsc: arrival.arrived_tsc, session });
        if let Err(why) = context.admit(&mut request) {
            if why == Refused::Malformed {
                request.body.outcome = Outcome::Failed;
            }
            let Request { origin, body, .. } = &mut *request;
            self.turn_away(origin, body);
            return context.put_away(request);
        }
        context.start(request);
    }

    /// Answers what is never run.
    fn turn_away(&self, origin: &RequestOrigin, body: &mut Body) {
        (body.started_tsc, body.finished_tsc) = (origin.arrived_tsc, clock::now());
        answer(&self.port, origin, body);
    }
}

/// What a request that came by the port is answered, and what became of it.
fn to_answer(port: &Port, (origin, body): (&RequestOrigin, &Body), packet: &Packet) -> Answer {
    let mut answer = Answer::to(packet.peer, packet.arrived_tsc);
    answer.started_tsc = body.started_tsc;
    answer.finished_tsc = body.finished_tsc;
    answer.ran_cycles = body.ran_cycles;
    answer.tag = body.tag;
    answer.preemptions = body.preemptions;
    answer.request_bytes = body.payload.len() as u32;
    answer.class = origin.class.0;
    let fits = answer.set_payload(body.response.as_bytes());
    if !fits {
        port.count_unsent();
    }
    answer.set_outcome(match body.outcome {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::Dropped => 2,
        Outcome::Orphaned => 3,
        Outcome::Cancelled => 4,
        Outcome::Abandoned => 5,
    });
    answer
}

/// Answers a request that came by the port. By a thread, which waits where the daemon has to take
/// others first.
pub(super) fn answer(port: &Port, origin: &RequestOrigin, body: &Body) {
    let Some(packet) = &body.packet else { return };
    let answer = to_answer(port, (origin, body), packet);
    let most = clock::Clock::get().cycles(PATIENCE_NS);
    loop {
        match send(packet, answer) {
            Sent::Yes => return,
            Sent::Later if clock::now() - body.finished_tsc < most => yield_now(),
            Sent::Later | Sent::Never => return port.count_unsent(),
        }
    }
}

/// Answers a request that was never run, where nothing may wait.
pub(super) fn answer_at_once(port: &Port, origin: &RequestOrigin, body: &Body) {
    let Some(packet) = &body.packet else { return };
    if send(packet, to_answer(port, (origin, body), packet)) != Sent::Yes {
        port.count_unsent();
    }
}

fn send(packet: &Packet, answer: Answer) -> Sent {
    KThread::here().client().map_or(Sent::Never, |client| client.send(packet.session, answer))
}
