//! Random choices. All of the harness's randomness comes from here, so that a seed is a program.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// A stream of choices.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Pcg64);

impl Dice {
    /// The stream of one seed, for one purpose: different purposes do not shift each other.
    #[must_use]
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose))
    }

    /// Any value.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Below `n`, which is not zero. (The bias does not matter here.)
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.any() % n
    }

    /// From `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True one time in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }
}
