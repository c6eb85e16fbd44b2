//! Frames of a real interface: a server on one end of a cable between two network namespaces, and
//! the kernel's own UDP on the other. Skipped, with a line, where namespaces can't be made.

use crate::common;

use crate::packet_hostile::{Random, hostile, seeds};
use common::frames::{OUR4, OUR6, OURS};
use common::namespace::{CABLE, RawCable, between, make_checksums};
use common::{Echo, LONG, counter};
use curtail_net::packet::why_not;
use curtail_net::{OpenError, Transport, open};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What the server has counted is looked at after it has ended.
type Ended = (Box<dyn Transport>, u64);

/// The addresses of the server's interface, then those that it has alone.
const SERVED: [&str; 4] = ["10.9.0.1:4000", "[fd09::1]:4000", "10.9.0.7:4001", "[fd09::7]:4001"];

fn urls(options: &str) -> String {
    SERVED.map(|address| format!("xdp://{CABLE}/{address}{options}")).join(",")
}

/// Runs `far` at the other end of a cable at which a server with these options answers. `None`: not
/// here.
fn against<R: Send + 'static>(
    options: &'static str,
    far: impl FnOnce() -> R + Send + 'static,
) -> Option<(R, Ended)> {
    if let Some(why) = why_not() {
        eprintln!("skipped: {why}");
        return None;
    }
    let near = move || {
        let others = UdpSocket::bind("10.9.0.1:5000").unwrap();
        (Echo::start(open(&urls(options)).unwrap()), others)
    };
    let ran = between(near, move |(echo, others)| {
        let kernels = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            let (count, from) = others.recv_from(&mut bytes).unwrap();
            others.send_to(&bytes[..count], from).unwrap();
        });
        let result = far();
        // Another port of the same address is the kernel's, as ever.
        assert_eq!(ask(&client("10.9.0.1:5000"), b"the kernel's"), b"the kernel's");
        kernels.join().unwrap();
        (result, echo.stop())
    });
    ran.map_err(|why| eprintln!("skipped: {why}")).ok()
}

fn client(server: &str) -> UdpSocket {
    let server: SocketAddr = server.parse().unwrap();
    let own = if server.is_ipv4() { "10.9.0.2:0" } else { "[fd09::2]:0" };
    let socket = UdpSocket::bind(own).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

fn ask(socket: &UdpSocket, question: &[u8]) -> Vec<u8> {
    socket.send(question).unwrap();
    let mut answer = [0; 2_000];
    let count = socket.recv(&mut answer).expect("an answer");
    answer[..count].to_vec()
}

/// For requests that may be lost.
fn ask_until_answered(server: &str) {
    let socket = client(server);
    socket.set_read_timeout(Some(LONG / 100)).unwrap();
    let mut answer = [0; 8];
    let asked = (0..100).find(|_| {
        socket.send(b"there?").unwrap();
        socket.recv(&mut answer).is_ok()
    });
    assert!(asked.is_some(), "{server} is out of service");
}

/// Hundreds of requests, one at a time and many at a time; lengths from one byte to all that fits.
fn ask_all(server: &str) {
    let socket = client(server);
    for round in 0..300_usize {
        let question: Vec<u8> = (0..1 + round * 7 % 1_452).map(|at| (at + round) as u8).collect();
        assert_eq!(ask(&socket, &question), question, "{server}, round {round}");
    }
    for burst in 0..20_u32 {
        for index in 0..32 {
            socket.send(&(burst * 32 + index).to_le_bytes()).unwrap();
        }
        let mut seen = Vec::new();
        for _ in 0..32 {
            let mut answer = [0; 4];
            assert_eq!(socket.recv(&mut answer).expect("an answer"), 4);
            seen.push(u32::from_le_bytes(answer));
        }
        seen.sort_unstable();
        assert_eq!(seen, (burst * 32..(burst + 1) * 32).collect::<Vec<_>>());
    }
}

fn check(transport: &dyn Transport) {
    let of = |name| counter(transport, name);
    assert_eq!((of("packet_frames_missing"), of("packet_responses_dropped")), (0, 0));
    assert_eq!((of("packet_checksum_errors"), of("packet_unanswered")), (0, 0));
    assert_eq!((of("xdp_dropped_full"), of("xdp_dropped_no_frame")), (0, 0));
}

#[test]
fn requests_over_a_cable_are_answered() {
    // With 64 frames, so that each is used again and again.
    let ran = against("?frames=64", || {
        make_checksums();
        SERVED.into_iter().for_each(ask_all);
        for server in SERVED {
            let socket = client(server);
            socket.send(&[1; 3_000]).unwrap();
            assert_eq!(ask(&socket, b"after fragments"), b"after fragments");
        }
    });
    let Some(((), (transport, malformed))) = ran else { return };
    let fragments = counter(&*transport, "packet_fragments_refused");
    assert_eq!((malformed, fragments), (4, 4), "the first ones, which have ports");
    check(&*transport);
    assert_eq!(counter(&*transport, "packet_queues"), 2);
    let asked = ["packet_arp_requests", "packet_neighbour_solicitations"];
    assert!(asked.into_iter().all(|name| counter(&*transport, name) > 0));
    assert_eq!(counter(&*transport, "packet_partial_checksums"), 0);
    let url = transport.describe();
    assert!(url.starts_with("xdp://cable/10.9.0.1:4000?mode=copy,"), "{url}");
    assert_eq!(transport.local_addrs(), SERVED.map(|it| it.parse().unwrap()));
}

#[test]
fn a_cable_within_a_host_leaves_checksums_to_be_made() {
    let ran = against("?checksum=partial&mode=generic", || SERVED.into_iter().for_each(ask_all));
    let Some(((), (transport, malformed))) = ran else { return };
    assert_eq!(malformed, 0);
    check(&*transport);
    assert!(counter(&*transport, "packet_partial_checksums") > 0);
    assert!(transport.describe().contains("mode=generic"));
}

/// A frame that was made for the addresses of the simulated device, for those of this one.
fn readdress(frame: &mut [u8], hardware: [u8; 6]) {
    let mut replace = |old: &[u8], new: &[u8]| {
        for at in 0..frame.len().saturating_sub(old.len() - 1) {
            if frame[at..].starts_with(old) {
                frame[at..at + old.len()].copy_from_slice(new);
            }
        }
    };
    replace(&OURS, &hardware);
    replace(&OUR4.octets(), &Ipv4Addr::new(10, 9, 0, 7).octets());
    replace(&OUR6.octets(), &Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 7).octets());
    replace(&4_000_u16.to_be_bytes(), &4_001_u16.to_be_bytes());
}

/// The hardware address of a neighbour that was spoken to.
fn neighbour(address: &str) -> [u8; 6] {
    let table = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap();
    let line = table.lines().find(|line| line.starts_with(address)).expect("it was resolved");
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let bytes: Vec<_> = words[3].split(':').map(|it| u8::from_str_radix(it, 16)).collect();
    std::array::from_fn(|at| *bytes[at].as_ref().unwrap())
}

#[test]
fn hostile_frames_over_a_cable_leave_it_in_service() {
    let ran = against("?frames=64", || {
        make_checksums();
        SERVED.into_iter().for_each(ask_all);
        let (hardware, cable) = (neighbour("10.9.0.7"), RawCable::open());
        let (mut random, mut seeds) = (Random(5), seeds());
        seeds.iter_mut().for_each(|seed| readdress(seed, hardware));
        for _ in 0..20_000 {
            cable.send(&hostile(&mut random, &seeds));
        }
        // The flood may have left no room for some.
        ask_until_answered(SERVED[0]);
        SERVED.into_iter().for_each(ask_all);
    });
    let Some(((), (transport, malformed))) = ran else { return };
    assert_eq!(counter(&*transport, "packet_frames_missing"), 0);
    assert!(malformed > 1_000, "{malformed}");
}

#[test]
fn what_is_wrong_with_an_interface_is_said() {
    if let Some(why) = why_not() {
        return eprintln!("skipped: {why}");
    }
    let ran = between(
        || {
            let said = |url: &str| open(url).err().unwrap().to_string();
            let first = open("xdp://cable/10.9.0.1:0").unwrap();
            assert_ne!(first.local_addrs()[0].port(), 0);
            let second = said("xdp://cable/10.9.0.1:4009");
            drop(first);
            let taken = UdpSocket::bind("10.9.0.1:4010").unwrap();
            let in_use = open("xdp://cable/10.9.0.1:4010").err().unwrap();
            drop(taken);
            let others = [
                said("xdp://cable/10.9.0.9:0"),
                said("xdp://cable/0.0.0.0:4000"),
                said("xdp://cable/10.9.0.1:4000?mode=zerocopy"),
            ];
            // All of it was given back.
            drop(open("xdp://cable/10.9.0.1:4000").unwrap());
            (second, in_use, others)
        },
        |said| said,
    );
    let Ok((second, in_use, [no_port, not_one, mode])) =
        ran.map_err(|why| eprintln!("skipped: {why}"))
    else {
        return;
    };
    assert!(second.contains("has an XDP program already"), "{second}");
    assert!(matches!(in_use, OpenError::InUse { .. }), "{in_use}");
    assert!(no_port.contains("name one"), "{no_port}");
    assert!(not_one.contains("is not the address of one host"), "{not_one}");
    assert!(mode.contains("no such mode"), "{mode}");
}
