//! The two ways in which a kthread that computes sees that it is evicted, and what each costs it.
//!
//! * By its poll word: the allocator stores to what its safepoints look at each time (flag builds).
//! * By its word on the board: safepoints count the work that they see, and read the clock and look at the
//!   word when a heartbeat should be over (clock builds).
//!
//! Here both are written by hand, so that one program can have both. What safepoints cost programs as the
//! compiler places them, `./x bench safepoint` measures: `flag`, and `armed` at the heartbeat.

use curtail_shm::{PollPages, monotonic_ns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::Ordering;

/// How long a kthread goes on, at most, before it looks at its word on the board.
pub(crate) const HEARTBEAT_NS: u64 = 5_000;
/// Steps in one measurement of a loop, and how often it is measured.
const STEPS: u64 = 1_000_000;
const TIMES: usize = 15;
/// Steps that a heartbeat has at first, and at most.
const FIRST: u64 = 64;
const MOST: u64 = 1 << 20;

/// What looking costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Of one look, in ns.
    pub look_ns: f64,
    /// How much longer the loop takes that looks after each step.
    pub share: f64,
    /// What a step takes without looks, in ns.
    pub step_ns: f64,
}

/// Computing between two looks: some ns.
#[inline(always)]
pub(crate) fn step() {
    let mut value = 1_u64;
    for _ in 0..4 {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
    }
}

/// A heartbeat, counted in steps.
pub(crate) struct Beat {
    every_ns: u64,
    /// Steps to go, and how many that was when the clock was read last.
    left: u64,
    granted: u64,
    /// Since this one began.
    begun_ns: u64,
    steps: u64,
}

impl Beat {
    pub(crate) fn new(every_ns: u64) -> Self {
        Self { every_ns, left: FIRST, granted: FIRST, begun_ns: monotonic_ns(), steps: 0 }
    }

    /// The kthread runs again.
    pub(crate) fn begin(&mut self) {
        (self.begun_ns, self.steps, self.left) = (monotonic_ns(), 0, self.granted);
    }

    /// After a step: whether the heartbeat is over, which begins anew then.
    #[inline(always)]
    pub(crate) fn is_over(&mut self) -> bool {
        self.left -= 1;
        self.left == 0 && self.read()
    }

    #[inline(never)]
    fn read(&mut self) -> bool {
        let now_ns = monotonic_ns();
        let elapsed_ns = (now_ns - self.begun_ns).max(1);
        self.steps += self.granted;
        let is_over = elapsed_ns >= self.every_ns;
        // By the speed of this heartbeat: what is left of it, or most of the next.
        let next_ns = if is_over { self.every_ns / 8 * 7 } else { self.every_ns - elapsed_ns };
        self.granted = (self.steps.saturating_mul(next_ns) / elapsed_ns).clamp(1, MOST);
        self.left = self.granted;
        if is_over {
            (self.begun_ns, self.steps) = (now_ns, 0);
        }
        is_over
    }
}

/// What each way costs a loop that computes, on this thread.
///
/// # Errors
/// What the system says.
pub(crate) fn costs() -> std::io::Result<BTreeMap<String, Cost>> {
    let pages = PollPages::create(1)?;
    let word = pages.word(0);
    let mut beat = Beat::new(HEARTBEAT_NS);
    let mut least = [f64::MAX; 3];
    for _ in 0..TIMES {
        // In turn, so that what the machine does else comes to all of them; the least is what they cost.
        let none = per_step(|| false);
        let page = per_step(|| word.load(Ordering::Relaxed) != 0);
        beat.begin();
        let pointer = per_step(|| beat.is_over());
        for (least, found) in least.iter_mut().zip([none, page, pointer]) {
            *least = least.min(found);
        }
    }
    let [step_ns, page, pointer] = least;
    let cost = |with: f64| Cost {
        look_ns: (with - step_ns).max(0.0),
        share: (with / step_ns - 1.0).max(0.0),
        step_ns,
    };
    Ok([("page", page), ("pointer", pointer)]
        .map(|(name, with)| (name.to_owned(), cost(with)))
        .into())
}

/// How long a step and a look take, in ns.
#[inline(never)]
fn per_step(mut look: impl FnMut() -> bool) -> f64 {
    let mut seen = 0_u64;
    let begun_ns = monotonic_ns();
    for _ in 0..STEPS {
        step();
        if look() {
            seen += 1;
        }
    }
    let took_ns = monotonic_ns() - begun_ns;
    black_box(seen);
    took_ns as f64 / STEPS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_over_when_its_time_has_passed() {
        let mut beat = Beat::new(20_000);
        for _ in 0..50 {
            let begun_ns = monotonic_ns();
            beat.begin();
            while !beat.is_over() {
                step();
            }
            assert!(monotonic_ns() - begun_ns >= 20_000);
        }
    }

    #[test]
    fn both_ways_have_a_cost() {
        let costs = costs().unwrap();
        assert!(costs.keys().eq(["page", "pointer"]), "{costs:?}");
        assert!(costs.values().all(|cost| cost.step_ns > 0.0 && cost.look_ns >= 0.0), "{costs:?}");
    }
}
