//! Servers whose workers get their cores from a core allocator, which the tests play.

use crate::common;
use crate::daemon;

use common::wire::{connect, frame, receive};
use common::{DISPATCHERLESS, End, STUCK, Verbs, in_time, preset, when};
use curtail::net::{Both, Tcp, TcpConfig, Transport, Udp, UdpConfig};
use curtail::{Handle, Report, Server, ServerBuilder, StartError};
use daemon::{Daemon, Guest, socket, until};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) const WORKERS: u32 = 2;
/// Policies with a dispatcher, which is the kthread after the workers: central ones, with and without
/// quanta, one that reserves workers, and one of two levels.
pub(crate) const DISPATCHED: [&str; 5] = ["fcfs", "shinjuku", "concord", "darc", "tq"];

/// A server for datagrams and streams, and where it listens.
fn builder(policy: &str) -> (ServerBuilder, SocketAddr, SocketAddr) {
    let here = ["127.0.0.1:0".parse().unwrap()];
    let udp = Udp::bind(&here, &UdpConfig::default()).unwrap();
    let tcp = Tcp::bind(&here, &TcpConfig::default()).unwrap();
    let (datagrams, streams) = (udp.local_addrs()[0], tcp.local_addrs()[0]);
    let server = Server::builder(Verbs).transport(Box::new(Both::new(udp, tcp)));
    let server = server.policy(preset(policy)).workers(WORKERS as usize).safepoints_by_hand();
    (server, datagrams, streams)
}

/// A server that runs, on a thread of its own.
struct Running {
    end: End,
    datagrams: SocketAddr,
    streams: SocketAddr,
    thread: JoinHandle<Report>,
}

impl Running {
    fn start(policy: &'static str, path: PathBuf) -> Self {
        let (server, datagrams, streams) = builder(policy);
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            let server = server.daemon(path).guaranteed(1).watchdog(None).build().unwrap();
            tell.send(server.handle()).unwrap();
            server.run().unwrap()
        });
        // It waits for the daemon's welcome, which the caller gives meanwhile.
        let handle = Later(told);
        Self { end: End(handle.wait()), datagrams, streams, thread }
    }

    fn handle(&self) -> &Handle {
        &self.end.0
    }

    fn end(self) -> Report {
        drop(self.end);
        until("the server ends", || self.thread.is_finished());
        self.thread.join().unwrap()
    }
}

struct Later(std::sync::mpsc::Receiver<Handle>);

impl Later {
    fn wait(self) -> Handle {
        self.0.recv_timeout(STUCK).unwrap()
    }
}

/// Plays a daemon that grants a core to each kthread that has something to do, as long as it lives.
struct Generous {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Generous {
    /// Takes the next program.
    fn start(path: &Path) -> Self {
        let daemon = Daemon::at(path);
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let thread = thread::spawn(move || {
            let guest = daemon.take(0);
            let mut grants = 0;
            while !stops.load(Ordering::Acquire) {
                grants += grant(&daemon, &guest);
                thread::sleep(Duration::from_micros(50));
            }
            grants
        });
        Self { stop, thread: Some(thread) }
    }

    /// It dies; how many cores it has granted.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// To each that has work, and to one if a packet has come while all are parked.
pub(crate) fn grant(daemon: &Daemon, guest: &Guest) -> u64 {
    let mut grants = 0;
    let kthreads = guest.page.spec().kthreads;
    let parked = |kthread| {
        let slot = guest.slot(kthread);
        let look = guest.look(kthread);
        look.is_parked && look.tid != 0 && look.generation == daemon.board.word(slot).generation()
    };
    for kthread in (0..kthreads).filter(|&kthread| parked(kthread)) {
        let look = guest.look(kthread);
        let due = look.next_timer_ns.is_some_and(|at| at <= curtail_shm::monotonic_ns());
        if due || look.stranded > 0 || look.run.0 != look.run.1 || look.inbox.0 != look.inbox.1 {
            daemon.grant(guest, kthread);
            grants += 1;
        }
    }
    // What waits at one that runs is for another.
    let waits = |kthread| {
        let look = guest.look(kthread);
        !look.is_parked && look.run.1.wrapping_sub(look.run.0) > look.stranded
    };
    if (0..kthreads).any(waits)
        && let Some(kthread) = (0..kthreads).find(|&kthread| parked(kthread))
    {
        daemon.grant(guest, kthread);
        grants += 1;
    }
    if (0..kthreads).all(parked) && guest.has_packets(Duration::ZERO) {
        daemon.grant(guest, 0);
        grants += 1;
    }
    grants
}

fn ask(client: &UdpSocket, n: u32) {
    client.send(format!("echo {n}").as_bytes()).unwrap();
    let mut buffer = [0; 64];
    let length = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], n.to_string().as_bytes());
}

pub(crate) fn client(server: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(STUCK)).unwrap();
    client.connect(server).unwrap();
    client
}

#[test]
fn requests_are_served_by_workers_that_come_and_go() {
    for policy in DISPATCHERLESS.into_iter().chain(DISPATCHED) {
        in_time(move || {
            let path = socket(&format!("server-{policy}"));
            let daemon = Generous::start(&path);
            let server = Running::start(policy, path);
            let client = client(server.datagrams);
            let mut streams: Vec<_> = (0..4).map(|_| connect(server.streams)).collect();
            for n in 0..50 {
                ask(&client, n);
                for stream in &mut streams {
                    stream.write_all(&frame(b"echo a stream")).unwrap();
                    assert_eq!(receive(stream), b"a stream");
                }
            }
            let stats = when(server.handle(), |stats| {
                stats.in_system == 0 && stats.workers.iter().all(|worker| !worker.has_core)
            });
            assert_eq!(stats.classes[0].completed, 250);
            // What is under way when it is told to end is served.
            streams[0].write_all(&frame(b"echo last").repeat(30)).unwrap();
            when(server.handle(), |stats| stats.classes[0].completed == 280);
            let report = server.end();
            for _ in 0..30 {
                assert_eq!(receive(&mut streams[0]), b"last");
            }
            assert_eq!((report.classes[0].completed, report.abandoned), (280, 0));
            assert_eq!(report.workers, WORKERS as usize);
            assert!(report.notes.is_empty(), "{:?}", report.notes);
            assert!(daemon.end() >= 2, "cores were granted");
        });
    }
}

#[test]
fn without_a_core_nothing_runs_and_with_one_all_does() {
    in_time(|| {
        let path = socket("server-waits");
        let (server, datagrams, _) = builder("shenango");
        let at = path.clone();
        let daemon = Daemon::at(&path);
        let server = thread::spawn(move || server.daemon(at).watchdog(None).build().unwrap());
        let guest = daemon.take(0);
        let spec = guest.page.spec();
        assert_eq!((spec.kthreads, spec.guaranteed, spec.burstable), (WORKERS, 0, WORKERS));
        let server = server.join().unwrap();
        let end = End(server.handle());
        let report = thread::spawn(move || server.run().unwrap());
        // The threads that accept are there, and no core to run them.
        for kthread in 0..WORKERS {
            let word = daemon.board.park(guest.slot(kthread));
            daemon.board.wake(guest.slot(kthread));
            guest.until_parked(kthread, word);
            assert_eq!(guest.look(kthread).stranded, 1);
        }
        let word = daemon.grant(&guest, 0);
        guest.until_parked(0, word);
        let client = client(datagrams);
        client.send(b"echo 1").unwrap();
        let waits = |kthread| guest.look(kthread).run.0 != guest.look(kthread).run.1;
        until("it lies in a queue", || waits(0));
        assert!(guest.has_packets(STUCK), "and the daemon is told, which may sleep");
        let stats = when(&end.0, |stats| stats.waiting == 1);
        assert!(stats.workers.iter().all(|worker| !worker.has_core), "{stats:?}");
        // Another than the one in whose queue it lies: it takes it from there.
        daemon.grant(&guest, 1);
        let mut buffer = [0; 8];
        assert_eq!(client.recv(&mut buffer).unwrap(), 1);
        drop(end);
        until("the server ends", || {
            grant(&daemon, &guest);
            report.is_finished()
        });
        assert_eq!(report.join().unwrap().classes[0].completed, 1);
        assert!(guest.has_left());
    });
}

#[test]
fn a_server_outlives_its_daemon_and_registers_with_the_next_one() {
    in_time(|| {
        let path = socket("server-alone");
        let first = Generous::start(&path);
        let server = Running::start("shenango", path.clone());
        let client = client(server.datagrams);
        let mut stream = connect(server.streams);
        let mut talk = |from: u32| {
            for n in from..from + 20 {
                ask(&client, n);
                stream.write_all(&frame(b"echo a stream")).unwrap();
                assert_eq!(receive(&mut stream), b"a stream");
            }
        };
        talk(0);
        first.end();
        talk(100);
        when(server.handle(), |stats| stats.workers.iter().all(|worker| worker.has_core));
        let second = Generous::start(&path);
        // Served meanwhile, and then under the new one.
        let mut n = 200;
        until("it is under the new daemon", || {
            talk(n);
            n += 20;
            let workers = when(server.handle(), |_| true).workers;
            workers.iter().any(|worker| !worker.has_core)
        });
        talk(n);
        let report = server.end();
        assert_eq!(report.abandoned, 0);
        assert!(second.end() > 0);
    });
}

#[test]
fn what_can_not_be_is_an_error_before_anything_runs() {
    let path = socket("server-none");
    let (server, ..) = builder("shenango");
    let error = server.daemon(&path).build().err().unwrap();
    assert!(matches!(&error, StartError::Daemon(_)), "{error:?}");
    assert!(error.to_string().contains("no core allocator at"), "{error}");
    let (server, ..) = builder("tq");
    let error = server.daemon(&path).dispatchers(2).build().err().unwrap().to_string();
    assert!(error.contains("`tq`") && error.contains("keep their cores"), "{error}");
    let (server, ..) = builder("tq");
    let error = server.daemon(&path).daemon_port("udp://127.0.0.1:0").build().err().unwrap();
    assert!(error.to_string().contains("without a dispatcher"), "{error}");
}
