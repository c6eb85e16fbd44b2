//! The programs that are measured, which the runner speaks with by lines.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A process that is spoken with by lines; killed at the end.
pub(crate) struct Talker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Talker {
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Self { child, input, output })
    }

    pub(crate) fn say(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().expect("open until the end");
        writeln!(input, "{line}").and_then(|()| input.flush()).map_err(|error| error.to_string())
    }

    pub(crate) fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("a program ended before it answered".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn expect(&mut self, wanted: &str) -> Result<(), String> {
        match self.line()? {
            line if line == wanted => Ok(()),
            line => Err(format!("a program says `{line}` instead of `{wanted}`")),
        }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // Batch programs end when their input does, however they were started.
        drop(self.input.take());
        let begun = std::time::Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                let _ = self.child.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.wait();
    }
}

/// What batch work has done so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    units: f64,
    ns: f64,
}

impl Progress {
    pub(crate) fn rate_since(self, before: Self) -> f64 {
        (self.units - before.units) / (self.ns - before.ns)
    }
}

pub(crate) struct Batch(Talker);

impl Batch {
    /// Started, and at work.
    pub(crate) fn start(command: &[String]) -> Result<Self, String> {
        let mut process = Command::new(&command[0]);
        let mut batch = Self(Talker::start(process.args(&command[1..]))?);
        batch.ask()?;
        Ok(batch)
    }

    pub(crate) fn ask(&mut self) -> Result<Progress, String> {
        self.0.say("how far")?;
        let line = self.0.line()?;
        let numbers = line.split_once(' ').and_then(|(units, ns)| {
            Some(Progress { units: units.parse().ok()?, ns: ns.parse().ok()? })
        });
        numbers.ok_or_else(|| format!("batch work says `{line}`"))
    }
}

/// Ranks and pins the calling process, and becomes the program: `alone|idle|nice CPU PROGRAM`.
///
/// # Errors
/// In words, for people.
pub fn become_batch(args: &[String]) -> Result<(), String> {
    let [rank, cpu, program] = args else { return Err("batch RANK CPU PROGRAM".to_owned()) };
    let cpu = cpu.parse().map_err(|_| format!("`{cpu}` is no core"))?;
    let system = |error: std::io::Error| error.to_string();
    curtail_shm::kthreads::pin_this_thread(&[cpu]).map_err(system)?;
    match rank.as_str() {
        "alone" => {}
        "idle" => curtail_shm::kthreads::rank_last().map_err(system)?,
        "nice" => _ = rustix::process::nice(19).map_err(|error| error.to_string())?,
        _ => return Err(format!("there is no rank `{rank}`")),
    }
    use std::os::unix::process::CommandExt;
    Err(Command::new(program).exec().to_string())
}
