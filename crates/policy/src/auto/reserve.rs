//! How many workers long requests leave to short ones where requests are not pre-empted (Perséphone
//! §3: a short one that finds all workers taken by long ones waits for the end of one).
//!
//! Requests are short or long where classes tell them apart, by the widest gap between the service
//! times of all: each class that is on one side of it with all its requests is known to be short.
//!
//! Short ones get d + √d workers for a demand of d (square-root staffing: then they rarely wait,
//! and the reserve is hardly ever idle for nothing), and at least one; but long ones keep a
//! twentieth more than they need, unless short ones had less than they need then. Unlike DARC's
//! workers these are a number, not particular ones; a short request may have any.
//!
//! The reserve changes when what is wanted is a quarter of a worker beyond it, or one and a quarter
//! below.

use super::estimate::ServiceEstimate;
use crate::Nanos;

/// A wait for something so many times as long is worth a reserve.
const FACTOR: u64 = 8;

/// As many windows make an average, and fewer say nothing: long requests are few in one.
const WINDOWS: f64 = 64.0;
const ENOUGH: f64 = 16.0;

/// The number of workers that long requests leave to short ones.
pub(super) struct Reserve {
    total: f64,
    /// It is no use where requests are pre-empted.
    preempts: bool,
    /// Requests that take at least so long are long.
    long: u64,
    /// Workers' worth of short requests and of long ones, moving averages.
    short_demand: f64,
    long_demand: f64,
    /// Of so many windows.
    windows: f64,
    workers: usize,
}

impl Reserve {
    pub(super) fn new(workers: usize, preempts: bool) -> Self {
        let total = workers as f64;
        Self {
            total,
            preempts,
            long: u64::MAX,
            short_demand: 0.0,
            long_demand: 0.0,
            windows: 0.0,
            workers: 0,
        }
    }

    pub(super) fn preempts(&self) -> bool {
        self.preempts
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Whether a request that may take so long must leave them free.
    pub(super) fn is_modest(&self, aim: u64) -> bool {
        aim >= self.long
    }

    /// The end of a window that took so long. `aims`: by class, the last of all. True: another
    /// number of workers.
    pub(super) fn review(&mut self, aims: &mut [ServiceEstimate], window: Nanos) -> bool {
        if self.preempts {
            return false;
        }
        let (all, classes) = aims.split_last_mut().expect("there is one of all classes");
        let gap = all.widest_gap().filter(|&(_, factor)| factor >= FACTOR);
        self.long = gap.map_or(u64::MAX, |(end, _)| end);
        let (mut short, mut long) = (0.0, 0.0);
        for class in classes {
            let served = class.take_demand_ns() / window.0 as f64;
            *(if class.last() < self.long { &mut short } else { &mut long }) += served;
        }
        self.windows = (self.windows + 1.0).min(WINDOWS);
        self.short_demand += (short - self.short_demand) / self.windows;
        self.long_demand += (long - self.long_demand) / self.windows;
        let before = std::mem::replace(&mut self.workers, 0);
        if gap.is_some() && self.windows >= ENOUGH && self.short_demand > 0.0 {
            let wanted = (self.short_demand + self.short_demand.sqrt()).max(1.0);
            let spare = self.total - 1.05 * self.long_demand;
            // Whatever long ones need to be better off, short ones must be able to be served at all.
            let least = self.short_demand.ceil().min((self.total - self.long_demand).floor());
            // One is for all in any case: what is long may come of a class that is not known yet.
            let most = self.total as usize - 1;
            self.workers = fit(before, wanted, spare).max(least.max(0.0) as usize).min(most);
        }
        before != self.workers
    }
}

/// The number of workers for what is wanted, of those that can be spared; what it was before, if
/// that will do.
fn fit(before: usize, wanted: f64, spare: f64) -> usize {
    let distance = wanted - before as f64;
    let fits = if (-1.25..0.25).contains(&distance) { before } else { wanted.ceil() as usize };
    // Not more before there is room for more and a bit.
    let room =
        if spare >= before as f64 { before.max((spare - 0.1) as usize) } else { spare as usize };
    fits.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_change_nothing() {
        assert_eq!([1.8, 3.2, 3.3, 1.7].map(|wanted| fit(3, wanted, 9.0)), [3, 3, 4, 2]);
    }

    #[test]
    fn what_cannot_be_spared_is_not_reserved() {
        assert_eq!([2.9, 1.0, 0.9, -3.0].map(|spare| fit(3, 3.0, spare)), [2, 1, 0, 0]);
        assert_eq!([1.05, 1.15].map(|spare| fit(0, 1.0, spare)), [0, 1]);
    }
}
