//! The stacks of a running program: of the kernel's threads, and of what is suspended.

use crate::live::printable;
use serde::{Deserialize, Serialize};

/// All stacks of a program, as it sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// `stacks`.
    #[serde(default)]
    pub verb: String,
    /// Its process.
    pub pid: u32,
    /// Of the kernel's threads.
    pub threads: Vec<ThreadFrames>,
    /// Of threads and requests of Curtail's that do not run, by what is on them.
    #[serde(default)]
    pub suspended: Vec<SuspendedFrames>,
    /// Those that are suspended and are not among these.
    #[serde(default)]
    pub left_out: u64,
}

/// A kernel's thread and the functions on its stack, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadFrames {
    /// The kernel's number of it.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The functions.
    pub frames: Vec<String>,
}

/// Threads or requests that are suspended with the same functions on their stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuspendedFrames {
    /// `thread` or `request`.
    pub what: String,
    /// Their class.
    pub class: u16,
    /// How many there are.
    pub count: u64,
    /// Of the first few.
    pub numbers: Vec<u32>,
    /// Of the first few that have one.
    pub names: Vec<String>,
    /// The functions, innermost first.
    pub frames: Vec<String>,
}

impl Stacks {
    /// What a person reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for thread in &self.threads {
            text.push_str(&format!("thread {} ({})\n", thread.tid, printable(&thread.name)));
            push(&thread.frames, &mut text);
        }
        for group in &self.suspended {
            text.push_str(&group.heading());
            push(&group.frames, &mut text);
        }
        if self.left_out > 0 {
            text.push_str(&format!("suspended, and not shown: {}\n", self.left_out));
        }
        text
    }
}

impl SuspendedFrames {
    fn heading(&self) -> String {
        let (what, plural) = (printable(&self.what), if self.count == 1 { "" } else { "s" });
        let mut heading = format!("suspended: {} {what}{plural}", self.count);
        if self.class != 0 {
            heading.push_str(&format!(" of class {}", self.class));
        }
        let numbers: Vec<_> = self.numbers.iter().map(u32::to_string).collect();
        let more = if self.count > numbers.len() as u64 { ", …" } else { "" };
        heading.push_str(&format!(" ({}{more})", numbers.join(", ")));
        if !self.names.is_empty() {
            heading.push_str(&format!(", named {}", printable(&self.names.join(", "))));
        }
        heading.push('\n');
        heading
    }
}

fn push(frames: &[String], text: &mut String) {
    frames.iter().for_each(|frame| text.push_str(&format!("    {}\n", printable(frame))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_printed_and_what_an_older_program_sends_is_read() {
        let old =
            r#"{"verb":"stacks","pid":7,"threads":[{"tid":8,"name":"a\u001b","frames":["f"]}]}"#;
        let mut stacks: Stacks = serde_json::from_str(old).unwrap();
        assert_eq!(stacks.text(), "thread 8 (a\u{fffd})\n    f\n");
        let group = |what: &str, count, class| SuspendedFrames {
            what: what.to_owned(),
            class,
            count,
            numbers: vec![4, 5],
            names: Vec::new(),
            frames: vec!["g".to_owned(), "h\n".to_owned()],
        };
        stacks.suspended = vec![group("thread", 12, 0), group("request", 2, 1)];
        stacks.suspended[0].names = vec!["x".to_owned(), "y".to_owned()];
        stacks.left_out = 3;
        let expected = "thread 8 (a\u{fffd})\n    f\n\
            suspended: 12 threads (4, 5, …), named x, y\n    g\n    h\u{fffd}\n\
            suspended: 2 requests of class 1 (4, 5)\n    g\n    h\u{fffd}\n\
            suspended, and not shown: 3\n";
        assert_eq!(stacks.text(), expected);
    }
}
