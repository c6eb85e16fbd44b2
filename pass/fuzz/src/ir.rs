//! IR with control flow that front ends seldom write: irreducible cycles, switches and indirect
//! branches into them, invokes with shared landing pads, blocks without predecessors, musttail calls.
//! Values live in memory and become phis by mem2reg.

use crate::dice::Dice;
use std::fmt::Write;

const HEAD: &str = "target datalayout = \"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128\"
target triple = \"x86_64-unknown-linux-gnu\"
@data = global [64 x i64] zeroinitializer
@local = thread_local(localexec) global [8 x i64] zeroinitializer
declare i64 @unseen(i64)
declare i32 @__gxx_personality_v0(...)
declare ptr @llvm.threadlocal.address.p0(ptr)
";

struct Function<'a> {
    dice: &'a mut Dice,
    text: String,
    name: u64,
    blocks: u64,
    pads: u64,
    values: u64,
}

impl Function<'_> {
    fn fresh(&mut self) -> String {
        self.values += 1;
        format!("%v{}", self.values)
    }

    fn load(&mut self) -> String {
        let (value, slot) = (self.fresh(), self.dice.below(4));
        let _ = writeln!(self.text, "  {value} = load i64, ptr %s{slot}");
        value
    }

    fn target(&mut self) -> u64 {
        self.dice.below(self.blocks)
    }

    fn instruction(&mut self) {
        let (x, y) = (self.load(), self.load());
        let (value, slot) = (self.fresh(), self.dice.below(4));
        let callee = self.dice.below(self.name + 1);
        let text = match self.dice.below(9) {
            0..=2 => {
                let operation = self.dice.pick(&["add", "mul", "xor", "and", "sub nsw", "or"]);
                format!("{value} = {operation} i64 {x}, {y}")
            }
            3 => format!("{value} = call i64 @unseen(i64 {x})"),
            4 => format!("{value} = call i64 @f{callee}(i64 {x})"),
            5 => format!(
                "%p{value_} = getelementptr i64, ptr @data, i64 {x}\n  {value} = load i64, ptr %p{value_}",
                value_ = self.values
            ),
            6 => format!(
                "%t{n} = call ptr @llvm.threadlocal.address.p0(ptr @local)\n  %p{n} = getelementptr i64, ptr %t{n}, i64 {x}\n  store i64 {y}, ptr %p{n}\n  {value} = load i64, ptr %t{n}",
                n = self.values
            ),
            7 => format!("{value} = call i64 asm sideeffect \"\", \"=r,0\"(i64 {x})"),
            _ => format!(
                "%c{n} = icmp slt i64 {x}, {y}\n  {value} = select i1 %c{n}, i64 {x}, i64 {y}",
                n = self.values
            ),
        };
        let _ = writeln!(self.text, "  {text}\n  store i64 {value}, ptr %s{slot}");
    }

    fn terminator(&mut self, may_invoke: bool) {
        let x = self.load();
        let n = self.values;
        let (one, two) = (self.target(), self.target());
        let text = match self.dice.below(14) {
            0 | 1 => format!("br label %b{one}"),
            2..=6 => {
                let k = self.dice.below(100);
                format!(
                    "%q{n} = icmp ult i64 {x}, {k}\n  br i1 %q{n}, label %b{one}, label %b{two}"
                )
            }
            7 => {
                let mut cases = String::new();
                for case in 0..self.dice.range(0, 5) {
                    let _ = write!(cases, " i64 {case}, label %b{}", self.target());
                }
                format!("switch i64 {x}, label %b{one} [{cases} ]")
            }
            8 => {
                let at = format!("blockaddress(@f{}, %b{one})", self.name);
                let other = format!("blockaddress(@f{}, %b{two})", self.name);
                format!(
                    "%q{n} = icmp eq i64 {x}, 0\n  %i{n} = select i1 %q{n}, ptr {at}, ptr {other}\n  indirectbr ptr %i{n}, [label %b{one}, label %b{two}]"
                )
            }
            9 | 10 if may_invoke => {
                let pad = self.dice.below(self.pads);
                let callee = self.dice.below(self.name + 1);
                let callee =
                    if self.dice.one_in(2) { "unseen".into() } else { format!("f{callee}") };
                format!(
                    "%i{n} = invoke i64 @{callee}(i64 {x}) to label %b{one} unwind label %pad{pad}"
                )
            }
            11 => "unreachable".into(),
            12 if self.dice.one_in(2) => {
                format!("%m{n} = musttail call i64 @f{}(i64 {x})\n  ret i64 %m{n}", self.name)
            }
            _ => format!("ret i64 {x}"),
        };
        let _ = writeln!(self.text, "  {text}");
    }

    fn write(&mut self) {
        let linkage = if self.dice.one_in(2) { "internal " } else { "" };
        let name = self.name;
        let _ = writeln!(
            self.text,
            "define {linkage}i64 @f{name}(i64 %x) personality ptr @__gxx_personality_v0 {{"
        );
        for slot in 0..4 {
            let _ =
                writeln!(self.text, "  %s{slot} = alloca i64\n  store i64 {slot}, ptr %s{slot}");
        }
        // The entry has no predecessors; all other blocks may.
        let first = self.target();
        let _ = writeln!(self.text, "  store i64 %x, ptr %s1\n  br label %b{first}");
        for block in 0..self.blocks {
            let _ = writeln!(self.text, "b{block}:");
            let long = if self.dice.one_in(5) { 60 } else { 6 };
            for _ in 0..self.dice.below(long) {
                self.instruction();
            }
            self.terminator(true);
        }
        for pad in 0..self.pads {
            let _ = writeln!(self.text, "pad{pad}:\n  %e{pad} = landingpad {{ ptr, i32 }} cleanup");
            if self.dice.one_in(2) {
                let _ = writeln!(self.text, "  resume {{ ptr, i32 }} %e{pad}");
            } else {
                self.instruction();
                self.terminator(false);
            }
        }
        self.text.push_str("}\n");
    }
}

/// A module of some functions that call each other.
pub(crate) fn random(dice: &mut Dice) -> String {
    let mut text = HEAD.to_owned();
    for name in 0..dice.range(1, 4) {
        let blocks = dice.range(1, 25);
        let pads = dice.range(1, 3);
        let mut function = Function { dice, text, name, blocks, pads, values: 0 };
        function.write();
        text = function.text;
    }
    text
}
