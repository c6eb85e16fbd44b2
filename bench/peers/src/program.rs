//! The programs that are measured: where they are, on which core they run, and that they end.
//!
//! A program is started through `setpriv --pdeathsig KILL taskset -c CORE`, which both replace
//! themselves by it: it has its core from its first instruction, and the kernel ends it should this
//! process die. The kernel watches the *thread* that started it, so that only the main thread may.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Where programs and this process run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The measured programs'.
    pub program: usize,
    /// The client's; the same where there is one core only.
    pub client: usize,
}

impl Cores {
    /// The first two cores that this process may use.
    ///
    /// # Errors
    /// Where the system does not tell which.
    pub fn pick() -> Result<Self, String> {
        let allowed = sched_getaffinity(None).map_err(|e| format!("sched_getaffinity: {e}"))?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let program = cores.next().ok_or("this process may use no core")?;
        Ok(Self { program, client: cores.next().unwrap_or(program) })
    }

    /// Keeps the calling thread on the client's core from now on: it may use no other then, so
    /// [`Cores::pick`] and the machine's description come first.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn stay(self) -> Result<(), String> {
        let mut only = CpuSet::new();
        only.set(self.client);
        sched_setaffinity(None, &only).map_err(|e| format!("core {}: {e}", self.client))
    }
}

/// The program `BENCH-NAME` in `directory`.
///
/// # Errors
/// Why it is not there: the builder's reason, which it leaves in `BENCH-NAME.skipped`.
pub fn find(directory: &Path, bench: &str, name: &str) -> Result<PathBuf, String> {
    let path = directory.join(format!("{bench}-{name}"));
    if path.is_file() {
        return Ok(path);
    }
    let why = std::fs::read_to_string(directory.join(format!("{bench}-{name}.skipped")));
    Err(why.map_or_else(|_| "not built".to_owned(), |why| why.trim().to_owned()))
}

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts it on `core`. Its errors go where ours go.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(program: &Path, args: &[&str], core: usize) -> Result<Self, String> {
        Self::start_on(program, args, &[core])
    }

    /// Starts it on `cores`. Its errors go where ours go.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_on(program: &Path, args: &[&str], cores: &[usize]) -> Result<Self, String> {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "taskset", "-c", &cores.join(",")])
            .arg(program)
            .args(args)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| format!("setpriv (of util-linux): {e}"))?;
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        // Ends with the program, whose end of the pipe closes.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// Its next line.
    ///
    /// # Errors
    /// Where it ends before, or takes longer than `limit`.
    pub fn line(&mut self, limit: Duration) -> Result<String, String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("said nothing for {limit:?}")),
            Err(RecvTimeoutError::Disconnected) => Err(match self.child.wait() {
                Ok(status) => format!("ended ({status}) and said nothing"),
                Err(error) => error.to_string(),
            }),
        }
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its next line, as a number.
    ///
    /// # Errors
    /// As [`line`](Self::line), or where it is none.
    pub fn number<T: std::str::FromStr>(&mut self, limit: Duration) -> Result<T, String> {
        let line = self.line(limit)?;
        line.trim().parse().map_err(|_| format!("said `{line}`, which is no number"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it remains.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let core = Cores::pick().unwrap().program;
        Running::start(Path::new("/bin/sh"), &["-c", script], core).unwrap()
    }

    #[test]
    fn what_a_program_says_is_heard_and_its_end_is_told() {
        let limit = Duration::from_secs(10);
        let mut program = shell("echo 42; echo word; exit 3");
        assert_eq!(program.number::<u16>(limit), Ok(42));
        assert_eq!(program.number::<u16>(limit), Err("said `word`, which is no number".to_owned()));
        let end = program.line(limit).unwrap_err();
        assert!(end.contains("exit status: 3"), "{end}");
    }

    #[test]
    fn a_program_runs_on_its_core_alone() {
        let mut program = shell("taskset -cp $$ | sed 's/.*: //'");
        let core = Cores::pick().unwrap().program;
        assert_eq!(program.number(Duration::from_secs(10)), Ok(core));
    }

    #[test]
    fn who_is_dropped_is_gone() {
        let mut program = shell("echo $$; exec sleep 1000");
        let pid: u32 = program.number(Duration::from_secs(10)).unwrap();
        assert!(program.line(Duration::from_millis(10)).unwrap_err().contains("said nothing"));
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        drop(program);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn why_a_program_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let find = || find(directory.path(), "echo", "go");
        assert_eq!(find(), Err("not built".to_owned()));
        std::fs::write(directory.path().join("echo-go.skipped"), "no Go here\n").unwrap();
        assert_eq!(find(), Err("no Go here".to_owned()));
        std::fs::write(directory.path().join("echo-go"), "").unwrap();
        assert_eq!(find(), Ok(directory.path().join("echo-go")));
    }
}
