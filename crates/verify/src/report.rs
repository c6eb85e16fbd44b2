//! What was found, as a text that begins with what matters, and as JSON.

use crate::finding::{Finding, What};
use crate::forbid::Rules;
use crate::image::{self, Image};
use crate::lines::Lines;
use crate::notes::{self, Notes};
use crate::paths::{self, Limits};
use crate::probes::Kind;
use crate::program::Program;
use crate::{cost, frames};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The bound of a program that tells of none, in the pass's units.
const USUAL_BOUND: u64 = 600;
/// Machine code needs more instructions than the IR that the pass counts: copies, spills, constants,
/// several for one on a wide vector.
const MACHINE: u64 = 3;

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The longest path, in machine instructions; by default three times what the pass kept to.
    pub bound: Option<u64>,
    /// Functions that may have no safepoint, beside what is built in.
    pub keep_out: Vec<String>,
}

/// One finding, as it is shown.
#[derive(Debug, Serialize)]
pub struct Entry {
    kind: What,
    function: String,
    symbol: String,
    address: String,
    file: Option<String>,
    line: Option<u32>,
    from: Option<String>,
    from_file: Option<String>,
    from_line: Option<u32>,
    length: Option<u64>,
    detail: String,
}

/// The whole result.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    schema: u32,
    clean: bool,
    bound: u64,
    /// The bound in the pass's units, if the program tells.
    noted_bound: Option<u32>,
    functions: usize,
    instrumented: usize,
    safepoints: usize,
    by_kind: BTreeMap<&'static str, usize>,
    longest: u64,
    longest_in: Option<String>,
    loops_counted: usize,
    loops_noted: usize,
    loops_charged: usize,
    unresolved_jumps: usize,
    counts: BTreeMap<What, usize>,
    findings: Vec<Entry>,
    remarks: Vec<String>,
}

/// Verifies a program.
///
/// # Errors
/// Why the bytes are no program that can be verified, in a line.
pub fn verify(bytes: &[u8], options: &Options) -> Result<Report, String> {
    let image = Image::read(bytes)?;
    let functions = image.section(notes::FUNCTIONS);
    let (data, base) = functions.map_or((&[][..], 0), |section| (section.data, section.address));
    let loops = image::unloaded(bytes, notes::LOOPS).unwrap_or_default();
    let notes = Notes::read(data, base, &loops)?;
    let program = Program::new(image, notes)?;
    let noted_bound = program.notes.bound();
    let bound = options.bound.unwrap_or(MACHINE * noted_bound.map_or(USUAL_BOUND, u64::from));
    let outcomes = paths::check(&program, Limits { bound, share: bound / cost::SHARE });

    let lines = Lines::of(bytes);
    let rules = Rules::new(&program, &options.keep_out);
    let mut findings = rules.check(&|address| lines.functions(address));
    findings.extend(frames::check(&program));
    let mut report = Report {
        schema: 1,
        bound,
        noted_bound,
        functions: program.codes.len(),
        ..Report::default()
    };
    for (function, outcome) in outcomes.into_iter().enumerate() {
        report.count_probes(&program, function);
        if !program.is_instrumented(function) {
            continue;
        }
        report.instrumented += 1;
        report.loops_counted += outcome.counted;
        report.loops_noted += outcome.noted;
        report.loops_charged += outcome.charged;
        report.unresolved_jumps += program.codes[function].unresolved.len();
        if outcome.longest > report.longest {
            report.longest = outcome.longest;
            report.longest_in = Some(program.readable[function].clone());
        }
        findings.extend(outcome.findings);
    }
    report.take(&program, findings, &lines);
    report.remark(&program);
    Ok(report)
}

impl Report {
    /// Nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Nothing was found, and there are safepoints at all.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.clean
    }

    /// Findings of one kind.
    #[must_use]
    pub fn of(&self, what: What) -> Vec<&Entry> {
        self.findings.iter().filter(|entry| entry.kind == what).collect()
    }

    /// As JSON.
    ///
    /// # Panics
    /// Never: all of it can be written.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data")
    }

    fn count_probes(&mut self, program: &Program<'_>, function: usize) {
        for probe in &program.probes[function] {
            self.safepoints += 1;
            let name = match probe.kind {
                Kind::Clock => "clock",
                Kind::Whole => "for a whole loop",
                Kind::Flag => "flag",
                Kind::Pending => "after a critical section",
                Kind::ByHand => "by hand",
            };
            *self.by_kind.entry(name).or_default() += 1;
        }
    }

    fn take(&mut self, program: &Program<'_>, mut findings: Vec<Finding>, lines: &Lines) {
        findings.sort_by_key(|f| (f.what, std::cmp::Reverse(f.length), f.address));
        for finding in &findings {
            *self.counts.entry(finding.what).or_default() += 1;
        }
        // Without any safepoint there is no path to find fault with, and nothing is right either.
        self.clean = findings.is_empty() && self.safepoints > 0;
        self.findings = findings
            .into_iter()
            .map(|f| {
                let (file, line) = lines.at(f.address).unzip();
                let (from_file, from_line) = f.from.and_then(|from| lines.at(from)).unzip();
                Entry {
                    kind: f.what,
                    function: program.readable[f.function].clone(),
                    symbol: program.image.functions[f.function].symbol.clone(),
                    address: format!("{:#x}", f.address),
                    file,
                    line,
                    from: f.from.map(|from| format!("{from:#x}")),
                    from_file,
                    from_line,
                    length: f.length,
                    detail: f.detail,
                }
            })
            .collect();
    }

    fn remark(&mut self, program: &Program<'_>) {
        if self.safepoints == 0 {
            self.remarks.push(
                "it was not built by cargo curtail, curtail-cc or curtail-c++ (or with \
                 --safepoint=none): nothing in it is ever pre-empted"
                    .into(),
            );
        }
        if program.notes.is_empty() && self.safepoints > 0 {
            self.remarks.push(
                "it has no notes of the pass: functions without safepoints count as not instrumented"
                    .into(),
            );
        }
        if self.unresolved_jumps > 0 {
            self.remarks.push(format!(
                "{} jumps whose targets could not be found count as going anywhere in their function",
                self.unresolved_jumps
            ));
        }
        if program.image.symbols.is_empty() {
            self.remarks.push("no symbols: functions are told by the unwind table alone".into());
        }
    }

    /// As text: the verdict and a summary, then up to `most` findings of each kind.
    #[must_use]
    pub fn to_text(&self, program: &str, most: usize) -> String {
        let mut text = String::new();
        let verdict = match self.findings.len() {
            0 if self.safepoints == 0 => "no safepoints".to_owned(),
            0 => "clean".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        let _ = writeln!(text, "{program}: {verdict}");
        let kinds: Vec<String> =
            self.by_kind.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let _ = writeln!(
            text,
            "  {} safepoints ({}) in {} instrumented of {} functions",
            self.safepoints,
            if kinds.is_empty() { "none".into() } else { kinds.join(", ") },
            self.instrumented,
            self.functions
        );
        let _ = writeln!(
            text,
            "  longest path without one: {} of {} units allowed{}",
            self.longest,
            self.bound,
            self.longest_in.as_ref().map_or(String::new(), |name| format!(", in {name}"))
        );
        let _ = writeln!(
            text,
            "  loops without one: {} proven short here, {} noted as short by the pass, {} charged before they run",
            self.loops_counted, self.loops_noted, self.loops_charged
        );
        for remark in &self.remarks {
            let _ = writeln!(text, "  note: {remark}");
        }
        for (what, count) in &self.counts {
            let _ = writeln!(text, "\n{count} {}:", what.title());
            for entry in self.of(*what).into_iter().take(most) {
                let _ = writeln!(text, "  {}", entry.to_text());
            }
            if *count > most {
                let _ = writeln!(text, "  … and {} more (--json has all)", count - most);
            }
        }
        text
    }
}

impl Entry {
    fn to_text(&self) -> String {
        let place = |file: &Option<String>, line: Option<u32>| match (file, line) {
            (Some(file), Some(line)) if line > 0 => format!(" ({file}:{line})"),
            (Some(file), _) => format!(" ({file})"),
            _ => String::new(),
        };
        let mut text = format!(
            "{}{} in {}: {}",
            self.address,
            place(&self.file, self.line),
            self.function,
            self.detail
        );
        if self.from_file.is_some() {
            let _ = write!(text, "{}", place(&self.from_file, self.from_line));
        }
        text
    }
}
