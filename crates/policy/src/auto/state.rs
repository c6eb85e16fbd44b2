//! The two numbers that `auto` has to choose, and what it measures for them.
//!
//! **The stretch** S: how many times its service a request may take. Too small a value makes
//! deadlines that can't be kept, and then short requests pay for long ones, as under c-FCFS. Too
//! great a value makes long requests wait for short ones for longer than the short ones need, and
//! gains nothing.
//!
//! So S is kept near the 99.9th percentile of the slowdown that comes of it, or a little above. It
//! goes up a step as soon as one in 256 of a window takes longer than S (more steps if that goes
//! on: while a queue grows, only a great S helps any request), or when a review finds it too small;
//! it goes down a step when several reviews in a row find it too great.
//!
//! If it has to go up again after that, more reviews must agree the next time. Above 64 it becomes
//! so great that the order is the shortest first: under overload some requests have to wait, and it
//! is better that few do than all. Where all requests are alike S makes no difference, and stays.
//!
//! **The least quantum**: a request that was placed is left alone for so long. What a pre-emption
//! costs is measured on those that were pre-empted: the worker's time from the decision until the
//! dispatcher learns of its end, less the service in between. Where that is nothing there is no
//! least quantum.
//!
//! Else it is doubled when pre-emptions took more of the workers' time than a quarter of what is
//! idle anyway (and never more than a twentieth), and halved when they took less than a quarter of
//! that, averaged over a dozen windows; never below twice the cost of one.

use super::estimate::{BUCKETS, bucket, floor};
use crate::Nanos;
use crate::ranked::Visit;

/// Completions between two looks at what can be seen soon.
pub(super) const WINDOW: u64 = 2_048;

/// Windows between two looks at the 99.9th percentile.
const REVIEW: u64 = 4;

/// Reviews that must agree that S is too great: at first, and at most.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 64;

/// A smaller one would gain little, and a sudden load would find it too small.
const LEAST_STRETCH: u64 = 2;

/// What it is until something is known: a small one does more harm than a great one.
const FIRST_STRETCH: u64 = 8;

/// S should be this many times the 99.9th percentile of the slowdown. A step down is less than from
/// the one bound to the other.
const TOO_SMALL: f64 = 0.95;
const TOO_GREAT: f64 = 1.6;

/// Beyond this, keeping all requests equally late would help none of them.
const LAST_STRETCH: u64 = 64;

/// In effect, the shortest first.
const GREATEST_STRETCH: u64 = 1 << 12;

/// From the least to the greatest.
const MOST_STEPS: u32 = 16;

/// Slowdowns are counted in this fraction.
const FRACTION: u64 = 64;

/// What a window counts for in the share of time that goes into pre-emptions.
const SLOWLY: f64 = 1.0 / 16.0;

/// What a window counts for in the load, a moving average.
const NEW: f64 = 0.125;

const LONGEST_QUANTUM: u64 = 1_000_000;

/// Fewer pre-emptions than this say nothing of their cost.
const ENOUGH: u32 = 16;

/// The next of the steps 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, and then the greatest.
fn above(stretch: u64) -> u64 {
    if stretch >= LAST_STRETCH {
        return GREATEST_STRETCH;
    }
    if stretch.is_power_of_two() { stretch / 2 * 3 } else { stretch / 3 * 4 }
}

/// The one before.
fn below(stretch: u64) -> u64 {
    if stretch > LAST_STRETCH {
        return LAST_STRETCH;
    }
    let less = if stretch.is_power_of_two() { stretch / 4 * 3 } else { stretch / 3 * 2 };
    less.max(LEAST_STRETCH)
}

/// The stretch and the least quantum that `auto` has chosen, and what it measures for them.
pub(super) struct AutoState {
    workers: f64,
    stretch: u64,
    quantum: u64,
    /// Worker's time that a pre-emption costs, a moving average without outliers, and of how many.
    cost_ns: f64,
    measured: u32,
    /// How often either number was changed.
    changes: u64,
    /// Share of the workers' time that went into pre-emptions, a slow moving average.
    spent: f64,
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
    /// Steps that S goes up by the next time that many are.
    stride: u32,
    /// Many were, in this window.
    alarmed: bool,
    // Since the last review.
    windows: u64,
    slowdowns: [u32; BUCKETS],
    // What came of the last ones.
    tail: f64,
    load: f64,
    mean_ns: u64,
    /// How long the last window took.
    window: Nanos,
}

impl AutoState {
    pub(super) fn new(workers: usize, quantum: Option<Nanos>) -> Self {
        Self {
            workers: workers as f64,
            stretch: FIRST_STRETCH,
            quantum: quantum.map_or(0, |quantum| quantum.0),
            cost_ns: 0.0,
            measured: 0,
            changes: 0,
            spent: 0.01,
            votes: 0,
            patience: PATIENCE,
            lowered: false,
            differs: true,
            since: Nanos::ZERO,
            count: 0,
            preempted: 0,
            service_ns: 0,
            beyond: 0,
            stride: 1,
            alarmed: false,
            windows: 0,
            slowdowns: [0; BUCKETS],
            tail: 1.0,
            load: 0.0,
            mean_ns: 1_000,
            window: Nanos(1),
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

    /// How long the last window took.
    pub(super) fn window(&self) -> Nanos {
        self.window
    }

    /// Something else about the choice has changed.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// The policy's quantum is set: the least quantum begins there.
    pub(super) fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum.map_or(0, |quantum| quantum.0);
    }

    pub(super) fn left(&mut self, visit: &Visit) {
        if !visit.preempted {
            return;
        }
        self.preempted += 1;
        self.measured = self.measured.saturating_add(1);
        let cost = visit.took.since(visit.served).0 as f64;
        // A visit during which something else kept the worker from working counts for no more than
        // a few others.
        let cost = cost.min(4.0 * self.cost_ns + 64.0);
        self.cost_ns += (cost - self.cost_ns) / f64::from(self.measured.min(64));
    }

    /// True: a window is full, and it is time for [`AutoState::review`].
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
            // Steps double while this goes on: to follow the tail step by step would make all
            // requests as late as the latest.
            self.beyond = 0;
            self.raise(self.stride);
            self.stride = (2 * self.stride).min(MOST_STEPS);
            self.alarmed = true;
        }
        self.count == WINDOW
    }

    /// The end of a window. `differs`: requests are not all alike.
    pub(super) fn review(&mut self, now: Nanos, differs: bool) {
        self.window = Nanos(now.since(self.since).0.max(1));
        let time = self.window.0 as f64 * self.workers;
        let load = self.service_ns as f64 / time;
        let new = if self.load == 0.0 { 1.0 } else { NEW };
        self.load += new * (load - self.load);
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
        (self.count, self.preempted, self.service_ns) = (0, 0, 0);
        self.beyond = 0;
        if !std::mem::take(&mut self.alarmed) {
            self.stride = 1;
        }
    }

    fn fit_quantum(&mut self, spent: f64) {
        if self.measured < ENOUGH {
            return;
        }
        let least = 2 * self.cost_ns as u64;
        if least == 0 {
            self.quantum = 0;
            return;
        }
        let idle = (1.0 - self.load).max(0.0);
        let budget = (idle / 4.0).clamp(0.01, 0.05);
        self.spent += SLOWLY * (spent - self.spent);
        if self.quantum < least {
            self.quantum = least.next_power_of_two();
        } else if self.spent > budget {
            self.quantum = (2 * self.quantum).min(LONGEST_QUANTUM.max(least));
        } else if self.spent < budget / 4.0 && self.quantum / 2 >= least {
            self.quantum /= 2;
        } else {
            return;
        }
        self.spent = budget / 2.0;
    }

    fn raise(&mut self, steps: u32) {
        self.votes = 0;
        if self.differs && self.stretch < GREATEST_STRETCH {
            (0..steps).for_each(|_| self.stretch = above(self.stretch));
            self.changes += 1;
            if std::mem::take(&mut self.lowered) {
                self.patience = (2 * self.patience).min(MOST_PATIENCE);
            }
        }
    }

    fn fit_stretch(&mut self) {
        let stretch = self.stretch as f64;
        if stretch < TOO_SMALL * self.tail {
            return self.raise(1);
        }
        self.votes = if stretch > TOO_GREAT * self.tail { self.votes + 1 } else { 0 };
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
