//! The two numbers that `auto` has to choose, and what it measures for them.
//!
//! **The stretch** S: how many times its service a request may take. Too small a value makes
//! deadlines that nobody can keep, and then short requests pay for long ones, as under c-FCFS. Too
//! great a one only makes long ones wait for short ones for longer than the short ones need. So S is
//! kept between 1⅓ and 2⅔ times the 99.9th percentile of the slowdown that comes of it. It goes up a
//! step as soon as one in 256 of a window takes longer than S, or when a review finds it too small;
//! it goes down a step when several reviews in a row find it too great. If it has to go up again
//! after that, more reviews must agree the next time. Where all requests are alike S makes no
//! difference, and stays.
//!
//! **The least quantum**: a request that was placed is left alone for so long. What a pre-emption
//! costs is measured: the worker's time from a decision until the dispatcher hears of its end, less
//! the service in between. Where that is nothing there is no least quantum. Else it is doubled when
//! pre-emptions took more of the workers' time than a quarter of what is idle anyway (and never more
//! than a twentieth), and halved when they took less than a quarter of that; never below twice the
//! cost of one.

use super::aims::{BUCKETS, bucket, floor};
use crate::Nanos;
use crate::ranked::Visit;

/// Completions between two looks at what can be seen soon.
const WINDOW: u64 = 2_048;

/// Windows between two looks at the 99.9th percentile.
const REVIEW: u64 = 4;

/// Reviews that must agree that S is too great: at first, and at most.
const PATIENCE: u32 = 4;
const MOST_PATIENCE: u32 = 64;

/// A smaller one would gain little, and a sudden load would find it too small.
const LEAST_STRETCH: u64 = 8;
/// By then it is the shortest first.
const GREATEST_STRETCH: u64 = 1 << 12;

/// Slowdowns are counted in this fraction.
const FRACTION: u64 = 64;

const LONGEST_QUANTUM: u64 = 1_000_000;

/// The next of the steps 8, 12, 16, 24, 32, …
fn above(stretch: u64) -> u64 {
    if stretch.is_power_of_two() { stretch / 2 * 3 } else { stretch / 3 * 4 }
}

/// The one before.
fn below(stretch: u64) -> u64 {
    if stretch.is_power_of_two() { stretch / 4 * 3 } else { stretch / 3 * 2 }
}

/// See the module's head.
pub(super) struct Mind {
    workers: f64,
    stretch: u64,
    quantum: u64,
    /// Worker's time that a visit costs beyond service, a moving average without outliers.
    cost_ns: f64,
    /// How often either number was changed.
    changes: u64,
    /// Reviews in a row for a smaller S, and how many there must be.
    votes: u32,
    patience: u32,
    /// S was made smaller last.
    lowered: bool,
    /// Requests are not all alike.
    differs: bool,
    // This window.
    since: Nanos,
    count: u64,
    preempted: u64,
    service_ns: u64,
    /// Slower than S.
    beyond: u64,
    // Since the last review.
    windows: u64,
    slowdowns: [u32; BUCKETS],
    // What came of the last ones.
    tail: f64,
    load: f64,
    mean_ns: u64,
}

impl Mind {
    pub(super) fn new(workers: usize, quantum: Option<Nanos>) -> Self {
        Self {
            workers: workers as f64,
            stretch: 2 * LEAST_STRETCH,
            quantum: quantum.map_or(0, |quantum| quantum.0),
            cost_ns: 0.0,
            changes: 0,
            votes: 0,
            patience: PATIENCE,
            lowered: false,
            differs: true,
            since: Nanos::ZERO,
            count: 0,
            preempted: 0,
            service_ns: 0,
            beyond: 0,
            windows: 0,
            slowdowns: [0; BUCKETS],
            tail: 1.0,
            load: 0.0,
            mean_ns: 1_000,
        }
    }

    pub(super) fn stretch(&self) -> u64 {
        self.stretch
    }

    /// The least quantum in nanoseconds; 0: none.
    pub(super) fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Shorter quanta than this are not worth while even if they cost nothing.
    pub(super) fn grain(&self) -> u64 {
        self.mean_ns / 16 + 1
    }

    pub(super) fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn tail(&self) -> f64 {
        self.tail
    }

    pub(super) fn load(&self) -> f64 {
        self.load
    }

    /// Somebody says where the least quantum is to begin.
    pub(super) fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum.map_or(0, |quantum| quantum.0);
    }

    pub(super) fn left(&mut self, visit: &Visit) {
        self.preempted += u64::from(visit.preempted);
        let cost = visit.took.since(visit.served).0 as f64;
        // Who was kept from working by something else does not count for more than a few others.
        let cost = cost.min(4.0 * self.cost_ns + 64.0);
        self.cost_ns += (cost - self.cost_ns) / 64.0;
    }

    /// True: a window is full, and it is time for [`Mind::review`].
    pub(super) fn completed(&mut self, now: Nanos, sojourn: Nanos, service: Nanos) -> bool {
        if self.count == 0 && self.since == Nanos::ZERO {
            self.since = now;
        }
        let (sojourn, service) = (sojourn.0, service.0.max(1));
        self.count += 1;
        self.service_ns = self.service_ns.saturating_add(service);
        self.beyond += u64::from(sojourn / service >= self.stretch);
        self.slowdowns[bucket(sojourn.saturating_mul(FRACTION) / service)] += 1;
        if self.beyond * 256 > WINDOW {
            self.beyond = 0;
            self.raise();
        }
        self.count == WINDOW
    }

    /// The end of a window. `differs`: requests are not all alike.
    pub(super) fn review(&mut self, now: Nanos, differs: bool) {
        let time = now.since(self.since).0.max(1) as f64 * self.workers;
        self.load = self.service_ns as f64 / time;
        self.mean_ns = self.service_ns / self.count;
        let spent = self.preempted as f64 * self.cost_ns / time;
        let before = self.quantum;
        self.fit_quantum(spent);
        self.changes += u64::from(before != self.quantum);
        self.differs = differs;
        self.windows += 1;
        if self.windows == REVIEW {
            self.tail = self.percentile();
            self.fit_stretch();
            self.slowdowns.fill(0);
            self.windows = 0;
        }
        self.since = now;
        (self.count, self.preempted, self.service_ns, self.beyond) = (0, 0, 0, 0);
    }

    fn fit_quantum(&mut self, spent: f64) {
        let least = 2 * self.cost_ns as u64;
        if least == 0 {
            self.quantum = 0;
            return;
        }
        let idle = (1.0 - self.load).max(0.0);
        let budget = (idle / 4.0).clamp(0.01, 0.05);
        if spent > budget {
            self.quantum = (2 * self.quantum).clamp(least, LONGEST_QUANTUM);
        } else if self.quantum < least {
            self.quantum = least.next_power_of_two();
        } else if spent < budget / 4.0 && self.quantum / 2 >= least {
            self.quantum /= 2;
        }
    }

    fn raise(&mut self) {
        self.votes = 0;
        if self.differs && self.stretch < GREATEST_STRETCH {
            self.stretch = above(self.stretch);
            self.changes += 1;
            if std::mem::take(&mut self.lowered) {
                self.patience = (2 * self.patience).min(MOST_PATIENCE);
            }
        }
    }

    fn fit_stretch(&mut self) {
        let stretch = self.stretch as f64;
        if stretch < 1.33 * self.tail {
            return self.raise();
        }
        self.votes = if stretch > 2.67 * self.tail { self.votes + 1 } else { 0 };
        if self.differs && self.votes >= self.patience && self.stretch > LEAST_STRETCH {
            self.votes = 0;
            self.stretch = below(self.stretch);
            self.changes += 1;
            if std::mem::replace(&mut self.lowered, true) {
                self.patience = (self.patience / 2).max(PATIENCE);
            }
        }
    }

    /// The 99.9th percentile of the slowdown since the last review.
    fn percentile(&self) -> f64 {
        let total: u32 = self.slowdowns.iter().sum();
        let mut beyond = total / 1_000;
        for at in (0..BUCKETS).rev() {
            if self.slowdowns[at] > beyond {
                return floor(at) as f64 / FRACTION as f64;
            }
            beyond -= self.slowdowns[at];
        }
        1.0
    }
}
