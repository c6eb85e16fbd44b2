//! What the transports cost on this machine: an empty poll, a round trip, a stream of requests.
//!
//! `cargo run --release -p curtail-net --example transport_cost [SECONDS_EACH]` (default 1). The
//! server runs on a thread of its own, once busy-polling and once asleep between requests; clients
//! are plain blocking sockets. Single figures on a shared machine are indicative.

use curtail_net::{
    Completion, Intake, Local, Outcome, Peer, Reply, Status, Transport, Waiter, open,
};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Answers at once with what came.
struct Answer {
    reply: Arc<dyn Reply>,
    room: usize,
    peers: Vec<Peer>,
}

impl Intake for Answer {
    fn room(&self) -> usize {
        self.room - self.peers.len()
    }

    fn request(&mut self, payload: &[u8], from: Peer, _arrived_tsc: u64) {
        self.reply.reply(from, payload);
        self.peers.push(from);
    }

    fn malformed(&mut self, _count: u64) {}
}

/// A dispatcher that answers by itself.
struct Server {
    stop: Arc<AtomicBool>,
    wake: curtail_net::Waker,
    thread: JoinHandle<()>,
}

impl Server {
    fn start(mut transport: Box<dyn Transport>, busy: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut waiter = Waiter::new(&transport.wait_fds()).expect("epoll");
        let wake = waiter.waker();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut answer = Answer { reply: transport.reply(), room: 64, peers: Vec::new() };
            while transport.poll(0, &mut answer) == Status::Open {
                let idle = answer.peers.is_empty();
                for peer in answer.peers.drain(..) {
                    transport.completed(&done(peer));
                }
                if stopped.load(Ordering::Relaxed) {
                    transport.close();
                } else if idle && !busy {
                    waiter.wait(None).expect("epoll");
                }
            }
        });
        Self { stop, wake, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.wake();
        self.thread.join().expect("server");
    }
}

fn done(peer: Peer) -> Completion {
    Completion {
        peer,
        class: 0,
        outcome: Outcome::Done,
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

/// Nanoseconds of one call, the least of several series.
fn least_ns(calls: u32, mut call: impl FnMut()) -> f64 {
    let series = (0..20).map(|_| {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    });
    series.fold(f64::INFINITY, f64::min)
}

fn empty_poll(name: &str, transport: &mut dyn Transport) {
    let mut answer = Answer { reply: transport.reply(), room: 64, peers: Vec::new() };
    let ns = least_ns(10_000, || {
        black_box(transport.poll(0, &mut answer));
    });
    println!("empty poll          {name:<6} {ns:>9.1} ns");
}

/// Times `round` until `time` has passed; `each` requests a round.
fn rate(name: &str, how: &str, time: Duration, each: u32, mut round: impl FnMut()) {
    for _ in 0..100 {
        round();
    }
    let start = Instant::now();
    let mut rounds = 0_u32;
    while start.elapsed() < time {
        round();
        rounds += 1;
    }
    let per_second = f64::from(rounds) * f64::from(each) / start.elapsed().as_secs_f64();
    println!("{how:<19} {name:<6} {per_second:>9.0} requests/s, {:.2} µs each", 1e6 / per_second);
}

fn udp_client(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.connect(server).expect("connect");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
    socket
}

fn udp(how: &str, time: Duration, busy: bool, window: u32) {
    let transport = open("udp://127.0.0.1:0").expect("udp");
    let client = udp_client(transport.local_addrs()[0]);
    let server = Server::start(transport, busy);
    let mut answer = [0; 64];
    rate("UDP", how, time, window, || {
        for _ in 0..window {
            client.send(&[1; 32]).expect("send");
        }
        for _ in 0..window {
            client.recv(&mut answer).expect("a response within 5 s");
        }
    });
    server.stop();
}

fn tcp(how: &str, time: Duration, busy: bool, window: u32) {
    let transport = open("tcp://127.0.0.1:0").expect("tcp");
    let mut client = TcpStream::connect(transport.local_addrs()[0]).expect("connect");
    client.set_nodelay(true).expect("nodelay");
    let server = Server::start(transport, busy);
    let mut frame = [1; 36];
    frame[..4].copy_from_slice(&32_u32.to_le_bytes());
    let question = frame.repeat(window as usize);
    let mut answer = vec![0; question.len()];
    rate("TCP", how, time, window, || {
        client.write_all(&question).expect("send");
        client.read_exact(&mut answer).expect("response");
    });
    drop(client);
    server.stop();
}

fn local(how: &str, time: Duration, busy: bool) {
    let (transport, client) = Local::new(64).expect("eventfd");
    let server = Server::start(Box::new(transport), busy);
    rate("local", how, time, 1, || {
        client.call(vec![1; 32]).expect("response");
    });
    server.stop();
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse::<f64>());
    let Some(time) = seconds.ok().and_then(|s| Duration::try_from_secs_f64(s).ok()) else {
        eprintln!("usage: transport_cost [SECONDS_EACH]");
        std::process::exit(2);
    };
    empty_poll("UDP", &mut *open("udp://127.0.0.1:0").expect("udp"));
    let mut tcp_transport = open("tcp://127.0.0.1:0").expect("tcp");
    empty_poll("TCP", &mut *tcp_transport);
    let (mut transport, _client) = Local::new(64).expect("eventfd");
    empty_poll("local", &mut transport);
    let waker = Waiter::new(&[]).expect("epoll").waker();
    println!("wake of one awake          {:>9.1} ns", least_ns(100_000, || waker.wake()));
    for (how, busy) in [("round trip, busy", true), ("round trip, asleep", false)] {
        udp(how, time, busy, 1);
        tcp(how, time, busy, 1);
        local(how, time, busy);
    }
    udp("32 under way, busy", time, true, 32);
    tcp("32 under way, busy", time, true, 32);
}
