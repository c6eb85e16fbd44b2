//! `curtail top`: looks at a running server, again and again, over the socket by which it shows itself
//! ([`curtail_observe`]), and at a core allocator, by the session in which that says what it does.
//!
//! One thread, the main one. What comes over the socket is another process's: it is checked before it
//! is shown.

use crate::args::Json;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use curtail_observe::{NAME, address, is_trusted};
use curtail_report::{CoresBefore, Live, LiveCores, Stacks};
use curtail_shm::session::{self, Session};
use curtail_workload::duration_ns;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Uid;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write, stdout};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A server that does not answer so long is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// No look is longer: 65,535 classes and workers fit.
const LONGEST: u64 = 64 << 20;
/// A look copies the server's histograms.
const SHORTEST_INTERVAL_NS: u64 = 10_000_000;

/// `curtail top`.
#[derive(Args)]
pub(crate) struct Top {
    /// The server's process; by default the one server there is
    pid: Option<u32>,
    /// Look at the core allocator (curtaild) at this socket instead [default: $CURTAILD, or else the
    /// usual place]. Without it, the core allocator of the server is shown below the server
    #[arg(long, value_name = "PATH", conflicts_with = "pid", num_args = 0..=1)]
    daemon: Option<Option<PathBuf>>,
    /// Which of several servers, pools and runtimes of the process
    #[arg(long)]
    name: Option<String>,
    /// Print the stacks of all of its threads, and of the threads and requests of Curtail's that
    /// are suspended, and end
    #[arg(long, conflicts_with_all = ["once", "metrics"])]
    stacks: bool,
    /// Print its figures as Prometheus reads them, and end
    #[arg(long, conflicts_with_all = ["once", "json"])]
    metrics: bool,
    /// Look once, at all since the server's start
    #[arg(long)]
    once: bool,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_ns)]
    interval: u64,
    #[command(flatten)]
    json: Json,
}

impl Top {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.interval < SHORTEST_INTERVAL_NS {
            return Err(Failure::usage("--interval: at least 10ms"));
        }
        if let Some(path) = &self.daemon {
            return self.look_at_daemon(path.clone().unwrap_or_else(session::default_path));
        }
        let pid = the_one(self.pid)?;
        let name = self.name.as_deref().unwrap_or_default();
        if name.contains('\n') || name.len() > 200 {
            return Err(Failure::usage("--name: one line of 200 bytes at most"));
        }
        let mut server = Program::connect(pid)?;
        if self.metrics {
            return self.metrics(&mut server);
        }
        if self.stacks {
            return self.stacks(&mut server);
        }
        let in_place = !self.once && stdout().is_terminal();
        let mut first = true;
        let mut before = CoresBefore::default();
        loop {
            let Some(mut live) = server.look(name)? else { return self.ended(pid, first) };
            // What the server says of others is not believed.
            live.allocator = allocator_of(pid, &mut before);
            self.show(&live.line()?, &live.table(), in_place, first)?;
            if self.once {
                return Ok(());
            }
            first = false;
            std::thread::sleep(Duration::from_nanos(self.interval));
        }
    }

    fn metrics(&self, server: &mut Program) -> Result<(), Failure> {
        let text: String = server.parsed("metrics")?;
        output::text(&text)
    }

    fn stacks(&self, server: &mut Program) -> Result<(), Failure> {
        let stacks: Stacks = server.parsed("stacks")?;
        if let Some(file) = &self.json.json {
            let text = serde_json::to_string(&stacks).map_err(Failure::failed)?;
            curtail_report::write_text(file, &(text + "\n"))?;
        }
        match self.json.json.as_deref() {
            Some("-") => Ok(()),
            _ => output::text(&stacks.text()),
        }
    }

    fn ended(&self, pid: u32, first: bool) -> Result<(), Failure> {
        if first {
            return Err(Failure::failed(format!(
                "process {pid} shows nothing: its server has ended"
            )));
        }
        say!("the server has ended");
        Ok(())
    }

    fn show(&self, line: &str, table: &str, in_place: bool, first: bool) -> Result<(), Failure> {
        if let Some(file) = &self.json.json {
            curtail_report::write_text(file, line)?;
        }
        if self.json.json.as_deref() == Some("-") {
            return Ok(());
        }
        output::text(&frame(table, in_place, first))
    }

    fn look_at_daemon(&self, path: PathBuf) -> Result<(), Failure> {
        let in_place = !self.once && stdout().is_terminal();
        let mut first = true;
        let mut before = CoresBefore::default();
        loop {
            let status = match Session::status(&path) {
                Ok(status) => status,
                Err(_) if !first => {
                    say!("the core allocator has ended");
                    return Ok(());
                }
                Err(error) => {
                    let path = path.display();
                    return Err(Failure::failed(format!("no core allocator at {path}: {error}")));
                }
            };
            let live = LiveCores::parse(&status, &mut before)?;
            self.show(&live.line()?, &live.table(), in_place, first)?;
            if self.once {
                return Ok(());
            }
            first = false;
            std::thread::sleep(Duration::from_nanos(self.interval));
        }
    }
}

/// The core allocator at the usual place, if that process is one of its programs.
fn allocator_of(pid: u32, before: &mut CoresBefore) -> Option<LiveCores> {
    let status = Session::status(&session::default_path()).ok()?;
    let mut next = before.clone();
    let live = LiveCores::parse(&status, &mut next).ok()?;
    let serves = live.programs.iter().any(|program| program.pid == pid);
    serves.then(|| *before = next).map(|()| live)
}

/// What is written for a table: over the one before, or below it.
fn frame(table: &str, in_place: bool, first: bool) -> String {
    match (in_place, first) {
        (true, _) => {
            // Home; clear what is left of each line, and below the last. At first, all of it.
            let clear = if first { "\x1b[2J" } else { "" };
            format!("{clear}\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n"))
        }
        (false, true) => table.to_owned(),
        (false, false) => format!("\n{table}"),
    }
}

/// The line to a server.
pub(crate) struct Program {
    pid: u32,
    stream: BufReader<UnixStream>,
}

impl Program {
    pub(crate) fn connect(pid: u32) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::ConnectionRefused => Failure::failed(format!(
                "process {pid} shows nothing: it is no `curtail serve`, and not observable"
            )),
            _ => Failure::failed(format!("process {pid}: {error}")),
        };
        let address = address(pid).map_err(failed)?;
        let stream = UnixStream::connect_addr(&address).map_err(failed)?;
        let peer = socket_peercred(&stream).map_err(|error| failed(error.into()))?;
        // Any process may take the name.
        if peer.pid.as_raw_nonzero().get().cast_unsigned() != pid || !is_trusted(peer.uid) {
            return Err(Failure::failed(format!("another process answers for process {pid}")));
        }
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Self { pid, stream: BufReader::new(stream) })
    }

    /// `None`: the server has ended.
    fn look(&mut self, name: &str) -> Result<Option<Live>, Failure> {
        let question = if name.is_empty() { String::new() } else { format!("look {name}") };
        let line = self.ask(&question)?;
        line.map(|line| Ok(Live::parse(self.pid, &line)?)).transpose()
    }

    /// The answer to a question that every program has one to.
    fn parsed<T: serde::de::DeserializeOwned>(&mut self, question: &str) -> Result<T, Failure> {
        let line = self.ask(question)?.unwrap_or_default();
        serde_json::from_slice(&line).map_err(|error| {
            Failure::failed(format!("process {} sent no {question}: {error}", self.pid))
        })
    }

    /// One line for another; `None`: it has ended.
    fn ask(&mut self, question: &str) -> Result<Option<Vec<u8>>, Failure> {
        match self.stream.get_mut().write_all(format!("{question}\n").as_bytes()) {
            Err(error) if is_end(&error) => return Ok(None),
            written => written.map_err(|error| self.failed(error))?,
        }
        self.next_line()
    }

    /// The first line of an answer that takes so long.
    pub(crate) fn ask_for(
        &mut self,
        question: &str,
        length: Duration,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let patience = self.stream.get_ref().set_read_timeout(Some(PATIENCE + length));
        patience.map_err(|error| self.failed(error))?;
        self.ask(question)
    }

    /// The next line that it sends; `None`: it has ended.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        match self.stream.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Err(error) if is_end(&error) => Ok(None),
            Ok(0) => Ok(None),
            read => read.map(|_| Some(line)).map_err(|error| self.failed(error)),
        }
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::WouldBlock => {
                Failure::failed(format!("process {} does not answer", self.pid))
            }
            _ => Failure::failed(format!("process {}: {error}", self.pid)),
        }
    }
}

fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// The processes that show a server, of those that we may look at.
fn servers() -> BTreeSet<u32> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let is_ours = |pid: &u32| {
        let owner = std::fs::metadata(format!("/proc/{pid}")).map(|data| Uid::from_raw(data.uid()));
        let me = rustix::process::geteuid();
        owner.is_ok_and(|owner| owner == me || me.is_root())
    };
    shown(&table).filter(is_ours).collect()
}

/// The processes that sockets are called after, in the kernel's table of them.
fn shown(table: &str) -> impl Iterator<Item = u32> {
    let of = |line: &str| {
        line.split_whitespace().last()?.strip_prefix('@')?.strip_prefix(NAME)?.parse().ok()
    };
    table.lines().filter_map(of)
}

/// The process that is meant.
pub(crate) fn the_one(named: Option<u32>) -> Result<u32, Failure> {
    named.map_or_else(|| only(&servers()), Ok)
}

/// The one that is meant where none is named.
fn only(servers: &BTreeSet<u32>) -> Result<u32, Failure> {
    let mut all = servers.iter();
    match (all.next(), all.next()) {
        (Some(&pid), None) => Ok(pid),
        (None, _) => Err(Failure::failed("no server is running here that you may look at")),
        _ => {
            let pids: Vec<String> = servers.iter().map(u32::to_string).collect();
            Err(Failure::usage(format!("which server? There are {}", pids.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_in_the_kernels_table() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 10001 @curtail-top-77\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 10002 @curtail-top-77\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 10003\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 10004 @curtail-top-x\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 10005 /run/curtail-top-78\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 10006 @curtail-top-9\n";
        let found: BTreeSet<u32> = shown(table).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [9, 77]);
    }

    #[test]
    fn one_is_meant_and_several_are_asked_about() {
        assert_eq!(only(&BTreeSet::from([7])).unwrap(), 7);
        assert!(matches!(only(&BTreeSet::new()), Err(Failure::Failed(_))));
        let Err(Failure::Usage(which)) = only(&BTreeSet::from([7, 9])) else { panic!() };
        assert!(which.contains("7, 9"), "{which}");
    }

    #[test]
    fn a_terminal_is_written_over() {
        let first = frame("a\nb\n", true, true);
        assert_eq!(first, "\x1b[2J\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(frame("a\n", true, false), "\x1b[Ha\x1b[K\n\x1b[J");
        assert_eq!(frame("a\n", false, true) + &frame("b\n", false, false), "a\n\nb\n");
    }
}
