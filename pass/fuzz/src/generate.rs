//! Our own programs: units that stand alone, each of which prints one line. So a wrong line names its
//! unit, and a program without the others still shows what is wrong.

use crate::body::Body;
use crate::dice::Dice;
use crate::recursive;
use std::fmt::Write;

const PRELUDE: &str = include_str!("../pieces/prelude.c");
const PRELUDE_CXX: &str = include_str!("../pieces/prelude.cc");
const FLOW: &str = include_str!("../pieces/flow.c");
const ABI: &str = include_str!("../pieces/abi.c");
const CXX: &str = include_str!("../pieces/cxx.cc");

/// A generated program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// C++, otherwise C.
    pub(crate) cxx: bool,
    /// A program from elsewhere, which has no units.
    pub(crate) whole: Option<String>,
    /// What each unit is made from, and its text.
    pub units: Vec<(&'static str, String)>,
}

/// The pieces of a file: `//// name`, then the text.
fn pieces(file: &'static str) -> Vec<(&'static str, &'static str)> {
    file.split("//// ").skip(1).filter_map(|piece| piece.split_once('\n')).collect()
}

impl Program {
    /// The program of a seed.
    #[must_use]
    pub(crate) fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let cxx = dice.one_in(5); // its headers take most of the time
        let (flow, only_cxx) = (pieces(FLOW), pieces(CXX));
        let common = [flow, pieces(ABI)].concat();
        let count = dice.range(2, 7);
        let mut units = Vec::new();
        for number in 0..count {
            if dice.one_in(4) {
                units.push(("recursive", recursive::unit(&mut dice, number)));
                continue;
            }
            let (name, text) = if dice.one_in(3) {
                common[0] // plain loops: what most of the pass is about
            } else if cxx && dice.one_in(2) {
                dice.pick(&only_cxx)
            } else {
                dice.pick(&common)
            };
            units.push((name, fill_in(&mut dice, text, number)));
        }
        Self { cxx, whole: None, units }
    }

    /// The source, of some units or of all.
    #[must_use]
    pub(crate) fn source(&self, only: Option<&[usize]>) -> String {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let mut text = String::new();
        if self.cxx {
            text.push_str(PRELUDE_CXX);
        }
        text.push_str(PRELUDE);
        let mut calls = String::new();
        for (number, (name, unit)) in self.units.iter().enumerate() {
            if only.is_some_and(|only| !only.contains(&number)) {
                continue;
            }
            let _ = write!(text, "\n/* {name} */\n{unit}");
            for start in [0x1234_5678_9abc_def0_u64, 3] {
                let call = format!("(unsigned long long)unit_{number}(hide({start}ull))");
                let _ = writeln!(calls, "  printf(\"{number} %016llx\\n\", {call});");
            }
        }
        let _ = write!(text, "\nint main(void) {{\n  link_nodes();\n{calls}  return 0;\n}}\n");
        text
    }
}

/// Fills in a piece: `@N` its number, `@R(x,y)` a number, `@E` an expression, `@SMALL` a statement or
/// several of few iterations, `@BODY` of many, `@BODY[x]` with x as another way out, `@ATTR` how the
/// function may be inlined.
fn fill_in(dice: &mut Dice, text: &str, number: u64) -> String {
    let mut parts = text.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = if let Some(rest) = part.strip_prefix("N") {
            out.push_str(&number.to_string());
            rest
        } else if let Some(rest) = part.strip_prefix("R(") {
            let (range, rest) = rest.split_once(')').expect("a range ends");
            let (low, high) = range.split_once(',').expect("a range has two ends");
            let [low, high] = [low, high].map(|end| end.parse().expect("a number"));
            out.push_str(&dice.range(low, high).to_string());
            rest
        } else if let Some(rest) = part.strip_prefix("ATTR") {
            out.push_str(dice.pick(ATTRIBUTES));
            rest
        } else if let Some(rest) = part.strip_prefix("SMALL") {
            out.push_str(&Body::new(dice, 300, None).statements());
            rest
        } else if let Some(rest) = part.strip_prefix("BODY[") {
            let (escape, rest) = rest.split_once(";]").expect("an escape ends");
            let escape = format!("{};", escape.replace("#", &number.to_string()));
            out.push_str(&Body::new(dice, 20_000, Some(&escape)).statements());
            rest
        } else if let Some(rest) = part.strip_prefix("BODY") {
            out.push_str(&Body::new(dice, 150_000, None).statements());
            rest
        } else {
            let rest = part.strip_prefix("E").expect("a known mark");
            out.push_str(&Body::new(dice, 1, None).expression());
            rest
        };
        out.push_str(rest);
    }
    out
}

const ATTRIBUTES: &[&str] = &[
    "",
    "NOINLINE",
    "NOINLINE",
    "inline",
    "__attribute__((cold))",
    "__attribute__((noinline, hot))",
    "__attribute__((noinline, optnone))",
    "__attribute__((noinline, minsize))",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_program() {
        for seed in 0..200 {
            let [one, two] = [0, 1].map(|_| Program::random(seed).source(None));
            assert_eq!(one, two);
            assert!(!one.replace("=@cc", "").contains('@'), "{one}");
        }
        assert_ne!(Program::random(1).source(None), Program::random(2).source(None));
    }

    #[test]
    fn units_can_be_left_out() {
        let program = Program::random(3);
        let some = program.source(Some(&[1]));
        assert!(some.contains("unit_1(") && !some.contains("unit_0("), "{some}");
    }
}
