//! Round trips to a server whose packets the core allocator has, over a cable between two network
//! namespaces: by `daemon+udp://`, by `daemon+xdp://` and with the feature `dpdk` by `daemon+dpdk://`, in
//! turns. The client is the kernel's UDP in all cases, on the core that the daemon manages. Needs root
//! and two cores.
//!
//! `cargo run --release -p spin --example port_round_trip [ROUNDS [REQUESTS]]`

#[path = "../../../crates/net/tests/common/namespace.rs"]
#[allow(unreachable_pub, dead_code, reason = "shared with the tests of the transport")]
mod namespace;

use curtail::{App, Handle, Response, Server, Spec, WorkerId};
use curtail_shm::kthreads::{allowed_cpus, pin_this_thread};
use curtaild::{Cores, Daemon, Idle, Options, Stop};
use namespace::{between, make_checksums};
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Each port's URL, and where the client finds it.
const PORTS: &[(&str, &str)] = &[
    ("udp://10.9.0.1:4000", "10.9.0.1:4000"),
    ("xdp://cable/10.9.0.1:4000", "10.9.0.1:4000"),
    #[cfg(feature = "dpdk")]
    ("dpdk://net_af_packet0/10.9.0.7:4000", "10.9.0.7:4000"),
];
const INTERFACES: &str =
    "xdp://cable,dpdk://net_af_packet0?args=iface=cable;qdisc_bypass=1&eal=--no-huge;-m;64";
/// Requests in flight: one, for times, and many, for rates.
const IN_FLIGHT: [usize; 2] = [1, 32];

struct Echo;

impl App for Echo {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        response.write(request);
    }
}

/// The core that the daemon manages.
fn managed() -> u32 {
    allowed_cpus().expect("cores").pop().expect("one at least")
}

/// Serves by the ports that are ordered, one after another, each under a daemon of its own; tells when each
/// is open. All but the daemon is on the core that it manages: it spins on the others.
fn serve(orders: &Receiver<&str>, ready: &Sender<(String, Handle)>) {
    let path = std::env::temp_dir().join(format!("port-round-trip-{}.sock", std::process::id()));
    let options = Options {
        cores: Some(Cores(vec![managed()])),
        socket: Some(path.clone()),
        interval: Duration::from_micros(5),
        idle: Idle::Halt,
        grace: Duration::from_micros(10),
        linger: Duration::from_millis(10),
        slots: 16,
        interfaces: Some(INTERFACES.parse().expect("interfaces")),
        json: false,
        quiet: true,
        verbose: false,
        status: false,
    };
    let all = allowed_cpus().expect("cores");
    for url in orders {
        let stop = Stop::new().expect("a socket");
        let daemon = Daemon::new(&options, stop.clone()).expect("a daemon");
        let daemon = std::thread::spawn(move || daemon.run().expect("it served"));
        pin_this_thread(&[managed()]).expect("the core");
        let server = Server::builder(Echo).policy(Spec::preset("shenango").expect("it is there"));
        let server = server.workers(1).daemon(&path).daemon_port(url).build().expect("a server");
        ready.send((server.listens(), server.handle())).expect("the client is there");
        server.run().expect("it served");
        pin_this_thread(&all).expect("all cores");
        stop.stop();
        daemon.join().expect("the daemon has ended");
    }
}

/// Nanoseconds of each round trip, of which so many are under way at a time.
fn ask(server: &str, requests: usize, in_flight: usize) -> Vec<u64> {
    let socket = UdpSocket::bind("10.9.0.2:0").expect("our address");
    socket.connect(server).expect("a route");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let mut sent = Vec::with_capacity(requests);
    let mut times = Vec::with_capacity(requests);
    while times.len() < requests {
        while sent.len() < requests.min(times.len() + in_flight) {
            let number = sent.len() as u32;
            sent.push(Instant::now());
            socket.send(&number.to_le_bytes()).expect("sent");
        }
        let mut answer = [0; 4];
        socket.recv(&mut answer).expect("an answer");
        times.push(sent[u32::from_le_bytes(answer) as usize].elapsed().as_nanos() as u64);
    }
    times
}

fn quantile(sorted: &[u64], of: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * of) as usize] as f64 / 1e3
}

fn measure(
    (rounds, requests): (usize, usize),
    orders: &Sender<&str>,
    ready: &Receiver<(String, Handle)>,
) {
    pin_this_thread(&[managed()]).expect("the core");
    println!("round  in flight  p50 µs  p99 µs  requests/s  port");
    for round in 1..=rounds {
        for (url, at) in PORTS {
            orders.send(url).expect("the server is there");
            let (name, handle) = ready.recv().expect("the server is ready");
            ask(at, requests / 10, 1);
            for in_flight in IN_FLIGHT {
                let since = Instant::now();
                let mut times = ask(at, requests, in_flight);
                let rate = requests as f64 / since.elapsed().as_secs_f64();
                times.sort_unstable();
                let (p50, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
                println!(
                    "{round:>5}  {in_flight:>9}  {p50:>6.1}  {p99:>6.1}  {rate:>10.0}  {name}"
                );
            }
            handle.shutdown();
        }
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let size = (numbers.next().unwrap_or(5), numbers.next().unwrap_or(20_000));
    let near = || {
        let (orders, ordered) = channel();
        let (ready, is_ready) = channel();
        // The thread is in the namespace of the one that makes it.
        let server = std::thread::spawn(move || serve(&ordered, &ready));
        (orders, is_ready, server)
    };
    let far = move |(orders, ready, server): (_, _, JoinHandle<()>)| {
        make_checksums();
        measure(size, &orders, &ready);
        drop(orders);
        server.join().expect("the server has ended");
    };
    if let Err(why) = between(near, far) {
        eprintln!("no figures: {why}");
        std::process::exit(1);
    }
}
