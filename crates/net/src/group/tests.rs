//! The kernel beside what the program is to compute.

use super::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SocketFlags, accept_with, listen, recv};
use std::net::{TcpStream, UdpSocket};

const FLOWS: usize = 64;

/// Sockets of one group, by its number of each, and what steers them.
fn group(address: SocketAddr, kind: SocketType, sockets: u32) -> (Vec<OwnedFd>, Steering) {
    let ready = |socket: &OwnedFd| match kind {
        SocketType::STREAM => listen(socket, 128),
        _ => Ok(()),
    };
    let (first, bound) = socket::bind(address, kind).unwrap();
    ready(&first).unwrap();
    let others = join(&first, kind, sockets as usize, ready).unwrap();
    let steering = Steering::new(bound, sockets);
    attach(&first, libc::SO_ATTACH_REUSEPORT_CBPF, &steering.program()).unwrap();
    (std::iter::once(first).chain(others).collect(), steering)
}

/// Which of the sockets has something.
fn readable(sockets: &[OwnedFd]) -> usize {
    let mut asked: Vec<_> =
        sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let most = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(poll(&mut asked, Some(&most)), Ok(1), "one of them has it");
    asked.iter().position(|asked| !asked.revents().is_empty()).unwrap()
}

fn both(mut check: impl FnMut(SocketAddr)) {
    check(([127, 0, 0, 1], 0).into());
    if UdpSocket::bind("[::1]:0").is_ok() {
        check("[::1]:0".parse().unwrap());
    }
}

/// Counts are as even as by chance, to five standard deviations.
fn assert_even(counts: &[usize]) {
    let share = FLOWS as f64 / counts.len() as f64;
    let deviation = (share * (1.0 - 1.0 / counts.len() as f64)).sqrt();
    let even = |count: &usize| (*count as f64 - share).abs() <= 5.0 * deviation;
    assert!(counts.iter().all(even), "{counts:?}");
}

#[test]
fn datagrams_come_to_the_socket_of_their_peer() {
    both(|address| {
        let (sockets, steering) = group(address, SocketType::DGRAM, 3);
        let to = socket::local_address(&sockets[0]).unwrap();
        let mut counts = [0; 3];
        for _ in 0..FLOWS {
            let client = UdpSocket::bind(address).unwrap();
            let expected = steering.socket_of(client.local_addr().unwrap()) as usize;
            counts[expected] += 1;
            for _ in 0..2 {
                client.send_to(b"here", to).unwrap();
                assert_eq!(readable(&sockets), expected);
                recv(&sockets[expected], &mut [0; 8][..], RecvFlags::empty()).unwrap();
            }
        }
        assert_even(&counts);
    });
}

#[test]
fn connections_come_to_the_listener_of_their_peer() {
    both(|address| {
        let (sockets, steering) = group(address, SocketType::STREAM, 2);
        let to = socket::local_address(&sockets[0]).unwrap();
        let mut counts = [0; 2];
        for _ in 0..FLOWS {
            let client = TcpStream::connect(to).unwrap();
            let expected = steering.socket_of(client.local_addr().unwrap()) as usize;
            counts[expected] += 1;
            assert_eq!(readable(&sockets), expected);
            accept_with(&sockets[expected], SocketFlags::empty()).unwrap();
        }
        assert_even(&counts);
    });
}

#[test]
fn many_flows_are_spread_as_by_chance() {
    for address in ["10.0.0.1:7", "[fe80::1]:7"] {
        let address: SocketAddr = address.parse().unwrap();
        for round in 0..50_u16 {
            let steering = Steering::new(address, 4);
            let mut counts = [0_usize; 4];
            for port in 0..4_096 {
                // One host's ports in turn; in every other round, hosts in turn.
                let (host, port): (u16, u16) =
                    if round % 2 == 0 { (1, 20_000 + port) } else { (port, 9) };
                let [high, low] = host.to_be_bytes();
                let ip = match address {
                    SocketAddr::V4(_) => [10, 0, high, low].into(),
                    SocketAddr::V6(_) => std::net::IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, host]),
                };
                counts[steering.socket_of(SocketAddr::new(ip, port)) as usize] += 1;
            }
            assert!(counts.iter().all(|count| (700..1_350).contains(count)), "{counts:?}");
        }
    }
}

#[test]
fn who_joins_from_elsewhere_gets_nothing() {
    both(|address| {
        let (sockets, _) = group(address, SocketType::DGRAM, 2);
        let to = socket::local_address(&sockets[0]).unwrap();
        // Nor does a group begin where there is one.
        assert!(matches!(socket::bind(to, SocketType::DGRAM), Err(OpenError::InUse { .. })));
        let stranger = socket::bind_beside(to, SocketType::DGRAM).unwrap();
        for _ in 0..FLOWS {
            let client = UdpSocket::bind(address).unwrap();
            client.send_to(b"here", to).unwrap();
            let got = readable(&sockets);
            recv(&sockets[got], &mut [0; 8][..], RecvFlags::empty()).unwrap();
        }
        let nothing = recv(&stranger, &mut [0; 8][..], RecvFlags::DONTWAIT);
        assert!(matches!(nothing, Err(Errno::AGAIN)), "{nothing:?}");
    });
}

#[test]
fn a_shut_socket_keeps_what_it_has_and_takes_no_more() {
    both(|address| {
        let (socket, to) = socket::bind(address, SocketType::DGRAM).unwrap();
        let client = UdpSocket::bind(address).unwrap();
        client.send_to(b"before", to).unwrap();
        shut(&socket).unwrap();
        client.send_to(b"after", to).unwrap();
        let mut buffer = [0; 8];
        let (_, got) = recv(&socket, &mut buffer[..], RecvFlags::empty()).unwrap();
        assert_eq!(&buffer[..got], b"before");
        let nothing = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT);
        assert!(matches!(nothing, Err(Errno::AGAIN)), "{nothing:?}");
    });
}
