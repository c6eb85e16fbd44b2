//! The socket over which a program is looked at.
//!
//! It is a Unix one in the abstract namespace, called after the process: it leaves no file, and is
//! gone with the process, however that ends. A peer sends lines. An empty one asks for a look at
//! what was shown first, `look NAME` at what has that name ([`curtail_report::Live`]); `stacks` for
//! the stacks of all threads and of what is suspended ([`curtail_report::Stacks`]); `metrics` for
//! Prometheus's text, as a string.
//!
//! The answer is one line of JSON. `trace N` records for so many milliseconds; its answer is a line
//! for each event and a last one, which says how many were lost. Other lines count as empty. Only
//! the program's own user and root are answered.
//!
//! One thread waits for peers, and each peer has one. They end with the process.

use crate::look::Look;
use crate::shown;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use serde::Serialize;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Peers at a time; more are turned away.
const PEERS: usize = 8;
/// A peer that takes no more is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// A question is no longer.
const LONGEST: u64 = 256;

/// What the sockets are called, but for the process's number.
pub const NAME: &str = "curtail-top-";

/// Where a process shows itself.
///
/// # Errors
/// None that a number can cause.
pub fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

/// Whether that user is answered, and may be believed.
#[must_use]
pub fn is_trusted(user: Uid) -> bool {
    user == geteuid() || user.is_root()
}

/// Opens the socket of this process, unless it is open.
pub(crate) fn open() -> io::Result<()> {
    static OPEN: Mutex<bool> = Mutex::new(false);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if *open {
        return Ok(());
    }
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    Builder::new().name("looks".to_owned()).spawn(move || wait(&listener))?;
    *open = true;
    Ok(())
}

/// Peers that there are.
static PEERS_NOW: AtomicUsize = AtomicUsize::new(0);

struct Peer;

impl Drop for Peer {
    fn drop(&mut self) {
        PEERS_NOW.fetch_sub(1, Ordering::Relaxed);
    }
}

fn wait(listener: &UnixListener) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) if PEERS_NOW.fetch_add(1, Ordering::Relaxed) < PEERS => {
                let peer = Peer;
                let tell = move || {
                    let _peer = peer;
                    drop(tell(stream));
                };
                // Without a thread for it, the peer sees its line closed.
                let _ = Builder::new().name("look".to_owned()).spawn(tell);
            }
            Ok(_) => drop(Peer),
            // Out of descriptors, perhaps: others may give some back meanwhile.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// One peer's thread.
fn tell(mut stream: UnixStream) -> io::Result<()> {
    if !is_trusted(socket_peercred(&stream)?.uid) {
        return Ok(());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut before: Option<Look> = None;
    loop {
        let mut asked = Vec::new();
        lines.by_ref().take(LONGEST).read_until(b'\n', &mut asked)?;
        if asked.is_empty() {
            return Ok(());
        }
        if asked.last() != Some(&b'\n') {
            continue;
        }
        let asked = String::from_utf8_lossy(&asked);
        if let Some(length) = asked.strip_prefix("trace ") {
            crate::trace::send(length.trim(), &mut stream)?;
            continue;
        }
        let mut line = match asked.trim() {
            "stacks" => json(&crate::stacks::now())?,
            "metrics" => json(&shown::metrics())?,
            other => {
                let name = other.strip_prefix("look ").unwrap_or_default();
                // It has ended.
                let Some(now) = shown::look(name) else { return Ok(()) };
                let line = now.since(before.as_ref()).line().map_err(io::Error::other)?;
                before = Some(now);
                line.trim_end().to_owned()
            }
        };
        line.push('\n');
        stream.write_all(line.as_bytes())?;
    }
}

fn json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::other)
}
