//! The server past the kernel's network, beside the same over sockets. Skipped, with a line, where
//! network namespaces can't be made.
#![cfg(feature = "leveldb")]

#[path = "../../../../crates/net/tests/common/namespace.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the transport")]
mod namespace;

use curtail::{Server, Spec};
use kv::load::key;
use kv::protocol::{NO_LIMIT, Op, Reply, Request};
use kv::{KvApp, KvOptions};
use namespace::between;
use std::net::UdpSocket;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const SOCKET: &str = "10.9.0.1:4000";
const KEYS: u32 = 2_000;

/// All of an answer but how long it took.
fn ask(socket: &UdpSocket, id: u64, op: Op<'_>) -> String {
    let mut request = Vec::new();
    Request { id, op }.write(&mut request).unwrap();
    socket.send(&request).unwrap();
    let mut bytes = [0; 4_096];
    let count = socket.recv(&mut bytes).expect("an answer");
    let it = Reply::parse(&bytes[..count]).unwrap();
    let fixed = (it.id, it.opcode, it.status, it.entries, it.checksum);
    format!("{fixed:?} {:?}", it.body)
}

fn ask_all(server: &str) -> Vec<String> {
    let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut answers = Vec::new();
    for id in 0..300_u64 {
        let (one, other) = (key((id * 7) as u32), key(KEYS + id as u32));
        let value: Vec<u8> = (0..id * 3).map(|at| (at + id) as u8).collect();
        let ops = [
            Op::Get { key: &one },
            Op::Put { key: &other, value: &value },
            Op::Get { key: &other },
            Op::Scan { start: &one, end: &[], limit: if id % 50 == 0 { NO_LIMIT } else { 20 } },
            Op::Delete { key: &other },
            Op::Get { key: &other },
        ];
        answers.extend(ops.map(|op| ask(&socket, id, op)));
    }
    answers
}

/// Serves by these packets and by a socket; whatever is asked has the same answer.
fn answers_as_over_sockets(packets: &'static str, at: &'static str) {
    let near = move || {
        let options = KvOptions { keys: KEYS, value_bytes: 100, ..KvOptions::default() };
        let transport = curtail::net::open(&format!("udp://{SOCKET},{packets}")).unwrap();
        let server = Server::builder(KvApp::open(options).unwrap());
        let server = server.policy(Spec::preset("tq").unwrap()).workers(1).transport(transport);
        let server = server.build().unwrap();
        let handle = server.handle();
        (handle, std::thread::spawn(move || server.run().unwrap()))
    };
    let far = move |(handle, running): (curtail::Handle, std::thread::JoinHandle<_>)| {
        assert!(ask_all(at) == ask_all(SOCKET), "{at}");
        handle.shutdown();
        let report: curtail::Report = running.join().unwrap();
        assert!(report.classes.iter().all(|class| class.failed + class.dropped == 0));
    };
    if let Err(why) = between(near, far) {
        eprintln!("skipped: {why}");
    }
}

#[test]
fn by_af_xdp_it_answers_as_over_sockets() {
    if let Some(why) = curtail::net::packet::why_not() {
        return eprintln!("skipped: {why}");
    }
    answers_as_over_sockets("xdp://cable/10.9.0.1:4001?checksum=partial", "10.9.0.1:4001");
}

#[test]
#[cfg(feature = "dpdk")]
fn by_dpdk_it_answers_as_over_sockets() {
    const DEVICE: &str = "eal=--no-huge;-m;64&args=iface=cable&checksum=partial";
    let url = format!("dpdk://net_af_packet0/10.9.0.7:4001?{DEVICE}");
    answers_as_over_sockets(url.leak(), "10.9.0.7:4001");
}
