//! A request under a policy without a dispatcher: what came, what is answered, and the thread that
//! serves it, in one place.
//!
//! It belongs to the side that hands it in, the ingress loop (`super::ingress_loop`) or a connection's thread
//! (`super::connection`); to the kthread that has its thread, until that has ended; and then to
//! that kthread, for the next request of a connection, or to the ingress loop, which learns of it through
//! [`super::context::KthreadsShared::done`].

use crate::Response;
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_net::{Completion, InFlight, Outcome, Peer};
use curtail_policy::ClassId;
use curtail_ring::Linked;
use curtail_rt::clock::{self, Clock};
use curtail_rt::context::NEVER;
use curtail_rt::thread::{Task, TaskVtable};
use curtail_shm::PeerWords;
use std::cell::Cell;
use std::sync::atomic::AtomicPtr;

/// A larger buffer is not kept when its request has left.
const KEEP_BYTES: usize = 16 << 10;

/// A request that has been here for so long is worth a system call, each time.
const LONG_NS: u64 = 100_000;

/// A request under a policy without a dispatcher.
#[repr(C)]
pub(super) struct Request {
    /// First, so that a pointer to one is a pointer to the other.
    task: Task,
    link: AtomicPtr<Request>,
    pub origin: RequestOrigin,
    pub body: Body,
}

/// Where it comes from. While it is in progress nothing changes it, and its kthread may look.
pub(super) struct RequestOrigin {
    pub class: ClassId,
    pub peer: Peer,
    pub transport: u16,
    pub arrived_tsc: u64,
    /// When it is cancelled; [`NEVER`]: not by time.
    pub deadline_tsc: u64,
    /// Its connection's account, where a connection's thread has brought it; none: the ingress loop has.
    pub in_flight: Option<InFlight>,
    /// When its peer was last looked for, if it was.
    pub looked_tsc: Cell<u64>,
}

/// What its owner of the moment reads and writes.
pub(super) struct Body {
    pub tag: u64,
    pub payload: Vec<u8>,
    pub response: Response,
    pub outcome: Outcome,
    /// 0: it was never run.
    pub started_tsc: u64,
    pub finished_tsc: u64,
    pub ran_cycles: u64,
    /// When the machine had last taken time away from its kthread, by its end (TSC).
    pub gap_tsc: u64,
    pub preemptions: u32,
    /// Its handler has begun.
    pub began: bool,
    /// It came by the core allocator's port.
    pub packet: Option<Packet>,
}

/// Where a request that came by the core allocator's port came from.
pub(super) struct Packet {
    pub peer: PeerWords,
    /// As the daemon said.
    pub arrived_tsc: u64,
    /// By which session.
    pub session: u32,
}

impl RequestOrigin {
    pub(super) fn none() -> Self {
        Self {
            class: ClassId(0),
            peer: Peer::None,
            transport: 0,
            arrived_tsc: 0,
            deadline_tsc: NEVER,
            in_flight: None,
            looked_tsc: Cell::new(0),
        }
    }

    /// Whether its peer has gone, where it has been here for long and that was not asked just now.
    /// (The connection's thread, which would have seen it, may wait for the same kthread.)
    pub(super) fn has_hung_up(&self, now: u64, clock: Clock) -> bool {
        let Some(in_flight) = &self.in_flight else { return false };
        let since = self.arrived_tsc.max(self.looked_tsc.get());
        if clock.ns(now.saturating_sub(since)) <= LONG_NS {
            return false;
        }
        self.looked_tsc.set(now);
        in_flight.has_hung_up()
    }
}

// SAFETY: the link is the same cell each time, and only the queue of those that have ended uses it.
unsafe impl Linked for Request {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

impl Request {
    /// One that nothing has come for yet.
    pub(super) fn new(vtable: &'static TaskVtable) -> Box<Self> {
        Box::new(Self {
            task: Task::new(vtable),
            link: AtomicPtr::default(),
            origin: RequestOrigin::none(),
            body: Body {
                tag: 0,
                payload: Vec::new(),
                response: Response::default(),
                outcome: Outcome::Dropped,
                started_tsc: 0,
                finished_tsc: 0,
                ran_cycles: 0,
                gap_tsc: 0,
                preemptions: 0,
                began: false,
                packet: None,
            },
        })
    }

    /// As new, for the next request; its buffers stay, if they are not large.
    fn renew(&mut self) {
        let body = &mut self.body;
        body.response.clear();
        body.payload.clear();
        if body.payload.capacity() > KEEP_BYTES {
            body.payload = Vec::new();
        }
        body.outcome = Outcome::Dropped;
        body.tag = 0;
        (body.started_tsc, body.finished_tsc) = (0, 0);
        (body.ran_cycles, body.preemptions, body.began) = (0, 0, false);
        body.gap_tsc = 0;
        body.packet = None;
        self.origin.in_flight = None;
    }

    /// What became of it. `last_gap`: when the machine last took time from the thread that tells it (TSC).
    pub(super) fn completion(&self, last_gap: u64) -> Completion {
        let Self { origin, body, .. } = self;
        Completion {
            peer: origin.peer,
            class: origin.class.0,
            outcome: body.outcome,
            tag: body.tag,
            request_bytes: body.payload.len() as u32,
            arrived_tsc: origin.arrived_tsc,
            started_tsc: body.started_tsc,
            finished_tsc: body.finished_tsc,
            ran_cycles: body.ran_cycles,
            preemptions: body.preemptions,
            disturbed: last_gap.max(body.gap_tsc) >= origin.arrived_tsc,
        }
    }

    /// Makes it one that can be handed in.
    pub(super) fn lend(self: Box<Self>) -> *mut Task {
        let class = self.origin.class.0;
        let task: *mut Task = Box::into_raw(self).cast();
        // SAFETY: from a box, which stays where it is until `Request::back`; the thread is its
        // first field, and this pointer is good for all of it.
        unsafe { Task::renew(task, class) };
        task
    }

    /// What was lent, its owner's again.
    ///
    /// # Safety
    /// It comes from [`Request::lend`], and its thread has ended, or was never started and never
    /// will be.
    pub(super) unsafe fn back(request: *mut Self) -> Box<Self> {
        // SAFETY: by contract.
        unsafe { Box::from_raw(request) }
    }
}

/// Requests that are kept for the next ones.
pub(super) struct SpareRequests {
    #[allow(clippy::vec_box, reason = "a request has one address for life")]
    kept: Vec<Box<Request>>,
    /// Of their buffers.
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl SpareRequests {
    /// At most so many, with so many bytes.
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { kept: Vec::new(), bytes: 0, most, most_bytes }
    }

    pub(super) fn pop(&mut self) -> Option<Box<Request>> {
        let request = self.kept.pop()?;
        self.bytes -= request.body.payload.capacity();
        Some(request)
    }

    /// Keeps a request, as new, if there is room for it.
    pub(super) fn put_away(&mut self, mut request: Box<Request>) {
        request.renew();
        let bytes = self.bytes + request.body.payload.capacity();
        if self.kept.len() < self.most && bytes <= self.most_bytes {
            self.bytes = bytes;
            self.kept.push(request);
        }
    }
}

/// Whether a request's peer has gone, which the kernel is asked now and then: while it computes,
/// its connection's thread may have no turn.
///
/// # Safety
/// `task` is a request's, in progress.
pub(super) unsafe fn left(task: *const Task) -> bool {
    // SAFETY: by contract; nothing but the time of the last look changes meanwhile.
    let origin = unsafe { &(*task.cast::<Request>()).origin };
    enter_critical();
    let left = origin.has_hung_up(clock::now(), Clock::get());
    leave_critical();
    left
}
