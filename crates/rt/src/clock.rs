//! Time: the TSC, and its rate.
//!
//! Hot paths read the raw counter ([`now`], about 20 ns) and pass it around; conversions to
//! nanoseconds happen where a policy or a person reads them.
//!
//! The rate is measured in a fraction of a millisecond when it is first asked for, which may be off by
//! some hundred parts in a million on a busy machine. It is measured again, over all the time since, as
//! the program runs (`refine`); and what must not end early asks the system's clock
//! (`monotonic_ns`).

use curtail_policy::Nanos;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A gap in the TSC longer than this, that no code of ours made, is the machine's. Unoptimised, ours
/// makes some.
#[doc(hidden)]
pub const GAP_NS: u64 = if cfg!(debug_assertions) { 50_000 } else { 5_000 };

#[cfg(curtail_virtual_time)]
pub use played::{advance, now};

/// The time-stamp counter.
#[cfg(not(curtail_virtual_time))]
#[inline]
#[must_use]
pub fn now() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Time that a simulation plays, in nanoseconds: far below any that the processor tells.
#[cfg(curtail_virtual_time)]
mod played {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NOW: AtomicU64 = AtomicU64::new(1 << 20);

    /// The time. Each reading takes a nanosecond.
    #[inline]
    #[must_use]
    pub fn now() -> u64 {
        NOW.fetch_add(1, Ordering::Relaxed)
    }

    /// So many nanoseconds pass.
    pub fn advance(ns: u64) {
        NOW.fetch_add(ns, Ordering::Relaxed);
    }
}

/// The system's monotonic clock, in nanoseconds: what a user's time is counted by.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    #[cfg(curtail_virtual_time)]
    return now();
    #[cfg(not(curtail_virtual_time))]
    of_the_system()
}

#[cfg(not(curtail_virtual_time))]
#[inline]
fn of_the_system() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// When the rate was first asked for, by both clocks, and the rate as it is known by now.
struct Known {
    start_tsc: u64,
    start_ns: u64,
    /// Over how many cycles the rate was measured.
    span: AtomicU64,
    /// The words of a [`Clock`]; the first is the bits of its floating-point number.
    words: [AtomicU64; 3],
}

impl Known {
    fn set(&self, clock: Clock) {
        let words = [clock.hz.to_bits(), clock.ns_per_cycle, clock.cycles_per_ns];
        self.words.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    }

    #[inline]
    fn clock(&self) -> Clock {
        let [hz, ns_per_cycle, cycles_per_ns] =
            [0, 1, 2].map(|at: usize| self.words[at].load(Ordering::Relaxed));
        Clock { hz: f64::from_bits(hz), ns_per_cycle, cycles_per_ns }
    }
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        // A long virtual interval turns quanta's rounded conversion into a precise rate.
        const CYCLES: u64 = 1 << 42;
        let ns = quanta::Clock::new().delta_as_nanos(0, CYCLES);
        let hz = CYCLES as f64 / ns as f64 * 1e9;
        let (start_tsc, start_ns) = both();
        let span = AtomicU64::new(hz as u64 / 2_000);
        let known = Known { start_tsc, start_ns, span, words: Default::default() };
        known.set(Clock::from_hz(hz));
        known
    })
}

/// Both clocks at one time: of some readings, those that were interrupted least.
fn both() -> (u64, u64) {
    let read = |_| {
        let (before, ns, after) = (now(), monotonic_ns(), now());
        (after.wrapping_sub(before), before + after.wrapping_sub(before) / 2, ns)
    };
    let (_, tsc, ns) = (0..5).map(read).min().unwrap_or_default();
    (tsc, ns)
}

/// Measures the rate again, if four times as long has passed as it was measured over, and by more than
/// a millisecond. Where the two clocks do not belong together (a machine that was stopped, or moved),
/// the rate stays. `now`: a fresh TSC reading.
#[inline]
pub(crate) fn refine(now: u64) {
    if cfg!(curtail_virtual_time) {
        return;
    }
    let known = known();
    let passed = now.saturating_sub(known.start_tsc);
    if passed / 4 > known.span.load(Ordering::Relaxed) {
        refine_slowly(known);
    }
}

#[cold]
fn refine_slowly(known: &Known) {
    const MOST_OFF: f64 = 0.002;
    let (tsc, ns) = both();
    let (cycles, ns) = (tsc.saturating_sub(known.start_tsc), ns.saturating_sub(known.start_ns));
    if ns < 1_000_000 {
        return;
    }
    known.span.store(cycles, Ordering::Relaxed);
    let (before, hz) = (known.clock().hz, cycles as f64 / ns as f64 * 1e9);
    if (hz / before - 1.0).abs() < MOST_OFF {
        known.set(Clock::from_hz(hz));
    }
}

/// The TSC's rate. A value keeps the rate that was known when it was made, so that times which one
/// converts belong together.
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
    /// The process's clock, at the rate that is known by now; the first call measures it (a
    /// millisecond).
    #[inline]
    pub fn get() -> Self {
        if cfg!(curtail_virtual_time) { Self::from_hz(1e9) } else { known().clock() }
    }

    fn from_hz(hz: f64) -> Self {
        let fixed = |ratio: f64| (ratio * 4_294_967_296.0).round() as u64;
        Self { hz, ns_per_cycle: fixed(1e9 / hz), cycles_per_ns: fixed(hz / 1e9) }
    }

    /// Nanoseconds a cycle, as a 32.32 fixed-point number.
    #[doc(hidden)]
    pub fn ns_per_cycle(&self) -> u64 {
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
