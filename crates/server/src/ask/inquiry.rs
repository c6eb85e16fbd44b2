//! A request that is asked about, the question, and the answer.

use super::Payload;
use super::runner::Application;
use crate::Response;
use curtail_net::Peer;
use curtail_policy::{ClassId, Nanos};
use curtail_rt::cancel::Cause;
use curtail_rt::contain::contain;
use std::time::Duration;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Its class, and if that is wanted how long it will take.
    Class { hint: bool },
    /// There is no room for it, of that class: what to answer.
    Refusal { class: ClassId },
    /// It was cancelled before it began: what to answer.
    Cancellation { class: ClassId, cause: Cause },
}

/// Where a request has come from, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub peer: Peer,
    pub transport: u16,
    pub arrived_tsc: u64,
}

/// A request that is asked about, and the answer.
pub(crate) struct Inquiry {
    pub question: Question,
    pub origin: Origin,
    pub payload: Payload,
    /// So many are parked that it was not asked.
    pub unasked: bool,
    /// `None`: the classifier panicked at it.
    pub class: Option<ClassId>,
    pub hint: Option<Nanos>,
    /// Within which time it is wanted.
    pub deadline: Option<Duration>,
    /// Empty where the application has none.
    pub refusal: Response,
}

impl Inquiry {
    pub(super) fn new() -> Self {
        Self {
            question: Question::Class { hint: false },
            origin: Origin { peer: Peer::None, transport: 0, arrived_tsc: 0 },
            payload: Payload::default(),
            unasked: false,
            class: None,
            hint: None,
            deadline: None,
            refusal: Response::default(),
        }
    }

    /// Has the application answer.
    pub(super) fn ask(&mut self, Application { app, classifier }: &Application) {
        let bytes = self.payload.bytes();
        match self.question {
            Question::Class { hint } => {
                self.class = classifier.class_of(bytes);
                let hint = hint && self.class.is_some();
                self.hint = hint.then(|| contain(|| app.hint(bytes)).flatten()).flatten();
                self.deadline = contain(|| app.deadline(bytes)).flatten();
            }
            Question::Cancellation { cause, .. } => {
                let refusal = &mut self.refusal;
                if contain(|| app.cancelled(bytes, cause, refusal)).is_none() {
                    self.refusal.clear();
                }
            }
            Question::Refusal { .. } => {
                let refusal = &mut self.refusal;
                if contain(|| app.overloaded(bytes, refusal)).is_none() {
                    self.refusal.clear();
                }
            }
        }
    }
}
