//! What a round trip takes when the core has to change hands for it (Shenango §7.2, Fig. 6): a client
//! sends a datagram to a service that echoes, and waits for the answer; then it pauses for so long
//! that the service has nothing to do.
//!
//! | way | on the service's core |
//! |---|---|
//! | `plain` | a thread of the kernel's that asks its socket again and again, without a runtime |
//! | `spins` | a kthread that asks again and again |
//! | `sleeps` | a kthread that sleeps in the kernel, without a core allocator |
//! | `parks` | nothing: the kthread has given its core back, and is granted it for each packet |
//! | `preempts` | batch work, from which the core is taken for each packet |
//! | `inside` | a batch thread of the service's, which is cut for each packet |
//!
//! The client is in the core allocator's loop, where there is one, on a core of its own.

use crate::figures::Quantiles;
use crate::service::{Helper, Inside, daemon_of};
use crate::stage::{How, Programs, Stage};
use crate::talk::{Batch, Talker};
use curtail_shm::kthreads::pin_this_thread;
use curtail_shm::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Between an answer and the next datagram.
const PAUSE_NS: u64 = 40_000;
/// A datagram that was lost is sent again.
const LOST_NS: u64 = 100_000_000;

/// What a process is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// Without a runtime.
    pub plain: bool,
    /// Round trips.
    pub rounds: usize,
    /// The core of the client, and that of the service.
    pub cpus: [u32; 2],
    /// Where the core allocator is to listen; none: there is none.
    pub daemon: Option<PathBuf>,
    /// How long a kthread without work looks for some, in ns.
    pub spin_ns: u64,
    /// Batch work of its own.
    pub inside: Option<Inside>,
}

/// Measures all ways, by so many round trips each. `itself` is this program.
///
/// # Errors
/// Where there is one core only, or a program fails.
pub fn measure(
    itself: &Path,
    programs: &Programs,
    rounds: usize,
) -> Result<BTreeMap<String, Quantiles>, String> {
    let stage = Stage::new(itself, programs)?;
    let endless = u64::from(u32::MAX);
    let mut found = BTreeMap::new();
    for (name, under_daemon, spin_ns) in [
        ("plain", false, 0),
        ("spins", true, endless),
        ("sleeps", false, 0),
        ("parks", true, 0),
        ("preempts", true, 0),
        ("inside", false, endless),
    ] {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let socket = folder.path().join("curtaild.sock");
        let inside = name == "inside";
        if inside && !stage.has(How::Inside { cut: true }) {
            continue;
        }
        let echo = Echo {
            plain: name == "plain",
            rounds,
            cpus: stage.cpus,
            daemon: under_daemon.then(|| socket.clone()),
            spin_ns,
            inside: inside.then_some(Inside::Cut),
        };
        let text = serde_json::to_string(&echo).map_err(|error| error.to_string())?;
        let program = stage.service(if inside {
            How::Inside { cut: true }
        } else {
            How::Process { looks: true }
        });
        let mut service = Talker::start(Command::new(program).args(["echo", &text]))?;
        service.expect("ready")?;
        let _batch = match name {
            "preempts" => Some(Batch::start(&stage.batch(How::Process { looks: true }, &socket))?),
            _ => None,
        };
        service.say("go")?;
        let line = service.line()?;
        let quantiles = serde_json::from_str(&line).map_err(|_| format!("it said: {line}"))?;
        found.insert(name.to_owned(), quantiles);
    }
    Ok(found)
}

/// For people.
#[must_use]
pub fn table(found: &BTreeMap<String, Quantiles>) -> String {
    let mut text = format!(
        "a round trip over the loopback for which the core changes hands\n\n{:<10}{:>9}{:>9}{:>9}\n",
        "way", "p50 µs", "p99 µs", "p99.9 µs"
    );
    for (name, Quantiles { p50, p99, p99_9 }) in found {
        let _ = writeln!(text, "{name:<10}{p50:>9.2}{p99:>9.2}{p99_9:>9.2}");
    }
    text
}

/// The client: a turn of it is short.
struct Client {
    socket: UdpSocket,
    to: SocketAddr,
    /// When the datagram that is on its way was sent; 0: none is.
    sent_ns: u64,
    next_ns: u64,
    round: u64,
    left: usize,
    trips: Vec<u64>,
    report: Option<std::sync::mpsc::SyncSender<Vec<u64>>>,
}

impl Client {
    fn turn(&mut self, now_ns: u64) -> bool {
        if self.left == 0 {
            return false;
        }
        let mut answer = [0; 8];
        if self.sent_ns == 0 {
            return now_ns >= self.next_ns && self.send(now_ns);
        }
        while let Ok(8) = self.socket.recv(&mut answer) {
            if u64::from_le_bytes(answer) == self.round {
                self.trips.push(monotonic_ns() - self.sent_ns);
                (self.sent_ns, self.left) = (0, self.left - 1);
                // Not in step with the looks of any thread.
                self.next_ns = monotonic_ns() + PAUSE_NS + self.round * 7_919 % 10_000;
                break;
            }
        }
        if self.left == 0 {
            // The service ends by this.
            let _ = self.socket.send_to(&[], self.to);
            let _ = self.report.take().map(|report| report.send(std::mem::take(&mut self.trips)));
        } else if self.sent_ns != 0 && now_ns.saturating_sub(self.sent_ns) > LOST_NS {
            return self.send(now_ns);
        }
        true
    }

    fn send(&mut self, _: u64) -> bool {
        self.round += 1;
        self.sent_ns = monotonic_ns();
        let _ = self.socket.send_to(&self.round.to_le_bytes(), self.to);
        true
    }
}

/// Plays client and service, in one process.
///
/// # Errors
/// In words, for people.
pub fn play(echo: &Echo) -> Result<(), String> {
    let system = |error: std::io::Error| error.to_string();
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(system)?;
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(system)?;
    client.set_nonblocking(true).map_err(system)?;
    let (report, trips) = std::sync::mpsc::sync_channel(1);
    let to = server.local_addr().map_err(system)?;
    let (go, started) = std::sync::mpsc::sync_channel::<()>(1);
    let (sent_ns, next_ns, round) = (0, 0, 0);
    let left = echo.rounds + echo.rounds / 10;
    let report = Some(report);
    let mut client =
        Client { socket: client, to, sent_ns, next_ns, round, left, trips: Vec::new(), report };
    let mut goes = false;
    let turn = move |now_ns: u64| {
        goes = goes || started.try_recv().is_ok();
        goes && client.turn(now_ns)
    };
    let daemon = daemon_of(echo.daemon.as_deref(), &echo.cpus[1..], 5_000);
    let helper = Helper::start(daemon, echo.cpus[0], turn)?;
    let talk = std::thread::spawn(move || {
        crate::service::say("ready");
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = go.send(());
    });
    match echo.plain {
        true => echo_plainly(&server, echo.cpus[1]).map_err(system)?,
        false => echo_by_a_thread(server, echo)?,
    }
    helper.end()?;
    talk.join().map_err(|_| "the talking thread panicked")?;
    let mut trips = trips.recv().map_err(|error| error.to_string())?;
    let mut counted = trips.split_off(echo.rounds / 10);
    let found = Quantiles::of(&mut counted, 1_000.0);
    crate::service::say(&serde_json::to_string(&found).map_err(|error| error.to_string())?);
    Ok(())
}

fn echo_plainly(socket: &UdpSocket, cpu: u32) -> std::io::Result<()> {
    pin_this_thread(&[cpu])?;
    socket.set_nonblocking(true)?;
    let mut buffer = [0; 64];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((0, _)) => return Ok(()),
            Ok((count, peer)) => _ = socket.send_to(&buffer[..count], peer)?,
            Err(_) => std::hint::spin_loop(),
        }
    }
}

fn echo_by_a_thread(socket: UdpSocket, echo: &Echo) -> Result<(), String> {
    let runtime = curtail::Runtime::builder()
        .kthreads(1)
        .spin(Duration::from_nanos(echo.spin_ns))
        .watchdog(None);
    let runtime = match &echo.daemon {
        Some(path) => runtime.daemon(path).guaranteed(1),
        None => runtime.cores([echo.cpus[1] as usize]),
    };
    let inside = echo.inside;
    let body = move || -> std::io::Result<()> {
        let batch = std::sync::Arc::new(crate::service::Batch::default());
        let handle = inside.map(|inside| batch.start(inside));
        let socket = curtail::net::UdpSocket::from(socket);
        let mut buffer = [0; 64];
        loop {
            let (count, peer) = socket.recv_from(&mut buffer)?;
            if count == 0 {
                break;
            }
            socket.send_to(&buffer[..count], peer)?;
        }
        batch.end(handle);
        Ok(())
    };
    let ended = runtime.try_run(body).map_err(|error| error.to_string())?;
    ended.map_err(|error| error.to_string())
}
