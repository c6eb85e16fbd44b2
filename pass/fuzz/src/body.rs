//! Random statements over the standard locals (see `pieces/prelude.c`), free of undefined behaviour
//! and of ends that never come: all arithmetic is unsigned, indices are masked, and each loop has a
//! known most of trips, so that the product over a nest stays below a cap.

use crate::counted::Counted;
use crate::dice::Dice;
use std::fmt::Write;

/// What surrounds a statement.
#[derive(Clone, Debug)]
struct Place {
    /// How often it runs at most.
    times: u64,
    /// Loops and branches around it.
    depth: u32,
    /// Inside a loop of this function: `break` and `continue` are allowed.
    in_loop: bool,
    /// Inside a switch of this function, where `break` leaves only that.
    in_switch: bool,
    /// Counters in sight.
    counters: u32,
}

/// Writes the statements of one function.
pub(crate) struct Body<'a> {
    dice: &'a mut Dice,
    /// Iterations that a loop nest may have in all.
    cap: u64,
    /// A statement that leaves by another way (throw, longjmp, return).
    escape: Option<&'a str>,
    names: u32,
}

impl<'a> Body<'a> {
    /// For a function whose loop nests may have `cap` iterations.
    pub(crate) fn new(dice: &'a mut Dice, cap: u64, escape: Option<&'a str>) -> Self {
        Self { dice, cap, escape, names: 0 }
    }

    /// Some statements.
    pub(crate) fn statements(&mut self) -> String {
        let place = Place { times: 1, depth: 0, in_loop: false, in_switch: false, counters: 0 };
        self.some(&place, 4)
    }

    /// An expression of type u32, without loops' counters.
    pub(crate) fn expression(&mut self) -> String {
        self.expr(0, 0)
    }

    fn some(&mut self, place: &Place, most: u64) -> String {
        let count = self.dice.range(1, most);
        (0..count).map(|_| self.statement(place)).collect()
    }

    fn leaf(&mut self, counters: u32) -> String {
        if counters > 0 && self.dice.one_in(3) {
            let counter = self.dice.below(u64::from(counters));
            return format!("(u32)n{counter}");
        }
        let index = self.dice.below(64);
        match self.dice.below(14) {
            0..=2 => "a".into(),
            3 | 4 => "b".into(),
            5 => "c".into(),
            6 => "(u32)h".into(),
            7 => "(u32)(h >> 32)".into(),
            8 => "(u32)s".into(),
            9 => "(u32)q * 3u".into(),
            10 => "(u32)w".into(),
            11 => format!("A[{index}]"),
            12 => "(u32)l".into(),
            _ => format!("{}u", self.dice.any() >> self.dice.range(32, 63)),
        }
    }

    fn expr(&mut self, counters: u32, depth: u32) -> String {
        if depth > 2 || self.dice.one_in(3) {
            return self.leaf(counters);
        }
        let x = self.expr(counters, depth + 1);
        let y = self.expr(counters, depth + 1);
        match self.dice.below(16) {
            0..=2 => format!("({x} + {y})"),
            3 => format!("({x} - {y})"),
            4 => format!("({x} ^ {y})"),
            5 => format!("({x} & {y})"),
            6 => format!("({x} | {y})"),
            7 => format!("({x} * {y})"),
            8 => format!("({x} >> ({y} & 31))"),
            9 => format!("({x} << ({y} & 31))"),
            10 => format!("({x} / ({y} | 1))"),
            11 => format!("((i32){x} < (i32){y} ? {y} : {x})"),
            12 => format!("A[{x} & 63]"),
            13 => format!("(u32)T[{x} & 127]"),
            14 => format!("(u32)(((u64){x} * {y}) >> 13)"),
            _ => format!("(u32)__builtin_popcount({x})"),
        }
    }

    fn condition(&mut self, counters: u32) -> String {
        let (x, y) = (self.expr(counters, 1), self.expr(counters, 1));
        match self.dice.below(6) {
            0 => format!("{x} < {y}"),
            1 => format!("(i32){x} > (i32){y}"),
            2 => format!("({x} & {}) == 0", self.dice.range(1, 15)),
            3 => format!("({x} & 1023) == {}", self.dice.below(1024)),
            4 => format!("{x} != {y}"),
            _ => format!("__builtin_expect({x} == {y}, 0)"),
        }
    }

    fn simple(&mut self, place: &Place) -> String {
        let e = self.expr(place.counters, 0);
        let f = self.expr(place.counters, 1);
        match self.dice.below(20) {
            0 => format!("a += {e};\n"),
            1 => format!("b ^= {e};\n"),
            2 => format!("c = c * 33 + {e};\n"),
            3 => format!("h = (h ^ {e}) * 0x9e3779b97f4a7c15ull;\n"),
            4 => format!("h += (u64){e} << 7;\n"),
            5 => format!("s = (i32){e};\n"),
            6 => format!("q = (u8)({e});\nw += (u16)({f});\n"),
            7 => format!("l = (i64)((u64)l * 5 + {e});\n"),
            8 => format!("d = d * 0.5 + (double)({e} & 0xffff);\n"),
            9..=11 => format!("A[{f} & 63] = {e};\n"),
            12 => format!("T[{f} & 127] ^= (u8)({e});\n"),
            13 => format!("B[{f} & 63] += A[{e} & 63];\n"),
            // Not read back from `sink`: another thread may have written it since.
            14 => format!("{{ volatile u32 mine = {e};\nsink = mine;\na += mine; }}\n"),
            15 => format!("local_counter += {e};\n"),
            16 => format!("b += {}({e}, {f});\n", self.dice.pick(CALLEES)),
            17 => format!("c ^= table[{f} & 3]({e}, a);\n"),
            18 => format!("{}\n", self.dice.pick(ASSEMBLY)),
            _ => format!("if (s < (i32){e}) s = (i32){e};\n"),
        }
    }

    /// A way out, where there is one.
    fn leave(&mut self, place: &Place) -> String {
        let condition = self.condition(place.counters);
        let way = match self.dice.below(5) {
            0 | 1 if place.in_loop && !place.in_switch => "break;",
            2 if place.in_loop => "continue;",
            3 if self.escape.is_some() => self.escape.unwrap_or_default(),
            4 => "goto out;",
            _ => return self.simple(place),
        };
        format!("if ({condition}) {way}\n")
    }

    fn statement(&mut self, place: &Place) -> String {
        if place.depth >= 4 {
            return self.simple(place);
        }
        match self.dice.below(16) {
            0..=4 => self.simple(place),
            5 | 6 => self.branch(place),
            7 => self.leave(place),
            8 => self.switch(place),
            9..=12 => self.counted(place),
            13 => self.over_arrays(place),
            _ => self.data_dependent(place),
        }
    }

    fn branch(&mut self, place: &Place) -> String {
        let inner = Place { depth: place.depth + 1, ..place.clone() };
        let condition = self.condition(place.counters);
        let then = self.some(&inner, 3);
        if self.dice.one_in(2) {
            return format!("if ({condition}) {{\n{then}}}\n");
        }
        let other = self.some(&inner, 3);
        format!("if ({condition}) {{\n{then}}} else {{\n{other}}}\n")
    }

    fn switch(&mut self, place: &Place) -> String {
        let inner = Place { depth: place.depth + 1, in_switch: true, ..place.clone() };
        let cases = self.dice.range(2, 9);
        let mask = (cases + 2).next_power_of_two() - 1;
        let mut text = format!("switch ({} & {mask}) {{\n", self.expr(place.counters, 1));
        for case in 0..cases {
            let body = self.some(&inner, 2);
            let end = if self.dice.one_in(4) { "" } else { "break;\n" };
            let _ = write!(text, "case {case}: {{\n{body}}}\n{end}");
        }
        let _ = write!(text, "default: {{\n{}}}\n}}\n", self.simple(&inner));
        text
    }

    /// The trips that a loop here may have.
    fn trips(&mut self, place: &Place) -> u64 {
        let room = (self.cap / place.times.max(1)).max(1);
        let wanted = match self.dice.below(8) {
            0 => 3,
            1..=3 => 20,
            4 | 5 => 150,
            6 => 2_000,
            _ => 70_000,
        };
        wanted.min(room)
    }

    fn inside(place: &Place, trips: u64) -> Place {
        Place {
            times: place.times * trips.max(1),
            depth: place.depth + 1,
            in_loop: true,
            in_switch: false,
            counters: place.counters,
        }
    }

    fn counted(&mut self, place: &Place) -> String {
        let most = self.trips(place);
        let counted = Counted::random(self.dice, most);
        let mut inner = Self::inside(place, counted.trips);
        // Counters are called by their level, so that all in sight have names without gaps.
        let name = format!("n{}", place.counters);
        inner.counters += 1;
        let body = match self.dice.below(9) {
            0..=2 => self.simple(&inner),
            3 | 4 => self.leaving(&name),
            _ => self.some(&inner, 4),
        };
        let pragma = if self.dice.one_in(4) { self.dice.pick(PRAGMAS) } else { "" };
        counted.wrap(self.dice, &name, &body, pragma)
    }

    /// A body of arithmetic alone that leaves the loop now and then, by one way or two.
    fn leaving(&mut self, counter: &str) -> String {
        let id = self.names;
        self.names += 1;
        let seldom = [7, 63, 255, 4095, 65535];
        let mut way = || {
            let (mask, hit) = (self.dice.pick(&seldom), self.dice.below(8));
            let last = self.dice.pick(&["", "b += 7; ", "b += (u32)counter; ", "c ^= x{id}; "]);
            let last = last.replace("{id}", &id.to_string()).replace("counter", counter);
            format!("if ((x{id} & {mask}) == {hit}) {{ {last}break; }}\n")
        };
        let (first, second) = (way(), way());
        let second = if self.dice.one_in(2) { second } else { String::new() };
        format!(
            "u32 x{id} = a ^ (u32){counter};\nx{id} = x{id} * 31 + (b ^ x{id} >> 7); x{id} ^= x{id} << 3; x{id} += c >> 2; x{id} ^= x{id} >> 5;\n{first}x{id} *= 3; x{id} ^= (x{id} << 9) + b * 7; x{id} -= c << 4; x{id} ^= x{id} >> 11; a += x{id}; b ^= x{id};\n{second}"
        )
    }

    /// Loops that a vectoriser likes, over part of the arrays.
    fn over_arrays(&mut self, place: &Place) -> String {
        let ty = self.dice.pick(&["i32", "u32", "i64", "u64", "u8", "i16"]);
        let trips = self.dice.range(0, 64);
        let reverse = self.dice.one_in(4);
        let k = self.dice.range(1, 7);
        let body = match self.dice.below(10) {
            0 => "a += A[i];".to_owned(),
            1 => "A[i] = A[i] * 3u + B[i];".to_owned(),
            2 => "if (s < (i32)A[i]) s = (i32)A[i];".to_owned(),
            3 => "h += (u64)A[i] * B[i];".to_owned(),
            4 => format!("if (A[i] & {k}) b ^= B[i];"),
            5 => format!("B[i] = A[(u32)i * {k} & 63];"),
            6 => "if (A[i] == b) { c = (u32)i; break; }".to_owned(),
            7 => "A[i] = 0;".to_owned(),
            8 => "T[A[i] & 127]++;".to_owned(),
            _ => "d += (double)(B[i] >> 8); d *= 0.5;".to_owned(),
        };
        // The whole scan may run once in each trip of the loops around it.
        if place.times * trips > self.cap {
            return self.simple(place);
        }
        let head = if reverse {
            format!("{ty} i = ({ty})hide({trips}); i-- > 0;")
        } else {
            let step = self.dice.pick(&["i++", "i++", "i++", "i += 2", "i += 3"]);
            format!("{ty} i = 0; i < ({ty})hide({trips}); {step}")
        };
        format!("for ({head}) {{\n{body}\n}}\n")
    }

    /// Loops that no counter ends; all have a most of trips that is known here.
    fn data_dependent(&mut self, place: &Place) -> String {
        let fuel = self.trips(place).max(2);
        let inner = Self::inside(place, fuel);
        let body = self.some(&inner, 2);
        let (id, e) = (self.names, self.expr(place.counters, 1));
        self.names += 1;
        let most = Self::inside(place, 32);
        match self.dice.below(9) {
            0 => format!(
                "{{ u32 f{id} = {fuel}, x{id} = {e} | 1;\nwhile (x{id} != 1 && f{id}-- > 0) {{\nx{id} = x{id} & 1 ? 3 * x{id} + 1 : x{id} >> 1;\n{body}}}\na ^= x{id}; }}\n"
            ),
            1 => format!(
                "{{ u64 x{id} = h | 1;\nfor (u32 f{id} = hide({fuel}); f{id}; f{id}--) {{\nx{id} ^= x{id} << 13; x{id} ^= x{id} >> 7; x{id} ^= x{id} << 17;\n{body}if ((x{id} & 127) == 5) break;\n}}\nh += x{id}; }}\n"
            ),
            2 => format!(
                "{{ u32 f{id} = {fuel};\ndo {{\n{body}}} while (--f{id} && {}); }}\n",
                self.condition(place.counters)
            ),
            3 => format!(
                "{{ u32 f{id} = 0;\nfor (;;) {{\nif (f{id}++ >= {fuel}) break;\n{body}}} }}\n"
            ),
            4 if most.times < self.cap => format!(
                "{{ u32 x{id} = {e};\nwhile (x{id}) {{\nx{id} &= x{id} - 1;\n{}}} }}\n",
                self.some(&most, 2)
            ),
            5 if most.times < self.cap => format!(
                "{{ u32 x{id} = {e}, y{id} = b | 1;\nwhile (y{id}) {{\nu32 z{id} = x{id} % y{id}; x{id} = y{id}; y{id} = z{id};\n}}\na += x{id}; }}\n"
            ),
            6 if most.times < self.cap => format!(
                "{{ u32 low{id} = 0, high{id} = 64;\nwhile (low{id} < high{id}) {{\nu32 m{id} = (low{id} + high{id}) / 2;\nif (A[m{id}] < {e}) low{id} = m{id} + 1; else high{id} = m{id};\n}}\nb += low{id}; }}\n"
            ),
            7 if most.times < self.cap => format!(
                "{{ const u8 *p{id} = T, *z{id} = T + hide(128);\nwhile (p{id} != z{id} && *p{id} != (u8)({e})) p{id} += 2;\nc += (u32)(z{id} - p{id}); }}\n"
            ),
            _ => format!(
                "{{ const struct node *p{id} = chain({e}, {fuel});\nwhile (p{id}) {{\na = a * 7 + p{id}->value;\np{id} = p{id}->next;\n}} }}\n"
            ),
        }
    }
}

const CALLEES: &[&str] = &["leaf", "leaf_inline", "leaf_loop", "far", "pure_leaf"];

const PRAGMAS: &[&str] = &[
    "#pragma clang loop vectorize(disable) unroll(disable)\n",
    "#pragma clang loop unroll_count(4)\n",
    "#pragma clang loop vectorize_width(4) interleave_count(2)\n",
    "#pragma clang loop unroll(full)\n",
];

const ASSEMBLY: &[&str] = &[
    "__asm__ volatile(\"addl %1, %0\" : \"+r\"(a) : \"r\"(b) : \"cc\");",
    "__asm__(\"roll $3, %0\" : \"+r\"(c) : : \"cc\");",
    "{ u32 z = b; __asm__ volatile(\"xorl %%ecx, %%ecx; movl %1, %%ecx; addl %%ecx, %0\" : \"+r\"(z) : \"r\"(a) : \"ecx\", \"cc\"); b = z; }",
    "{ bool z; __asm__(\"cmpl %2, %1\" : \"=@cca\"(z) : \"r\"(a), \"r\"(b)); c += z; }",
    "__asm__ volatile(\"\" : : : \"memory\");",
    "__asm__ volatile(\"\" : \"+x\"(d));",
    "__asm__ volatile(\"\" : : : \"rbx\", \"r12\", \"r13\", \"r14\", \"r15\");",
];
