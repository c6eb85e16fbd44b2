//! A server past the kernel's network on one end of a cable between two network namespaces, and the
//! kernel's own UDP on the other.

use super::frames::{OUR4, OUR6, OURS, THEIRS, datagram};
use super::hostile::{Random, hostile, seeds};
use super::namespace::{CABLE, RawCable, between, ip, make_checksums};
use super::{Echo, LONG};
use curtail_net::Transport;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What the server has counted is looked at after it has ended.
pub type Ended = (Box<dyn Transport>, u64);

/// The addresses of the server's interface, then those that it has alone.
pub const SERVED: [&str; 4] =
    ["10.9.0.1:4000", "[fd09::1]:4000", "10.9.0.7:4001", "[fd09::7]:4001"];

/// Runs `far` at the other end of a cable at which what `open` opens echoes. `None`: not here.
pub fn served_over_a_cable<R: Send + 'static>(
    open: impl FnOnce() -> Box<dyn Transport> + Send + 'static,
    far: impl FnOnce() -> R + Send + 'static,
) -> Option<(R, Ended)> {
    let (result, mut ended) = served_by_several(move || vec![open()], far)?;
    ended.pop().map(|ended| (result, ended))
}

/// Splits it into two, each of which has a dispatcher of its own.
pub fn in_two(mut transport: Box<dyn Transport>) -> Vec<Box<dyn Transport>> {
    assert!(transport.splits(2), "it has two queues");
    let others = transport.split(2).unwrap();
    std::iter::once(transport).chain(others).collect()
}

/// Asks from many ports, so that the device has something for each of its queues.
pub fn ask_from_many_ports() {
    for port in 0..64_u32 {
        for server in SERVED {
            let socket = client(server);
            let questions = [port, port + 64, port + 128].map(u32::to_le_bytes);
            questions.iter().for_each(|it| assert_eq!(ask(&socket, it), it));
        }
    }
}

/// Runs `far` at the other end of a cable at which each of what `open` opens echoes.
pub fn served_by_several<R: Send + 'static>(
    open: impl FnOnce() -> Vec<Box<dyn Transport>> + Send + 'static,
    far: impl FnOnce() -> R + Send + 'static,
) -> Option<(R, Vec<Ended>)> {
    let near = move || {
        let others = UdpSocket::bind("10.9.0.1:5000").unwrap();
        (open().into_iter().map(Echo::start).collect::<Vec<_>>(), others)
    };
    let ran = between(near, move |(echoes, others)| {
        let kernels = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            let (count, from) = others.recv_from(&mut bytes).unwrap();
            others.send_to(&bytes[..count], from).unwrap();
        });
        // Another port of the same address is the kernel's, as ever.
        assert_eq!(ask(&client("10.9.0.1:5000"), b"the kernel's"), b"the kernel's");
        kernels.join().unwrap();
        (far(), echoes.into_iter().map(Echo::stop).collect())
    });
    ran.map_err(|why| eprintln!("skipped: {why}")).ok()
}

pub fn client(server: &str) -> UdpSocket {
    let server: SocketAddr = server.parse().unwrap();
    let own = if server.is_ipv4() { "10.9.0.2:0" } else { "[fd09::2]:0" };
    let socket = UdpSocket::bind(own).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

pub fn ask(socket: &UdpSocket, question: &[u8]) -> Vec<u8> {
    socket.send(question).unwrap();
    let mut answer = [0; 2_000];
    // The driver of DPDK's `net_tap` sends signals to its process.
    let received = std::iter::repeat_with(|| socket.recv(&mut answer)).find(|it| {
        !it.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
    });
    let count = received.expect("one that was not interrupted").expect("an answer");
    answer[..count].to_vec()
}

/// For requests that may be lost.
pub fn ask_until_answered(server: &str) {
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
pub fn ask_all(server: &str) {
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

/// Sends so many hostile frames; what is served answers afterwards as before.
pub fn attack(frames: u64) {
    make_checksums();
    SERVED.into_iter().for_each(ask_all);
    let (hardware, cable) = (neighbour("10.9.0.7"), RawCable::open());
    let (mut random, mut seeds) = (Random(5), seeds());
    seeds.iter_mut().for_each(|seed| readdress(seed, hardware));
    for _ in 0..frames {
        cable.send(&hostile(&mut random, &seeds));
    }
    // The flood may have left no room for some.
    ask_until_answered(SERVED[0]);
    SERVED.into_iter().for_each(ask_all);
}

/// What the request of that number has in it.
fn payload(number: u32) -> Vec<u8> {
    let rest = (0..number as usize * 13 % 1_200).map(|at| (at + number as usize) as u8);
    number.to_le_bytes().into_iter().chain(rest).collect()
}

/// Sends frames of which some are lost, doubled, late, cut or have a wrong bit. Each that arrives
/// whole is answered, rightly, as often as it arrives; no other is.
pub fn ask_through_faults(windows: u32) {
    const WINDOW: u32 = 32;
    // Answers go to the Ethernet address that the frames come from.
    let own = THEIRS.map(|byte| format!("{byte:02x}")).join(":");
    ip(&format!("link set {CABLE} address {own}")).unwrap();
    let server: SocketAddr = SERVED[2].parse().unwrap();
    let resolver = client(SERVED[2]);
    resolver.set_read_timeout(Some(LONG)).unwrap();
    make_checksums();
    assert_eq!(ask(&resolver, b"resolve"), b"resolve");
    let (hardware, cable) = (neighbour("10.9.0.7"), RawCable::open());
    let ours: SocketAddr = "10.9.0.2:5555".parse().unwrap();
    let socket = UdpSocket::bind(ours).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut random = Random(7);
    let mut late = None;
    for first in (0..windows).map(|window| window * WINDOW) {
        // How often each must still be answered, and how often it may be.
        let mut expected = [(0, 0); WINDOW as usize];
        for number in first..first + WINDOW {
            let mut frame = datagram(hardware, ours, server, &payload(number));
            let (times, copies) = match random.below(10) {
                0 => ((0, 0), 0),
                1 => ((2, 2), 2),
                2 => {
                    frame.truncate(14 + random.below(frame.len() - 14));
                    ((0, 0), 1)
                }
                3 => {
                    let at = random.below(frame.len());
                    frame[at] ^= 1 << random.below(8);
                    ((0, 1), 1)
                }
                4 if late.is_none() => {
                    late = Some(frame.clone());
                    ((1, 1), 0)
                }
                _ => ((1, 1), 1),
            };
            expected[(number - first) as usize] = times;
            (0..copies).for_each(|_| cable.send(&frame));
            if copies > 0
                && let Some(frame) = late.take()
            {
                cable.send(&frame);
            }
        }
        late.take().into_iter().for_each(|frame| cable.send(&frame));
        while expected.iter().any(|times| times.0 > 0) {
            take_answer(&socket, first, &mut expected);
        }
    }
    // None comes that was not to.
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 8]).is_err());
}

fn take_answer(socket: &UdpSocket, first: u32, expected: &mut [(i32, i32)]) {
    let mut bytes = [0; 2_000];
    let count = socket.recv(&mut bytes).expect("an answer");
    let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(bytes[..count], payload(number), "{number}");
    // One of the window before may come late whose bit said nothing.
    if let Some(times) = number.checked_sub(first).and_then(|it| expected.get_mut(it as usize)) {
        times.0 -= 1;
        times.1 -= 1;
        assert!(times.1 >= 0, "{number} was answered too often");
    }
}
