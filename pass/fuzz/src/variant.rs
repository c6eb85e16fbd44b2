//! In which ways a program is built and run.

use crate::dice::Dice;
use crate::tools::Tools;
use std::path::Path;
use std::process::Command;

/// One way of building.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// `clock` or `flag`.
    pub kind: &'static str,
    /// `-O0` …
    pub level: &'static str,
    /// The pass's bound; the default where there is none.
    pub bound: Option<u32>,
    /// More options for the compiler, ours and the plain one.
    pub flags: &'static [&'static str],
}

pub(crate) const KINDS: &[&str] = &["clock", "flag"];
pub(crate) const LEVELS: &[&str] = &["-O0", "-O1", "-O2", "-O3", "-Os"];
const BOUNDS: &[Option<u32>] = &[None, None, Some(20), Some(30), Some(64), Some(150), Some(5000)];
pub(crate) const FLAGS: &[&[&str]] = &[
    &[],
    &[],
    &["-g"],
    &["-fPIC", "-pie"],
    &["-static"],
    &["-march=native", "-ffp-contract=off"],
    &["-fno-vectorize", "-fno-slp-vectorize"],
    &["-fno-unroll-loops"],
    &["-fwrapv"],
    &["-fno-omit-frame-pointer", "-fstack-protector-all"],
    &["-mno-red-zone", "-fcf-protection"],
    &["-fno-lto"],
    &["-flto=thin"],
    &["-fno-jump-tables"],
];

impl Variant {
    /// The variants of a seed.
    pub(crate) fn of(dice: &mut Dice) -> Vec<Self> {
        // Level 2 is what most programs are built at.
        let level = |dice: &mut Dice| if dice.one_in(4) { "-O2" } else { dice.pick(LEVELS) };
        let mut one = |kind| Self {
            kind,
            level: level(dice),
            bound: dice.pick(BOUNDS),
            flags: dice.pick(FLAGS),
        };
        let (first, second, other) = (one(KINDS[0]), one(KINDS[1]), one(KINDS[0]));
        // The first two share a plain build.
        let second = Self { level: first.level, flags: first.flags, ..second };
        let kind = dice.pick(KINDS);
        vec![first, second, Self { kind, ..other }]
    }

    /// Both kinds, all levels, several bounds.
    #[must_use]
    pub(crate) fn all() -> Vec<Self> {
        let mut variants = Vec::new();
        for &kind in KINDS {
            for &level in LEVELS {
                for bound in [None, Some(20), Some(64)] {
                    variants.push(Self { kind, level, bound, flags: &[] });
                }
            }
        }
        variants
    }

    /// For a line of a report.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        let bound = self.bound.map_or(String::new(), |bound| format!(" bound {bound}"));
        let flags: String = self.flags.iter().map(|flag| format!(" {flag}")).collect();
        format!("{} {}{bound}{flags}", self.kind, self.level)
    }

    /// For a command line of ours.
    #[must_use]
    pub(crate) fn arguments(&self) -> String {
        let bound = self.bound.map_or(String::new(), |bound| format!(" --bound {bound}"));
        let flags = self.flags.join(" ");
        let flags = if flags.is_empty() { flags } else { format!(" --flags '{flags}'") };
        format!(" --kind {} --level {}{bound}{flags}", self.kind, &self.level[1..])
    }

    /// The instrumented build.
    #[must_use]
    pub(crate) fn build(&self, tools: &Tools, cxx: bool, source: &Path, to: &Path) -> Command {
        let mut command = Command::new(tools.curtail(cxx));
        command.arg(format!("--safepoint={}", self.kind));
        command.args(self.bound.map(|bound| format!("--bound={bound}")));
        self.common(&mut command, cxx, source, to);
        command.arg(&tools.spoil);
        command
    }

    /// The command that compiles without instrumentation.
    #[must_use]
    pub(crate) fn plain(&self, tools: &Tools, cxx: bool, source: &Path, to: &Path) -> Command {
        let mut command = Command::new(tools.clang(cxx));
        self.common(&mut command, cxx, source, to);
        // lld knows every kind of LTO; ld may not.
        command.arg("-fuse-ld=lld");
        command
    }

    fn common(&self, command: &mut Command, cxx: bool, source: &Path, to: &Path) {
        command.args(["-w", if cxx { "-std=c++20" } else { "-std=gnu17" }]);
        command.arg(self.level).args(self.flags).arg(format!("-I{CSMITH}"));
        command.arg(source).arg("-o").arg(to).args(["-lm", "-pthread"]);
    }
}

/// Where Debian puts csmith's header.
const CSMITH: &str = "/usr/include/csmith";

/// How an instrumented program is run: the variable that makes it so, and its value.
pub(crate) const RUNS: &[Option<(&str, &str)>] = &[
    None,
    Some(("CURTAIL_FUZZ", "200000")),
    Some(("CURTAIL_TIMING", "500cycles")),
    Some(("CURTAIL_TIMING", "2us")),
];
