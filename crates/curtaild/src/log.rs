//! What is printed while it runs: one line for each thing that happened, at most [`BURST`] at once
//! and [`RATE`] a second. What was left out is counted and said.

use serde_json::json;
use std::io::Write;

/// Lines a second.
const RATE: u64 = 20;
/// Lines at once.
const BURST: u64 = 100;
const SECOND_NS: u64 = 1_000_000_000;

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Not at all.
    Nothing,
    /// For people, on standard error.
    Lines,
    /// One JSON object a line, on standard output.
    Json,
}

pub(crate) struct Log {
    form: Form,
    bucket: Bucket,
    left_out: u64,
}

impl Log {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, bucket: Bucket { tokens: BURST, at_ns: 0 }, left_out: 0 }
    }

    /// `event` is a short name that scripts know.
    pub(crate) fn say(&mut self, now_ns: u64, event: &str, text: &str) {
        if self.form == Form::Nothing {
            return;
        }
        if !self.bucket.take(now_ns) {
            self.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            self.print(now_ns, "left-out", &format!("{left_out} lines were left out here"));
        }
        self.print(now_ns, event, text);
    }

    // A closed or full output is no reason to stop serving.
    fn print(&self, now_ns: u64, event: &str, text: &str) {
        if self.form == Form::Json {
            let line = json!({"time_ns": now_ns, "event": event, "text": text});
            let _ = writeln!(std::io::stdout(), "{line}");
        } else {
            let _ = writeln!(std::io::stderr(), "curtaild: {text}");
        }
    }
}

struct Bucket {
    tokens: u64,
    at_ns: u64,
}

impl Bucket {
    fn take(&mut self, now_ns: u64) -> bool {
        let new = (now_ns.saturating_sub(self.at_ns) / (SECOND_NS / RATE)).min(BURST);
        if new > 0 {
            self.tokens = (self.tokens + new).min(BURST);
            self.at_ns = now_ns;
        }
        let any = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_at_once_and_a_second() {
        let mut bucket = Bucket { tokens: BURST, at_ns: 0 };
        let mut taken = |now_ns| (0..1_000).filter(|_| bucket.take(now_ns)).count() as u64;
        assert_eq!(taken(1), BURST);
        assert_eq!(taken(SECOND_NS), RATE);
        assert_eq!(taken(SECOND_NS + 1), 0);
        assert_eq!(taken(1_000 * SECOND_NS), BURST);
    }
}
