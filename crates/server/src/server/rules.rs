//! What holds for requests of each class that are cancelled: until when they have time, what becomes
//! of them, and how many were abandoned.
//!
//! Any thread's. The counters only grow, and stay within what the class allows.

use curtail_policy::ClassId;
use curtail_rt::cancel::OnCancel;
use curtail_rt::clock::Clock;
use curtail_rt::context::NEVER;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Of a class, or of requests of none.
struct Rule {
    /// From its arrival on; [`NEVER`]: it has none.
    deadline_cycles: u64,
    on_cancel: OnCancel,
    abandoned: AtomicUsize,
}

/// What holds for cancelled requests of each class.
pub(crate) struct Rules {
    by_class: Box<[Rule]>,
    /// Requests stay behind that may have begun. What they borrow, the application, their worker's state
    /// and their bytes, is never freed.
    leaves: AtomicBool,
}

/// What a builder says of a class, by its name.
#[derive(Clone, Debug)]
pub(crate) struct ClassRule {
    pub class: String,
    pub deadline: Option<Duration>,
    pub on_cancel: Option<OnCancel>,
}

impl Rules {
    /// `names`: of the classes, and at the end that of unknown requests.
    ///
    /// # Errors
    /// A rule is for none of them.
    pub(crate) fn new(names: &[String], rules: &[ClassRule]) -> Result<Self, String> {
        let clock = Clock::get();
        let none = || Rule {
            deadline_cycles: NEVER,
            on_cancel: OnCancel::default(),
            abandoned: AtomicUsize::new(0),
        };
        let mut all: Box<[Rule]> = names.iter().map(|_| none()).collect();
        for rule in rules {
            let Some(index) = names.iter().position(|name| *name == rule.class) else {
                let classes = names.join(", ");
                return Err(format!("no class is called `{}`; there are {classes}", rule.class));
            };
            if let Some(deadline) = rule.deadline {
                let ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX / 8);
                all[index].deadline_cycles = clock.cycles(ns.min(u64::MAX / 8));
            }
            all[index].on_cancel = rule.on_cancel.unwrap_or(all[index].on_cancel);
        }
        Ok(Self { by_class: all, leaves: AtomicBool::new(false) })
    }

    fn of(&self, class: ClassId) -> &Rule {
        &self.by_class[usize::from(class.0).min(self.by_class.len() - 1)]
    }

    /// When a request is cancelled that arrived then (TSC): by the rule of its class or by what the
    /// application says, whichever is sooner. [`NEVER`]: not by time.
    pub(crate) fn deadline(&self, class: ClassId, own: Option<Duration>, arrived_tsc: u64) -> u64 {
        let own = own.map_or(NEVER, |own| {
            let ns = u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
            Clock::get().cycles(ns.min(u64::MAX / 8))
        });
        arrived_tsc.saturating_add(self.of(class).deadline_cycles.min(own))
    }

    pub(crate) fn on_cancel(&self, class: ClassId) -> OnCancel {
        self.of(class).on_cancel
    }

    /// Counts one more that is left where it is; false: it may not be.
    pub(crate) fn may_abandon(&self, class: ClassId) -> bool {
        let rule = self.of(class);
        let OnCancel::Abandon { most } = rule.on_cancel else { return false };
        let more = |count| (count < most).then_some(count + 1);
        let may = rule.abandoned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if may {
            self.note_left();
        }
        may
    }

    /// Requests stay behind. Before the workers that have them end.
    pub(crate) fn note_left(&self) {
        self.leaves.store(true, Ordering::Release);
    }

    /// Whether what requests borrow must stay.
    pub(crate) fn leaves_requests(&self) -> bool {
        self.leaves.load(Ordering::Acquire)
    }

    /// Whether as many of the class were abandoned as may be, so that it takes no more.
    #[inline]
    pub(crate) fn refuses(&self, class: ClassId) -> bool {
        let rule = self.of(class);
        match rule.on_cancel {
            OnCancel::Abandon { most } => rule.abandoned.load(Ordering::Relaxed) >= most,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["short", "long", "unknown"].map(str::to_owned).to_vec()
    }

    #[test]
    fn no_more_are_abandoned_than_may_be() {
        let on_cancel = Some(OnCancel::Abandon { most: 2 });
        let rule = ClassRule { class: "long".to_owned(), deadline: None, on_cancel };
        let rules = Rules::new(&names(), &[rule]).unwrap();
        let taken: Vec<_> = (0..4).map(|_| rules.may_abandon(ClassId(1))).collect();
        assert_eq!(taken, [true, true, false, false]);
        assert_eq!([0, 1, 2].map(|class| rules.refuses(ClassId(class))), [false, true, false]);
        assert!(!rules.may_abandon(ClassId(0)) && !rules.may_abandon(ClassId::UNKNOWN));
    }

    #[test]
    fn a_rule_for_no_class_is_an_error() {
        let rule = ClassRule { class: "lnog".to_owned(), deadline: None, on_cancel: None };
        let error = Rules::new(&names(), &[rule]).map(drop).unwrap_err();
        assert_eq!(error, "no class is called `lnog`; there are short, long, unknown");
    }
}
