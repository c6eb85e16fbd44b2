//! The clock and the cores that a benchmark runs on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The time-stamp counter.
#[inline]
#[must_use]
pub fn now() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The counter's rate.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    /// Cycles a second.
    pub hz: f64,
}

impl Tsc {
    /// Measures it, once per process.
    #[must_use]
    pub fn get() -> Self {
        static TSC: std::sync::OnceLock<Tsc> = std::sync::OnceLock::new();
        *TSC.get_or_init(|| {
            // A long virtual interval turns the crate's rounded conversion into a precise rate.
            const CYCLES: u64 = 1 << 42;
            let ns = quanta::Clock::new().delta_as_nanos(0, CYCLES);
            Tsc { hz: CYCLES as f64 / ns as f64 * 1e9 }
        })
    }

    /// Cycles in nanoseconds.
    #[must_use]
    pub fn ns(self, cycles: u64) -> f64 {
        cycles as f64 * 1e9 / self.hz
    }

    /// Nanoseconds in cycles.
    #[must_use]
    pub fn cycles(self, ns: u64) -> u64 {
        (ns as f64 * self.hz / 1e9) as u64
    }
}

/// Two cores: where load is generated and where it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The generator's (or producer's).
    pub here: usize,
    /// The server's (or consumer's).
    pub there: usize,
}

impl Cores {
    /// The first two cores that this process may use; `None` where there is one only. Then nothing
    /// is pinned, and figures that need two cores mean little.
    #[must_use]
    pub fn pair() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        Some(Self { here: cores.next()?, there: cores.next()? })
    }
}

/// Keeps the calling thread on a core until dropped; threads and processes that it starts meanwhile
/// inherit the place.
#[derive(Debug)]
pub struct Pinned {
    before: Option<CpuSet>,
    /// A thread's affinity is restored by that thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// Onto that core; `None`: stay free. A core that the system refuses leaves the thread free too.
    #[must_use]
    pub fn to(core: Option<usize>) -> Self {
        let before = core.and_then(|core| {
            let before = sched_getaffinity(None).ok()?;
            let mut only = CpuSet::new();
            only.set(core);
            sched_setaffinity(None, &only).ok().map(|()| before)
        });
        Self { before, _here: std::marker::PhantomData }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}
