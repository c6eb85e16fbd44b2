//! What pre-emption by signal needs of the running code. The handler, and who it serves, are the crate
//! `curtail-signal`; what became of its *ticks* is reported with all else, whether it is there or not.

use crate::safepoint;
use std::ops::Range;

/// Why a tick did not end the quantum that was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refusal {
    /// In a critical section. Leaving it yields.
    Critical = 0,
    /// In a library, the kernel's vDSO, or generated code.
    Library = 1,
    /// In the program, but not in code that is known as the application's.
    Runtime = 2,
    /// In no fiber's task, not on its stack, or too near the stack's end.
    Stack = 3,
    /// Registers were in use that a yield does not save.
    Registers = 4,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Critical, Self::Library, Self::Runtime, Self::Stack, Self::Registers];
}

/// What became of a thread's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// All that came.
    pub received: u64,
    /// Those that made a fiber yield (or begin another quantum, if no other fiber waited).
    pub taken: u64,
    /// Those that came while no quantum was over.
    pub early: u64,
    /// Those that were refused, by [`Refusal`].
    pub refused: [u64; Refusal::ALL.len()],
}

impl Ticks {
    /// Of all reasons.
    #[must_use]
    pub fn all_refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.taken += other.taken;
        self.early += other.early;
        for (sum, part) in self.refused.iter_mut().zip(other.refused) {
            *sum += part;
        }
    }
}

/// Whom a tick on this kthread is for, as [`set_owner`] was told; null: nobody.
#[must_use]
pub fn owner() -> *const () {
    safepoint::ticks()
}

/// Says whom ticks on the calling thread are for: here, and on each stack that is switched to from here on.
pub fn set_owner(owner: *const ()) {
    safepoint::set_ticks(owner);
}

/// The stack of the running fiber, above its guard, if its task has begun and has not ended.
#[must_use]
pub fn stack_in_task() -> Option<Range<usize>> {
    crate::context::stack_in_task()
}

/// Whether all of this machine's vector registers can be saved at a yield.
#[must_use]
pub fn saves_all_registers() -> bool {
    safepoint::saves_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_index_their_counters() {
        for (index, why) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, index);
        }
    }
}
