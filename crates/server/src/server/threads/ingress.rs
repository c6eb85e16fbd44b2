//! Where requests enter a server without a dispatcher: those that the ingress loop's transports bring.
//!
//! The ingress loop's alone. The invariant: `KthreadsShared::quota` has a place for each request that is
//! lent and not back.

use super::context::{KthreadsShared, VTABLE};
use super::request::{Request, RequestOrigin, SpareRequests};
use crate::ask::{EntryState, Inquiry, Origin, tag};
use crate::jobs::KEEP_IN_ALL;
use curtail_net::{Completion, PeakTrim};
use curtail_policy::ClassId;
use curtail_rt::context::RequestId;
use curtail_rt::thread::KthreadPool;
use std::sync::Arc;

/// So many requests are kept for the next ones.
const KEEP_REQUESTS: usize = 512;

/// Where requests enter a server without a dispatcher.
pub(super) struct Ingress {
    pub common: Arc<KthreadsShared>,
    pub kthreads: KthreadPool,
    spare: SpareRequests,
    trim: PeakTrim,
    /// How many were handed in so far.
    handed_in: u64,
    /// Whose turn it is.
    next: usize,
}

impl Ingress {
    pub(super) fn new(common: Arc<KthreadsShared>, kthreads: KthreadPool) -> Self {
        Self {
            common,
            kthreads,
            spare: SpareRequests::new(KEEP_REQUESTS, KEEP_IN_ALL),
            trim: PeakTrim::default(),
            handed_in: 0,
            next: 0,
        }
    }

    /// Looks at how much memory the requests in the system have.
    pub(super) fn look_at_memory(&mut self) {
        self.trim.note(self.common.quota.bytes());
    }

    /// Requests that have not started.
    pub(super) fn waiting(&self) -> usize {
        let counters = &self.common.counters;
        let started: u64 = counters.iter().map(|counters| counters.started()).sum();
        (self.handed_in + self.brought()).saturating_sub(started) as usize
    }

    /// Requests that the kthreads have brought by themselves so far.
    pub(super) fn brought(&self) -> u64 {
        self.common.counters.iter().map(|counters| counters.handed_in()).sum()
    }

    /// Cancels a request, if it is here.
    pub(super) fn cancel(&self, id: RequestId) {
        self.common.asked.add(id);
        self.kthreads.notify_all();
    }

    /// A request becomes a thread, if there is room for it: of the kthreads in turn, since each takes from
    /// those that have more.
    pub(super) fn admit(&mut self, inquiry: &mut Inquiry, class: ClassId) -> bool {
        let Inquiry { payload, origin, deadline, .. } = inquiry;
        let rules = &self.common.rules;
        if rules.refuses(class) || !self.common.quota.take(class, payload.len()) {
            return false;
        }
        let Origin { peer, transport, arrived_tsc } = *origin;
        let deadline_tsc = rules.deadline(class, *deadline, arrived_tsc);
        let mut request = self.spare.pop().unwrap_or_else(|| Request::new(&VTABLE));
        request.origin = RequestOrigin {
            class,
            peer,
            transport,
            arrived_tsc,
            deadline_tsc,
            ..RequestOrigin::none()
        };
        request.body.tag = tag(payload.bytes());
        match payload.is_small() {
            true => request.body.payload.extend_from_slice(payload.bytes()),
            false => std::mem::swap(&mut request.body.payload, payload.large()),
        }
        self.handed_in += 1;
        let to = self.next;
        self.next = (to + 1) % self.kthreads.len();
        // SAFETY: `lend` has just made it ready for that.
        unsafe { self.kthreads.submit(to, request.lend()) };
        true
    }

    /// A request is back: what became of it; `None`: it is refused, and told of when it was.
    /// `last_gap`: when the machine last took time away from the ingress loop (TSC).
    pub(super) fn drain_ended(
        &mut self,
        request: Box<Request>,
        entry: &mut EntryState,
        last_gap: u64,
    ) -> Option<Completion> {
        let completion = if request.body.started_tsc != 0 {
            Some(request.completion(last_gap))
        } else {
            // There was no stack for it.
            let RequestOrigin { peer, transport, arrived_tsc, class, .. } = request.origin;
            let origin = Origin { peer, transport, arrived_tsc };
            entry.refuse_late(&request.body.payload, origin, class);
            None
        };
        self.common.quota.give(request.origin.class, request.body.payload.len());
        self.spare.put_away(request);
        completion
    }

    /// Gives up what was handed in and has not started; the kthreads have ended.
    pub(super) fn give_up(&mut self) {
        // SAFETY: lent by `submit`, and never to be started: the kthreads have ended.
        self.kthreads.never_started(|task| drop(unsafe { Request::back(task.cast()) }));
    }
}
