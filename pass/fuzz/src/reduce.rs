//! Cheap reductions: to the units of a program that are at fault, then to the functions whose
//! instrumentation is.

use crate::check::{Checker, Verdict};
use crate::finding::{Finding, What};
use crate::generate::Program;
use crate::variant::Variant;
use std::fs;
use std::time::Duration;

struct Reduction<'a> {
    checker: &'a Checker<'a>,
    cxx: bool,
    what: What,
    way: &'a Variant,
}

impl Reduction<'_> {
    /// Whether this text still shows the same, with `kept_out` not instrumented.
    fn shows(&self, text: &str, kept_out: &[String]) -> Result<bool, String> {
        let list = self.checker.save("keep-out", &format!("{}\n", kept_out.join("\n")))?;
        let keep_out = (!kept_out.is_empty()).then_some(list);
        let work = self.checker.work.clone();
        let checker = Checker { tools: self.checker.tools, work, keep_out };
        let verdict = checker.program(text, self.cxx, std::slice::from_ref(self.way))?;
        Ok(matches!(verdict, Verdict::Wrong(finding) if finding.what == self.what))
    }

    /// The program without the units that are not needed.
    fn fewer_units(&self, program: &Program, suspects: &[usize]) -> Result<String, String> {
        let whole = program.source(None);
        if program.units.len() < 2 {
            return Ok(whole);
        }
        let all: Vec<usize> = (0..program.units.len()).collect();
        // Those that print wrong lines; or, after a crash, the one that printed none.
        let single = suspects.first().into_iter().chain(&all).map(|unit| vec![*unit]);
        for only in std::iter::once(suspects.to_vec()).chain(single) {
            let text = program.source(Some(&only));
            if !only.is_empty() && self.shows(&text, &[])? {
                return Ok(text);
            }
        }
        Ok(whole)
    }

    /// The names of the functions that carry safepoints.
    fn instrumented(&self, text: &str) -> Result<Vec<String>, String> {
        let checker = self.checker;
        let path = checker.save(Checker::name(self.cxx), text)?;
        let report = checker.file("report");
        let _ = fs::remove_file(&report);
        let mut build = self.way.build(checker.tools, self.cxx, &path, &checker.file("ours"));
        build.arg(format!("--report={}", report.display()));
        checker.run(&mut build, Duration::from_secs(60))?;
        let lines = fs::read_to_string(&report).unwrap_or_default();
        let mut names: Vec<String> = lines
            .lines()
            .filter(|line| line.contains("\"skipped\":null"))
            .filter_map(|line| line.split("\"function\":\"").nth(1)?.split('"').next())
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Fewest functions (by halves) that have to be instrumented for the fault to show.
    fn culprits(&self, text: &str) -> Result<Vec<String>, String> {
        let all = self.instrumented(text)?;
        let mut needed = all.clone();
        let mut parts = 2;
        while needed.len() > 1 && parts <= needed.len() {
            let size = needed.len().div_ceil(parts);
            let chunks: Vec<Vec<String>> = needed.chunks(size).map(<[String]>::to_vec).collect();
            let mut smaller = None;
            for chunk in chunks {
                let kept_out: Vec<String> =
                    all.iter().filter(|name| !chunk.contains(name)).cloned().collect();
                if self.shows(text, &kept_out)? {
                    smaller = Some(chunk);
                    break;
                }
            }
            match smaller {
                Some(chunk) => needed = chunk,
                None if parts >= 4 => break,
                None => parts *= 2,
            }
        }
        Ok(needed)
    }
}

/// Adds to a finding: its program reduced, and the functions at fault.
///
/// # Errors
/// Those of the harness.
pub(crate) fn reduce(
    checker: &Checker,
    program: &Program,
    finding: &mut Finding,
) -> Result<(), String> {
    let Some(way) = finding.way.clone() else { return Ok(()) };
    let reduction = Reduction { checker, cxx: program.cxx, what: finding.what, way: &way };
    let suspects: Vec<usize> = finding.units.iter().copied().collect();
    let text = reduction.fewer_units(program, &suspects)?;
    let culprits = reduction.culprits(&text)?;
    finding.notes.push(format!("fewest functions to instrument: {}", culprits.join(" ")));
    finding.sources.push((format!("reduced-{}", Checker::name(program.cxx)), text));
    Ok(())
}
