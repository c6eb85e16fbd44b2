//! Starts a group's program for a crate in a setting, waits for a minute at most, and judges.

use curtail_sweep::{MARK, SETTINGS};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// What came out for a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In all settings.
    Right,
    /// In one of them at least, and not in the control.
    Wrong,
    /// It could not be built, or is wrong in the control as well.
    Skipped,
}

impl Verdict {
    /// As in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Skipped => "skipped",
        }
    }
}

/// A crate's verdict over all settings, and the details.
pub fn verdict(program: &Path, name: &str) -> (Verdict, String) {
    let [control, settings @ ..] = SETTINGS;
    if let Err(why) = one(program, name, control) {
        return (Verdict::Skipped, format!("wrong on the kernel's threads, too: {why}"));
    }
    let mut verdict = Verdict::Right;
    let mut details = Vec::new();
    for setting in settings {
        let found = one(program, name, setting);
        let detail = found.unwrap_or_else(|why| {
            verdict = Verdict::Wrong;
            format!("WRONG: {why}")
        });
        details.push(format!("{}: {detail}", title(setting)));
    }
    (verdict, details.join("; "))
}

fn title(setting: &str) -> &'static str {
    match setting {
        "pool" => "jobs",
        "one" => "threads on one kthread",
        _ => "threads on two",
    }
}

/// One run: how much was tried, or what was wrong.
fn one(program: &Path, name: &str, setting: &str) -> Result<String, String> {
    let mut child = Command::new(program)
        .args([name, setting])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("it does not start: {error}"))?;
    let out = drain(child.stdout.take());
    let err = drain(child.stderr.take());
    let ended = wait(&mut child);
    let out = out.join().expect("it only reads");
    let err = err.join().expect("it only reads");
    let result = out.lines().rev().find_map(|line| line.strip_prefix(MARK));
    let result = result.and_then(|line| serde_json::from_str::<Value>(line).ok());
    if let Some(wrong) = result.as_ref().and_then(|result| result["wrong"].as_str()) {
        return Err(one_line(wrong));
    }
    match (ended, result) {
        (Some(status), Some(result)) if status.success() => Ok(counts(&result)),
        (Some(status), _) => Err(format!("{}: {}", how(status), last_lines(&err))),
        (None, Some(_)) => Err(format!("right, but its process did not end: {}", last_lines(&err))),
        (None, None) => Err(format!("no end within {LIMIT:?}: {}", last_lines(&err))),
    }
}

/// Reads all of a pipe, so that the program never waits for room in it.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `None`: it had to be killed.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn counts(result: &Value) -> String {
    let passes = result["passes"].as_u64().unwrap_or(0);
    match result["preemptions"].as_u64().unwrap_or(0) {
        0 => format!("{passes} passes, NOTHING pre-empted"),
        preemptions => format!("{passes} passes, {preemptions} pre-emptions"),
    }
}

fn how(status: ExitStatus) -> String {
    // `signal: 11 (SIGSEGV) (core dumped)`, `exit status: 1`
    status.to_string()
}

/// Of a text, on one line: as much as a table has room for.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{words:.600}")
}

/// What a program said last.
fn last_lines(err: &str) -> String {
    let lines: Vec<_> = err.lines().filter(|line| !line.trim().is_empty()).collect();
    one_line(&lines[lines.len().saturating_sub(6)..].join(" | "))
}
