//! What the transports' tests share: an intake that collects, and loops that are bounded.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(unreachable_pub, reason = "a module of test binaries")]

pub mod cable;
pub mod frames;
pub mod hostile;
pub mod namespace;
pub mod tcp;

use curtail_net::{Completion, Intake, Outcome, Peer, Status, Transport, Waiter};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Long beyond doubt: reached only by a test that fails.
pub const LONG: Duration = Duration::from_secs(20);

/// Collects requests.
#[derive(Default)]
pub struct Collect {
    pub limit: usize,
    pub requests: Vec<(Vec<u8>, Peer)>,
    pub malformed: u64,
}

impl Collect {
    /// Room for `limit` requests altogether.
    pub fn up_to(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub fn payloads(&self) -> Vec<Vec<u8>> {
        self.requests.iter().map(|(payload, _)| payload.clone()).collect()
    }
}

impl Intake for Collect {
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.requests.len())
    }

    fn request(&mut self, payload: &[u8], from: Peer, _arrived_tsc: u64) {
        assert!(self.room() > 0, "a request without room for it");
        self.requests.push((payload.to_vec(), from));
    }

    fn malformed(&mut self, count: u64) {
        self.malformed += count;
    }
}

pub fn completion(peer: Peer) -> Completion {
    ended(peer, Outcome::Done)
}

pub fn ended(peer: Peer, outcome: Outcome) -> Completion {
    Completion {
        peer,
        class: 0,
        outcome,
        tag: 0,
        request_bytes: 0,
        arrived_tsc: 0,
        started_tsc: 0,
        finished_tsc: 0,
        ran_cycles: 0,
        preemptions: 0,
        disturbed: false,
    }
}

/// Polls, asleep on the transport's own descriptors in between, until `done` says so: a descriptor
/// that fails to become readable fails the test.
pub fn poll_until(
    transport: &mut dyn Transport,
    into: &mut Collect,
    mut done: impl FnMut(&dyn Transport, &Collect, Status) -> bool,
) {
    let mut waiter = Waiter::new(&transport.wait_fds()).unwrap();
    for _ in 0..1_000_000 {
        let status = transport.poll(0, into);
        if done(transport, into, status) {
            return;
        }
        let waits = transport.before_wait();
        assert!(!waits || waiter.wait(Some(LONG)).unwrap(), "nothing more came");
    }
    panic!("polled a million times in vain");
}

pub fn poll_requests(transport: &mut dyn Transport, into: &mut Collect, count: usize) {
    poll_until(transport, into, |_, into, _| into.requests.len() >= count);
}

pub fn counter(transport: &dyn Transport, name: &str) -> u64 {
    let found = transport.counters().into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

pub fn poll_counter(transport: &mut dyn Transport, into: &mut Collect, name: &str, value: u64) {
    poll_until(transport, into, |transport, _, _| counter(transport, name) >= value);
}

/// Loopback addresses with port 0, of the families that this machine has.
pub fn loopbacks() -> Vec<SocketAddr> {
    let v6: SocketAddr = "[::1]:0".parse().unwrap();
    let mut all = vec!["127.0.0.1:0".parse().unwrap()];
    if std::net::UdpSocket::bind(v6).is_ok() {
        all.push(v6);
    }
    all
}

pub fn loopback() -> SocketAddr {
    loopbacks()[0]
}

/// A dispatcher on a thread of its own that answers every request with itself.
pub struct Echo {
    thread: std::thread::JoinHandle<(Box<dyn Transport>, u64)>,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    waker: curtail_net::Waker,
}

impl Echo {
    pub fn start(mut transport: Box<dyn Transport>) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut waiter = Waiter::new(&transport.wait_fds()).unwrap();
        let waker = waiter.waker();
        let seen = stop.clone();
        let is_polled = transport.wait_fds().is_empty();
        let thread = std::thread::spawn(move || {
            let reply = transport.reply();
            let mut malformed = 0;
            loop {
                let mut into = Collect::up_to(64);
                let status = transport.poll(0, &mut into);
                malformed += into.malformed;
                for (payload, peer) in &into.requests {
                    reply.reply(*peer, payload);
                    transport.completed(&completion(*peer));
                }
                if status == Status::Closed {
                    return (transport, malformed);
                }
                if seen.load(std::sync::atomic::Ordering::SeqCst) {
                    transport.close();
                } else if is_polled {
                    std::thread::yield_now();
                } else if into.room() > 0 && transport.before_wait() {
                    let since = Instant::now();
                    waiter.wait(Some(LONG)).unwrap();
                    assert!(since.elapsed() < LONG, "slept through a test: a wake was lost");
                }
            }
        });
        Self { thread, stop, waker }
    }

    /// Closes it; the transport, and how much was malformed.
    pub fn stop(self) -> (Box<dyn Transport>, u64) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        self.waker.wake();
        self.thread.join().unwrap()
    }
}
