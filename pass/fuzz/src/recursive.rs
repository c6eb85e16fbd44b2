//! Functions that call one another and themselves: around such calls are loops of every kind, ways out and
//! switches; which functions make a cycle is up to chance. Some give up, by a function that calls them in its
//! turn and never returns. Fuel ends every recursion.

use crate::dice::Dice;
use std::fmt::Write;

/// Writes one unit.
struct Unit<'a> {
    dice: &'a mut Dice,
    number: u64,
    functions: u64,
    names: u32,
    /// Whether some activations never return.
    gives_up: bool,
}

impl Unit<'_> {
    fn expression(&mut self) -> String {
        let shift = self.dice.range(1, 31);
        let small = self.dice.range(1, 63);
        match self.dice.below(9) {
            0 => "a".into(),
            1 => "(u32)h".into(),
            2 => format!("(u32)(h >> {shift})"),
            3 => format!("a * {small}u"),
            4 => format!("(x + {small}u)"),
            5 => format!("(x ^ a >> {})", shift),
            6 => "leaf(a, x)".into(),
            7 => format!("leaf_inline(x, {small}u)"),
            _ => format!("(u32)__builtin_popcount(a + {small}u)"),
        }
    }

    fn condition(&mut self) -> String {
        let e = self.expression();
        match self.dice.below(4) {
            0 => format!("({e} & 1)"),
            1 => format!("({e} & {})", self.dice.range(1, 15)),
            2 => format!("({e} & 15) == {}", self.dice.below(16)),
            _ => format!("__builtin_expect({e} % 37 == 5, 0)"),
        }
    }

    fn work(&mut self) -> String {
        let e = self.expression();
        match self.dice.below(6) {
            0 => format!("a += {e};\n"),
            1 => format!("x = x * 33 + {e};\n"),
            2 => format!("h = (h ^ {e}) * 0x9e3779b97f4a7c15ull;\n"),
            3 => format!("h += (u64){e} << 9;\n"),
            4 => format!("count_{}[{e} & 15]++;\n", self.number),
            _ => format!("x ^= count_{}[{e} & 15];\n", self.number),
        }
    }

    fn call(&mut self) -> String {
        let e = self.expression();
        let (n, callee) = (self.number, self.dice.below(self.functions));
        let arguments = format!("(h ^ {e}, a * 5 + 1, depth - 1)");
        let callee = match self.dice.below(8) {
            0 => format!("ways_{n}[{} % {}]", self.expression(), self.functions),
            _ => format!("recursive_{n}_{callee}"),
        };
        match self.dice.below(if self.gives_up { 5 } else { 4 }) {
            4 => format!("if ({e} % 1009 == {}) give_up_{n}{arguments};\n", self.dice.below(9)),
            0 => format!("h += {callee}{arguments};\n"),
            1 => format!("x ^= (u32){callee}{arguments};\n"),
            2 => format!("if ({callee}{arguments} & {}) a++;\n", self.dice.range(1, 7)),
            _ => format!("h = {callee}{arguments} * 3 + x;\n"),
        }
    }

    /// A loop's head, or a branch's unless it is to be a loop.
    fn head(&mut self, depth: u32, is_loop: bool) -> String {
        self.names += 1;
        let i = format!("i{}", self.names);
        // In one another, loops are short: an activation is not to take long.
        let most =
            if depth == 0 { self.dice.pick(&[2, 3, 7, 26, 100]) } else { self.dice.range(2, 5) };
        let shift = if depth == 0 { self.dice.range(1, 8) } else { 8 };
        match self.dice.below(if is_loop { 5 } else { 7 }) {
            0 => format!("for (u32 {i} = 0; {i} < {most}; {i}++)"),
            1 => format!("for (u32 {i} = 0, e{i} = a % {most}; {i} < e{i}; {i}++)"),
            2 => format!("for (u32 {i} = x; {i}; {i} >>= {shift})"),
            3 => format!("for (const struct node *{i} = chain(a, {most}); {i}; {i} = {i}->next)"),
            4 => format!("for (u32 {i} = a % {most}; {i} < {most} && {}; {i}++)", self.condition()),
            5 => format!("if ({})", self.condition()),
            _ => format!("if (!({}))", self.condition()),
        }
    }

    /// A node's children.
    fn children(&mut self) -> String {
        let head = self.head(0, true);
        let test =
            if self.dice.one_in(2) { format!("if ({}) ", self.condition()) } else { String::new() };
        format!("{head} {{\n{test}{}}}\n", self.call())
    }

    fn around(&mut self, depth: u32) -> String {
        let head = self.head(depth, false);
        let body = self.some(depth + 1);
        let leave = match self.dice.below(6) {
            0 if !head.starts_with("if") => format!("if ({}) break;\n", self.condition()),
            1 => format!("if ({}) return h + x;\n", self.condition()),
            _ => String::new(),
        };
        if self.dice.one_in(2) {
            format!("{head} {{\n{leave}{body}}}\n")
        } else {
            format!("{head} {{\n{body}{leave}}}\n")
        }
    }

    fn choice(&mut self, depth: u32) -> String {
        let mut text = format!("switch ({} & 3) {{\n", self.expression());
        for case in 0..self.dice.range(1, 4) {
            let _ = write!(text, "case {case}:\n{}", self.some(depth + 1));
            if self.dice.one_in(2) {
                text.push_str("break;\n");
            }
        }
        text + "}\n"
    }

    fn some(&mut self, depth: u32) -> String {
        let mut text = String::new();
        for _ in 0..self.dice.range(1, 3) {
            text += &match self.dice.below(8) {
                0..=2 => self.work(),
                3 | 4 => self.call(),
                5 | 6 if depth < 3 => self.around(depth),
                7 if depth < 3 => self.choice(depth),
                _ => self.call(),
            };
        }
        text
    }

    /// An error path: it may go through others before it is left.
    fn give_up(&mut self) -> String {
        let n = self.number;
        format!(
            "static __attribute__((noreturn)) void give_up_{n}(u64 h, u32 a, u32 depth) {{\n\
             u32 x = a;\n\
             if (depth != 0 && fuel_{n} != 0) {{\nfuel_{n}--;\n{}{}}}\n\
             given_up_{n} = h + x;\n\
             longjmp(out_{n}, 1);\n}}\n",
            self.work(),
            self.call(),
        )
    }

    fn function(&mut self, at: u64) -> String {
        let attribute = self.dice.pick(&[
            "",
            "",
            "NOINLINE",
            "NOINLINE",
            "inline",
            "__attribute__((noinline, cold))",
        ]);
        let n = self.number;
        let early = if self.dice.one_in(3) { self.some(2) } else { self.work() };
        // A node and its children; or anything.
        let body = if self.dice.one_in(2) { self.children() } else { self.some(0) };
        format!(
            "static {attribute} u64 recursive_{n}_{at}(u64 h, u32 a, u32 depth) {{\n\
             u32 x = a ^ (u32)h;\n\
             if (depth == 0 || fuel_{n} == 0) return h ^ x;\n\
             fuel_{n}--;\n{early}{}return h + x;\n}}\n",
            body
        )
    }
}

/// A unit of such functions, with the number that their names carry.
pub(crate) fn unit(dice: &mut Dice, number: u64) -> String {
    let functions = dice.range(1, 4);
    let (depth, fuel) = (dice.range(3, 40), dice.pick(&[50, 1000, 20_000]));
    let gives_up = dice.one_in(2);
    let mut unit = Unit { dice, number, functions, names: 0, gives_up };
    let mut text = format!("static u32 fuel_{number}, count_{number}[16];\n");
    if gives_up {
        let _ = write!(
            text,
            "static u64 given_up_{number};\nstatic jmp_buf out_{number};\n\
             static void give_up_{number}(u64 h, u32 a, u32 depth) __attribute__((noreturn));\n"
        );
    }
    for at in 0..functions {
        let _ = writeln!(text, "static u64 recursive_{number}_{at}(u64 h, u32 a, u32 depth);");
    }
    let _ = write!(text, "static u64 (*ways_{number}[{functions}])(u64, u32, u32) = {{");
    for at in 0..functions {
        let _ = write!(text, "recursive_{number}_{at}, ");
    }
    text.push_str("};\n");
    for at in 0..functions {
        text += &unit.function(at);
    }
    let mut run = format!("h = recursive_{number}_0(h, (u32)h >> 3, {depth});\n");
    if gives_up {
        text += &unit.give_up();
        run = format!("if (setjmp(out_{number}) == 0) {run}else h = given_up_{number};\n");
    }
    let _ = write!(
        text,
        "static u64 unit_{number}(u64 h) {{\n\
         fuel_{number} = {fuel};\n{run}\
         for (int i = 0; i < 16; i++) h = h * 31 + count_{number}[i];\n\
         return h + fuel_{number};\n}}\n"
    );
    text
}
