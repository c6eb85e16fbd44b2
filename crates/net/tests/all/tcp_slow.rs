//! Kernel TCP over loopback: peers that don't read, don't finish, don't say anything; closing.

use crate::common;

use common::tcp::{poll_until_closed, server};
use common::{Collect, LONG, completion, counter, poll_counter, poll_requests, poll_until};
use curtail_net::{Peer, Status, Tcp, TcpConfig, Transport};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// More than the kernel takes for a peer that does not read, on any default configuration.
const MANY: usize = 100_000;

/// A client that has sent one request, and that request's peer.
fn connect(tcp: &mut Tcp, server: SocketAddr) -> (TcpStream, Peer) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&[1, 0, 0, 0, b'?']).unwrap();
    let mut into = Collect::up_to(1);
    poll_requests(tcp, &mut into, 1);
    (stream, into.requests[0].1)
}

fn until_closed(tcp: &mut Tcp) {
    poll_until(tcp, &mut Collect::default(), |_, _, status| status == Status::Closed);
}

#[test]
fn a_peer_that_never_reads_is_disconnected_and_others_are_served() {
    let (mut tcp, address, reply) =
        server(&TcpConfig { out_limit: 64 << 10, ..TcpConfig::default() });
    let (_deaf, deaf_peer) = connect(&mut tcp, address);
    let (mut good, good_peer) = connect(&mut tcp, address);
    let mut sent = 0;
    while counter(&tcp, "tcp_unread") == 0 {
        assert!(sent < MANY, "the limit was never reached");
        reply.reply(deaf_peer, &[0; 16 << 10]);
        sent += 1;
    }
    let at_limit = reply.dropped();
    reply.reply(deaf_peer, b"too late");
    assert_eq!(reply.dropped(), at_limit + 1);
    reply.reply(good_peer, b"fine");
    let mut answer = [0; 8];
    good.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\x04\0\0\0fine");
    // Of the deaf one's responses, those that waited are lost: at least what the limit holds.
    poll_until(&mut tcp, &mut Collect::up_to(1), |_, _, _| reply.dropped() > at_limit + 1);
    assert!(reply.dropped() >= at_limit + 1 + 4);
    assert_eq!(counter(&tcp, "tcp_unread"), 1);
    tcp.completed(&completion(deaf_peer));
    tcp.completed(&completion(good_peer));
    drop(good);
    tcp.close();
    until_closed(&mut tcp);
}

#[test]
fn a_peer_that_reads_late_gets_everything_in_order() {
    let (mut tcp, address, reply) =
        server(&TcpConfig { out_limit: 64 << 20, ..TcpConfig::default() });
    let (mut late, peer) = connect(&mut tcp, address);
    let payload = |number: u32| -> Vec<u8> {
        number.to_le_bytes().iter().copied().cycle().take(50_000).collect()
    };
    for number in 0..600 {
        reply.reply(peer, &payload(number));
    }
    tcp.completed(&completion(peer));
    tcp.close();
    let mut into = Collect::default();
    assert_eq!(tcp.poll(0, &mut into), Status::Open, "30 MB are not in the kernel");
    let reader = std::thread::spawn(move || {
        for number in 0..600 {
            let mut header = [0; 4];
            late.read_exact(&mut header).unwrap();
            assert_eq!(u32::from_le_bytes(header), 50_000);
            let mut got = vec![0; 50_000];
            late.read_exact(&mut got).unwrap();
            assert!(got == payload(number), "response {number} differs");
        }
        assert_eq!(late.read(&mut [0; 1]).unwrap(), 0);
    });
    until_closed(&mut tcp);
    reader.join().unwrap();
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn closing_waits_for_what_is_under_way() {
    let (mut tcp, address, reply) = server(&TcpConfig { linger: LONG, ..TcpConfig::default() });
    let (mut client, peer) = connect(&mut tcp, address);
    client.write_all(&[1, 0, 0, 0, b'!']).unwrap();
    tcp.close();
    assert!(TcpStream::connect(address).is_err(), "it does not listen any more");
    let mut into = Collect::up_to(10);
    for _ in 0..10 {
        assert_eq!(tcp.poll(0, &mut into), Status::Open);
    }
    assert!(into.requests.is_empty(), "nor read");
    reply.reply(peer, b"done");
    assert_eq!(tcp.poll(0, &mut into), Status::Open, "not completed yet");
    tcp.completed(&completion(peer));
    let mut answer = [0; 8];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\x04\0\0\0done");
    poll_until_closed(&mut tcp, &mut client);
    assert_eq!(tcp.poll(0, &mut into), Status::Open, "it lingers");
    drop(client);
    until_closed(&mut tcp);
    assert_eq!(tcp.poll(0, &mut into), Status::Closed);
}

#[test]
fn closing_ends_although_a_request_never_does() {
    let (mut tcp, address, reply) =
        server(&TcpConfig { linger: Duration::from_millis(20), ..TcpConfig::default() });
    let (mut client, peer) = connect(&mut tcp, address);
    tcp.close();
    until_closed(&mut tcp);
    assert!(client.read(&mut [0; 1]).is_err(), "a reset");
    reply.reply(peer, b"late");
    assert_eq!(reply.dropped(), 1);
}

#[test]
fn silence_and_unfinished_frames_end_a_connection_where_that_is_wanted() {
    let idle = Some(Duration::from_millis(30));
    let (mut tcp, address, reply) = server(&TcpConfig { idle, ..TcpConfig::default() });
    let silent = TcpStream::connect(address).unwrap();
    let (mut unfinished, peer) = connect(&mut tcp, address);
    unfinished.write_all(&[9, 0, 0, 0, 1, 2]).unwrap();
    let (working, working_peer) = connect(&mut tcp, address);
    reply.reply(peer, b"");
    tcp.completed(&completion(peer));
    let mut into = Collect::up_to(10);
    poll_counter(&mut tcp, &mut into, "tcp_idle", 2);
    for mut closed in [silent, unfinished] {
        closed.set_read_timeout(Some(LONG)).unwrap();
        let mut rest = Vec::new();
        // An end, or a reset where bytes had not been read; not a timeout.
        if let Err(error) = closed.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    // The third one has a request under way and is no less silent.
    reply.reply(working_peer, b"slow but sure");
    let mut working = working;
    let mut answer = [0; 17];
    working.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[4..], b"slow but sure");
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn dropping_the_transport_closes_its_connections() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let (mut client, peer) = connect(&mut tcp, address);
    drop(tcp);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    reply.reply(peer, b"late");
    assert_eq!(reply.dropped(), 1);
}
