//! The draws behind faults: one decides what happens to an input, others how it is damaged. Pure; the
//! same seed and the same inputs give the same faults.

use super::FaultConfig;

/// What happens to an input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    Duplicate,
    Reorder,
    Delay,
}

/// What was done to its bytes.
pub(crate) struct Damage {
    pub(crate) corrupted: bool,
    pub(crate) truncated: bool,
}

pub(crate) struct Draws {
    random: u64,
}

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { random: seed }
    }

    pub(crate) fn fate(&mut self, config: &FaultConfig) -> Fate {
        let mut draw = self.unit();
        let shares = [
            (config.drop, Fate::Drop),
            (config.duplicate, Fate::Duplicate),
            (config.reorder, Fate::Reorder),
            (config.delay, Fate::Delay),
        ];
        for (share, fate) in shares {
            if draw < share {
                return fate;
            }
            draw -= share;
        }
        Fate::Pass
    }

    /// Bits and length.
    pub(crate) fn damage(&mut self, config: &FaultConfig, payload: &mut Vec<u8>) -> Damage {
        let corrupted = self.unit() < config.corrupt && !payload.is_empty();
        if corrupted {
            let bit = self.next() % (payload.len() as u64 * 8);
            payload[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let truncated = self.unit() < config.truncate && !payload.is_empty();
        if truncated {
            let keep = self.next() % payload.len() as u64;
            payload.truncate(keep as usize);
        }
        Damage { corrupted, truncated }
    }

    /// From 0 to 1, 1 excluded.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The generator SplitMix64 (Steele, Lea, Flood 2014).
    pub(crate) fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
