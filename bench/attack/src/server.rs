//! The process that is attacked.

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// A running server; killed where it is not ended.
pub(crate) struct Server {
    child: Child,
    said: Receiver<String>,
    pub(crate) tcp: SocketAddr,
    pub(crate) udp: SocketAddr,
}

impl Server {
    /// Starts one and waits until it listens.
    pub(crate) fn start(program: &Path, policy: &str, more: &[&str]) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(["serve", "--app", "spin", "--classes", "any:1us:1", "--workers", "1"])
            .args(["--listen", "udp://127.0.0.1:0,tcp://127.0.0.1:0", "--policy", policy])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let (send, said) = channel();
        let stderr = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        // Read to the end, so that the server never waits for its reader.
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, said, tcp: nowhere, udp: nowhere };
        let mut before = String::new();
        loop {
            let line = server.said.recv_timeout(STUCK);
            let line = line.map_err(|_| format!("it does not listen: {before}"))?;
            if let Some((_, urls)) = line.split_once("listening on ") {
                let urls = urls.split_whitespace().next().unwrap_or_default();
                server.tcp = address(urls, "tcp://")?;
                server.udp = address(urls, "udp://")?;
                return Ok(server);
            }
            before = line;
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Bounds its address space to so much more than it has now.
    pub(crate) fn bound_memory(&self, more: u64) -> Result<(), String> {
        let now = memory(self.pid(), "VmSize:").ok_or("it has gone")? as u64;
        let limit = Some(now + more);
        prlimit(Some(self.process()), Resource::As, Rlimit { current: limit, maximum: limit })
            .map(drop)
            .map_err(|error| error.to_string())
    }

    pub(crate) fn terminate(&self) {
        let _ = kill_process(self.process(), Signal::TERM);
    }

    /// Waits for its end; how it ended, and its last words.
    pub(crate) fn end(mut self) -> Result<(ExitStatus, String), String> {
        let begun = Instant::now();
        let mut last = String::new();
        loop {
            match self.said.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => last = line,
                // Its standard error is closed: it has ended.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > STUCK => {
                    return Err(format!("it does not end: {last}"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        Ok((status, last))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(urls: &str, scheme: &str) -> Result<SocketAddr, String> {
    urls.split(',')
        .find_map(|url| url.strip_prefix(scheme)?.parse().ok())
        .ok_or_else(|| format!("no {scheme} in {urls}"))
}

/// Bytes of that kind that a process has; none: it has ended.
pub(crate) fn memory(pid: u32, kind: &str) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(kind))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

/// Datagrams that the kernel had no room for at that socket.
pub(crate) fn kernel_dropped(udp: SocketAddr) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let port = format!(":{:04X}", udp.port());
    let mut fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = fields.find(|fields| fields.get(1).is_some_and(|local| local.ends_with(&port)));
    line.and_then(|fields| fields.last()?.parse().ok()).unwrap_or(0)
}
