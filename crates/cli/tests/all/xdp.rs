//! `curtail serve --listen xdp://…` and, with the feature, `dpdk://…` in one network namespace, and
//! clients in another. Skipped, with a line, where namespaces can't be made.

#[path = "../../../net/tests/common/namespace.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the transport")]
pub(crate) mod namespace;

use crate::common::curtail;
use crate::server::Server;
use namespace::{CABLE, between};
use rustix::process::Signal;
use serde_json::Value;
use spin::protocol::{Answer, Request, Status};
use std::net::UdpSocket;
use std::time::Duration;

/// Long beyond doubt: reached only by a test that fails.
const LONG: Duration = Duration::from_secs(30);
const REQUESTS: u64 = 200;

fn ask(own: &str, server: &str) {
    let socket = UdpSocket::bind(own).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    for tag in 0..REQUESTS {
        let request = Request { tag, class: (tag % 2) as u16, service_ns: 1_000 };
        socket.send(&request.encode()).unwrap();
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).expect("an answer");
        let answer = Answer::decode(&bytes[..count]).expect("one of spin's");
        assert_eq!((answer.tag, answer.status), (tag, Status::Done), "{server}");
    }
}

#[test]
fn a_server_past_the_kernels_network_answers_what_it_answers_over_sockets() {
    if let Some(why) = curtail_net::packet::why_not() {
        return eprintln!("skipped: {why}");
    }
    // One address is the interface's, one the server's alone; UDP of the kernel's stands beside them.
    let near = || {
        let packets = ["10.9.0.1:4000", "[fd09::1]:4000", "10.9.0.7:4000"]
            .map(|address| format!("xdp://{CABLE}/{address}?checksum=partial"));
        Server::start(&format!("udp://10.9.0.1:4001,{}", packets.join(",")))
    };
    let far = |server: Server| {
        assert!(server.url.contains("xdp://cable/10.9.0.1:4000?mode=copy"), "{}", server.url);
        ask("[fd09::2]:0", "[fd09::1]:4000");
        for server in ["10.9.0.1:4000", "10.9.0.7:4000", "10.9.0.1:4001"] {
            ask("10.9.0.2:0", server);
        }
        server.stop(Signal::TERM)
    };
    match between(near, far) {
        Ok(summary) => assert_eq!(summary["completed"], 4 * REQUESTS, "{summary}"),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

#[test]
#[cfg(feature = "dpdk")]
fn a_server_by_dpdk_answers_what_it_answers_over_sockets() {
    const OPTIONS: &str = "eal=--no-huge;-m;64&args=iface=cable&checksum=partial";
    let near = || {
        let packets = ["10.9.0.7:4000", "[fd09::7]:4000"]
            .map(|address| format!("dpdk://net_af_packet0/{address}?{OPTIONS}"));
        Server::start(&format!("udp://10.9.0.1:4001,{}", packets.join(",")))
    };
    let far = |server: Server| {
        assert!(server.url.contains("dpdk://net_af_packet0/10.9.0.7:4000"), "{}", server.url);
        ask("[fd09::2]:0", "[fd09::7]:4000");
        for server in ["10.9.0.7:4000", "10.9.0.1:4001"] {
            ask("10.9.0.2:0", server);
        }
        server.stop(Signal::TERM)
    };
    match between(near, far) {
        Ok(summary) => assert_eq!(summary["completed"], 3 * REQUESTS, "{summary}"),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

#[test]
fn doctor_says_whether_it_may_be_used() {
    let output = curtail().args(["doctor", "--quick", "--json", "-"]).output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |what: &str| {
        let mut all = findings.as_array().unwrap().iter();
        all.find(|finding| finding["what"] == what).cloned().unwrap()
    };
    let is_built_in = curtail_net::packet::dpdk_version().is_some();
    assert_eq!(of("dpdk")["here"] != "not in this build", is_built_in);
    let (found, held) = (of("af_xdp"), of("capabilities"));
    match curtail_net::packet::why_not() {
        None => assert_eq!(found["here"], "available"),
        Some(why) => {
            assert_eq!(found["here"], why.to_string());
            let lacks = !held["here"].as_str().unwrap().contains("CAP_NET_RAW");
            assert_eq!(found["better"].as_str().unwrap().contains("CAP_NET_RAW"), lacks);
        }
    }
}
