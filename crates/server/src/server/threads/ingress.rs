//! Where requests enter a server without a dispatcher: the ingress loop's side of `Transport::poll`.
//!
//! The ingress loop's alone. The invariants: `KthreadsShared::quota` has a place for each request that is
//! lent and not back, and `kept` counts the buffers of those in `spare`.

use super::context::{KthreadsShared, VTABLE};
use super::request::{Request, RequestOrigin};
use crate::ask::{Asker, Entry, EntryParts, Id, Incoming, Origin, TurnedAway, tag};
use crate::intake::{BATCH, BATCH_TO_REFUSE};
use crate::jobs::KEEP_IN_ALL;
use crate::stats::ClassStats;
use curtail_net::{Completion, Intake, PeakTrim, Peer};
use curtail_policy::ClassId;
use curtail_rt::context::RequestId;
use curtail_rt::thread::KthreadPool;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many requests are kept for the next ones.
const KEEP_REQUESTS: usize = 512;

/// Where requests enter a server without a dispatcher.
pub(super) struct Ingress {
    pub common: Arc<KthreadsShared>,
    pub kthreads: KthreadPool,
    /// What never became a thread, by class, and one row more for unknown requests.
    pub classes: Vec<ClassStats>,
    pub malformed: u64,
    #[allow(clippy::vec_box, reason = "a request has one address for life")]
    spare: Vec<Box<Request>>,
    kept: usize,
    trim: PeakTrim,
    /// How many were handed in so far.
    handed_in: u64,
    /// Whose turn it is.
    next: usize,
    pub asker: Asker,
    turned_away: TurnedAway,
}

impl Ingress {
    pub(super) fn new(
        (common, kthreads): (Arc<KthreadsShared>, KthreadPool),
        asker: Asker,
        classes: Vec<ClassStats>,
    ) -> Self {
        Self {
            common,
            kthreads,
            classes,
            malformed: 0,
            spare: Vec::new(),
            kept: 0,
            trim: PeakTrim::default(),
            handed_in: 0,
            next: 0,
            asker,
            turned_away: Vec::new(),
        }
    }

    pub(super) fn in_system(&self) -> usize {
        self.common.quota.in_system() + self.asker.parked()
    }

    /// Looks at how much memory the requests in the system have.
    pub(super) fn look_at_memory(&mut self) {
        self.trim.note(self.common.quota.bytes());
    }

    /// Inputs that were no requests.
    pub(super) fn malformed(&self) -> u64 {
        self.malformed + self.common.malformed.load(Ordering::Relaxed)
    }

    /// Requests that have not started, or whose classes are not known yet.
    pub(super) fn waiting(&self) -> usize {
        let counters = &self.common.counters;
        let started: u64 = counters.iter().map(|counters| counters.started()).sum();
        (self.handed_in + self.brought()).saturating_sub(started) as usize + self.asker.parked()
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

    /// Ready for a poll of that transport.
    pub(super) fn at(&mut self, transport: usize, now_tsc: u64) -> Turn<'_> {
        let room = if self.common.quota.is_short() { BATCH_TO_REFUSE } else { BATCH };
        Turn { ingress: self, transport: transport as u16, now_tsc, room, taken: 0 }
    }

    /// What was turned away, and by which transport it had come.
    pub(super) fn turned_away(&mut self) -> impl Iterator<Item = (u16, Completion)> + '_ {
        self.turned_away.drain(..)
    }

    /// Goes on with requests whose classes, or refusals, were waited for; true: something came of it.
    pub(super) fn go_on(&mut self) -> bool {
        self.asker.parked() > 0 && (self.asker.go_on() || self.asker.has_ready())
    }

    /// A request is back: what became of it; `None`: it is refused, and told of when it was.
    /// `last_gap`: when the machine last took time away from the ingress loop (TSC).
    pub(super) fn drain_ended(
        &mut self,
        mut request: Box<Request>,
        last_gap: u64,
    ) -> Option<Completion> {
        let Request { origin, body, .. } = &mut *request;
        let completion = match body.started_tsc {
            0 => {
                // There was no stack for it.
                let payload = std::mem::take(&mut body.payload);
                let RequestOrigin { peer, transport, arrived_tsc, class, .. } = *origin;
                let origin = Origin { peer, transport, arrived_tsc };
                let mut turn = self.at(usize::from(transport), body.finished_tsc);
                turn.refuse_late(&payload, origin, class);
                body.payload = payload;
                None
            }
            started_tsc => Some(Completion {
                peer: origin.peer,
                class: origin.class.0,
                outcome: body.outcome,
                tag: body.tag,
                request_bytes: body.payload.len() as u32,
                arrived_tsc: origin.arrived_tsc,
                started_tsc,
                finished_tsc: body.finished_tsc,
                ran_cycles: body.ran_cycles,
                preemptions: body.preemptions,
                disturbed: last_gap.max(body.gap_tsc) >= origin.arrived_tsc,
            }),
        };
        self.put_away(request);
        completion
    }

    fn put_away(&mut self, mut request: Box<Request>) {
        self.common.quota.give(request.origin.class, request.body.payload.len());
        request.renew();
        let bytes = self.kept + request.body.payload.capacity();
        if self.spare.len() < KEEP_REQUESTS && bytes <= KEEP_IN_ALL {
            self.kept = bytes;
            self.spare.push(request);
        }
    }

    /// Gives up what was handed in and has not started; the kthreads have ended.
    pub(super) fn give_up(&mut self) {
        // SAFETY: lent by `submit`, and never to be started: the kthreads have ended.
        self.kthreads.never_started(|task| drop(unsafe { Request::back(task.cast()) }));
    }
}

/// One poll of one transport.
pub(super) struct Turn<'a> {
    ingress: &'a mut Ingress,
    transport: u16,
    now_tsc: u64,
    room: usize,
    taken: usize,
}

impl Turn<'_> {
    /// How many requests came.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// It has its room, and becomes a thread: of the kthreads in turn, since each takes from those that
    /// have more.
    fn submit(&mut self, id: Id, class: ClassId) {
        let ingress = &mut *self.ingress;
        let mut request = match ingress.spare.pop() {
            Some(request) => {
                ingress.kept -= request.body.payload.capacity();
                request
            }
            None => Request::new(&VTABLE),
        };
        let inquiry = ingress.asker.get(id);
        let deadline = inquiry.deadline;
        let (payload, Origin { peer, transport, arrived_tsc }) =
            (&mut inquiry.payload, inquiry.origin);
        request.origin = RequestOrigin {
            class,
            peer,
            transport,
            arrived_tsc,
            deadline_tsc: ingress.common.rules.deadline(class, deadline, arrived_tsc),
            ..RequestOrigin::none()
        };
        request.body.tag = tag(payload.bytes());
        match payload.is_small() {
            true => request.body.payload.extend_from_slice(payload.bytes()),
            false => std::mem::swap(&mut request.body.payload, payload.large()),
        }
        ingress.handed_in += 1;
        let to = ingress.next;
        ingress.next = (to + 1) % ingress.kthreads.len();
        // SAFETY: `lend` has just made it ready for that.
        unsafe { ingress.kthreads.submit(to, request.lend()) };
    }
}

impl Intake for Turn<'_> {
    fn room(&self) -> usize {
        if self.ingress.asker.is_laden() { 0 } else { self.room - self.taken.min(self.room) }
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        self.taken += 1;
        let origin = Origin { peer: from, transport: self.transport, arrived_tsc };
        self.come(Incoming::Lent(payload), origin, false);
    }

    fn request_in(&mut self, buffer: &mut Vec<u8>, from: Peer, arrived_tsc: u64) {
        self.taken += 1;
        let origin = Origin { peer: from, transport: self.transport, arrived_tsc };
        self.come(Incoming::Given(buffer), origin, false);
    }

    fn malformed(&mut self, count: u64) {
        self.ingress.malformed += count;
    }

    fn departed(&mut self) {
        self.ingress.kthreads.notify_all();
    }
}

impl Entry for Turn<'_> {
    fn parts(&mut self) -> EntryParts<'_> {
        let ingress = &mut *self.ingress;
        EntryParts {
            asker: &mut ingress.asker,
            classes: &mut ingress.classes,
            malformed: &mut ingress.malformed,
            replies: &ingress.common.replies,
            turned_away: &mut ingress.turned_away,
            now_tsc: self.now_tsc,
        }
    }

    fn admit(&mut self, id: Id, class: ClassId) -> bool {
        let bytes = self.ingress.asker.get(id).payload.len();
        let common = &self.ingress.common;
        let fits = !common.rules.refuses(class) && common.quota.take(class, bytes);
        if fits {
            self.submit(id, class);
        }
        fits
    }
}
