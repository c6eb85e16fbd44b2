//! What a request does, by the seed and its number.

use super::random::Random;

/// Locks that requests share.
pub(super) const LOCKS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Compute {
        ns: u64,
    },
    Yield,
    Sleep {
        ns: u64,
    },
    /// Computes with a lock held.
    Lock {
        which: usize,
        ns: u64,
    },
    /// Waits until another request, or the end, opens the gate.
    Wait,
    Open,
    /// Starts a thread that computes, and joins it.
    Spawn {
        ns: u64,
    },
    /// Ends if it is cancelled.
    Check,
    Panic,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub class: u16,
    /// Of its payload, 8 at least.
    pub bytes: usize,
    pub deadline_ns: Option<u64>,
    /// Its classifier waits for that lock.
    pub classifier_locks: Option<usize>,
    pub steps: Vec<Step>,
}

impl Script {
    /// The one of that number.
    pub(super) fn of(seed: u64, id: u64) -> Self {
        let mut random = Random::new(seed ^ id.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let count = random.below(5);
        let steps = (0..count).map(|_| step(&mut random)).collect();
        Self {
            class: random.below(3) as u16,
            bytes: 8 + random.below(if random.clone().once_in(3) { 80 } else { 25 }) as usize,
            deadline_ns: random.once_in(8).then(|| random.below(40_000)),
            classifier_locks: random.once_in(16).then(|| random.below(LOCKS as u64) as usize),
            steps,
        }
    }

    /// The bytes of its request: its number, and some that can be checked.
    pub(super) fn payload(&self, id: u64) -> Vec<u8> {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.resize(self.bytes, id as u8 ^ 0x5a);
        bytes
    }
}

fn step(random: &mut Random) -> Step {
    let short = |random: &mut Random| 1 + random.below(6_000);
    match random.below(16) {
        0..=5 => Step::Compute { ns: short(random) },
        6 => Step::Compute { ns: 1 + random.below(60_000) },
        7 => Step::Yield,
        8 => Step::Sleep { ns: short(random) },
        9 | 10 => Step::Lock { which: random.below(LOCKS as u64) as usize, ns: short(random) },
        11 => Step::Wait,
        12 => Step::Open,
        13 => Step::Spawn { ns: short(random) },
        14 => Step::Check,
        _ if random.once_in(3) => Step::Panic,
        _ => Step::Yield,
    }
}
