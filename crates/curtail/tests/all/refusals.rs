//! What a client sees of a refusal where the application has no words for it.

use crate::common;

use common::wire::{connect, frame, receive};
use common::{End, STUCK, in_time, preset};
use curtail::net::open;
use curtail::{App, Response, Server, WorkerId};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A request that says `hold` waits until the gate is open, and others with it.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    held: AtomicBool,
}

struct Holds(Arc<Gate>);

impl App for Holds {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request.windows(4).any(|word| word == b"hold") {
            self.0.held.store(true, SeqCst);
            while !self.0.open.load(SeqCst) {
                curtail::time::sleep(Duration::from_millis(1));
            }
            response.write(b"held");
        }
    }
}

fn wait_for(flag: &AtomicBool) {
    let begun = Instant::now();
    while !flag.load(SeqCst) {
        assert!(begun.elapsed() < STUCK, "waited in vain");
        thread::yield_now();
    }
}

/// A server with room for one request, at which `client` asks.
fn with_room_for_one(
    url: &str,
    policy: &str,
    client: impl FnOnce(SocketAddr, &Gate) + Send + 'static,
) {
    let (url, policy) = (url.to_owned(), policy.to_owned());
    let report = in_time(move || {
        let gate = Arc::new(Gate::default());
        let transport = open(&url).unwrap();
        let address = transport.local_addrs()[0];
        let server = Server::builder(Holds(gate.clone())).transport(transport).capacity(1);
        let server = server.policy(preset(&policy)).workers(1).build().unwrap();
        let end = End(server.handle());
        let client = thread::spawn(move || {
            let _end = end;
            client(address, &gate);
        });
        let report = server.run().unwrap();
        client.join().unwrap();
        report
    });
    assert_eq!((report.classes[0].completed, report.classes[0].dropped), (1, 1));
}

const POLICIES: [&str; 3] = ["fcfs", "tq", "shenango"];

#[test]
fn an_empty_frame_refuses() {
    for policy in POLICIES {
        with_room_for_one("tcp://127.0.0.1:0", policy, |address, gate| {
            let (mut first, mut second) = (connect(address), connect(address));
            first.write_all(&frame(b"hold")).unwrap();
            wait_for(&gate.held);
            second.write_all(&frame(b"more")).unwrap();
            assert_eq!(receive(&mut second), b"");
            gate.open.store(true, SeqCst);
            assert_eq!(receive(&mut first), b"held");
        });
    }
}

#[test]
fn an_empty_datagram_refuses() {
    for policy in POLICIES {
        with_room_for_one("udp://127.0.0.1:0", policy, |address, gate| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(STUCK)).unwrap();
            let mut buffer = [7; 16];
            socket.send_to(b"hold", address).unwrap();
            wait_for(&gate.held);
            socket.send_to(b"more", address).unwrap();
            assert_eq!(socket.recv(&mut buffer).unwrap(), 0);
            gate.open.store(true, SeqCst);
            assert_eq!(socket.recv(&mut buffer).unwrap(), 4);
            assert_eq!(&buffer[..4], b"held");
        });
    }
}

#[test]
fn http_refuses_by_its_status_once() {
    for policy in POLICIES {
        with_room_for_one("http://127.0.0.1:0", policy, move |address, gate| {
            let get = |path: &str| {
                format!("GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            };
            // All that comes until the server closes.
            let rest = |mut stream: TcpStream| {
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                text
            };
            let (mut first, mut second) = (connect(address), connect(address));
            first.write_all(get("hold").as_bytes()).unwrap();
            wait_for(&gate.held);
            second.write_all(get("more").as_bytes()).unwrap();
            let answer = rest(second);
            assert!(answer.starts_with("HTTP/1.1 503 "), "{policy}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{policy}: {answer}");
            gate.open.store(true, SeqCst);
            let answer = rest(first);
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("held"), "{answer}");
        });
    }
}
