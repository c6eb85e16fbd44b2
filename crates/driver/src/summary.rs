//! The part of `--report` that a person reads first: what a link did, in a dozen lines, from the
//! pass's JSON lines (pass/src/report/report.cpp writes them, docs/src/pass.md describes them).

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// So many of a kind are named; of the others, the number.
const NAMED: usize = 20;

/// What the lines add up to. Back ends run in parallel, so their order says nothing: whatever is
/// listed is sorted.
#[derive(Debug, Default)]
struct Totals {
    bound: u64,
    modules: u64,
    functions: u64,
    skipped: BTreeMap<String, u64>,
    safepoints: u64,
    chunked: u64,
    long_calls: u64,
    locks: u64,
    thread_local_calls: u64,
    /// Length, function, module.
    longest: Option<(u64, String, String)>,
    /// Functions with loops without a safepoint, and how many of them.
    without: BTreeMap<String, u64>,
    lock_warnings: Vec<String>,
    thread_local_warnings: Vec<String>,
}

/// Sums up the lines of one link. `output`: what was linked.
///
/// # Errors
/// A line is none of the pass's: which.
pub fn summarise(output: &str, lines: &str) -> Result<String, String> {
    let mut totals = Totals::default();
    for (at, line) in lines.lines().enumerate() {
        let line: Value = serde_json::from_str(line)
            .map_err(|error| format!("line {} of the pass's report: {error}", at + 1))?;
        totals.add(&line);
    }
    Ok(totals.render(output))
}

impl Totals {
    fn add(&mut self, line: &Value) {
        let number = |key: &str| line[key].as_u64().unwrap_or(0);
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        if line["summary"] == true {
            self.modules += 1;
            self.bound = self.bound.max(number("bound"));
            self.locks += number("locks");
        } else if let Some(what) = line["lock_warning"].as_str() {
            self.lock_warnings.push(format!("{}: {what}", place(line)));
        } else if let Some(what) = line["thread_local_warning"].as_str() {
            let warning = format!("{}: {}: {what}", place(line), text("thread_local"));
            self.thread_local_warnings.push(warning);
        } else if let Some(why) = line["skipped"].as_str() {
            self.functions += 1;
            *self.skipped.entry(why.to_owned()).or_default() += 1;
        } else {
            self.functions += 1;
            self.safepoints += number("safepoints");
            self.chunked += number("chunked");
            self.long_calls += number("long_calls");
            self.thread_local_calls += number("thread_local_calls");
            let (name, module) = (text("name").to_owned(), text("module").to_owned());
            if number("thread_local_loops") > 0 {
                *self.without.entry(name.clone()).or_default() += number("thread_local_loops");
            }
            self.longest = self.longest.take().max(Some((number("longest"), name, module)));
        }
    }

    fn render(mut self, output: &str) -> String {
        let left_alone: u64 = self.skipped.values().sum();
        let mut text = format!("{output}\n");
        let mut row = |label: &str, value: String| {
            let _ = writeln!(text, "  {label:<28}{value}");
        };
        row("modules, functions", format!("{}, {}", self.modules, self.functions));
        row("instrumented", (self.functions - left_alone).to_string());
        row("left alone", with_reasons(left_alone, &self.skipped));
        row("safepoints", self.safepoints.to_string());
        row("loops cut into chunks", self.chunked.to_string());
        row("long calls in pieces", self.long_calls.to_string());
        if let Some((length, name, module)) = &self.longest {
            let of = self.bound;
            row("longest path without one", format!("{length} units of {of}: {name} ({module})"));
        }
        row("locks of Rust", self.locks.to_string());
        row("calls not pre-empted", format!("{} on thread-locals", self.thread_local_calls));
        let without = self.without.iter();
        let without: Vec<_> = without.map(|(name, count)| format!("{name}: {count}")).collect();
        list(&mut text, "loops without a safepoint, for a thread-local address", &without);
        for (title, warnings) in [
            ("warnings of locks", &mut self.lock_warnings),
            ("warnings of thread-locals", &mut self.thread_local_warnings),
        ] {
            warnings.sort();
            list(&mut text, title, warnings);
        }
        text
    }
}

/// `function (file:line)`, as far as it is known.
fn place(line: &Value) -> String {
    let name = line["name"].as_str().unwrap_or_default();
    match line["at"].as_str() {
        Some(at) if !at.is_empty() => format!("{name} ({at})"),
        _ => name.to_owned(),
    }
}

/// The number and, the most frequent first, what it is made of.
fn with_reasons(all: u64, reasons: &BTreeMap<String, u64>) -> String {
    let mut reasons: Vec<_> = reasons.iter().collect();
    reasons.sort_by_key(|&(why, count)| (std::cmp::Reverse(*count), why));
    let parts: Vec<_> = reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
    match parts.is_empty() {
        true => all.to_string(),
        false => format!("{all}: {}", parts.join(", ")),
    }
}

fn list(text: &mut String, title: &str, entries: &[String]) {
    let _ = writeln!(text, "  {title}: {}", entries.len());
    for entry in entries.iter().take(NAMED) {
        let _ = writeln!(text, "    {entry}");
    }
    if entries.len() > NAMED {
        let _ = writeln!(text, "    and {} more", entries.len() - NAMED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
{"chunked":2,"function":"f","longest":90,"long_calls":1,"module":"a.o","name":"f","safepoints":3,"skipped":null,"thread_local_calls":4,"thread_local_loops":0}
{"chunked":0,"function":"_Zg","longest":400,"long_calls":0,"module":"b.o","name":"g()","safepoints":1,"skipped":null,"thread_local_calls":0,"thread_local_loops":2}
{"function":"m","longest":null,"module":"b.o","name":"m","safepoints":0,"skipped":"allocator"}
{"function":"k","longest":null,"module":"b.o","name":"k","safepoints":0,"skipped":"keep-out list"}
{"function":"l","longest":null,"module":"b.o","name":"l","safepoints":0,"skipped":"keep-out list"}
{"at":"z.rs:7","function":"z","lock_warning":"held","module":"b.o","name":"z"}
{"at":"","function":"y","lock_warning":"held","module":"b.o","name":"y"}
{"at":"t.c:6","function":"t","module":"b.o","name":"t","thread_local":"seen","thread_local_warning":"used"}
{"bound":600,"functions":1,"instrumented":1,"lock_warnings":0,"locks":1,"longest":90,"module":"a.o","safepoints":3,"skipped":0,"summary":true,"thread_local_warnings":0}
{"bound":600,"functions":4,"instrumented":1,"lock_warnings":2,"locks":5,"longest":400,"module":"b.o","safepoints":1,"skipped":3,"summary":true,"thread_local_warnings":1}
"#;

    const EXPECTED: &str = "\
out/app
  modules, functions          2, 5
  instrumented                2
  left alone                  3: 2 keep-out list, 1 allocator
  safepoints                  4
  loops cut into chunks       2
  long calls in pieces        1
  longest path without one    400 units of 600: g() (b.o)
  locks of Rust               6
  calls not pre-empted        4 on thread-locals
  loops without a safepoint, for a thread-local address: 1
    g(): 2
  warnings of locks: 2
    y: held
    z (z.rs:7): held
  warnings of thread-locals: 1
    t (t.c:6): seen: used
";

    #[test]
    fn everything_is_counted_in_whatever_order() {
        let lines: Vec<_> = LINES.trim().lines().collect();
        assert_eq!(summarise("out/app", LINES.trim()).as_deref(), Ok(EXPECTED));
        let backwards: Vec<_> = lines.into_iter().rev().collect();
        assert_eq!(summarise("out/app", &backwards.join("\n")).as_deref(), Ok(EXPECTED));
    }

    #[test]
    fn long_lists_are_cut_and_bad_lines_named() {
        let warning = r#"{"name":"f","at":"","lock_warning":"held"}"#;
        let text = summarise("a", &[warning; NAMED + 3].join("\n")).unwrap();
        assert!(text.contains("warnings of locks: 23\n") && text.contains("and 3 more"), "{text}");
        assert_eq!(text.matches("    f: held\n").count(), NAMED);
        let reason = summarise("a", "{}\n{\"summary\"\n").unwrap_err();
        assert!(reason.starts_with("line 2 "), "{reason}");
    }

    #[test]
    fn a_link_without_bitcode_did_nothing() {
        let text = summarise("a.out", "").unwrap();
        assert!(text.contains("modules, functions          0, 0\n"), "{text}");
        assert!(!text.contains("longest"), "{text}");
    }
}
