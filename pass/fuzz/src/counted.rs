//! Counted loops, with their trips known here and hidden from the compiler as often as not.

use crate::dice::Dice;

/// An integer type of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Int {
    /// As the prelude names it.
    pub name: &'static str,
    bits: u32,
    signed: bool,
}

const INTS: &[Int] = &[
    Int { name: "i8", bits: 8, signed: true },
    Int { name: "u8", bits: 8, signed: false },
    Int { name: "i16", bits: 16, signed: true },
    Int { name: "u16", bits: 16, signed: false },
    Int { name: "i32", bits: 32, signed: true },
    Int { name: "u32", bits: 32, signed: false },
    Int { name: "i64", bits: 64, signed: true },
    Int { name: "u64", bits: 64, signed: false },
];

impl Int {
    fn least(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    fn wrap(self, value: i128) -> i128 {
        let low = value & ((1 << self.bits) - 1);
        if low > self.most() { low - (1 << self.bits) } else { low }
    }

    /// `value + step` as C computes it; `None` where that is undefined. (Narrow types are added as
    /// `int` and converted back, which wraps.)
    fn add(self, value: i128, step: i128) -> Option<i128> {
        let sum = value + step;
        if self.signed && self.bits >= 32 && !(self.least()..=self.most()).contains(&sum) {
            return None;
        }
        Some(self.wrap(sum))
    }

    /// A literal of this type. The cast from u64 wraps, and so reaches every value.
    fn literal(self, value: i128, hidden: bool) -> String {
        let bits = u64::try_from(value & i128::from(u64::MAX)).expect("64 bits");
        let value = if hidden { format!("hide({bits}ull)") } else { format!("{bits}ull") };
        format!("({}){value}", self.name)
    }
}

const PREDICATES: &[&str] = &["<", "<=", ">", ">=", "!="];

fn holds(predicate: &str, left: i128, right: i128) -> bool {
    match predicate {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => left != right,
    }
}

/// A loop that a counter ends.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    int: Int,
    start: i128,
    bound: i128,
    step: i128,
    predicate: &'static str,
    /// The condition stands behind the body.
    behind: bool,
    /// How often the body runs.
    pub trips: u64,
}

impl Counted {
    /// One with at most `most` trips; zero and one among them.
    pub(crate) fn random(dice: &mut Dice, most: u64) -> Self {
        for _ in 0..20 {
            let mut candidate = Self::guess(dice, most);
            if let Some(trips) = candidate.simulate(most) {
                candidate.trips = trips;
                return candidate;
            }
        }
        let trips = dice.range(1, most.max(1));
        let (int, bound) = (INTS[5], i128::from(trips));
        Self { int, start: 0, bound, step: 1, predicate: "<", behind: false, trips }
    }

    fn guess(dice: &mut Dice, most: u64) -> Self {
        let int = dice.pick(INTS);
        let small = i128::from(dice.below(4));
        let inside = int.least() + i128::from(dice.any()) % (int.most() - int.least() + 1);
        let start = match dice.below(6) {
            0 | 1 => 0,
            2 => small + 1,
            3 => int.least() + small,
            4 => int.most() - small,
            _ => inside,
        };
        let size = match dice.below(8) {
            0..=2 => 1,
            3 => 2,
            4 => i128::from(dice.range(3, 9)),
            5 => 1 << dice.below(u64::from(int.bits) - 1),
            6 => i128::from(dice.any() | 1) & ((1 << (int.bits - 1)) - 1),
            _ => i128::from(dice.range(1, 200)),
        };
        let step = if dice.one_in(3) { -size } else { size };
        let trips = match dice.below(6) {
            0 => dice.below(3),
            1 => dice.range(1, most.min(10)),
            _ => dice.range(1, most.max(1)),
        };
        let jitter = if dice.one_in(3) { i128::from(dice.below(3)) - 1 } else { 0 };
        let bound = match dice.below(8) {
            0 => int.most(),
            1 => int.least(),
            _ => int.wrap(start + step * i128::from(trips) + jitter),
        };
        let (predicate, behind) = (dice.pick(PREDICATES), dice.one_in(3));
        Self { int, start, bound, step, predicate, behind, trips: 0 }
    }

    /// The trips, if they are at most `most` and everything is defined.
    fn simulate(&self, most: u64) -> Option<u64> {
        let (mut counter, mut trips) = (self.start, 0);
        if !self.behind && !holds(self.predicate, counter, self.bound) {
            return Some(0);
        }
        loop {
            trips += 1;
            if trips > most {
                return None;
            }
            counter = self.int.add(counter, self.step)?;
            if !holds(self.predicate, counter, self.bound) {
                return Some(trips);
            }
        }
    }

    /// The loop's text around `body`, with the counter called `name`. The body may `continue`.
    pub(crate) fn wrap(&self, dice: &mut Dice, name: &str, body: &str, pragma: &str) -> String {
        let (ty, predicate) = (self.int.name, self.predicate);
        let mut hidden = |n| dice.below(n) != 0;
        let start = self.int.literal(self.start, hidden(2));
        let bound = self.int.literal(self.bound, hidden(3));
        let step = self.int.literal(self.step, !hidden(4));
        let next = match self.step {
            1 => format!("{name}++"),
            -1 => format!("{name}--"),
            _ => format!("{name} = ({ty})({name} + {step})"),
        };
        // Hidden values are loop-invariant, and the compiler is to know that.
        let fixed = format!("const {ty} end_{name} = {bound};");
        let test = format!("{name} {predicate} end_{name}");
        let run = if self.behind {
            // `continue` in a do-while goes to the condition, so the step belongs there.
            format!("{ty} {name} = {start};\n{pragma}do {{\n{body}}} while ({next}, {test});\n")
        } else if dice.one_in(4) {
            format!("{ty} {name} = {start};\n{pragma}for (; {test}; {next}) {{\n{body}}}\n")
        } else {
            format!("{pragma}for ({ty} {name} = {start}; {test}; {next}) {{\n{body}}}\n")
        };
        format!("{{\n{fixed}\n{run}}}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(int: usize, start: i128, bound: i128, step: i128, p: &'static str) -> Option<u64> {
        let int = INTS[int];
        Counted { int, start, bound, step, predicate: p, behind: false, trips: 0 }.simulate(1000)
    }

    #[test]
    fn trips_are_those_of_c() {
        assert_eq!(counted(0, -128, 127, 1, "<"), Some(255));
        assert_eq!(counted(0, 0, 127, 1, "<="), None, "wraps for ever");
        assert_eq!(counted(1, 250, 4, 1, "!="), Some(10));
        assert_eq!(counted(1, 0, 255, 7, "!="), Some(73), "wraps and hits");
        assert_eq!(counted(4, i128::from(i32::MAX) - 2, i128::from(i32::MAX), 2, "<"), Some(1));
        assert_eq!(counted(4, i128::from(i32::MAX) - 1, i128::from(i32::MAX), 2, "<"), None);
        assert_eq!(counted(7, 5, 0, -1, ">"), Some(5));
        assert_eq!(counted(5, 5, 5, 1, "<"), Some(0));
    }
}
