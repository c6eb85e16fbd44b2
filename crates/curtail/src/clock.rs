//! Time: the TSC, and its rate.
//!
//! Hot paths read the raw counter ([`now`], about 20 ns) and pass it around; conversions to
//! nanoseconds happen where a policy or a person reads them.

use curtail_policy::Nanos;
use std::sync::OnceLock;

/// The time-stamp counter.
#[inline]
#[must_use]
pub fn now() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The TSC's rate, measured once per process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Cycles a second.
    pub hz: f64,
    /// Nanoseconds a cycle, as a 32.32 fixed-point number.
    ns_per_cycle: u64,
    /// Cycles a nanosecond, as a 32.32 fixed-point number.
    cycles_per_ns: u64,
}

impl Clock {
    /// The process's clock; the first call calibrates it (some milliseconds).
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            // A long virtual interval turns quanta's rounded conversion into a precise rate.
            const CYCLES: u64 = 1 << 42;
            let ns = quanta::Clock::new().delta_as_nanos(0, CYCLES);
            Self::from_hz(CYCLES as f64 / ns as f64 * 1e9)
        })
    }

    fn from_hz(hz: f64) -> Self {
        let fixed = |ratio: f64| (ratio * 4_294_967_296.0).round() as u64;
        Self { hz, ns_per_cycle: fixed(1e9 / hz), cycles_per_ns: fixed(hz / 1e9) }
    }

    /// Nanoseconds a cycle, as a 32.32 fixed-point number.
    pub(crate) fn ns_per_cycle(&self) -> u64 {
        self.ns_per_cycle
    }

    /// `cycles` in nanoseconds.
    #[inline]
    #[must_use]
    pub fn ns(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.ns_per_cycle)) >> 32) as u64
    }

    /// `ns` in cycles.
    #[inline]
    #[must_use]
    pub fn cycles(&self, ns: u64) -> u64 {
        ((u128::from(ns) * u128::from(self.cycles_per_ns)) >> 32) as u64
    }

    /// `cycles` as a policy's time.
    #[inline]
    #[must_use]
    pub fn nanos(&self, cycles: u64) -> Nanos {
        Nanos(self.ns(cycles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_inverse() {
        for hz in [1.0e9, 2.0e9, 2.596e9, 3.3e9] {
            let clock = Clock::from_hz(hz);
            for ns in [0, 1, 999, 2_000, 1_000_000_000, 86_400_000_000_000] {
                let back = clock.ns(clock.cycles(ns));
                assert!(back.abs_diff(ns) <= 2 + ns / 1_000_000_000, "{hz} {ns} {back}");
            }
        }
    }

    #[test]
    fn agrees_with_the_operating_system() {
        let clock = Clock::get();
        let (wall, start) = (std::time::Instant::now(), now());
        while wall.elapsed().as_millis() < 20 {
            std::thread::yield_now();
        }
        let (by_tsc, by_os) = (clock.ns(now() - start) as f64, wall.elapsed().as_nanos() as f64);
        assert!((by_tsc / by_os - 1.0).abs() < 0.2, "{by_tsc} against {by_os}");
    }
}
