//! Where requests enter a server: each is asked about, and then let in or turned away.

use super::{Asker, Id, Incoming, Origin, Question};
use crate::stats::{ClassStats, row};
use curtail_net::{Completion, Outcome, Peer, Reply};
use curtail_policy::ClassId;
use curtail_rt::cancel::Cause;
use std::sync::Arc;

/// What an entry has, whatever it lets requests in to.
pub(crate) struct EntryState {
    pub asker: Asker,
    /// What is counted where requests enter, by class, and one row more for unknown requests.
    pub classes: Vec<ClassStats>,
    /// Inputs that were no requests.
    pub malformed: u64,
    /// By transport.
    pub replies: Arc<[Arc<dyn Reply>]>,
    /// What became of requests that are not let in, with their transports, which are not told yet.
    pub turned_away: Vec<(u16, Completion)>,
    /// Peers of requests in progress have gone.
    pub departed: bool,
    /// The time of this turn (TSC).
    pub now: u64,
}

/// Where requests enter a server.
pub(crate) trait Entry {
    fn state(&mut self) -> &mut EntryState;

    /// Lets a request in, of which it takes what it needs; false: there is no room.
    fn admit(&mut self, id: Id, class: ClassId) -> bool;

    /// Deals with all that was answered.
    #[inline]
    fn settle_answered(&mut self) {
        let mut answered = std::mem::take(&mut self.state().asker.answered);
        answered.drain(..).for_each(|id| self.settle(id));
        self.state().asker.answered = answered;
    }

    /// A question has its answer.
    #[inline]
    fn settle(&mut self, id: Id) {
        let state = self.state();
        let inquiry = state.asker.get(id);
        match (inquiry.question, inquiry.class) {
            (Question::Refusal { class }, _) => state.refused(id, class, Outcome::Dropped),
            (Question::Cancellation { class, .. }, _) => {
                state.refused(id, class, Outcome::Cancelled)
            }
            (Question::Class { .. }, _) if inquiry.unasked => state.refuse(id, ClassId::UNKNOWN),
            // A classifier that panics at some bytes costs that request, not the server.
            (Question::Class { .. }, None) => {
                state.malformed += 1;
                let last = state.asker.classifier().last();
                state.turn_away(id, last, Outcome::Failed);
            }
            (Question::Class { .. }, Some(class)) => match self.admit(id, class) {
                true => self.state().asker.put_away(id),
                false => self.state().refuse(id, class),
            },
        }
    }
}

impl EntryState {
    /// `names`: of the classes, and at the end that of unknown requests.
    pub(crate) fn new(
        asker: Asker,
        names: impl IntoIterator<Item = String>,
        replies: Arc<[Arc<dyn Reply>]>,
    ) -> Self {
        Self {
            asker,
            classes: names.into_iter().map(ClassStats::new).collect(),
            malformed: 0,
            replies,
            turned_away: Vec::new(),
            departed: false,
            now: 0,
        }
    }

    /// Refuses a request that was let in.
    #[cold]
    pub(crate) fn refuse_late(&mut self, payload: &[u8], origin: Origin, class: ClassId) {
        row(&mut self.classes, class).dropped += 1;
        self.asker.stage(Question::Refusal { class }, Incoming::Lent(payload), origin);
    }

    /// A request that was let in was cancelled before it began: what is to be answered?
    pub(crate) fn cancelled(
        &mut self,
        payload: &[u8],
        origin: Origin,
        (class, cause): (ClassId, Cause),
    ) {
        let question = Question::Cancellation { class, cause };
        self.asker.stage(question, Incoming::Lent(payload), origin);
    }

    /// There is no room: tells the client so, and counts it for its class alone.
    #[cold]
    fn refuse(&mut self, id: Id, class: ClassId) {
        row(&mut self.classes, class).dropped += 1;
        match self.asker.get(id).origin.peer {
            Peer::None => self.turn_away(id, class, Outcome::Dropped),
            _ => self.asker.stage_again(id, Question::Refusal { class }),
        }
    }

    /// The application has said what to answer.
    fn refused(&mut self, id: Id, class: ClassId, outcome: Outcome) {
        let inquiry = self.asker.get(id);
        let origin = inquiry.origin;
        if origin.peer != Peer::None {
            if inquiry.unasked {
                inquiry.refusal.refuse();
            }
            inquiry.refusal.send(&*self.replies[usize::from(origin.transport)], origin.peer);
        }
        self.turn_away(id, class, outcome);
    }

    /// The request is not let in.
    fn turn_away(&mut self, id: Id, class: ClassId, outcome: Outcome) {
        let inquiry = self.asker.get(id);
        let (origin, bytes) = (inquiry.origin, inquiry.payload.bytes());
        let completion = completion(bytes, &origin, (class, outcome), self.now);
        self.turned_away.push((origin.transport, completion));
        self.asker.put_away(id);
    }
}

/// Tells a transport of a request that never was a job.
fn completion(
    payload: &[u8],
    origin: &Origin,
    (class, outcome): (ClassId, Outcome),
    now_tsc: u64,
) -> Completion {
    Completion {
        peer: origin.peer,
        class: class.0,
        outcome,
        tag: tag(payload),
        request_bytes: payload.len() as u32,
        arrived_tsc: origin.arrived_tsc,
        started_tsc: now_tsc,
        finished_tsc: now_tsc,
        ran_cycles: 0,
        preemptions: 0,
        disturbed: false,
    }
}

/// First eight bytes: see [`Completion::tag`].
pub(crate) fn tag(payload: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = payload.len().min(8);
    bytes[..length].copy_from_slice(&payload[..length]);
    u64::from_le_bytes(bytes)
}
