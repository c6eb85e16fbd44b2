//! One seed: its program, built and run in its variants, compared with the plain builds.

use crate::finding::{Finding, What};
use crate::generate::Program;
use crate::reduce;
use crate::source::{self, Source};
use crate::tools::{End, Outcome, Tools, line, run};
use crate::variant::{RUNS, Variant};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A reference that takes longer is no use: instrumented and firing it would take for ever.
const REFERENCE_LIMIT: Duration = Duration::from_secs(4);
const BUILD_LIMIT: Duration = Duration::from_secs(60);

/// What came of a seed.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// All the same, in this many instrumented runs (or IR modules).
    Same(u64),
    /// Not usable: the plain builds do not agree, or do not end in time.
    Unusable(&'static str),
    /// Something is wrong.
    Wrong(Box<Finding>),
}

/// Does the work of one thread, in a directory of its own.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    /// Where the tools are.
    pub tools: &'a Tools,
    /// For files.
    pub work: PathBuf,
    /// A list of functions that are not to be instrumented.
    pub keep_out: Option<PathBuf>,
}

/// A program that is built, and what it must print.
struct Reference {
    variant: Variant,
    outcome: Outcome,
}

/// What a build in silence does not say. (That a pragma could not be obeyed, the link says even to -w.)
fn complains(built: &Outcome) -> bool {
    built.errors.lines().any(|line| !(line.contains("warning: ") && line.contains(": loop not ")))
}

type Plain = Result<Reference, &'static str>;

fn same(one: &Outcome, two: &Outcome) -> bool {
    one.end == two.end && one.output == two.output
}

impl Checker<'_> {
    /// A file of this directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Writes such a file.
    ///
    /// # Errors
    /// That of writing.
    pub(crate) fn save(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.file(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Runs a command here.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn run(&self, command: &mut Command, limit: Duration) -> Result<Outcome, String> {
        run(command, &self.work, limit)
    }

    /// Checks one seed.
    ///
    /// # Errors
    /// The harness itself fails (no space, no tool).
    pub(crate) fn seed(
        &self,
        seed: u64,
        from: Source,
        ways: &[Variant],
    ) -> Result<Verdict, String> {
        let program = match from {
            Source::Ir => return self.ir(seed, ways),
            Source::Csmith => match source::csmith(seed, &self.work)? {
                Some(program) => program,
                None => return Ok(Verdict::Unusable("csmith gave up")),
            },
            Source::Own => Program::random(seed),
        };
        if from == Source::Own
            && seed.is_multiple_of(8)
            && let Some(mut finding) = self.undefined(&program)?
        {
            finding.sources.push((Self::name(program.cxx).into(), program.source(None)));
            return Ok(Verdict::Wrong(Box::new(finding)));
        }
        let text = program.source(None);
        let mut verdict = self.program(&text, program.cxx, ways)?;
        if let Verdict::Wrong(finding) = &mut verdict {
            finding.sources.push((Self::name(program.cxx).into(), text));
            reduce::reduce(self, &program, finding)?;
        }
        Ok(verdict)
    }

    /// A program's file.
    #[must_use]
    pub(crate) fn name(cxx: bool) -> &'static str {
        if cxx { "program.cc" } else { "program.c" }
    }

    /// Our own generator's programs must be free of undefined behaviour.
    fn undefined(&self, program: &Program) -> Result<Option<Finding>, String> {
        let path = self.save(Self::name(program.cxx), &program.source(None))?;
        let level = Variant { kind: "clock", level: "-O1", bound: None, flags: &[] };
        let mut build = level.plain(self.tools, program.cxx, &path, &self.file("checked"));
        // Traps need no library of the compiler's.
        build.args(["-g", "-fsanitize=undefined,local-bounds", "-fno-sanitize=vptr"]);
        build.arg("-fsanitize-trap=all");
        let blame = |commands: &[&Command], outcome: &Outcome| {
            let wrong = !outcome.ok() && outcome.end != End::Timeout;
            wrong.then(|| Finding::new(What::Generator, None, commands, outcome))
        };
        let built = self.run(&mut build, BUILD_LIMIT)?;
        // Where the compiler itself fails at so many checks, or takes minutes, the program is not to blame.
        if built.errors.contains("PLEASE submit a bug report") {
            return Ok(None);
        }
        if !built.ok() {
            return Ok(blame(&[&build], &built));
        }
        let mut checked = Command::new(self.file("checked"));
        let outcome = self.run(&mut checked, Duration::from_secs(60))?;
        Ok(blame(&[&build, &checked], &outcome))
    }

    /// The plain build of a variant, run, or why it is no use.
    fn reference(&self, path: &Path, cxx: bool, way: &Variant) -> Result<Plain, String> {
        let to = self.file("plain");
        let built = self.run(&mut way.plain(self.tools, cxx, path, &to), BUILD_LIMIT)?;
        if !built.ok() {
            return Ok(Err("a plain build fails"));
        }
        let outcome = self.run(&mut Command::new(&to), REFERENCE_LIMIT)?;
        if outcome.end == End::Timeout {
            return Ok(Err("a plain build does not end in time"));
        }
        Ok(Ok(Reference { variant: way.clone(), outcome }))
    }

    /// Checks one program in some variants, until something is wrong.
    ///
    /// # Errors
    /// As [`Self::seed`].
    pub(crate) fn program(
        &self,
        text: &str,
        cxx: bool,
        ways: &[Variant],
    ) -> Result<Verdict, String> {
        let path = self.save(Self::name(cxx), text)?;
        let base = Variant { kind: "clock", level: "-O0", bound: None, flags: &[] };
        let base = match self.reference(&path, cxx, &base)? {
            Ok(base) => base,
            Err(why) => return Ok(Verdict::Unusable(why)),
        };
        let mut runs = 0;
        let mut known: Option<Reference> = None;
        for way in ways {
            let fits = |r: &Reference| r.variant.level == way.level && r.variant.flags == way.flags;
            let reference = match known.take().filter(fits) {
                Some(reference) => reference,
                None => match self.reference(&path, cxx, way)? {
                    Ok(reference) => reference,
                    Err(why) => return Ok(Verdict::Unusable(why)),
                },
            };
            if !same(&base.outcome, &reference.outcome) {
                return Ok(Verdict::Unusable("the plain builds differ"));
            }
            if let Some(finding) = self.variant(&path, cxx, way, &reference)? {
                return Ok(Verdict::Wrong(Box::new(finding)));
            }
            runs += RUNS.len() as u64;
            known = Some(reference);
        }
        Ok(Verdict::Same(runs))
    }

    fn variant(
        &self,
        path: &Path,
        cxx: bool,
        way: &Variant,
        reference: &Reference,
    ) -> Result<Option<Finding>, String> {
        let to = self.file("ours");
        let mut build = way.build(self.tools, cxx, path, &to);
        build.args(self.keep_out.iter().map(|list| format!("--keep-out={}", list.display())));
        let built = self.run(&mut build, BUILD_LIMIT)?;
        if !built.ok() || complains(&built) {
            let what = if built.end == End::Timeout { What::SlowBuild } else { What::Build };
            return Ok(Some(Finding::new(what, Some(way), &[&build], &built)));
        }
        for how in RUNS {
            let mut program = Command::new(&to);
            program.envs(*how).env("CURTAIL_TIMING_OUT", self.file("timing"));
            let took = reference.outcome.time;
            // Firing costs up to a microsecond, at each safepoint of a program that does nothing else.
            let limit = if how.is_none() { took * 10 } else { took * 300 } + Duration::from_secs(5);
            let outcome = self.run(&mut program, limit)?;
            let what = match outcome.end {
                End::Timeout => What::Hang,
                _ if !same(&outcome, &reference.outcome) => What::Miscompile,
                _ if how.is_none() && self.is_slow(&to, &outcome, took)? => What::Slow,
                _ => continue,
            };
            let mut finding = Finding::new(what, Some(way), &[&build, &program], &outcome);
            finding.compare(&reference.outcome, &outcome);
            return Ok(Some(finding));
        }
        Ok(None)
    }

    /// Many times slower though nothing fires: a loop that has become another. Looked at again, since
    /// others use the machine too.
    fn is_slow(&self, program: &Path, first: &Outcome, took: Duration) -> Result<bool, String> {
        let limit = took * 6 + Duration::from_millis(300);
        let mut slow = first.time > limit;
        for _ in 0..3 {
            if slow {
                slow = self.run(&mut Command::new(program), REFERENCE_LIMIT * 10)?.time > limit;
            }
        }
        Ok(slow)
    }

    /// IR goes through the pass, the verifier and the code generator; it is not run.
    fn ir(&self, seed: u64, ways: &[Variant]) -> Result<Verdict, String> {
        let Some(text) = source::ir(seed, self.tools, &self.work)? else {
            return Ok(Verdict::Unusable("llvm-stress gave up"));
        };
        let path = self.save("module.ll", &text)?;
        let mut modules = 0;
        for way in ways {
            // The pass runs last in LLVM's own pipelines, or alone.
            let ours = match way.level {
                "-O0" => "function(mem2reg),curtail-safepoints,verify".to_owned(),
                level => format!("default<{}>,verify", &level[1..]),
            };
            let plain = ours.replace("curtail-safepoints,", "");
            let opt = |passes: &str, to: &Path| {
                let mut command = Command::new(self.tools.llvm.join("opt"));
                command.arg(format!("-passes={passes}")).arg(&path).arg("-o").arg(to);
                command
            };
            let llc = |from: &Path| {
                let mut command = Command::new(self.tools.llvm.join("llc"));
                let level = if way.level == "-O0" { "-O0" } else { "-O2" };
                command.args([level, "-filetype=obj", "-o", "/dev/null"]).arg(from);
                command
            };
            let (before, after) = (self.file("plain.bc"), self.file("ours.bc"));
            if !self.run(&mut opt(&plain, &before), BUILD_LIMIT)?.ok()
                || !self.run(&mut llc(&before), BUILD_LIMIT)?.ok()
            {
                return Ok(Verdict::Unusable("LLVM itself fails"));
            }
            let mut instrument = opt(&ours, &after);
            instrument.arg("-load-pass-plugin").arg(self.tools.pass());
            let bound = way.bound.map_or(String::new(), |bound| format!(",bound={bound}"));
            instrument.env("CURTAIL_PASS", format!("kind={},tls=local{bound}", way.kind));
            let how = line(&instrument);
            for command in [&mut instrument, &mut llc(&after)] {
                let outcome = self.run(command, BUILD_LIMIT)?;
                if !outcome.ok() {
                    let mut finding = Finding::new(What::Ir, Some(way), &[command], &outcome);
                    finding.sources.push(("module.ll".into(), text));
                    finding.notes.push(format!("instrumented by: {how}"));
                    return Ok(Verdict::Wrong(Box::new(finding)));
                }
            }
            modules += 1;
        }
        Ok(Verdict::Same(modules))
    }
}
