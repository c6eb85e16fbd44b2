//! Calling the command.
#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::Value;
use std::process::{Command, Output, Stdio};

pub(crate) fn curtail() -> Command {
    Command::new(env!("CARGO_BIN_EXE_curtail"))
}

pub(crate) fn run(line: &str) -> Output {
    curtail().args(line.split_whitespace()).stdin(Stdio::null()).output().expect("it starts")
}

/// It did what it was asked to. Whether the machine let the figures be trusted is not asserted.
pub(crate) fn measured(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let distrusted = said.lines().last().is_some_and(|line| line.contains(" not valid: "));
    output.status.success() || (output.status.code() == Some(1) && distrusted)
}

/// Standard output as JSON, after it was [`measured`].
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = curtail().args(arguments).args(["--json", "-"]).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(measured(&output), "{arguments:?}: {stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}
