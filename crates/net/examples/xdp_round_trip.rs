//! Round trips over a cable between two network namespaces: a server by `xdp://`, and with the feature
//! `dpdk` by `dpdk://`, beside one by `udp://`, in turns, with a dispatcher that sleeps and with one
//! that polls. The client is the kernel's UDP in all cases. DPDK's dispatcher always polls. Needs root.
//!
//! `cargo run --release -p curtail-net --example xdp_round_trip [ROUNDS [REQUESTS]]`

#![allow(unreachable_pub, dead_code, reason = "what it shares with the tests")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::namespace::{between, make_checksums};
use common::{Collect, completion};
use curtail_net::{Waiter, open};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Their names, what their URLs begin with, and where the client finds them.
const TRANSPORTS: &[(&str, &str, &str)] = &[
    ("udp", "udp://10.9.0.1:4000", "10.9.0.1:4000"),
    ("xdp", "xdp://cable/10.9.0.1:4000", "10.9.0.1:4000"),
    #[cfg(feature = "dpdk")]
    (
        "dpdk",
        "dpdk://net_af_packet0/10.9.0.7:4000?eal=--no-huge;-m;64&args=iface=cable;qdisc_bypass=1",
        "10.9.0.7:4000",
    ),
];
const DISPATCHERS: [&str; 2] = ["sleeps", "polls"];
const WAIT: Duration = Duration::from_millis(100);

/// Where to serve, whether by polling, and when to end.
type Order = (String, bool, Arc<AtomicBool>);

/// Serves what is ordered, one after another, and says each time by what.
fn serve(orders: &Receiver<Order>, ready: &Sender<String>) {
    for (url, polls, end) in orders {
        let mut transport = open(&url).expect("a transport");
        let mut waiter = Waiter::new(&transport.wait_fds()).expect("epoll");
        let reply = transport.reply();
        ready.send(transport.describe()).expect("the client is there");
        while !end.load(Ordering::Relaxed) {
            let mut batch = Collect::up_to(64);
            transport.poll(0, &mut batch);
            let found = !batch.requests.is_empty();
            for (payload, peer) in batch.requests {
                reply.reply(peer, &payload);
                transport.completed(&completion(peer));
            }
            if !found && !polls && transport.before_wait() {
                waiter.wait(Some(WAIT)).expect("epoll");
            }
        }
    }
}

/// Nanoseconds of each round trip.
fn ask(server: &str, requests: usize) -> Vec<u64> {
    let socket = UdpSocket::bind("10.9.0.2:0").expect("our address");
    socket.connect(server).expect("a route");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let mut answer = [0; 64];
    let mut one = |index: usize| {
        let since = Instant::now();
        socket.send(&index.to_le_bytes()).expect("sent");
        socket.recv(&mut answer).expect("an answer");
        since.elapsed().as_nanos() as u64
    };
    for index in 0..requests / 10 {
        one(index);
    }
    (0..requests).map(one).collect()
}

fn quantile(sorted: &[u64], of: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * of) as usize] as f64 / 1e3
}

fn measure(rounds: usize, requests: usize, orders: &Sender<Order>, ready: &Receiver<String>) {
    let mut found = [(); 2].map(|()| vec![Vec::new(); TRANSPORTS.len()]);
    let mut names = vec![String::new(); TRANSPORTS.len()];
    for _ in 0..rounds {
        for (dispatcher, times) in found.iter_mut().enumerate() {
            for (transport, times) in times.iter_mut().enumerate() {
                let (_, url, at) = TRANSPORTS[transport];
                let end = Arc::new(AtomicBool::new(false));
                let order = (url.to_owned(), dispatcher == 1, end.clone());
                orders.send(order).expect("the server is there");
                names[transport] = ready.recv().expect("the server is ready");
                times.extend(ask(at, requests));
                end.store(true, Ordering::Relaxed);
            }
        }
    }
    println!("{}", names.join(", "));
    println!("dispatcher  transport  p50 µs  p99 µs  requests");
    for (dispatcher, times) in found.iter_mut().enumerate() {
        for (transport, times) in times.iter_mut().enumerate() {
            times.sort_unstable();
            let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
            let (how, what) = (DISPATCHERS[dispatcher], TRANSPORTS[transport].0);
            println!("{how:<10}  {what:<9}  {p50:>6.1}  {p99:>6.1}  {:>8}", times.len());
        }
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let (rounds, requests) = (numbers.next().unwrap_or(5), numbers.next().unwrap_or(20_000));
    let near = || {
        let (orders, ordered) = channel();
        let (ready, is_ready) = channel();
        // The thread is in the namespace of the one that makes it.
        std::thread::spawn(move || serve(&ordered, &ready));
        (orders, is_ready)
    };
    let far = move |(orders, ready): (Sender<Order>, Receiver<String>)| {
        make_checksums();
        measure(rounds, requests, &orders, &ready);
    };
    if let Err(why) = between(near, far) {
        eprintln!("no figures: {why}");
        std::process::exit(1);
    }
}
