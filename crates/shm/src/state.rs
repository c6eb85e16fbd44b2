//! Whether a kthread runs, as it says itself, and which word it has seen. The kthread writes, the
//! daemon reads.

use crate::sync::{AtomicU64, Ordering};

/// `generation << 32 | state`: one store, so that the state is that of the word.
#[repr(transparent)]
#[derive(Debug)]
pub struct State(AtomicU64);

const RUNNING: u64 = 1;
const PARKED: u64 = 2;

impl Default for State {
    /// Parked; it has seen no word but the first.
    fn default() -> Self {
        Self(AtomicU64::new(PARKED))
    }
}

impl State {
    /// Parked, in memory that was zero. Before others see it.
    #[cfg_attr(loom, allow(dead_code, reason = "there is no such memory"))]
    pub(crate) fn begin(&self) {
        self.0.store(PARKED, Ordering::Relaxed);
    }

    /// It runs, as the word of that generation says.
    pub fn set_running(&self, generation: u32) {
        self.0.store(u64::from(generation) << 32 | RUNNING, Ordering::Release);
    }

    /// It has given its core back, and has seen the word of that generation. What it published before
    /// is seen with it.
    pub fn set_parked(&self, generation: u32) {
        self.0.store(u64::from(generation) << 32 | PARKED, Ordering::Release);
    }

    /// By another thread of its program: a kthread that says that it runs, and is stuck in a system
    /// call, has no use for its core; true: it says that it has parked, as the answer to the word that
    /// it has followed. It may come back at any moment, and parks then.
    pub fn give_core_back(&self) -> bool {
        let state = self.0.load(Ordering::Acquire);
        let parked = state & !u64::from(u32::MAX) | PARKED;
        state & u64::from(u32::MAX) == RUNNING
            && self.0.compare_exchange(state, parked, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether it is parked, and the generation of the word that it has seen.
    ///
    /// # Errors
    /// What stands there is no state.
    pub fn look(&self) -> Result<(bool, u32), u32> {
        let state = self.0.load(Ordering::Acquire);
        let generation = (state >> 32) as u32;
        match state & u64::from(u32::MAX) {
            RUNNING => Ok((false, generation)),
            PARKED => Ok((true, generation)),
            other => Err(other as u32),
        }
    }
}
