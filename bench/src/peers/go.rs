//! Go as a peer: a program of its own (`bench/go`), which shares the board through a file
//! descriptor given as its standard input.

use crate::board::Board;
use crate::machine::Pinned;
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The running program; ended at the latest when dropped.
#[derive(Debug)]
pub struct Go {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Go {
    /// Starts it on that core and waits until it serves.
    ///
    /// # Errors
    /// Where it cannot be started or ends early.
    pub fn start(program: &Path, board: &Board, core: Option<usize>) -> Result<Self, String> {
        let memory = board.file().map_err(|e| e.to_string())?;
        // The child inherits the core of the thread that starts it.
        let _pin = Pinned::to(core);
        let mut child = Command::new(program)
            .arg("serve")
            .env("GOMAXPROCS", "1")
            .stdin(Stdio::from(memory))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let mut go = Self { child, said };
        go.expect("ready")?;
        Ok(go)
    }

    /// Waits for its end, after the board was stopped.
    ///
    /// # Errors
    /// Where it ends badly.
    pub fn end(&mut self) -> Result<(), String> {
        self.expect("done")?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the Go program ended with {status}")) }
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(|e| e.to_string())?;
        if line.trim() == word {
            return Ok(());
        }
        Err(format!("the Go program said `{}` instead of `{word}`", line.trim()))
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program measures of itself, in nanoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Switches {
    /// One goroutine yields to another.
    pub yield_ns: f64,
    /// A goroutine is started, runs and is waited for.
    pub spawn_ns: f64,
}

/// One round of the program's own measurement, on that core.
///
/// # Errors
/// Where it cannot be run or says something else.
pub fn switches(program: &Path, count: u64, core: Option<usize>) -> Result<Switches, String> {
    let _pin = Pinned::to(core);
    let out = Command::new(program)
        .args(["switch", &count.to_string()])
        .env("GOMAXPROCS", "1")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    serde_json::from_slice(&out.stdout).map_err(|e| format!("the Go program's answer: {e}"))
}
