//! The server past the kernel's network, beside the same over sockets. Skipped, with a line, where
//! network namespaces can't be made.

#[path = "../../../../crates/net/tests/common/namespace.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the transport")]
mod namespace;

use crate::answers::cases;
use crate::shown::{example, query};
use curtail::{Server, Spec};
use dns::Dns;
use namespace::between;
use std::net::UdpSocket;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const SOCKET: &str = "10.9.0.1:5300";

fn ask(server: &str, queries: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let ask = |query: &Vec<u8>| {
        socket.send(query).unwrap();
        let mut answer = vec![0; 4_096];
        let count = socket.recv(&mut answer).expect("an answer");
        answer.truncate(count);
        answer
    };
    queries.iter().map(ask).collect()
}

/// Serves by these packets and by a socket; whatever is asked has the same answer, to the byte.
fn answers_as_over_sockets(packets: &'static str, at: &'static str) {
    let near = move || {
        let transport = curtail::net::open(&format!("udp://{SOCKET},{packets}")).unwrap();
        let server = Server::builder(Dns::new(example()));
        let server = server.policy(Spec::preset("tq").unwrap()).workers(1).transport(transport);
        let server = server.build().unwrap();
        let handle = server.handle();
        (handle, std::thread::spawn(move || server.run().unwrap()))
    };
    let far = move |(handle, running): (curtail::Handle, std::thread::JoinHandle<_>)| {
        let sizes = [None, Some(512), Some(1_232)];
        let all = sizes
            .into_iter()
            .flat_map(|size| cases().map(move |(name, rtype, _)| query(name, rtype, size)));
        let all: Vec<_> = all.collect();
        for _ in 0..5 {
            assert!(ask(at, &all) == ask(SOCKET, &all), "{at}");
        }
        handle.shutdown();
        let report: curtail::Report = running.join().unwrap();
        assert_eq!(report.classes[0].failed, 0);
        assert_eq!(report.classes[0].completed, all.len() as u64 * 10);
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
    answers_as_over_sockets("xdp://cable/10.9.0.1:5301?checksum=partial", "10.9.0.1:5301");
}

#[test]
#[cfg(feature = "dpdk")]
fn by_dpdk_it_answers_as_over_sockets() {
    const DEVICE: &str = "eal=--no-huge;-m;64&args=iface=cable&checksum=partial";
    let url = format!("dpdk://net_af_packet0/10.9.0.7:5301?{DEVICE}");
    answers_as_over_sockets(url.leak(), "10.9.0.7:5301");
}
