//! Names and units. Newtypes keep apart what must not be mixed; none of them knows a clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A time or a duration in nanoseconds. The epoch is the caller's (virtual time in the simulator,
/// a calibrated TSC in the runtime); a policy only ever subtracts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// Later than every real time.
    pub const MAX: Self = Self(u64::MAX);

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `self − earlier`, or zero where `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

/// A job in the system: a dense slot number, reused when the job has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// A request class, as the application's classifier numbers them from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u16);

impl ClassId {
    /// Of a request that the classifier could not recognise (Perséphone §4.2).
    pub const UNKNOWN: Self = Self(u16::MAX);
}

/// A worker, numbered from 0; [`WorkerId::DISPATCHER`] is the dispatcher's own thread, which runs
/// jobs too where the policy is work-conserving (Concord §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// The dispatcher's own thread.
    pub const DISPATCHER: Self = Self(u16::MAX);

    /// As an index; the dispatcher has none.
    ///
    /// # Panics
    /// In debug builds, for [`WorkerId::DISPATCHER`].
    #[must_use]
    pub fn index(self) -> usize {
        debug_assert!(self != Self::DISPATCHER, "the dispatcher is not in the workers' tables");
        usize::from(self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::DISPATCHER {
            f.write_str("dispatcher")
        } else {
            write!(f, "worker {}", self.0)
        }
    }
}
