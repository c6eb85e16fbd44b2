//! A kthread's part in serving requests: the handler, and what is around it.
//!
//! [`KthreadsShared`] is shared by the kthreads and the ingress loop. A [`WorkerContext`] is one kthread's: it is made there,
//! and the threads that serve requests find it by [`WorkerContext::here`], since what has started stays.

use super::accept::AcceptQueue;
use super::asked::Asked;
use super::counters::KthreadCounters;
use super::looks::{Looks, noticed};
use super::port;
use super::quota::AdmissionQuota;
use super::receive::LongSleep;
use super::request::{Request, RequestOrigin, SpareRequests, left};
use crate::app::ErasedApp;
use crate::classify::Classifier;
use crate::remote::Remote;
use crate::serve::{Serving, serve};
use crate::server::Rules;
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_net::{Outcome, Peer, Reply};
use curtail_policy::{ClassId, WorkerId};
use curtail_ring::{CachePadded, Inbox};
use curtail_rt::cancel::{Cause, OnCancel};
use curtail_rt::clock::{self, Clock};
use curtail_rt::contain::contain;
use curtail_rt::context::{Facts, NEVER, RequestId};
use curtail_rt::thread::{KThread, Port, Task, TaskVtable};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the kthreads and the ingress loop share.
pub(super) struct KthreadsShared {
    pub app: Arc<dyn ErasedApp>,
    /// By transport.
    pub replies: Arc<[Arc<dyn Reply>]>,
    /// Requests that have ended, on their way back to the ingress loop.
    pub done: CachePadded<Inbox<Request>>,
    /// By kthread.
    pub counters: Box<[CachePadded<KthreadCounters>]>,
    pub clock: Clock,
    /// The ingress loop's, to wake it; none: it never sleeps.
    pub ingress_loop: Option<Arc<Remote>>,
    pub classifier: Arc<Classifier>,
    pub quota: AdmissionQuota,
    /// Inputs of connections that were no requests.
    pub malformed: AtomicU64,
    /// By kthread.
    pub accept_queues: Box<[AcceptQueue]>,
    /// Of the core allocator.
    pub port: Option<Arc<Port>>,
    pub rules: Arc<Rules>,
    pub asked: Asked,
    pub looks: Looks,
    pub long_sleep: LongSleep,
}

impl KthreadsShared {
    pub(super) fn note_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its classifier panicked.
    Malformed,
    NoRoom,
}

/// Bytes that one read of a connection brings at most.
const READ_BYTES: usize = 64 << 10;
/// So many buffers and requests are kept for the next ones, with so many bytes of requests in all.
const KEEP_BUFFERS: usize = 4;
const KEEP_REQUESTS: usize = 256;
const KEEP_BYTES: usize = 256 << 10;

/// One kthread's.
pub(super) struct WorkerContext {
    pub common: Arc<KthreadsShared>,
    /// Its kthread's number.
    pub index: usize,
    state: Box<dyn Any>,
    buffers: RefCell<Vec<Box<[u8]>>>,
    spare: RefCell<SpareRequests>,
}

const REQUEST: TaskVtable = TaskVtable { facts: Some(facts), ..TaskVtable::of(run) };

/// What the threads of requests do.
pub(super) static VTABLE: TaskVtable =
    TaskVtable { cause, left, rule, ended, may_abandon, abandoned, noticed, ..REQUEST };

impl WorkerContext {
    /// The calling kthread's, from now on and until it is dropped.
    pub(super) fn new(common: Arc<KthreadsShared>, index: usize) -> Result<Box<Self>, String> {
        let state = contain(|| common.app.setup_worker(WorkerId(index as u16)));
        let state = state.ok_or("its setup_worker panicked")?;
        let context = Box::new(Self {
            common,
            index,
            state,
            buffers: RefCell::default(),
            spare: RefCell::new(SpareRequests::new(KEEP_REQUESTS, KEEP_BYTES)),
        });
        KThread::here().post.set((&raw const *context).cast());
        Ok(context)
    }

    pub(super) fn here() -> &'static Self {
        // SAFETY: set as long as the kthread runs threads; what borrows it is a thread or a call of
        // this kthread.
        unsafe { KThread::here().post.get().cast::<Self>().as_ref() }
            .expect("requests run on a server's kthreads")
    }

    fn counters(&self) -> &KthreadCounters {
        &self.common.counters[self.index]
    }

    pub(super) fn common(&self) -> &Arc<KthreadsShared> {
        &self.common
    }

    fn count_refused(&self, class: ClassId) {
        self.counters().refuse(class);
    }

    /// A buffer to read into, given back before its thread waits for the peer.
    pub(super) fn take_buffer(&self) -> Box<[u8]> {
        let kept = self.buffers.borrow_mut().pop();
        kept.unwrap_or_else(|| vec![0; READ_BYTES].into_boxed_slice())
    }

    pub(super) fn give_buffer(&self, buffer: Box<[u8]>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < KEEP_BUFFERS {
            buffers.push(buffer);
        }
    }

    /// A request that nothing has come for.
    pub(super) fn take_request(&self) -> Box<Request> {
        let kept = self.spare.borrow_mut().pop();
        kept.unwrap_or_else(|| Request::new(&VTABLE))
    }

    pub(super) fn put_away(&self, request: Box<Request>) {
        self.spare.borrow_mut().put_away(request);
    }

    /// Asks the application about a request that a thread of this kthread has brought, whose payload and
    /// arrival are set, and takes room for it. Where there is none, the application has said what to
    /// answer. It may wait, as the application's code may: that keeps the caller's later requests.
    pub(super) fn admit(&self, request: &mut Request) -> Result<(), Refused> {
        let (common, Request { origin, body, .. }) = (&*self.common, request);
        // A classifier that panics at some bytes costs that request, not the server.
        let Some(class) = common.classifier.class_of(&body.payload) else {
            common.note_malformed();
            return Err(Refused::Malformed);
        };
        origin.class = class;
        if common.rules.refuses(class) || !common.quota.take(class, body.payload.len()) {
            self.count_refused(class);
            if contain(|| common.app.overloaded(&body.payload, &mut body.response)).is_none() {
                body.response.clear();
            }
            return Err(Refused::NoRoom);
        }
        let own = contain(|| common.app.deadline(&body.payload)).flatten();
        origin.deadline_tsc = common.rules.deadline(class, own, origin.arrived_tsc);
        Ok(())
    }

    /// A request of a connection becomes a thread, here or where there is time for it.
    pub(super) fn start(&self, request: Box<Request>) {
        self.counters().submit();
        // SAFETY: `lend` has just made it ready for that.
        unsafe { KThread::here().launch_task(request.lend()) };
    }

    /// A request that came by the core allocator's port has ended, or found no stack.
    fn end_of_port(&self, mut request: Box<Request>) {
        let Request { origin, body, .. } = &mut *request;
        self.common.quota.give(origin.class, body.payload.len());
        if body.started_tsc == 0 {
            self.counters().start();
            self.counters().end_unserved(origin.class);
            if let Some(port) = &self.common.port {
                port::answer_at_once(port, origin, body);
            }
        }
        self.put_away(request);
    }
}

impl Drop for WorkerContext {
    fn drop(&mut self) {
        if let Some(here) = KThread::try_here() {
            here.post.set(ptr::null());
            if here.alive() > 0 {
                self.common.rules.note_left();
            }
        }
        if self.common.rules.leaves_requests() {
            // As at the end of an engine.
            std::mem::forget(self.common.clone());
            std::mem::forget(std::mem::replace(&mut self.state, Box::new(())));
        }
    }
}

/// A request's thread.
///
/// # Safety
/// `task` is a request's, lent, whose thread this is.
unsafe fn run(task: *const Task) {
    let request: *mut Request = task.cast_mut().cast();
    // SAFETY: by contract; the body is this thread's.
    let (task, origin, body) = unsafe { (&*task, &(*request).origin, &mut (*request).body) };
    let context = WorkerContext::here();
    context.counters().start();
    context.common.end_long_sleep();
    body.started_tsc = task.started().unwrap_or_else(clock::now);
    let reply = &context.common.replies[usize::from(origin.transport)];
    let answers = origin.peer != Peer::None;
    let now = body.started_tsc;
    let application = (&*context.common.app, &*context.state);
    let mut serve = |serving| serve(serving, application, &body.payload, &mut body.response);
    body.outcome = match context.cause(request, origin, now) {
        Some(Cause::Departed) => Outcome::Orphaned,
        _ if origin.has_hung_up(now, context.common.clock) => Outcome::Orphaned,
        Some(cause) => serve(Serving::Cancellation(cause)),
        None => {
            body.began = true;
            match origin.deadline_tsc {
                NEVER => serve(Serving::Handler),
                at_tsc => task.with_deadline(at_tsc, || serve(Serving::Handler)),
            }
        }
    };
    body.finished_tsc = clock::now();
    body.ran_cycles = task.ran(body.finished_tsc);
    body.preemptions = task.cuts();
    body.gap_tsc = KThread::here().last_gap();
    if answers && body.response.is_answer() {
        enter_critical();
        body.response.send(&**reply, origin.peer);
        leave_critical();
    }
    if let Some(port) = &context.common.port {
        port::answer(port, origin, body);
    }
}

/// A request's thread has ended, or found no stack.
///
/// # Safety
/// `task` is a request's, lent.
unsafe fn ended(task: *const Task) {
    let request: *mut Request = task.cast_mut().cast();
    let context = WorkerContext::here();
    // SAFETY: by contract; its thread touches it no more.
    let lent = unsafe { &mut *request };
    match lent.body.started_tsc {
        0 => lent.body.finished_tsc = clock::now(),
        _ => context.counters().end(lent, context.common.clock),
    }
    if lent.body.packet.is_some() {
        // SAFETY: its thread has ended.
        return context.end_of_port(unsafe { Request::back(request) });
    }
    if lent.body.started_tsc != 0
        && let Some(in_flight) = lent.origin.in_flight.take()
    {
        // SAFETY: its thread has ended.
        let request = unsafe { Request::back(request) };
        context.common.quota.give(request.origin.class, request.body.payload.len());
        in_flight.ended(request.body.outcome);
        if request.body.outcome == Outcome::Orphaned {
            in_flight.orphaned();
        }
        context.put_away(request);
        return;
    }
    // SAFETY: alive; from here on it is the ingress loop's.
    unsafe { context.common.done.push(request) };
    context.common.wake_ingress_loop();
}

impl WorkerContext {
    /// Whether a request is cancelled, and why, as far as that can be seen at once.
    fn cause(&self, request: *const Request, origin: &RequestOrigin, now: u64) -> Option<Cause> {
        let reply = &self.common.replies[usize::from(origin.transport)];
        if origin.peer != Peer::None && reply.is_gone(origin.peer) {
            return Some(Cause::Departed);
        }
        if now >= origin.deadline_tsc {
            return Some(Cause::Deadline);
        }
        self.common.asked.take(|| id(request, origin)).then_some(Cause::Asked)
    }
}

fn id(request: *const Request, origin: &RequestOrigin) -> RequestId {
    RequestId { place: request.addr() as u64, arrived_tsc: origin.arrived_tsc }
}

/// # Safety
/// `task` is a request's, in progress.
unsafe fn cause(task: *const Task) -> Option<Cause> {
    let request: *const Request = task.cast();
    // SAFETY: by contract; nothing changes that while it is in progress.
    let origin = unsafe { &(*request).origin };
    WorkerContext::here().cause(request, origin, clock::now())
}

/// # Safety
/// As for [`cause`].
unsafe fn rule(task: *const Task) -> OnCancel {
    // SAFETY: as in `cause`.
    WorkerContext::here().common.rules.on_cancel(unsafe { (*task.cast::<Request>()).origin.class })
}

/// # Safety
/// As for [`cause`].
unsafe fn may_abandon(task: *const Task) -> bool {
    // SAFETY: as in `cause`.
    let class = unsafe { (*task.cast::<Request>()).origin.class };
    WorkerContext::here().common.rules.may_abandon(class)
}

/// Its thread will never go on: tells of its end, and keeps the rest.
///
/// # Safety
/// `task` is a request's, lent.
unsafe fn abandoned(task: *const Task) {
    let lost: *mut Request = task.cast_mut().cast();
    let context = WorkerContext::here();
    let now = clock::now();
    // SAFETY: by contract. The frames of its handler, which refer to the payload and the response,
    // are never entered again; both stay where they are.
    let (task, origin, body) = unsafe { (&*task, &mut (*lost).origin, &mut (*lost).body) };
    let mut request = context.take_request();
    let in_flight = origin.in_flight.take();
    request.origin = RequestOrigin { in_flight, looked_tsc: Cell::new(0), ..*origin };
    request.body.tag = body.tag;
    request.body.packet = body.packet.take();
    request.body.outcome = Outcome::Abandoned;
    (request.body.started_tsc, request.body.finished_tsc) = (body.started_tsc, now);
    (request.body.ran_cycles, request.body.preemptions) = (task.ran(task.since()), task.cuts());
    context.counters().end(&request, context.common.clock);
    if let Some(port) = &context.common.port {
        port::answer_at_once(port, &request.origin, &request.body);
    }
    if request.body.packet.is_some() | request.origin.in_flight.take().is_some() {
        context.common.quota.give(origin.class, body.payload.len());
        return context.put_away(request);
    }
    // The ingress loop gives its place back.
    context.common.quota.give_bytes(origin.class, body.payload.len());
    // SAFETY: alive; from here on it is the ingress loop's.
    unsafe { context.common.done.push(Box::into_raw(request)) };
    context.common.wake_ingress_loop();
}

/// # Safety
/// As for [`cause`].
unsafe fn facts(task: *const Task) -> Facts {
    let request: *const Request = task.cast();
    // SAFETY: as in `cause`.
    let origin = unsafe { &(*request).origin };
    let reply = &WorkerContext::here().common.replies[usize::from(origin.transport)];
    Facts {
        id: id(request, origin),
        class: origin.class,
        peer: origin.peer,
        deadline_tsc: origin.deadline_tsc,
        reply: (origin.peer != Peer::None).then(|| reply.clone()),
        route: KThread::here().shared.clone(),
    }
}
