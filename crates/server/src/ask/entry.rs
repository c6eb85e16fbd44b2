//! Where requests enter a server: each is asked about, and then let in or turned away.

use super::{Asker, Id, Incoming, Origin, Question};
use crate::stats::{ClassStats, row};
use curtail_net::{Completion, Outcome, Peer, Reply};
use curtail_policy::ClassId;
use curtail_rt::cancel::Cause;
use std::sync::Arc;

/// What becomes of requests that are not let in. The thread that polls their transports tells
/// these.
pub(crate) type TurnedAway = Vec<(u16, Completion)>;

/// What an entry has.
pub(crate) struct EntryParts<'a> {
    pub asker: &'a mut Asker,
    pub classes: &'a mut [ClassStats],
    pub malformed: &'a mut u64,
    pub replies: &'a [Arc<dyn Reply>],
    pub turned_away: &'a mut TurnedAway,
    pub now_tsc: u64,
}

/// Where requests enter a server.
pub(crate) trait Entry {
    fn parts(&mut self) -> EntryParts<'_>;

    /// Lets a request in, of which it takes what it needs; false: there is no room.
    fn admit(&mut self, id: Id, class: ClassId) -> bool;

    /// A request has come.
    #[inline]
    fn come(&mut self, payload: Incoming<'_>, origin: Origin, hint: bool) {
        self.parts().asker.stage(Question::Class { hint }, payload, origin);
    }

    /// Deals with all that was answered.
    #[inline]
    fn settle_answered(&mut self) {
        let mut answered = std::mem::take(&mut self.parts().asker.answered);
        answered.drain(..).for_each(|id| self.settle(id));
        self.parts().asker.answered = answered;
    }

    /// A question has its answer.
    #[inline]
    fn settle(&mut self, id: Id) {
        let inquiry = self.parts().asker.get(id);
        match (inquiry.question, inquiry.class) {
            (Question::Refusal { class }, _) => self.refused(id, class, Outcome::Dropped),
            (Question::Cancellation { class, .. }, _) => {
                self.refused(id, class, Outcome::Cancelled)
            }
            (Question::Class { .. }, _) if inquiry.unasked => self.refuse(id, ClassId::UNKNOWN),
            // A classifier that panics at some bytes costs that request, not the server.
            (Question::Class { .. }, None) => {
                let parts = self.parts();
                *parts.malformed += 1;
                let last = parts.asker.classifier().last();
                parts.turn_away(id, last, Outcome::Failed);
            }
            (Question::Class { .. }, Some(class)) => match self.admit(id, class) {
                true => self.parts().asker.put_away(id),
                false => self.refuse(id, class),
            },
        }
    }

    /// There is no room: tells the client so, and counts it for its class alone.
    #[cold]
    fn refuse(&mut self, id: Id, class: ClassId) {
        let parts = self.parts();
        row(parts.classes, class).dropped += 1;
        match parts.asker.get(id).origin.peer {
            Peer::None => parts.turn_away(id, class, Outcome::Dropped),
            _ => parts.asker.stage_again(id, Question::Refusal { class }),
        }
    }

    /// Refuses a request that was let in.
    #[cold]
    fn refuse_late(&mut self, payload: &[u8], origin: Origin, class: ClassId) {
        let parts = self.parts();
        row(parts.classes, class).dropped += 1;
        parts.asker.stage(Question::Refusal { class }, Incoming::Lent(payload), origin);
    }

    /// A request that was let in was cancelled before it began: what is to be answered?
    fn cancelled(&mut self, payload: &[u8], origin: Origin, (class, cause): (ClassId, Cause)) {
        let question = Question::Cancellation { class, cause };
        self.parts().asker.stage(question, Incoming::Lent(payload), origin);
    }

    /// The application has said what to answer.
    fn refused(&mut self, id: Id, class: ClassId, outcome: Outcome) {
        let parts = self.parts();
        let inquiry = parts.asker.get(id);
        let origin = inquiry.origin;
        if origin.peer != Peer::None {
            if inquiry.unasked {
                inquiry.refusal.refuse();
            }
            inquiry.refusal.send(&*parts.replies[usize::from(origin.transport)], origin.peer);
        }
        parts.turn_away(id, class, outcome);
    }
}

impl EntryParts<'_> {
    /// The request is not let in.
    fn turn_away(self, id: Id, class: ClassId, outcome: Outcome) {
        let inquiry = self.asker.get(id);
        let (origin, bytes) = (inquiry.origin, inquiry.payload.bytes());
        let completion = completion(bytes, &origin, (class, outcome), self.now_tsc);
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
