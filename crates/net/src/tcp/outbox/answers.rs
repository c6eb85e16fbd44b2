//! What answers of HTTP take beyond frames: each depends on its request, and there must be one.

use super::Outboxes;
use crate::http::{self, Asked, Date, Refusal};
use crate::{Outcome, Wire};

impl Outboxes {
    /// A request is handed over: what its answer depends on. Of frames, nothing.
    pub(in super::super) fn ask(&self, slot: u32, generation: u32, asked: Option<Asked>) {
        if asked.is_some()
            && let Some(mut outbox) = self.lock(slot)
            && outbox.generation == generation
        {
            outbox.asked = asked;
        }
    }

    pub(super) fn take_asked(&self, slot: u32, generation: u32) -> Option<Asked> {
        let mut outbox = self.lock(slot)?;
        if outbox.generation == generation { outbox.asked.take() } else { None }
    }

    /// A request has ended. One of HTTP that has no answer gets one by its outcome.
    pub(in super::super) fn finish(&self, slot: u32, generation: u32, outcome: Outcome) {
        if self.wire != Wire::Http || self.lock(slot).is_none_or(|found| found.asked.is_none()) {
            return;
        }
        let answer = match outcome {
            Outcome::Done => Vec::new(),
            Outcome::Failed => http::plain(500, "the request failed\n"),
            Outcome::Dropped => http::plain(503, "there is no room for the request\n"),
            Outcome::Cancelled | Outcome::Abandoned => {
                http::plain(504, "the request was cancelled\n")
            }
            Outcome::Orphaned => return,
        };
        let _ = self.send(slot, generation, &answer);
    }

    /// Whether a connection with requests in progress waits for an answer still: of one of HTTP,
    /// whose end is reported later than its answer, that is known.
    pub(in super::super) fn owes_answer(&self, slot: u32) -> bool {
        self.wire != Wire::Http || self.lock(slot).is_some_and(|found| found.asked.is_some())
    }

    /// Its peer has gone, and it is about to be closed: what has not begun need not any more.
    pub(in super::super) fn give_up(&self, slot: u32) {
        let _outbox = self.lock(slot);
        self.set_living(slot, 0);
    }

    /// What came is no request that is taken. Nothing is in progress.
    pub(in super::super) fn refuse(&self, slot: u32, generation: u32, refusal: Refusal) {
        let (head, body) = (refusal.answer(), Asked::BAD);
        let (head, body) = http::answer(&head, body, &Date::now());
        let _ = self.write(slot, generation, head.as_bytes(), body);
    }

    /// The client waits for a word before it sends a body. Nothing is in progress.
    pub(in super::super) fn interim(&self, slot: u32, generation: u32) {
        let _ = self.write(slot, generation, http::CONTINUE, &[]);
    }
}
