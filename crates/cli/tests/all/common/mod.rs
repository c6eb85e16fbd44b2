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

/// Standard output as JSON, after success.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = curtail().args(arguments).args(["--json", "-"]).output().expect("it starts");
    let text = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}
