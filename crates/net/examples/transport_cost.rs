//! What the transports cost on this machine: an empty poll, a round trip, a stream of requests.
//!
//! `./x bench transports`, or `cargo run --release -p curtail-net --example transport_cost
//! [SECONDS_EACH [JSON]]` (default 1). The server runs on a thread of its own. Once both sides poll
//! all the time, and once both sleep between requests. Each figure is the best of twenty short runs, as other
//! work disturbs them; single figures on a shared machine are indicative.

use curtail_net::{
    Completion, Intake, Local, LocalClient, Outcome, Peer, Reply, ShmClient, Status, Transport,
    Waiter, open,
};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
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
                } else if idle && !busy && transport.before_wait() {
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

/// One connection, from the client's side: requests and answers of 32 bytes.
trait Asks {
    fn ask(&mut self, count: u32);
    /// Takes as many answers. `spins`: without sleeping.
    fn answers(&mut self, count: u32, spins: bool);
}

impl Asks for UdpSocket {
    fn ask(&mut self, count: u32) {
        for _ in 0..count {
            self.send(&[1; 32]).expect("send");
        }
    }

    fn answers(&mut self, count: u32, _: bool) {
        for _ in 0..count {
            persist(|| self.recv(&mut [0; 64]));
        }
    }
}

/// A stream of frames.
struct Frames<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Asks for Frames<S> {
    fn ask(&mut self, count: u32) {
        let mut frame = [1; 36];
        frame[..4].copy_from_slice(&32_u32.to_le_bytes());
        self.stream.write_all(&frame.repeat(count as usize)).expect("send");
    }

    fn answers(&mut self, count: u32, _: bool) {
        let mut left = count as usize * 36;
        self.buffer.resize(left, 0);
        while left > 0 {
            left -= persist(|| self.stream.read(&mut self.buffer[..left]));
        }
    }
}

impl Asks for ShmClient {
    fn ask(&mut self, count: u32) {
        for _ in 0..count {
            self.submit(&[1; 32]).expect("room");
        }
    }

    fn answers(&mut self, count: u32, spins: bool) {
        let mut left = count as usize;
        while left > 0 {
            let mut take = |_, answer: Result<&[u8], _>| {
                black_box(answer.expect("an answer"));
            };
            match self.receive(&mut take).expect("a session") {
                0 if spins => std::hint::spin_loop(),
                0 => self.wait(Some(Duration::from_secs(5))).expect("poll"),
                count => left -= count,
            }
        }
    }
}

impl Asks for LocalClient {
    fn ask(&mut self, _: u32) {}

    fn answers(&mut self, count: u32, _: bool) {
        for _ in 0..count {
            self.call(vec![1; 32]).expect("response");
        }
    }
}

/// Until there is something: a socket that does not block is polled.
fn persist(mut read: impl FnMut() -> std::io::Result<usize>) -> usize {
    loop {
        match read() {
            Ok(count) => return count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A client of a server there. `spins`: its socket does not block.
fn client(url: &str, spins: bool) -> Box<dyn Asks> {
    let (scheme, at) = url.split_once("://").expect("a URL");
    let buffer = Vec::new();
    match scheme {
        "udp" => {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
            socket.connect(at).expect("connect");
            socket.set_nonblocking(spins).expect("nonblocking");
            Box::new(socket)
        }
        "tcp" => {
            let stream = TcpStream::connect(at).expect("connect");
            stream.set_nodelay(true).expect("nodelay");
            stream.set_nonblocking(spins).expect("nonblocking");
            Box::new(Frames { stream, buffer })
        }
        "unix" => {
            let stream = UnixStream::connect(at).expect("connect");
            stream.set_nonblocking(spins).expect("nonblocking");
            Box::new(Frames { stream, buffer })
        }
        _ => Box::new(ShmClient::connect(at).expect("connect")),
    }
}

/// What a round took on the median and at the 99th percentile, in nanoseconds, and how many requests
/// there were in a second.
#[derive(Clone, Copy)]
struct Figures {
    p50: u64,
    p99: u64,
    per_second: f64,
}

fn run(client: &mut dyn Asks, time: Duration, window: u32, spins: bool) -> Figures {
    let mut rounds: Vec<u64> = Vec::with_capacity(1 << 20);
    let start = Instant::now();
    let mut last = start;
    while last - start < time {
        client.ask(window);
        client.answers(window, spins);
        let now = Instant::now();
        rounds.push((now - last).as_nanos() as u64);
        last = now;
    }
    let per_second = rounds.len() as f64 * f64::from(window) / (last - start).as_secs_f64();
    rounds.sort_unstable();
    let at = |part: usize| rounds[rounds.len() * part / 100];
    Figures { p50: at(50), p99: at(99), per_second }
}

/// The rows of the table, and the same as JSON.
struct Rows {
    time: Duration,
    json: Vec<String>,
    /// By transport: one under way, the better of both ways, and the highest rate of all.
    best: Vec<(String, Figures)>,
}

impl Rows {
    fn row(&mut self, name: &str, client: &mut dyn Asks, (window, busy): (u32, bool)) {
        const RUNS: u32 = 20;
        let runs: Vec<_> = (0..RUNS).map(|_| run(client, self.time / RUNS, window, busy)).collect();
        let least = |of: fn(&Figures) -> u64| runs.iter().map(of).min().expect("runs");
        let (p50, p99) = (least(|run| run.p50), least(|run| run.p99));
        let per_second = runs.iter().map(|run| run.per_second).fold(0.0, f64::max);
        let how = if busy { "polling" } else { "asleep" };
        println!(
            "{how:<8} {window:>3} under way {name:<6} p50 {:>7.2} µs, p99 {:>7.2} µs, {per_second:>9.0} /s",
            p50 as f64 / 1e3,
            p99 as f64 / 1e3
        );
        match self.best.iter_mut().find(|(known, _)| known == name) {
            Some((_, best)) => {
                best.per_second = best.per_second.max(per_second);
                if window == 1 && p50 < best.p50 {
                    (best.p50, best.p99) = (p50, p99);
                }
            }
            None => self.best.push((name.to_owned(), Figures { p50, p99, per_second })),
        }
        self.json.push(format!(
            "{{\"transport\": \"{name}\", \"sides\": \"{how}\", \"under_way\": {window}, \
             \"p50_ns\": {p50}, \"p99_ns\": {p99}, \"per_second\": {per_second:.0}}}"
        ));
    }

    fn of_url(&mut self, url: &str, how: (u32, bool)) {
        let transport = open(url).expect(url);
        let name = url.split_once("://").expect("a URL").0.to_owned();
        let at = transport.describe();
        let server = Server::start(transport, how.1);
        let mut client = client(&at, how.1);
        self.row(&name, &mut *client, how);
        drop(client);
        server.stop();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(1.0), |text| text.parse::<f64>());
    let Some(time) = seconds.ok().and_then(|s| Duration::try_from_secs_f64(s).ok()) else {
        eprintln!("usage: transport_cost [SECONDS_EACH [JSON]]");
        std::process::exit(2);
    };
    let file = |scheme: &str| {
        let name = format!("curtail-cost-{}.{scheme}", std::process::id());
        format!("{scheme}://{}", std::env::temp_dir().join(name).display())
    };
    let urls = ["udp://127.0.0.1:0".into(), "tcp://127.0.0.1:0".into(), file("unix"), file("shm")];
    for url in &urls {
        empty_poll(url.split_once("://").expect("a URL").0, &mut *open(url).expect(url));
    }
    let (mut transport, _client) = Local::new(64).expect("eventfd");
    empty_poll("local", &mut transport);
    let waker = Waiter::new(&[]).expect("epoll").waker();
    println!("wake of one awake          {:>9.1} ns", least_ns(100_000, || waker.wake()));
    let mut rows = Rows { time, json: Vec::new(), best: Vec::new() };
    for how in [(1, true), (1, false), (32, true), (32, false)] {
        for url in &urls {
            rows.of_url(url, how);
        }
    }
    for busy in [true, false] {
        let (transport, mut client) = Local::new(64).expect("eventfd");
        let server = Server::start(Box::new(transport), busy);
        rows.row("local", &mut client, (1, busy));
        server.stop();
    }
    if let Some(file) = arguments.next() {
        let mut json = String::new();
        for (name, Figures { p50, p99, per_second }) in &rows.best {
            let (p50, p99) = (*p50 as f64 / 1e3, *p99 as f64 / 1e3);
            let _ = writeln!(
                json,
                "  \"{name}\": {{\"p50_us\": {p50}, \"p99_us\": {p99}, \"rps\": {per_second:.0}}},"
            );
        }
        let cpus = std::thread::available_parallelism().map_or(0, |count| count.get());
        let rows = rows.json.join(",\n    ");
        let json = format!(
            "{{\n{json}  \"rows\": [\n    {rows}\n  ],\n  \"machine\": {{\"cpus\": {cpus}}}\n}}\n"
        );
        std::fs::write(&file, json).expect("the JSON file");
        println!("{file}");
    }
}
