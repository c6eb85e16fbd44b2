//! Servers without a dispatcher over datagrams and streams, on one, two and four kthreads.

use crate::common;

use common::wire::{connect, frame, receive};
use common::{DISPATCHERLESS, Does, Verbs, in_kernel, in_time, preset, when};
use curtail::net::{Intake, Peer, Reply, Status};
use curtail::net::{Tcp, TcpConfig, Transport, Udp, UdpConfig};
use curtail::{Response, Server};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const KTHREADS: [usize; 3] = [1, 2, 4];

fn echo_over_udp(name: &str, kthreads: usize) {
    let udp = Udp::bind(&["127.0.0.1:0".parse().unwrap()], &UdpConfig::default()).unwrap();
    let address = udp.local_addrs()[0];
    let server = Server::builder(Verbs).transport(Box::new(udp)).safepoints_by_hand();
    let server = server.policy(preset(name)).workers(kthreads).build().unwrap();
    let handle = server.handle();
    let client = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(common::STUCK)).unwrap();
        let mut buffer = [0; 64];
        for n in 0..200 {
            socket.send_to(format!("echo {n}").as_bytes(), address).unwrap();
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], n.to_string().as_bytes());
        }
        handle.shutdown();
    });
    let report = server.run().unwrap();
    client.join().unwrap();
    assert_eq!((report.classes[0].completed, report.abandoned), (200, 0), "{name} {kthreads}");
}

#[test]
fn datagrams_are_answered() {
    for name in DISPATCHERLESS {
        for kthreads in KTHREADS {
            in_time(move || echo_over_udp(name, kthreads));
        }
    }
}

fn udp_client() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(common::STUCK)).unwrap();
    socket
}

/// Each kthread but one is at something that goes on until the others' peers have been answered, by
/// whatever socket their datagrams come.
fn nobody_waits_for_a_busy_kthread(name: &str, kthreads: usize) {
    let udp = Udp::bind(&["127.0.0.1:0".parse().unwrap()], &UdpConfig::default()).unwrap();
    let address = udp.local_addrs()[0];
    let long = common::Long::default();
    let server = Server::builder(long.clone()).transport(Box::new(udp));
    let server = server.policy(preset(name)).workers(kthreads).build().unwrap();
    let handle = server.handle();
    let client = thread::spawn(move || {
        let held: Vec<UdpSocket> = (1..kthreads).map(|_| udp_client()).collect();
        for socket in &held {
            socket.send_to(b"hold", address).unwrap();
        }
        when(&handle, |stats| {
            stats.workers.iter().map(|worker| worker.holds).sum::<usize>() == kthreads - 1
        });
        let mut buffer = [0; 64];
        for n in 0..64 {
            let socket = udp_client();
            socket.send_to(format!("echo {n}").as_bytes(), address).unwrap();
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], n.to_string().as_bytes());
        }
        long.open();
        for socket in held {
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"done");
        }
        handle.shutdown();
    });
    let report = server.run().unwrap();
    client.join().unwrap();
    let completed: u64 = report.classes.iter().map(|class| class.completed).sum();
    assert_eq!((completed, report.abandoned), (64 + kthreads as u64 - 1, 0), "{name} {kthreads}");
}

#[test]
fn no_datagram_waits_behind_a_long_request() {
    for name in DISPATCHERLESS {
        for kthreads in KTHREADS {
            in_time(move || nobody_waits_for_a_busy_kthread(name, kthreads));
        }
    }
}

/// What lies in the sockets when a server is told to end is answered.
fn what_has_come_is_answered(name: &str, kthreads: usize) {
    const EACH: usize = 20;
    let udp = Udp::bind(&["127.0.0.1:0".parse().unwrap()], &UdpConfig::default()).unwrap();
    let address = udp.local_addrs()[0];
    let server = Server::builder(Verbs).transport(Box::new(udp)).safepoints_by_hand();
    let server = server.policy(preset(name)).workers(kthreads).build().unwrap();
    let handle = server.handle();
    let client = thread::spawn(move || {
        let sockets: Vec<UdpSocket> = (0..16).map(|_| udp_client()).collect();
        let mut buffer = [0; 64];
        // It runs, and has them in sockets of the kthreads.
        sockets[0].send_to(b"echo it", address).unwrap();
        assert_eq!(sockets[0].recv(&mut buffer).unwrap(), 2);
        for socket in &sockets {
            for _ in 0..EACH {
                socket.send_to(b"spin 1000", address).unwrap();
            }
        }
        handle.shutdown();
        for socket in &sockets {
            for _ in 0..EACH {
                assert!(socket.recv(&mut buffer).unwrap() > 0);
            }
        }
        sockets.len() * EACH
    });
    let report = server.run().unwrap();
    let answered = client.join().unwrap() as u64;
    assert_eq!((report.classes[1].completed, report.unsent), (answered, 0), "{name} {kthreads}");
    assert_eq!(report.abandoned, 0, "{name} {kthreads}");
}

#[test]
fn datagrams_that_have_come_before_the_end_are_answered() {
    for name in DISPATCHERLESS {
        for kthreads in KTHREADS {
            in_time(move || what_has_come_is_answered(name, kthreads));
        }
    }
}

/// Clients that ask and ask; the server is told to end in the middle. Every client that got an
/// answer got the right one, whole, and what was counted as done had its answer.
fn shut_down_under_load(name: &str, kthreads: usize) {
    let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
    let address = tcp.local_addrs()[0];
    let server = Server::builder(Verbs).transport(Box::new(tcp)).safepoints_by_hand();
    let server = server.policy(preset(name)).workers(kthreads).build().unwrap();
    let handle = server.handle();
    let client = |seed: usize| {
        thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(common::STUCK)).unwrap();
            let mut answered = 0_u64;
            'asks: for round in 0_usize.. {
                let texts: Vec<_> = (0..16).map(|n| format!("{seed}.{round}.{n}")).collect();
                let batch: Vec<u8> = texts
                    .iter()
                    .flat_map(|text| frame(format!("echo {text}").as_bytes()))
                    .collect();
                if stream.write_all(&batch).is_err() {
                    break;
                }
                let mut wanted: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
                for _ in 0..16 {
                    let mut header = [0; 4];
                    if stream.read_exact(&mut header).is_err() {
                        break 'asks;
                    }
                    let mut answer = vec![0; u32::from_le_bytes(header) as usize];
                    stream.read_exact(&mut answer).expect("a whole answer");
                    let place = wanted.iter().position(|text| *text == answer);
                    wanted.swap_remove(place.expect("an answer to what was asked, once"));
                    answered += 1;
                }
            }
            answered
        })
    };
    let clients: Vec<_> = (0..4).map(client).collect();
    let ends = thread::spawn(move || {
        when(&handle, |stats| stats.classes[0].completed > 2_000);
        handle.shutdown();
    });
    let report = server.run().unwrap();
    ends.join().unwrap();
    let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    let class = &report.classes[0];
    assert_eq!(report.abandoned, 0, "{name} {kthreads}");
    assert!(answered > 2_000 && answered <= class.completed, "{answered} of {}", class.completed);
    assert_eq!(report.unsent, 0, "{name} {kthreads}: what was done was answered");
}

#[test]
fn a_server_shuts_down_under_load() {
    for name in DISPATCHERLESS {
        for kthreads in KTHREADS {
            in_time(move || shut_down_under_load(name, kthreads));
        }
    }
}

/// Requests without end: so many lie there that have not started, at any time.
const FLOOD: usize = 500;

#[derive(Default)]
struct Flooding {
    brought: AtomicUsize,
    started: AtomicUsize,
    is_over: AtomicBool,
}

impl Flooding {
    fn waiting(&self) -> usize {
        self.brought.load(SeqCst) - self.started.load(SeqCst)
    }

    /// One of its requests is served: once enough others lie there.
    fn serve(&self) {
        self.started.fetch_add(1, SeqCst);
        while self.waiting() < FLOOD && !self.is_over.load(SeqCst) {
            in_kernel(Duration::from_micros(50)); // With its kthread.
        }
    }
}

/// Brings them.
struct Flood(Arc<Flooding>);

impl Transport for Flood {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.0.is_over.load(SeqCst) {
            return Status::Closed;
        }
        while self.0.waiting() < 2 * FLOOD && into.room() > 0 {
            self.0.brought.fetch_add(1, SeqCst);
            into.request(b"flood", Peer::None, now_tsc);
        }
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        struct Nowhere;
        impl Reply for Nowhere {
            fn reply(&self, _: Peer, _: &[u8]) {}
            fn dropped(&self) -> u64 {
                0
            }
        }
        Arc::new(Nowhere)
    }

    fn wait_fds(&self) -> Vec<std::os::fd::RawFd> {
        Vec::new()
    }

    fn close(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }

    fn describe(&self) -> String {
        "a flood".to_owned()
    }
}

/// The connections of a kthread are read although others' requests always wait there.
fn a_flood_stops_no_connection(name: &str) {
    let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
    let address = tcp.local_addrs()[0];
    let flood = Arc::new(Flooding::default());
    let flooded = flood.clone();
    let app = Does(move |request: &[u8], response: &mut Response| match request {
        b"flood" => flooded.serve(),
        _ => response.write(request),
    });
    let server =
        Server::builder(app).transport(Box::new(tcp)).transport(Box::new(Flood(flood.clone())));
    let server = server.policy(preset(name)).workers(1).safepoints_by_hand().build().unwrap();
    let handle = server.handle();
    let client = thread::spawn(move || {
        let _end = common::End(handle);
        while flood.started.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let mut stream = connect(address);
        for question in [b"first", b"other"] {
            stream.write_all(&frame(question)).unwrap();
            assert_eq!(receive(&mut stream), question);
        }
        assert!(flood.waiting() >= FLOOD - 1);
    });
    server.run().unwrap();
    client.join().unwrap();
}

#[test]
fn connections_are_read_although_datagrams_come_without_end() {
    for name in DISPATCHERLESS {
        in_time(move || a_flood_stops_no_connection(name));
    }
}
