//! Kernel UDP over loopback.

use crate::common;

use common::{
    Collect, Echo, LONG, completion, counter, loopback, loopbacks, poll_requests, poll_until,
};
use curtail_net::{OpenError, Peer, Status, Transport, Udp, UdpConfig};
use std::net::{SocketAddr, UdpSocket};

fn server(config: &UdpConfig) -> (Udp, SocketAddr) {
    let udp = Udp::bind(&[loopback()], config).unwrap();
    let address = udp.local_addrs()[0];
    (udp, address)
}

fn client(server: SocketAddr) -> UdpSocket {
    let any: SocketAddr = if server.is_ipv4() { loopback() } else { "[::1]:0".parse().unwrap() };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.connect(server).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    let count = socket.recv(&mut buffer).unwrap();
    buffer.truncate(count);
    buffer
}

#[test]
fn requests_come_and_answers_go_on_every_address() {
    let mut udp = Udp::bind(&loopbacks(), &UdpConfig::default()).unwrap();
    let reply = udp.reply();
    for (index, address) in udp.local_addrs().into_iter().enumerate() {
        let client = client(address);
        client.send(b"question").unwrap();
        let mut into = Collect::up_to(10);
        poll_requests(&mut udp, &mut into, 1);
        let (payload, from) = &into.requests[0];
        assert_eq!(payload, b"question");
        let expected = Peer::Udp { socket: index as u16, from: client.local_addr().unwrap() };
        assert_eq!(*from, expected);
        reply.reply(*from, b"answer");
        assert_eq!(receive(&client), b"answer");
    }
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn many_clients_get_their_own_answers() {
    let (udp, address) = server(&UdpConfig::default());
    let echo = Echo::start(Box::new(udp));
    let clients: Vec<_> = (0..8_u32)
        .map(|id| {
            std::thread::spawn(move || {
                let socket = client(address);
                for round in 0..200_u32 {
                    let question = [id.to_le_bytes(), round.to_le_bytes()].concat();
                    socket.send(&question).unwrap();
                    assert_eq!(receive(&socket), question);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let (transport, malformed) = echo.stop();
    assert_eq!(malformed, 0);
    assert_eq!(counter(&*transport, "udp_responses_dropped"), 0);
}

#[test]
fn empty_and_long_datagrams_are_counted_and_stop_nothing() {
    let (mut udp, address) = server(&UdpConfig { limit: 100, ..UdpConfig::default() });
    let client = client(address);
    for size in [0, 101, 2_000, 60_000, 100, 1] {
        client.send(&vec![7; size]).unwrap();
    }
    let mut into = Collect::up_to(10);
    poll_requests(&mut udp, &mut into, 2);
    assert_eq!(into.payloads(), [vec![7; 100], vec![7; 1]]);
    assert_eq!(into.malformed, 4);
}

#[test]
fn what_there_is_no_room_for_waits_in_the_kernel() {
    let (mut udp, address) = server(&UdpConfig::default());
    let client = client(address);
    for number in 0..100_u8 {
        client.send(&[number]).unwrap();
    }
    let mut none = Collect::up_to(0);
    assert_eq!(udp.poll(0, &mut none), Status::Open);
    let mut all = Vec::new();
    while all.len() < 100 {
        let mut into = Collect::up_to(7.min(100 - all.len()));
        let wanted = into.limit;
        poll_requests(&mut udp, &mut into, wanted);
        all.extend(into.payloads());
    }
    assert_eq!(all, (0..100_u8).map(|number| vec![number]).collect::<Vec<_>>());
}

#[test]
fn what_the_kernel_has_no_room_for_is_counted() {
    let (mut udp, address) = server(&UdpConfig { receive_buffer: 1, ..UdpConfig::default() });
    let client = client(address);
    for number in 0..200_u8 {
        client.send(&[number; 1_000]).unwrap();
    }
    let dropped = counter(&udp, "udp_kernel_dropped");
    assert!(dropped > 0 && dropped < 200, "{dropped}");
    let mut into = Collect::up_to(200);
    poll_requests(&mut udp, &mut into, 200 - dropped as usize);
    assert_eq!(into.requests.len() as u64 + dropped, 200);
}

/// What waits in the socket is taken, however much of it is dropped.
fn poll_all(udp: &mut Udp, into: &mut Collect) {
    for _ in 0..10 {
        udp.poll(0, into);
    }
}

#[test]
fn a_peer_that_asks_without_end_leaves_room_for_others() {
    let (mut udp, address) = server(&UdpConfig { in_progress: 360, ..UdpConfig::default() });
    let (greedy, modest) = (client(address), client(address));
    for number in 0..200_u8 {
        greedy.send(&[number]).unwrap();
    }
    let mut into = Collect::up_to(1_000);
    poll_all(&mut udp, &mut into);
    assert_eq!(into.requests.len(), 40, "an eighth of what is left");
    assert_eq!(counter(&udp, "udp_over_share"), 160);
    modest.send(b"one").unwrap();
    poll_requests(&mut udp, &mut into, 41);
    assert_eq!(into.payloads()[40], b"one");
    // Once one has ended, it may ask for another.
    greedy.send(b"too much").unwrap();
    poll_all(&mut udp, &mut into);
    assert_eq!(into.requests.len(), 41);
    let peer = into.requests[0].1;
    udp.completed(&completion(peer));
    greedy.send(b"again").unwrap();
    poll_requests(&mut udp, &mut into, 42);
    assert_eq!(into.payloads()[41], b"again");
}

#[test]
fn an_answer_to_nobody_stops_nothing() {
    let (mut udp, address) = server(&UdpConfig::default());
    let reply = udp.reply();
    let gone = client(address);
    gone.send(b"and away").unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut udp, &mut into, 1);
    let from = into.requests[0].1;
    drop(gone);
    for _ in 0..10 {
        // The kernel answers each with "port unreachable".
        reply.reply(from, b"anybody there?");
    }
    let other = client(address);
    other.send(b"here").unwrap();
    poll_requests(&mut udp, &mut into, 2);
    reply.reply(into.requests[1].1, b"good");
    assert_eq!(receive(&other), b"good");
}

#[test]
fn responses_that_cannot_go_are_counted() {
    let (udp, address) = server(&UdpConfig::default());
    let reply = udp.reply();
    let client = client(address);
    let from = client.local_addr().unwrap();
    reply.reply(Peer::None, b"x");
    reply.reply(Peer::Tcp { connection: 0, generation: 0 }, b"x");
    reply.reply(Peer::Udp { socket: 9, from }, b"x");
    reply.reply(Peer::Udp { socket: 0, from: SocketAddr::new(from.ip(), 0) }, b"x");
    reply.reply(Peer::Udp { socket: 0, from }, &vec![0; 70_000]);
    assert_eq!(reply.dropped(), 5);
    reply.reply(Peer::Udp { socket: 0, from }, b"x");
    assert_eq!(receive(&client), b"x");
    assert_eq!(reply.dropped(), 5);
}

#[test]
fn closed_means_no_more_requests_but_answers() {
    let (mut udp, address) = server(&UdpConfig::default());
    let reply = udp.reply();
    let client = client(address);
    client.send(b"one").unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut udp, &mut into, 1);
    udp.close();
    client.send(b"two").unwrap();
    poll_until(&mut udp, &mut into, |_, _, status| status == Status::Closed);
    drop(udp);
    assert_eq!(into.requests.len(), 1);
    reply.reply(into.requests[0].1, b"late but there");
    assert_eq!(receive(&client), b"late but there");
}

#[test]
fn a_taken_address_is_an_error_of_its_own() {
    let (_udp, address) = server(&UdpConfig::default());
    let error = Udp::bind(&[address], &UdpConfig::default()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { address: taken } if taken == address), "{error}");
    let foreign = "192.0.2.1:0".parse().unwrap();
    let error = Udp::bind(&[foreign], &UdpConfig::default()).err().unwrap();
    assert!(matches!(error, OpenError::NotLocal { .. }), "{error}");
    let error = Udp::bind(&[], &UdpConfig::default()).err().unwrap();
    assert!(matches!(error, OpenError::NoAddress), "{error}");
    let config = UdpConfig { limit: 0, ..UdpConfig::default() };
    let error = Udp::bind(&[loopback()], &config).err().unwrap();
    assert!(matches!(error, OpenError::Range { .. }), "{error}");
}

#[test]
fn parts_have_peers_and_bounds_of_their_own() {
    let (mut udp, address) = server(&UdpConfig { in_progress: 256, ..UdpConfig::default() });
    let mut parts: Vec<Box<dyn Transport>> = udp.split(2).unwrap();
    assert_eq!((udp.splits(2), parts.len(), parts[0].local_addrs()[0]), (true, 1, address));
    let mut all: [&mut dyn Transport; 2] = [&mut udp, &mut *parts[0]];
    let mut seen = [0; 2];
    for _ in 0..32 {
        let client = client(address);
        // An eighth of what is free of one half, at most.
        for _ in 0..30 {
            client.send(b"x").unwrap();
        }
        let taken = all.each_mut().map(|part| {
            let mut into = Collect::up_to(100);
            let _open = part.poll(0, &mut into);
            for (_, from) in &into.requests {
                part.completed(&completion(*from));
            }
            into.requests.len()
        });
        let of = taken.iter().position(|&count| count > 0).expect("it has come");
        assert_eq!(taken.iter().sum::<usize>(), 16, "{taken:?}");
        seen[of] += 1;
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn what_is_lent_is_received_once_and_the_end_waits_for_receivers() {
    let (mut udp, address) = server(&UdpConfig::default());
    let lent = udp.lend_datagrams(3).expect("there are sockets");
    assert!(udp.lend_datagrams(3).is_none() && !udp.brings());
    let mut receivers: Vec<_> =
        (0..3).flat_map(|thread| lent.receivers(thread).unwrap()).map(|(_, it)| it).collect();
    let clients: Vec<UdpSocket> = (0..64).map(|_| client(address)).collect();
    for client in &clients {
        client.send(b"first").unwrap();
    }
    let mut got = Vec::new();
    for receiver in &mut receivers {
        while let Some(malformed) =
            receiver.receive(|payload, from, _| got.push((payload.to_vec(), from)))
        {
            assert_eq!(malformed, 0);
        }
    }
    let mut into = Collect::up_to(100);
    assert_eq!((udp.poll(0, &mut into), into.requests.len()), (Status::Open, 0));
    let reply = udp.reply();
    got.iter().for_each(|(payload, from)| reply.reply(*from, payload));
    clients.iter().for_each(|client| assert_eq!(receive(client), b"first"));
    // What they leave is the transport's.
    for client in &clients {
        client.send(b"second").unwrap();
    }
    udp.close();
    assert!(receivers.iter().all(|receiver| receiver.is_closing()));
    let mut into = Collect::up_to(100);
    assert_eq!((udp.poll(0, &mut into), into.requests.len()), (Status::Open, 64));
    drop(receivers);
    assert_eq!(udp.poll(0, &mut into), Status::Closed);
}
