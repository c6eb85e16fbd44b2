//! What tasks of a kthread have: stacks, thread-locals, and a grace inside of locks.

use super::runtime::RuntimeBuilder;
use crate::clock::Clock;
use curtail_fiber::Locals;
use curtail_fiber::safepoint::Safepoint;
use std::time::Duration;

/// What becomes of a quantum that ends while its thread, or request, holds a lock: a
/// [`Mutex`](crate::sync::Mutex), an [`RwLock`](crate::sync::RwLock), or one of pthread's.
///
/// In any case the holder yields as soon as it has given the lock back. Locks that are no more than
/// atomic variables, such as those of `std` and parking_lot, have no grace: a holder may be pre-empted,
/// and whoever wants the lock waits as a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grace {
    /// The holder goes on for one quantum more, and for 20 µs at most. So a short section is not cut, and
    /// a long one holds up only those who want its lock.
    #[default]
    Quantum,
    /// The holder goes on for so long.
    For(Duration),
    /// The holder is not pre-empted, however long it holds the lock.
    Ban,
    /// The holder is pre-empted as anywhere else.
    None,
}

/// The most that [`Grace::Quantum`] is.
const MOST: Duration = Duration::from_micros(20);

impl Grace {
    /// For the calling kthread, from its next quantum on.
    pub(super) fn apply(self) {
        let (time, exact) = match self {
            Self::Quantum => (MOST, false),
            Self::For(time) => (time, true),
            Self::Ban => (Duration::from_secs(1 << 28), true),
            Self::None => (Duration::ZERO, true),
        };
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let cycles = Clock::get().cycles(ns.min(u64::MAX / 64)).min(u64::MAX / 8);
        Safepoint::this_thread().set_grace(cycles, exact);
    }
}

/// What tasks of a kthread have: stacks, thread-locals, and a grace inside of locks.
#[derive(Clone, Copy, Debug)]
pub struct TaskSettings {
    pub stack_size: usize,
    pub locals: Locals,
    pub grace: Grace,
}

impl TaskSettings {
    /// With thread-locals of their own, and the usual grace.
    pub fn with_stack(stack_size: usize) -> Self {
        Self { stack_size, locals: Locals::Own, grace: Grace::default() }
    }
}

impl RuntimeBuilder {
    /// What becomes of a quantum that ends while its thread holds a lock. Default: [`Grace::Quantum`].
    pub fn lock_grace(mut self, grace: Grace) -> Self {
        self.tasks.grace = grace;
        self
    }

    /// All threads are light: see [`Builder::light`](crate::Builder::light).
    pub fn light(mut self) -> Self {
        self.tasks.locals = Locals::Shared;
        self
    }
}
