//! Child processes: run to their end or to a limit of time, and never left behind.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It exited.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was still running at the limit.
    Timeout,
}

/// What a process did.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// How it ended.
    pub end: End,
    /// Its standard output.
    pub output: String,
    /// Its standard error's beginning.
    pub errors: String,
    /// Wall-clock time.
    pub time: Duration,
}

impl Outcome {
    /// It exited with 0.
    #[must_use]
    pub(crate) fn ok(&self) -> bool {
        self.end == End::Code(0)
    }
}

/// Where things are.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// The directory of `curtail-cc`, the pass and the safepoint library.
    pub home: PathBuf,
    /// The directory of clang, opt, llc.
    pub llvm: PathBuf,
    /// `spoil.o`: see `native/spoil.c`.
    pub spoil: PathBuf,
}

const SPOIL: &str = include_str!("../native/spoil.c");
const HEADER: &str = include_str!("../../../crates/fiber/include/curtail_safepoint.h");

impl Tools {
    /// Finds clang by asking `curtail-cc` in `home`, and builds what instrumented programs are
    /// linked with, in `work`.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn find(home: &Path, work: &Path) -> Result<Self, String> {
        let cc = home.join("curtail-cc");
        let version = run(Command::new(&cc).arg("--version"), work, Duration::from_secs(20))?;
        let llvm = version.output.lines().find_map(|line| line.strip_prefix("InstalledDir: "));
        let llvm = llvm.ok_or_else(|| format!("{} --version: {version:?}", cc.display()))?;
        let tools = Self { home: home.into(), llvm: llvm.into(), spoil: work.join("spoil.o") };
        let write = |name: &str, text: &str| {
            fs::write(work.join(name), text).map_err(|error| format!("{}: {error}", work.display()))
        };
        write("spoil.c", SPOIL)?;
        write("curtail_safepoint.h", HEADER)?;
        let mut clang = Command::new(tools.clang(false));
        clang.args(["-O1", "-c", "-fPIC"]).arg(work.join("spoil.c")).arg("-o").arg(&tools.spoil);
        let built = run(&mut clang, work, Duration::from_secs(60))?;
        if built.ok() { Ok(tools) } else { Err(format!("spoil.c: {}", built.errors)) }
    }

    /// The plain compiler.
    #[must_use]
    pub(crate) fn clang(&self, cxx: bool) -> PathBuf {
        self.llvm.join(if cxx { "clang++" } else { "clang" })
    }

    /// Ours.
    #[must_use]
    pub(crate) fn curtail(&self, cxx: bool) -> PathBuf {
        self.home.join(if cxx { "curtail-c++" } else { "curtail-cc" })
    }

    /// The pass.
    #[must_use]
    pub(crate) fn pass(&self) -> PathBuf {
        self.home.join("libcurtail_pass.so")
    }
}

fn message(command: &Command, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", command.get_program().display())
}

/// Waits for a child until the limit; kills it, and all its group, there.
fn wait(child: &mut std::process::Child, limit: Duration) -> io::Result<End> {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Instant::now() + limit;
    let mut late = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {
                late = true;
                break;
            }
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Its children, if it has left any, end with it.
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait()?;
    Ok(match (late, status.code()) {
        (true, _) => End::Timeout,
        (_, Some(code)) => End::Code(code),
        _ => End::Signal(status.signal().unwrap_or_default()),
    })
}

/// Runs a command to its end, or to `limit`. Its output goes through files in `work`.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(command: &mut Command, work: &Path, limit: Duration) -> Result<Outcome, String> {
    let (out, err) = (work.join("stdout"), work.join("stderr"));
    let create = |path: &Path| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
    command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
    let begin = Instant::now();
    let mut child = command.process_group(0).spawn().map_err(|e| message(command, e))?;
    let end = wait(&mut child, limit).map_err(|e| message(command, e))?;
    let time = begin.elapsed();
    let read = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes[..bytes.len().min(200_000)]).into_owned()
    };
    Ok(Outcome { end, output: read(&out), errors: read(&err), time })
}

/// A command as a line for a shell, with the variables that it sets.
#[must_use]
pub(crate) fn line(command: &Command) -> String {
    let quote = |text: &OsStr| {
        let text = text.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,+:%".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            text.into_owned()
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quote(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quote);
    set.chain(words).collect::<Vec<_>>().join(" ")
}
