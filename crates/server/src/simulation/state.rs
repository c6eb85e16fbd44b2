//! What is known of each request from outside, and what is to hold.
//!
//! All run on one thread of the kernel, and nothing is pre-empted but where it says so: the lock is never
//! held then.

use curtail_net::Outcome;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request, from outside.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub began: bool,
    pub runs: bool,
    pub returned: bool,
    pub answers: Vec<Vec<u8>>,
    pub outcome: Option<Outcome>,
    /// Its peer has gone.
    pub gone: bool,
}

#[derive(Default)]
pub(super) struct State(Mutex<BTreeMap<u64, Known>>);

/// What the handler of a request answers.
pub(super) fn answer(id: u64) -> Vec<u8> {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().to_vec()
}

/// What is said to one that is refused, cancelled, or has failed.
pub(super) const NO: &[u8] = b"no";

impl State {
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, id: u64, f: impl FnOnce(&mut Known) -> R) -> R {
        f(self.all().get_mut(&id).unwrap_or_else(|| panic!("nobody has sent request {id}")))
    }

    pub(super) fn sent(&self, id: u64) {
        assert!(self.all().insert(id, Known::default()).is_none());
    }

    pub(super) fn begins(&self, id: u64) {
        self.with(id, |it| {
            assert!(!it.began, "request {id} began twice");
            assert!(it.outcome.is_none(), "request {id} began after its end");
            (it.began, it.runs) = (true, true);
        });
    }

    /// Its handler goes on.
    pub(super) fn goes_on(&self, id: u64) {
        self.with(id, |it| {
            assert!(it.runs && it.outcome.is_none(), "request {id} goes on after its end");
        });
    }

    pub(super) fn returns(&self, id: u64, whole: bool) {
        self.with(id, |it| {
            assert!(std::mem::replace(&mut it.runs, false), "request {id} ends twice");
            it.returned = whole;
        });
    }

    pub(super) fn answered(&self, id: u64, bytes: &[u8]) {
        self.with(id, |it| {
            assert!(it.outcome.is_none(), "request {id} is answered after its end");
            it.answers.push(bytes.to_vec());
        });
    }

    pub(super) fn completed(&self, id: u64, outcome: Outcome) {
        self.with(id, |it| {
            let before = it.outcome.replace(outcome);
            assert!(before.is_none(), "request {id} ended twice: {before:?}, {outcome:?}");
            let (whole, no) = ([answer(id)], [NO.to_vec()]);
            let (answers, returned) = (&it.answers[..], it.returned);
            let right = match outcome {
                Outcome::Done => it.began && returned && answers == whole,
                Outcome::Failed => !returned && (answers == no || answers.is_empty()),
                Outcome::Cancelled => !returned && (answers == no || answers.is_empty()),
                Outcome::Dropped => !it.began && (answers == no || answers.is_empty()),
                Outcome::Orphaned => !it.began && it.gone && answers.is_empty(),
                Outcome::Abandoned => it.began && !returned && answers.is_empty(),
            };
            assert!(right, "request {id} ended as {outcome:?}: {it:?}");
        });
    }

    pub(super) fn is_gone(&self, id: u64) -> bool {
        self.with(id, |it| it.gone)
    }

    /// How many have ended so.
    pub(super) fn count(&self, which: impl Fn(Outcome, &Known) -> bool) -> u64 {
        let all = self.all();
        all.values().filter(|it| it.outcome.is_some_and(|outcome| which(outcome, it))).count()
            as u64
    }

    /// Nothing is under way any more.
    pub(super) fn at_the_end(&self) {
        for (id, it) in self.all().iter() {
            assert!(it.outcome.is_some(), "request {id} never ended: {it:?}");
            let stays = it.outcome == Some(Outcome::Abandoned);
            assert!(!it.runs || stays, "request {id} is in its handler: {it:?}");
        }
    }
}
