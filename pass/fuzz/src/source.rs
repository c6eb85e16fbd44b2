//! Where programs come from.

use crate::dice::Dice;
use crate::generate::Program;
use crate::tools::{self, Tools};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Ours: many loops.
    Own,
    /// csmith: many of everything else.
    Csmith,
    /// IR, to be instrumented but not run.
    Ir,
}

impl Source {
    /// As on the command line.
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("own", Self::Own), ("csmith", Self::Csmith), ("ir", Self::Ir)];

    /// The source of a seed's program. Without csmith its share is ours.
    #[must_use]
    pub(crate) fn of(seed: u64, csmith: bool) -> Self {
        match Dice::new(seed, 0).below(10) {
            0..=5 => Self::Own,
            6..=8 if csmith => Self::Csmith,
            6..=8 => Self::Own,
            _ => Self::Ir,
        }
    }

    /// As on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, source)| *source == self).expect("all have names").0
    }
}

/// csmith's program of a seed; `None` if csmith gave up.
///
/// # Errors
/// csmith cannot be started.
pub(crate) fn csmith(seed: u64, work: &Path) -> Result<Option<Program>, String> {
    let mut dice = Dice::new(seed, 2);
    let mut command = Command::new("csmith");
    let mut set = |name: &str, low, high| {
        command.arg(name).arg(dice.range(low, high).to_string());
    };
    set("--seed", 0, u64::from(u32::MAX));
    set("--max-funcs", 2, 8);
    set("--max-block-depth", 3, 6);
    set("--max-block-size", 3, 6);
    set("--max-array-dim", 1, 3);
    set("--max-array-len-per-dim", 4, 12);
    set("--max-struct-fields", 2, 8);
    set("--max-expr-complexity", 4, 10);
    set("--inline-function-prob", 0, 100);
    command.args(["--pointers", "--structs", "--arrays", "--jumps", "--concise", "--no-argc"]);
    // It writes a file beside its output.
    command.current_dir(work);
    let made = tools::run(&mut command, work, Duration::from_secs(20))?;
    // (Longer programs than run() reads are no loss.)
    let whole = made.ok() && made.output.contains("\nint main ") && made.output.len() < 190_000;
    Ok(whole.then(|| Program { cxx: false, whole: Some(made.output), units: Vec::new() }))
}

/// IR of a seed, by llvm-stress or by our own generator of control flow.
///
/// # Errors
/// llvm-stress cannot be started.
pub(crate) fn ir(seed: u64, tools: &Tools, work: &Path) -> Result<Option<String>, String> {
    let mut dice = Dice::new(seed, 3);
    if dice.one_in(2) {
        return Ok(Some(crate::ir::random(&mut dice)));
    }
    let mut command = Command::new(tools.llvm.join("llvm-stress"));
    command.arg(format!("-size={}", dice.range(50, 600)));
    command.arg(format!("-seed={}", dice.below(1 << 31)));
    let made = tools::run(&mut command, work, Duration::from_secs(20))?;
    Ok((made.ok() && made.output.len() < 190_000).then_some(made.output))
}
