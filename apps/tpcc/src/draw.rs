//! Random inputs, as TPC-C has them drawn (clauses 2.1.5, 2.1.6 and 4.3.2).

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The constants of clause 2.1.6.1, the same for load and run: their difference is 0 for customers'
/// numbers and items, and 100 for last names, which clause 2.1.6.1 allows (65 to 119, but 96 and 112).
const C_NAME_LOAD: u32 = 57;
const C_NAME_RUN: u32 = 157;
const C_CUSTOMER: u32 = 259;
const C_ITEM: u32 = 7_911;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A stream of inputs; the same seed gives the same ones.
#[derive(Debug)]
pub struct Draw(Pcg64Mcg);

impl Draw {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Any number from `low` to `high`, both included.
    pub fn number(&mut self, low: u32, high: u32) -> u32 {
        self.0.random_range(low..=high)
    }

    /// An amount of money, in cents.
    pub fn cents(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// Whether, with so many chances in a hundred.
    pub fn percent(&mut self, chance: u32) -> bool {
        self.number(1, 100) <= chance
    }

    /// NURand (clause 2.1.6): some numbers come far more often than others.
    fn skewed(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        let drawn = self.number(0, a) | self.number(low, high);
        (drawn + c) % (high - low + 1) + low
    }

    /// A customer's number of so many.
    pub(crate) fn customer(&mut self, customers: u32) -> u32 {
        self.skewed(1_023, C_CUSTOMER, 1, customers)
    }

    /// An item's number of so many.
    pub(crate) fn item(&mut self, items: u32) -> u32 {
        self.skewed(8_191, C_ITEM, 1, items)
    }

    /// The number of a last name that someone asks for, in a district of so many customers: where there
    /// are fewer names than 1,000, one that there is.
    pub(crate) fn name(&mut self, customers: u32) -> u32 {
        self.skewed(255, C_NAME_RUN, 0, 999) % customers.min(1_000)
    }

    /// The number of a last name for a customer who is loaded.
    pub(crate) fn loaded_name(&mut self) -> u32 {
        self.skewed(255, C_NAME_LOAD, 0, 999)
    }

    /// Letters, between so many and so many.
    pub(crate) fn letters(&mut self, low: u32, high: u32) -> String {
        (0..self.number(low, high)).map(|_| char::from(self.0.random_range(b'a'..=b'z'))).collect()
    }

    /// So many digits.
    pub(crate) fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(self.0.random_range(b'0'..=b'9'))).collect()
    }

    /// Numbers from 1 to `count`, in any order.
    pub(crate) fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=count).collect();
        for at in (1..all.len()).rev() {
            all.swap(at, self.0.random_range(0..=at));
        }
        all
    }
}

/// The last name of that number (clause 4.3.2.3).
pub(crate) fn last_name(number: u32) -> String {
    let syllable = |digit: u32| SYLLABLES[(digit % 10) as usize];
    [syllable(number / 100), syllable(number / 10), syllable(number)].concat()
}
