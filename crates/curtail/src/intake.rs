//! Where requests enter: the dispatcher's side of `Transport::poll`.

use crate::Response;
use crate::app::ErasedApp;
use crate::classify::Classifier;
use crate::clock::Clock;
use crate::contain::contain;
use crate::jobs::{Account, Held};
use crate::message::{Envelopes, Message};
use crate::stats::{ClassStats, row};
use curtail_net::{Completion, Intake, Outcome, Peer, Reply};
use curtail_policy::{ClassId, Nanos};
use curtail_sched::{Arrival, Scheduler};
use std::sync::Arc;

/// How many requests are taken from a transport at a time: enough to amortise a look, few enough
/// that workers' news and quanta are never late for it.
pub(crate) const BATCH: usize = 64;
/// As many when there is no room for any: refusing costs time that what is in the system needs.
pub(crate) const BATCH_TO_REFUSE: usize = 8;

/// How many requests to take from a transport in one turn.
pub(crate) fn batch(sched: &Scheduler<Held>) -> usize {
    if sched.is_full() { BATCH_TO_REFUSE } else { BATCH }
}

/// The dispatcher's parts that an arrival touches.
pub(crate) struct Desk<'a> {
    pub app: &'a dyn ErasedApp,
    pub classifier: &'a Classifier,
    pub clock: Clock,
    pub now: Nanos,
    pub now_tsc: u64,
    pub sched: &'a mut Scheduler<Held>,
    pub account: &'a mut Account,
    pub envelopes: &'a Envelopes,
    pub classes: &'a mut [ClassStats],
    pub malformed: &'a mut u64,
    pub refusal: &'a mut Response,
    pub reply: &'a Arc<dyn Reply>,
    pub turned_away: &'a mut Vec<Completion>,
    pub transport: u16,
    /// The policy wants to know how long requests will take.
    pub hints: bool,
    pub batch: usize,
    pub taken: usize,
}

impl Intake for Desk<'_> {
    fn room(&self) -> usize {
        self.batch - self.taken.min(self.batch)
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        self.taken += 1;
        // A classifier that panics at some bytes costs that request, not the server.
        let Some(class) = self.classifier.class_of(payload) else {
            *self.malformed += 1;
            let last = self.classifier.last();
            return self.turn_away(payload, from, last, arrived_tsc, Outcome::Failed);
        };
        if self.sched.is_full() || !self.account.has_room_for(payload.len()) {
            return self.refuse(payload, from, class, arrived_tsc);
        }
        let hint = self.hints.then(|| self.hint(payload)).flatten();
        let arrival = Arrival { class, at: self.clock.nanos(arrived_tsc), hint };
        let Self { account, envelopes, transport, .. } = self;
        let transport = *transport;
        let admitted = self.sched.handle_arrival(self.now, arrival, |id| {
            let (mut message, inline) = Message::new(id, class, payload, arrived_tsc);
            message.reply = u8::from(from != Peer::None);
            if message.reply != 0 || !inline {
                // SAFETY: the slot was vacant, so no worker has its job.
                let envelope = unsafe { envelopes.get(id) };
                (envelope.peer, envelope.transport) = (from, transport);
                if !inline {
                    account.fill(&mut envelope.payload, payload);
                }
            }
            let bytes = payload.len() as u32;
            account.came(bytes);
            Held { message, peer: from, transport, tag: tag(payload), bytes }
        });
        if admitted.is_err() {
            self.refuse(payload, from, class, arrived_tsc);
        }
    }

    fn malformed(&mut self, count: u64) {
        *self.malformed += count;
    }
}

impl Desk<'_> {
    /// The application's guess; none where it panics over one.
    fn hint(&self, payload: &[u8]) -> Option<Nanos> {
        contain(|| self.app.hint(payload)).flatten()
    }

    /// There is no room: says so to whoever asked, and counts it for its class alone.
    #[cold]
    fn refuse(&mut self, payload: &[u8], from: Peer, class: ClassId, arrived_tsc: u64) {
        row(self.classes, class).dropped += 1;
        if from != Peer::None {
            self.refusal.clear();
            let (app, refusal) = (self.app, &mut *self.refusal);
            let written = contain(|| app.overloaded(payload, refusal));
            if written.is_some() && !self.refusal.as_bytes().is_empty() {
                self.reply.reply(from, self.refusal.as_bytes());
            }
        }
        self.turn_away(payload, from, class, arrived_tsc, Outcome::Dropped);
    }

    /// Tells the transport of a request that never was a job.
    fn turn_away(
        &mut self,
        payload: &[u8],
        from: Peer,
        class: ClassId,
        arrived_tsc: u64,
        outcome: Outcome,
    ) {
        self.turned_away.push(Completion {
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
}

/// First eight bytes: see [`Completion::tag`].
pub(crate) fn tag(payload: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = payload.len().min(8);
    bytes[..length].copy_from_slice(&payload[..length]);
    u64::from_le_bytes(bytes)
}
