//! What the suite's Rust programs share: the scale, random numbers, the checksum. As `suite.h` for C:
//! every program takes a scale as its only argument (default 1: about a second), does that much of
//! its work, and prints a checksum that depends on all of it and on nothing else.

#![forbid(unsafe_code)]

/// How many rounds: `base` times the scale, at least one. Ends the program if the scale is none.
#[must_use]
pub fn rounds(base: u32) -> u64 {
    let mut arguments = std::env::args().skip(1);
    let scale = arguments.next().map_or(Ok(1.0), |text| text.parse::<f64>());
    match scale {
        Ok(scale) if (0.0..=1e6).contains(&scale) && arguments.next().is_none() => {
            ((f64::from(base) * scale) as u64).max(1)
        }
        _ => {
            eprintln!("usage: PROGRAM [SCALE]");
            std::process::exit(2)
        }
    }
}

/// xorshift64*: the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a fixed state.
    #[must_use]
    pub fn new() -> Self {
        Self(88_172_645_463_325_252)
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `n`.
    ///
    /// # Panics
    /// If that is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.draw() >> 32) % n
    }

    /// From [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

/// The checksum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds a value; the order counts.
    pub fn mix(&mut self, value: u64) {
        let sum = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = sum ^ sum >> 29;
    }

    /// Prints it: the program's only output.
    pub fn end(self) {
        println!("{:016x}", self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_depend_on_the_order() {
        let of = |values: [u64; 2]| {
            let mut sum = Sum::default();
            values.into_iter().for_each(|value| sum.mix(value));
            sum.0
        };
        assert_ne!(of([1, 2]), of([2, 1]));
    }

    #[test]
    fn random_numbers_stay_in_bounds() {
        let mut random = Random::new();
        assert!((0..1000).all(|_| random.below(7) < 7 && (0.0..1.0).contains(&random.unit())));
    }
}
