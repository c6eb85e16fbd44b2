//! `curtail serve --listen daemon+xdp://…` and, with the feature, `daemon+dpdk://…`: the core allocator
//! has an interface in one network namespace, and clients are in another. Skipped, with a line, where
//! namespaces can't be made.

use crate::common::curtail;
use crate::daemon::{Running, until};
use crate::server::Server;
use crate::xdp::namespace::between;
use rustix::process::Signal;
use serde_json::Value;
use spin::protocol::{Answer, BYTES, Request, Status};
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Long beyond doubt: reached only by a test that fails.
const LONG: Duration = Duration::from_secs(30);
const ROUNDS: u64 = 5;
const EACH: u64 = 20;
/// What programs may use.
const XDP: &str = "xdp://cable";

fn may_not() -> bool {
    let why = curtail_net::packet::why_not();
    why.is_some_and(|why| {
        eprintln!("skipped: {why}");
        true
    })
}

fn client(server: &str) -> UdpSocket {
    let own = if server.starts_with('[') { "[fd09::2]:0" } else { "10.9.0.2:0" };
    let socket = UdpSocket::bind(own).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// False: no answer.
fn is_answered(socket: &UdpSocket, tag: u64) -> bool {
    let request = Request { tag, class: (tag % 2) as u16, service_ns: 1_000 };
    let mut bytes = [0; BYTES];
    let asked = socket.send(&request.encode());
    let Ok(count) = asked.and_then(|_| socket.recv(&mut bytes)) else { return false };
    let answer = Answer::decode(&bytes[..count]).expect("one of spin's");
    assert_eq!((answer.tag, answer.status), (tag, Status::Done));
    true
}

/// Asks in rounds, between which no worker has a core.
fn ask_in_rounds(daemon: &Running, server: &str) {
    let socket = client(server);
    for round in 0..ROUNDS {
        assert!((0..EACH).all(|tag| is_answered(&socket, round * EACH + tag)), "{server}");
        until("the core is free", || daemon.status()["cores"][0]["state"] == "free");
    }
}

fn under(daemon: &Running, listen: &str) -> Server {
    let path = daemon.path.to_str().unwrap();
    Server::with(listen, &["--policy", "shenango", "--workers", "2", "--daemon", path])
}

/// The ports of all programs, by what they begin with.
fn port(daemon: &Running, scheme: &str) -> Value {
    let status = daemon.status();
    let all = status["programs"].as_array().unwrap();
    let is_it = |port: &&Value| port["url"].as_str().unwrap().starts_with(scheme);
    all.iter().map(|program| &program["port"]).find(is_it).cloned().unwrap()
}

/// A server whose packets the daemon has by `scheme` answers as one whose datagrams it has by a socket.
fn answers_as_over_sockets(
    name: &'static str,
    interface: &'static str,
    listen: &'static str,
    at: &'static str,
) {
    let near = move || {
        let daemon = Running::of(name, 1, &["--interfaces", interface], |_| {});
        let servers = [under(&daemon, "daemon+udp://10.9.0.1:0"), under(&daemon, listen)];
        (daemon, servers)
    };
    let far = move |(daemon, [by_socket, by_frames]): (Running, [Server; 2])| {
        ask_in_rounds(&daemon, by_socket.url.strip_prefix("daemon+udp://").unwrap());
        ask_in_rounds(&daemon, at);
        let scheme = listen.strip_prefix("daemon+").unwrap().split("://").next().unwrap();
        let all = Value::from(ROUNDS * EACH);
        for scheme in ["udp", scheme] {
            let port = port(&daemon, scheme);
            assert_eq!((&port["received"], &port["answered"]), (&all, &all), "{port}");
        }
        let port = port(&daemon, scheme);
        let shown = by_frames.url.strip_prefix("daemon+").unwrap();
        assert!(shown.starts_with(port["url"].as_str().unwrap()), "{shown}: {port}");
        assert_eq!(port["counters"]["packet_frames_missing"], 0, "{port}");
        assert_eq!(port["counters"]["packet_responses_dropped"], 0, "{port}");
        assert_eq!(daemon.count("demoted"), 0);
        for server in [by_socket, by_frames] {
            let report = server.stop(Signal::TERM);
            assert_eq!((&report["completed"], &report["dropped"]), (&all, &0.into()), "{report}");
        }
        until("both have left", || daemon.count("left") == 2);
    };
    if let Err(why) = between(near, far) {
        eprintln!("skipped: {why}");
    }
}

#[test]
fn packets_by_af_xdp_that_the_daemon_has_are_answered_as_over_sockets() {
    if may_not() {
        return;
    }
    for (listen, at) in [
        ("daemon+xdp://cable/10.9.0.1:4000?checksum=partial", "10.9.0.1:4000"),
        ("daemon+xdp://cable/[fd09::7]:4000?checksum=partial", "[fd09::7]:4000"),
    ] {
        answers_as_over_sockets("packets-xdp", XDP, listen, at);
    }
}

#[test]
#[cfg(feature = "dpdk")]
fn packets_by_dpdk_that_the_daemon_has_are_answered_as_over_sockets() {
    const DEVICE: &str = "dpdk://net_af_packet0?args=iface=cable&eal=--no-huge;-m;64";
    const LISTEN: &str = "daemon+dpdk://net_af_packet0/10.9.0.7:4000?checksum=partial";
    answers_as_over_sockets("packets-dpdk", DEVICE, LISTEN, "10.9.0.7:4000");
}

#[test]
fn a_port_on_packets_goes_with_the_daemon_and_comes_back_with_the_next() {
    if may_not() {
        return;
    }
    let start = || Running::of("packets-again", 1, &["--interfaces", XDP], |_| {});
    let near = move || {
        let daemon = start();
        let server = under(&daemon, "daemon+xdp://cable/10.9.0.1:0?checksum=partial");
        let (end, ends) = channel();
        let (tell, told) = channel();
        let next = std::thread::spawn(move || {
            ends.recv().unwrap();
            drop(daemon);
            tell.send(()).unwrap();
            ends.recv().unwrap();
            start()
        });
        (server, end, told, next)
    };
    let ran = between(near, |(server, end, told, next)| {
        let at = server.url.strip_prefix("daemon+xdp://cable/").unwrap().split('?').next().unwrap();
        let socket = client(at);
        assert!(is_answered(&socket, 1));
        end.send(()).unwrap();
        told.recv().unwrap();
        // The kernel has the port again, and says that nothing listens there.
        assert!(!is_answered(&socket, 2));
        end.send(()).unwrap();
        let daemon: Running = next.join().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        until("the same port is open again", || is_answered(&socket, 3));
        assert_eq!(port(&daemon, "xdp")["answered"], 1);
        server.stop(Signal::TERM);
    });
    ran.unwrap_or_else(|why| eprintln!("skipped: {why}"));
}

/// What a server says that can't have such a port, in one line.
fn refused(daemon: &Running, listen: &str) -> String {
    let output = curtail()
        .args(["serve", "--app", "spin", "--policy", "shenango", "--workers", "1", "--daemon"])
        .arg(&daemon.path)
        .args(["--listen", listen])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{listen}: {text}");
    text
}

#[test]
fn a_port_on_packets_that_can_not_be_is_refused_and_the_daemon_goes_on() {
    if may_not() {
        return;
    }
    let near = || {
        let interfaces = "xdp://cable,xdp://none,xdp://lo,dpdk://none";
        let daemon = Running::of("packets-refused", 1, &["--interfaces", interfaces], |_| {});
        let has_dpdk = curtail_net::packet::dpdk_version().is_some();
        let taken = UdpSocket::bind("10.9.0.1:4001").unwrap();
        for (listen, says) in [
            ("xdp://eth9/10.9.0.1:4000", "no `--interfaces xdp://eth9`"),
            ("dpdk://cable/10.9.0.1:4000", "no `--interfaces dpdk://cable`"),
            ("xdp://none/10.9.0.1:4000", "xdp://none: no such network interface"),
            ("xdp://lo/10.9.0.1:4000", "xdp://lo: not an Ethernet interface"),
            ("xdp://cable/10.9.0.1:4001", "10.9.0.1:4001: address already in use"),
            ("xdp://cable/0.0.0.0:4000", "not the address of one host"),
            ("xdp://cable/10.9.0.1:4000?mode=fast", "`fast` is not zerocopy, copy or generic"),
            ("dpdk://none/10.9.0.1:4000?eal=-d;evil.so", "`eal=` is the daemon's to say"),
            ("dpdk://none/10.9.0.1:4000", if has_dpdk { "dpdk://none" } else { "has no DPDK" }),
        ] {
            let said = refused(&daemon, &format!("daemon+{listen}"));
            assert!(said.contains(says), "{listen}: {said}");
        }
        drop(taken);
        // An interface is one program's.
        let first = under(&daemon, "daemon+xdp://cable/10.9.0.1:4000");
        let said = refused(&daemon, "daemon+xdp://cable/10.9.0.1:4002");
        assert!(said.contains("`ip link set … xdp off` ends it"), "{said}");
        drop(first);
        until("it has gone", || daemon.status()["programs"] == serde_json::json!([]));
        drop(under(&daemon, "daemon+xdp://cable/10.9.0.1:4002"));
    };
    between(near, |()| ()).unwrap_or_else(|why| eprintln!("skipped: {why}"));
}

#[test]
fn without_capabilities_the_daemon_says_what_is_missing_for_packets() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    if may_not() {
        return;
    }
    let near = || {
        // A thread's own: what it starts has none either.
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, none).unwrap();
        let daemon = Running::of("packets-rights", 1, &["--interfaces", XDP], |_| {});
        let said = refused(&daemon, "daemon+xdp://cable/10.9.0.1:4000");
        assert!(said.contains("xdp://cable: not permitted to "), "{said}");
        assert!(said.contains("this needs CAP_"), "{said}");
        under(&daemon, "daemon+udp://10.9.0.1:0").stop(Signal::TERM);
    };
    between(near, |()| ()).unwrap_or_else(|why| eprintln!("skipped: {why}"));
}
