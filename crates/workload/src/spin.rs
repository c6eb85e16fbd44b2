//! Work of a known length: a chain of integer operations, each needing the one before.
//!
//! A spin is a number of iterations and never looks at a clock: a request that is interrupted and
//! resumed later still does all of its work, and the time away counts as waiting.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One step of the chain: shift, exclusive or, multiply, each waiting for the last. There is no
/// closed form that a compiler knows, and steps cannot be merged when the loop is unrolled.
///
/// A program that spins in code of its own, to be instrumented, repeats exactly this step, and may
/// compare the end of its chain with [`spin`]'s.
#[inline(always)]
const fn step(x: u64) -> u64 {
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Where every chain starts.
pub const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Runs the chain for so many steps and returns its end.
#[inline(never)]
pub fn spin(iterations: u64) -> u64 {
    let mut x = black_box(SEED);
    for _ in 0..iterations {
        x = step(x);
    }
    black_box(x)
}

/// How quick this machine is at the chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    per_us: f64,
}

impl Calibration {
    /// Steps in the shorter and the longer trial. Their difference leaves out what a trial costs
    /// besides the steps (the clock, the call).
    const SHORT: u64 = 2_000;
    const LONG: u64 = 12_000;
    /// At least as many trials of each, and at least for so long: an interrupted trial is no
    /// minimum, and a processor needs a while to reach its speed.
    const TRIALS: u32 = 200;
    const AT_LEAST: Duration = Duration::from_millis(30);

    /// Measures, in about 30 ms of CPU time. Minima over hundreds of trials of a few microseconds:
    /// on a machine that is taken away now and then most trials still run undisturbed.
    #[must_use]
    pub fn measure() -> Self {
        let (mut short, mut long) = (Duration::MAX, Duration::MAX);
        let start = Instant::now();
        let mut trials = 0;
        while trials < Self::TRIALS || start.elapsed() < Self::AT_LEAST {
            short = short.min(time(Self::SHORT));
            long = long.min(time(Self::LONG));
            trials += 1;
        }
        // A clock of such coarse steps that both trials take as long is told apart from none.
        let ns = long.saturating_sub(short).as_nanos().max(1) as f64;
        Self { per_us: (Self::LONG - Self::SHORT) as f64 * 1_000.0 / ns }
    }

    /// A calibration known from elsewhere.
    ///
    /// # Panics
    /// Where it is not positive and finite.
    #[must_use]
    pub fn from_iterations_per_us(per_us: f64) -> Self {
        assert!(per_us > 0.0 && per_us.is_finite(), "no calibration: {per_us}");
        Self { per_us }
    }

    /// Steps in a microsecond.
    #[must_use]
    pub fn iterations_per_us(self) -> f64 {
        self.per_us
    }

    /// Steps that take so long.
    #[must_use]
    pub fn iterations(self, ns: u64) -> u64 {
        (ns as f64 * self.per_us / 1_000.0).round() as u64
    }

    /// How long so many steps take, in nanoseconds.
    #[must_use]
    pub fn ns(self, iterations: u64) -> f64 {
        iterations as f64 * 1_000.0 / self.per_us
    }
}

fn time(iterations: u64) -> Duration {
    let start = Instant::now();
    spin(black_box(iterations));
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_does_every_step() {
        let mut x = SEED;
        for n in 0..1_000 {
            assert_eq!(spin(n), x);
            x = step(x);
        }
    }

    #[test]
    fn calibration_converts_both_ways() {
        let calibration = Calibration::from_iterations_per_us(520.0);
        assert_eq!(calibration.iterations(0), 0);
        assert_eq!(calibration.iterations(500), 260);
        assert!((calibration.ns(260) - 500.0).abs() < 1e-9);
    }

    #[test]
    fn measures_a_processor() {
        // Five dependent cycles a step at anything between 10 MHz and 10 GHz, in any build: this
        // rules out that the loop was optimised away or that units are confused.
        let per_us = Calibration::measure().iterations_per_us();
        assert!((2.0..2_000.0).contains(&per_us), "{per_us}");
    }
}
