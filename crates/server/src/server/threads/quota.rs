//! How many requests may be in the system, with how many bytes. A request's arrival takes room, its
//! end gives the room back. Half of both is kept for the classes, each as much as another, so that a
//! flood of one class refuses that class alone ([`curtail_sched::Shares`] does it for a dispatcher).
//!
//! Any thread's. A class's requests and bytes are in one word, so that each change is one atomic
//! operation there, and no other as long as the class keeps to what is its own. The invariant,
//! between operations: what is counted in common is the sum of what the classes have beyond that.
//!
//! Each operation adds to it, or takes from it, the difference between two values of its class's
//! word that followed each other, so that in any order of threads the differences add up. In the
//! middle of operations the sum may be off by theirs, and below zero; so it is signed.

use curtail_policy::{ClassId, Spec};
use curtail_ring::CachePadded;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The number lies above the bytes.
const ONE: u64 = 1 << BYTES_BITS;
const BYTES_BITS: u32 = 40;
const MOST_REQUESTS: usize = (1 << (64 - BYTES_BITS - 1)) - 1;
const MOST_BYTES: usize = (1 << (BYTES_BITS - 1)) - 1;

struct ClassShare {
    used: CachePadded<AtomicU64>,
    /// What it has for itself.
    own_requests: u64,
    own_bytes: u64,
    /// More of its requests may not be here.
    bound: u64,
}

impl ClassShare {
    /// What it takes of the common part, requests and bytes, when it has `used`.
    fn beyond(&self, used: u64) -> [i64; 2] {
        let requests = (used / ONE).saturating_sub(self.own_requests);
        let bytes = (used % ONE).saturating_sub(self.own_bytes);
        [requests as i64, bytes as i64]
    }

    /// What it takes of the common part more when it has `more` than when it has `less`.
    fn between(&self, less: u64, more: u64) -> [i64; 2] {
        let (less, more) = (self.beyond(less), self.beyond(more));
        [more[0] - less[0], more[1] - less[1]]
    }
}

/// How many requests, with how many bytes, may be in the system.
pub(super) struct AdmissionQuota {
    /// The unknown ones together last.
    classes: Box<[ClassShare]>,
    /// What the classes have of the common part, requests and bytes, and what there is of it.
    common: CachePadded<[AtomicI64; 2]>,
    most: [i64; 2],
}

impl AdmissionQuota {
    /// For `capacity` requests with `memory` bytes in all, of so many known classes. `keeps`: each has
    /// a part for itself.
    pub(super) fn new(
        (capacity, memory): (usize, usize),
        classes: usize,
        spec: &Spec,
        keeps: bool,
    ) -> Self {
        let (capacity, memory) =
            (capacity.min(MOST_REQUESTS) as u64, memory.min(MOST_BYTES) as u64);
        let parts = 2 * classes.max(1) as u64;
        let class = |class: usize| {
            let known = class < classes;
            let bound = spec.plan(class).bound.filter(|_| known);
            let keeps = u64::from(keeps && known);
            ClassShare {
                used: CachePadded::default(),
                own_requests: keeps * (capacity / parts),
                own_bytes: keeps * (memory / parts),
                bound: bound.map_or(u64::MAX, u64::from),
            }
        };
        let classes: Box<[ClassShare]> = (0..=classes).map(class).collect();
        let own = |of: fn(&ClassShare) -> u64| classes.iter().map(of).sum::<u64>();
        Self {
            common: CachePadded::default(),
            most: [
                (capacity - own(|class| class.own_requests)) as i64,
                (memory - own(|class| class.own_bytes)) as i64,
            ],
            classes,
        }
    }

    fn class(&self, class: ClassId) -> &ClassShare {
        &self.classes[usize::from(class.0).min(self.classes.len() - 1)]
    }

    /// A place for a request of `bytes`, unless there is none.
    #[must_use]
    pub(super) fn take(&self, class: ClassId, bytes: usize) -> bool {
        if bytes > MOST_BYTES {
            return false;
        }
        let (of, more) = (self.class(class), ONE + bytes as u64);
        let before = of.used.fetch_add(more, Relaxed);
        let after = before + more;
        // Both are counted before either is looked at: giving back takes both.
        let beyond = of.between(before, after);
        let fits = [0, 1].map(|at| self.change(at, beyond[at]));
        if after / ONE > of.bound || fits.contains(&false) {
            self.give(class, bytes);
            return false;
        }
        true
    }

    /// Changes what is counted in common; whether it is what there is at most, or was not changed.
    fn change(&self, at: usize, by: i64) -> bool {
        by == 0 || self.common[at].fetch_add(by, Relaxed) + by <= self.most[at]
    }

    /// A request of `bytes` has left.
    pub(super) fn give(&self, class: ClassId, bytes: usize) {
        self.give_back(class, ONE + bytes as u64);
    }

    /// A request has left with its `bytes`, and not its place.
    pub(super) fn give_bytes(&self, class: ClassId, bytes: usize) {
        self.give_back(class, bytes as u64);
    }

    fn give_back(&self, class: ClassId, less: u64) {
        let of = self.class(class);
        let before = of.used.fetch_sub(less, Relaxed);
        let beyond = of.between(before - less, before);
        for at in [0, 1] {
            self.change(at, -beyond[at]);
        }
    }

    fn used(&self) -> impl Iterator<Item = u64> + '_ {
        self.classes.iter().map(|class| class.used.load(Relaxed))
    }

    /// Requests in the system.
    pub(super) fn in_system(&self) -> usize {
        self.used().map(|used| (used / ONE) as usize).sum()
    }

    /// Bytes of the requests in the system.
    pub(super) fn bytes(&self) -> usize {
        self.used().map(|used| (used % ONE) as usize).sum()
    }

    /// Whether some class has no room left, or will have none soon.
    pub(super) fn is_short(&self) -> bool {
        self.common[0].load(Relaxed) >= self.most[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: ClassId = ClassId(0);
    const LONG: ClassId = ClassId(1);

    fn quota(size: (usize, usize), classes: usize, keeps: bool) -> AdmissionQuota {
        let mut spec = Spec::preset("shenango").unwrap();
        spec.plan_mut(2).bound = Some(3);
        AdmissionQuota::new(size, classes, &spec, keeps)
    }

    fn flood(quota: &AdmissionQuota, class: ClassId) -> usize {
        (0..1_000).take_while(|_| quota.take(class, 1)).count()
    }

    fn in_common(quota: &AdmissionQuota) -> [i64; 2] {
        [0, 1].map(|at| quota.common[at].load(Relaxed))
    }

    #[test]
    fn no_more_than_fit_and_what_is_given_back_fits_again() {
        for classes in [1, 2] {
            let quota = quota((2, 10), classes, false);
            let take = |bytes| quota.take(SHORT, bytes);
            assert!(take(4) && take(6) && !take(0) && quota.is_short());
            quota.give(SHORT, 4);
            assert!(!take(5) && take(4));
            quota.give(SHORT, 6);
            quota.give(SHORT, 4);
            assert_eq!((quota.in_system(), quota.bytes()), (0, 0));
            assert!(!take(11) && !take(usize::MAX) && take(10));
        }
    }

    #[test]
    fn limits_beyond_all_measure_are_none() {
        let quota = quota((usize::MAX, usize::MAX), 1, true);
        assert!(quota.take(SHORT, MOST_BYTES) && !quota.take(SHORT, 1));
        quota.give(SHORT, MOST_BYTES);
        assert_eq!(quota.in_system(), 0);
    }

    #[test]
    fn a_flood_refuses_its_own_class_only() {
        let by_number = quota((40, 1 << 20), 2, true);
        for _ in 0..2 {
            assert_eq!(flood(&by_number, LONG), 30);
            assert!(by_number.is_short());
            assert_eq!(flood(&by_number, ClassId::UNKNOWN), 0);
            assert_eq!(flood(&by_number, SHORT), 10);
            (0..30).for_each(|_| by_number.give(LONG, 1));
            (0..10).for_each(|_| by_number.give(SHORT, 1));
            assert_eq!((by_number.in_system(), in_common(&by_number)), (0, [0, 0]));
        }
        let by_bytes = quota((4_000, 40), 2, true);
        assert_eq!([LONG, SHORT].map(|class| flood(&by_bytes, class)), [30, 10]);
        assert_eq!(flood(&quota((400, 400), 3, true), ClassId(2)), 3, "its bound");
    }

    #[test]
    fn threads_that_ask_in_vain_leave_everything_as_it_was() {
        let quota = quota((16, 64), 2, true);
        std::thread::scope(|scope| {
            for at in 0..4_u16 {
                let quota = &quota;
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let (class, bytes) = (ClassId(at % 3), (round + usize::from(at)) % 9);
                        let taken = (0..9).filter(|_| quota.take(class, bytes)).count();
                        (0..taken).for_each(|_| quota.give(class, bytes));
                    }
                });
            }
        });
        assert_eq!((quota.in_system(), quota.bytes(), in_common(&quota)), (0, 0, [0, 0]));
    }
}
