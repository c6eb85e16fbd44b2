//! The part of `--report` that a person reads first: what a link did, in a dozen lines, from the
//! pass's JSON lines (pass/src/report/report.cpp writes them, docs/src/pass.md describes them).

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

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
    /// Length, function, module.
    longest: Option<(u64, String, String)>,
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
        } else if let Some(why) = line["skipped"].as_str() {
            self.functions += 1;
            *self.skipped.entry(why.to_owned()).or_default() += 1;
        } else {
            self.functions += 1;
            self.safepoints += number("safepoints");
            self.chunked += number("chunked");
            self.long_calls += number("long_calls");
            let (name, module) = (text("name").to_owned(), text("module").to_owned());
            self.longest = self.longest.take().max(Some((number("longest"), name, module)));
        }
    }

    fn render(self, output: &str) -> String {
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
        text
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

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
{"chunked":2,"function":"f","longest":90,"long_calls":1,"module":"a.o","name":"f","safepoints":3,"skipped":null}
{"chunked":0,"function":"_Zg","longest":400,"long_calls":0,"module":"b.o","name":"g()","safepoints":1,"skipped":null}
{"function":"m","longest":null,"module":"b.o","name":"m","safepoints":0,"skipped":"allocator"}
{"function":"k","longest":null,"module":"b.o","name":"k","safepoints":0,"skipped":"keep-out list"}
{"function":"l","longest":null,"module":"b.o","name":"l","safepoints":0,"skipped":"keep-out list"}
{"bound":600,"functions":1,"instrumented":1,"longest":90,"module":"a.o","safepoints":3,"skipped":0,"summary":true}
{"bound":600,"functions":4,"instrumented":1,"longest":400,"module":"b.o","safepoints":1,"skipped":3,"summary":true}
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
";

    #[test]
    fn everything_is_counted_in_whatever_order() {
        let lines: Vec<_> = LINES.trim().lines().collect();
        assert_eq!(summarise("out/app", LINES.trim()).as_deref(), Ok(EXPECTED));
        let backwards: Vec<_> = lines.into_iter().rev().collect();
        assert_eq!(summarise("out/app", &backwards.join("\n")).as_deref(), Ok(EXPECTED));
    }

    #[test]
    fn bad_lines_are_named() {
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
