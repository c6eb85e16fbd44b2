//! Requests for a load generator: the papers' mixes over a numbered key space. Randomness comes in
//! as an argument, so the same seed gives the same requests.

use crate::protocol::{NO_LIMIT, Op, Opcode, Request};

/// How many keys the papers load into LevelDB (Concord §5.3).
pub const PAPER_KEYS: u32 = 15_000;
/// Length of every key in the key space, in bytes.
pub const KEY_LENGTH: usize = 16;

/// The `index`-th key, in order: bytewise order is the order of the numbers.
#[must_use]
pub fn key(index: u32) -> [u8; KEY_LENGTH] {
    let mut key = *b"key-000000000000";
    let mut rest = index;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Fills `value` with bytes that `seed` determines.
pub fn fill_value(seed: u64, value: &mut [u8]) {
    let mut state = seed;
    for chunk in value.chunks_mut(8) {
        // A Weyl sequence through a multiply-and-fold: no compressor and no checksum finds a
        // pattern, and it costs less than the store.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = u128::from(state) * u128::from(state ^ 0xD6E8_FEB8_6659_FD93);
        let word = (mixed as u64) ^ ((mixed >> 64) as u64);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// What share of the requests has which opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Its name on the command line.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Weights of GET, PUT, DELETE and SCAN, as in [`Opcode::ALL`].
    pub weights: [u32; 4],
}

impl Mix {
    /// Half GETs of one key, half SCANs of everything.
    pub const GET_SCAN_50: Self =
        Self { name: "get-scan-50", source: "Concord §5.3, Shinjuku", weights: [50, 0, 0, 50] };
    /// A SCAN of everything among two hundred requests.
    pub const GET_SCAN_0_5: Self =
        Self { name: "get-scan-0.5", source: "Tiny Quanta §5.1", weights: [199, 0, 0, 1] };
    /// The ratios of Meta's ZippyDB traces.
    pub const ZIPPYDB: Self =
        Self { name: "zippydb", source: "Concord §5.3", weights: [78, 13, 6, 3] };
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GET_SCAN_50, Self::GET_SCAN_0_5, Self::ZIPPYDB];

    /// The mix of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.name == name)
    }

    /// The opcode that a uniformly distributed `random` chooses.
    ///
    /// # Panics
    /// If all weights are zero.
    #[must_use]
    pub fn pick(&self, random: u64) -> Opcode {
        let total: u64 = self.weights.iter().copied().map(u64::from).sum();
        assert!(total > 0, "a mix of nothing");
        let mut at = below(random, total);
        for (opcode, weight) in Opcode::ALL.into_iter().zip(self.weights) {
            match at.checked_sub(u64::from(weight)) {
                None => return opcode,
                Some(rest) => at = rest,
            }
        }
        unreachable!("`at` is below the sum of the weights")
    }
}

/// Makes requests: opcodes by a [`Mix`], keys uniformly, SCANs over everything.
///
/// A deleted key stays away until a PUT chooses it again: under `zippydb` about two thirds of the
/// keys are there in the long run, and a GET may find none.
#[derive(Clone, Debug)]
pub struct RequestMaker {
    mix: Mix,
    keys: u32,
    value: Vec<u8>,
}

impl RequestMaker {
    /// Requests over the first `keys` keys, with values of `value_length` bytes.
    ///
    /// # Panics
    /// If `keys` is 0, or a value would be longer than the protocol allows.
    #[must_use]
    pub fn new(mix: Mix, keys: u32, value_length: usize) -> Self {
        assert!(keys > 0, "a key space needs a key");
        assert!(value_length <= crate::protocol::MAX_VALUE, "values of {value_length} bytes");
        Self { mix, keys, value: vec![0; value_length] }
    }

    /// Replaces what is in `out` by one request with this id. `random` answers with uniformly
    /// distributed numbers; it is asked two or three times.
    pub fn write(&mut self, id: u64, mut random: impl FnMut() -> u64, out: &mut Vec<u8>) -> Opcode {
        let opcode = self.mix.pick(random());
        let key = key(below(random(), u64::from(self.keys)) as u32);
        let op = match opcode {
            Opcode::Get => Op::Get { key: &key },
            Opcode::Put => {
                fill_value(random(), &mut self.value);
                Op::Put { key: &key, value: &self.value }
            }
            Opcode::Delete => Op::Delete { key: &key },
            Opcode::Scan => Op::Scan { start: &[], end: &[], limit: NO_LIMIT },
        };
        out.clear();
        Request { id, op }.write(out).expect("lengths were checked when this was made");
        opcode
    }
}

/// A number below `bound`, uniform if `random` is (to within `bound` / 2⁶⁴).
fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let numbers = [0, 1, 9, 10, 99, 14_999, 15_000, 99_999, u32::MAX];
        let keys: Vec<_> = numbers.map(key).into();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(&key(14_999), b"key-000000014999");
        assert_eq!(&key(u32::MAX), b"key-004294967295");
    }

    #[test]
    fn a_mix_picks_by_weight() {
        // Evenly spaced numbers hit each opcode exactly as often as its weight says.
        for mix in Mix::ALL {
            let mut hits = [0; 4];
            for i in 0..10_000_u64 {
                let opcode = mix.pick(i * (u64::MAX / 10_000) + u64::MAX / 20_000);
                hits[opcode.index()] += 1;
            }
            let all: u32 = mix.weights.iter().sum();
            assert_eq!(hits, mix.weights.map(|weight| weight * 10_000 / all), "{}", mix.name);
            assert_eq!(Mix::named(mix.name), Some(mix));
        }
        assert_eq!(Mix::ZIPPYDB.pick(0), Opcode::Get);
        assert_eq!(Mix::ZIPPYDB.pick(u64::MAX), Opcode::Scan);
        assert_eq!(Mix::named("nothing"), None);
    }

    #[test]
    fn requests_are_valid_and_repeatable() {
        let run = || {
            let mut state = 7_u64;
            let mut random = move || {
                state =
                    state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                state ^ (state >> 29)
            };
            let mut maker = RequestMaker::new(Mix::ZIPPYDB, 100, 33);
            let mut out = Vec::new();
            let mut seen = Vec::new();
            for id in 0..2_000 {
                let opcode = maker.write(id, &mut random, &mut out);
                let request = Request::parse(&out).expect("what we write, we read");
                assert_eq!((request.id, request.op.opcode()), (id, opcode));
                match request.op {
                    Op::Get { key } | Op::Delete { key } => assert!(key < &super::key(100)[..]),
                    Op::Put { key, value } => {
                        assert!(key < &super::key(100)[..]);
                        assert_eq!(value.len(), 33);
                    }
                    Op::Scan { limit, .. } => assert_eq!(limit, NO_LIMIT),
                }
                seen.push(out.clone());
            }
            seen
        };
        assert_eq!(run(), run());
    }
}
