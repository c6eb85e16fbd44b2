//! What is printed while it runs: one line for each thing that happened, at most [`BURST`] at once
//! and [`RATE`] a second. What was left out is counted and said.
//!
//! A thread of its own prints: where the output is slow or full, lines are left out, and the daemon
//! never waits.

use serde_json::json;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines a second.
const RATE: u64 = 20;
/// Lines at once.
const BURST: u64 = 100;
const SECOND_NS: u64 = 1_000_000_000;
/// Lines that wait for being printed.
const WAITING: usize = 256;
/// How long the last lines may take.
const LAST: Duration = Duration::from_millis(500);

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
    printer: Option<SyncSender<String>>,
    printed: Receiver<()>,
}

impl Log {
    /// Starts the thread, where anything is to be printed.
    pub(crate) fn new(form: Form) -> std::io::Result<Self> {
        let (printer, lines) = sync_channel::<String>(WAITING);
        let (done, printed) = sync_channel(1);
        if form != Form::Nothing {
            let print = move || {
                for line in lines {
                    print(form, &line);
                }
                let _ = done.send(());
            };
            std::thread::Builder::new().name("curtaild-log".to_owned()).spawn(print)?;
        }
        let bucket = Bucket { tokens: BURST, at_ns: 0 };
        Ok(Self { form, bucket, left_out: 0, printer: Some(printer), printed })
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
        if self.left_out > 0 {
            let text = format!("{} lines were left out here", self.left_out);
            if !self.print(now_ns, "left-out", &text) {
                self.left_out += 1;
                return;
            }
            self.left_out = 0;
        }
        if !self.print(now_ns, event, text) {
            self.left_out += 1;
        }
    }

    /// False: the output does not keep up.
    fn print(&self, now_ns: u64, event: &str, text: &str) -> bool {
        let line = match self.form {
            Form::Json => json!({"time_ns": now_ns, "event": event, "text": text}).to_string(),
            _ => format!("curtaild: {text}"),
        };
        self.printer.as_ref().is_some_and(|printer| printer.try_send(line).is_ok())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.printer = None;
        // What does not get through by then never does.
        let _ = self.printed.recv_timeout(LAST);
    }
}

// A closed or full output is no reason to stop serving.
fn print(form: Form, line: &str) {
    if form == Form::Json {
        let _ = writeln!(std::io::stdout(), "{line}");
    } else {
        let _ = writeln!(std::io::stderr(), "{line}");
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
