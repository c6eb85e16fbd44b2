//! Where requests enter a server without a dispatcher: the front's side of `Transport::poll`.
//!
//! The front's alone. The invariants: the room (`Common::room`) has a place for each request that is
//! lent and not back, and `kept` counts the buffers of those in `spare`.

use super::post::{Common, DUTY};
use super::request::{Body, Request};
use crate::Response;
use crate::contain::contain;
use crate::intake::{BATCH, BATCH_TO_REFUSE, tag};
use crate::stats::{ClassStats, row};
use crate::thread::Crew;
use curtail_net::{Completion, Intake, Outcome, Peer};
use curtail_policy::ClassId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buffers are not kept beyond so many bytes in all.
const KEEP_IN_ALL: usize = 4 << 20;
/// So many requests are kept for the next ones.
const KEEP_REQUESTS: usize = 4_096;

/// See the module's head.
pub(super) struct Desk {
    pub common: Arc<Common>,
    pub crew: Crew,
    /// What never became a thread, by class, and one row more for unknown requests.
    pub classes: Vec<ClassStats>,
    pub malformed: u64,
    #[allow(clippy::vec_box, reason = "a request has one address for life")]
    spare: Vec<Box<Request>>,
    kept: usize,
    /// How many were handed in so far.
    handed_in: u64,
    /// Whose turn it is.
    next: usize,
    refusal: Response,
    turned_away: Vec<Completion>,
}

impl Desk {
    pub(super) fn new((common, crew): (Arc<Common>, Crew), classes: Vec<ClassStats>) -> Self {
        Self {
            common,
            crew,
            classes,
            malformed: 0,
            spare: Vec::new(),
            kept: 0,
            handed_in: 0,
            next: 0,
            refusal: Response::default(),
            turned_away: Vec::new(),
        }
    }

    pub(super) fn in_system(&self) -> usize {
        self.common.room.in_system()
    }

    /// Inputs that were no requests.
    pub(super) fn malformed(&self) -> u64 {
        self.malformed + self.common.malformed.load(Ordering::Relaxed)
    }

    /// Requests that have not started.
    pub(super) fn waiting(&self) -> usize {
        let tallies = &self.common.tallies;
        let started: u64 = tallies.iter().map(|tally| tally.started()).sum();
        let brought: u64 = tallies.iter().map(|tally| tally.handed_in()).sum();
        (self.handed_in + brought).saturating_sub(started) as usize
    }

    /// Ready for a poll of that transport.
    pub(super) fn at(&mut self, transport: usize, now_tsc: u64) -> Turn<'_> {
        let room = if self.common.room.is_full() { BATCH_TO_REFUSE } else { BATCH };
        Turn { desk: self, transport: transport as u16, now_tsc, room, taken: 0 }
    }

    /// What was turned away at the last poll.
    pub(super) fn turned_away(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.turned_away.drain(..)
    }

    /// A request is back: what became of it. `last_gap`: when the machine last took time away.
    pub(super) fn take_back(&mut self, mut request: Box<Request>, last_gap: u64) -> Completion {
        let body = &mut request.body;
        if body.started_tsc == 0 {
            // There was no stack for it.
            self.refuse(&body.payload, (body.peer, body.transport), body.class);
            body.outcome = Outcome::Dropped;
            body.started_tsc = body.finished_tsc;
        }
        let completion = Completion {
            peer: body.peer,
            class: body.class.0,
            outcome: body.outcome,
            tag: body.tag,
            request_bytes: body.payload.len() as u32,
            arrived_tsc: body.arrived_tsc,
            started_tsc: body.started_tsc,
            finished_tsc: body.finished_tsc,
            ran_cycles: body.ran_cycles,
            preemptions: body.preemptions,
            disturbed: last_gap >= body.arrived_tsc,
        };
        self.put_away(request);
        completion
    }

    fn put_away(&mut self, mut request: Box<Request>) {
        self.common.room.give(request.body.payload.len());
        request.renew();
        let body = &mut request.body;
        if self.kept + body.payload.capacity() > KEEP_IN_ALL {
            body.payload = Vec::new();
        }
        if self.spare.len() < KEEP_REQUESTS {
            self.kept += body.payload.capacity();
            self.spare.push(request);
        }
    }

    /// Says that there is no room for a request to whoever asked, and counts it for its class alone.
    #[cold]
    fn refuse(&mut self, payload: &[u8], (from, transport): (Peer, u16), class: ClassId) {
        row(&mut self.classes, class).dropped += 1;
        if from == Peer::None {
            return;
        }
        self.refusal.clear();
        let (app, refusal) = (&*self.common.app, &mut self.refusal);
        let written = contain(|| app.overloaded(payload, refusal));
        if written.is_some() && !self.refusal.as_bytes().is_empty() {
            self.common.replies[usize::from(transport)].reply(from, self.refusal.as_bytes());
        }
    }

    /// Gives up what was handed in and has not started; the kthreads have ended.
    pub(super) fn give_up(&mut self) {
        // SAFETY: lent by `hand_in`, and nobody will start it any more.
        self.crew.never_started(|late| drop(unsafe { Request::back(late.cast()) }));
    }
}

/// One poll of one transport.
pub(super) struct Turn<'a> {
    desk: &'a mut Desk,
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

    fn turn_away(
        &mut self,
        payload: &[u8],
        (from, class): (Peer, ClassId),
        arrived_tsc: u64,
        outcome: Outcome,
    ) {
        self.desk.turned_away.push(Completion {
            peer: from,
            class: class.0,
            outcome,
            tag: tag(payload),
            request_bytes: payload.len() as u32,
            arrived_tsc,
            started_tsc: self.now_tsc,
            finished_tsc: self.now_tsc,
            ran_cycles: 0,
            preemptions: 0,
            disturbed: false,
        });
    }

    /// It has its room, and becomes a thread: of the kthreads in turn, since each takes from those that have more.
    fn hand_in(&mut self, payload: &[u8], (from, class): (Peer, ClassId), arrived_tsc: u64) {
        let desk = &mut *self.desk;
        let mut request = desk.spare.pop().unwrap_or_else(|| Request::new(&DUTY));
        desk.kept -= request.body.payload.capacity();
        request.body = Body {
            class,
            peer: from,
            transport: self.transport,
            tag: tag(payload),
            arrived_tsc,
            payload: std::mem::take(&mut request.body.payload),
            response: std::mem::take(&mut request.body.response),
            outcome: Outcome::Dropped,
            started_tsc: 0,
            finished_tsc: 0,
            ran_cycles: 0,
            preemptions: 0,
            in_flight: None,
        };
        request.body.payload.extend_from_slice(payload);
        desk.handed_in += 1;
        let to = desk.next;
        desk.next = (to + 1) % desk.crew.len();
        // SAFETY: `lend` has just made it ready for that.
        unsafe { desk.crew.hand_in(to, request.lend()) };
    }
}

impl Intake for Turn<'_> {
    fn room(&self) -> usize {
        self.room - self.taken.min(self.room)
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        self.taken += 1;
        // A classifier that panics at some bytes costs that request, not the server.
        let Some(class) = self.desk.common.classifier.class_of(payload) else {
            self.desk.malformed += 1;
            let last = self.desk.common.classifier.last();
            return self.turn_away(payload, (from, last), arrived_tsc, Outcome::Failed);
        };
        let desk = &mut *self.desk;
        if desk.common.room.take(payload.len()) {
            return self.hand_in(payload, (from, class), arrived_tsc);
        }
        desk.refuse(payload, (from, self.transport), class);
        self.turn_away(payload, (from, class), arrived_tsc, Outcome::Dropped);
    }

    fn malformed(&mut self, count: u64) {
        self.desk.malformed += count;
    }
}
