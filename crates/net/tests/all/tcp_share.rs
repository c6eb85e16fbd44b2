//! Kernel TCP over loopback: what a connection may have, what all may have, and that it is returned.

use crate::common;

use common::tcp::{assert_ends, client, frame, receive, reset, server};
use common::{Collect, LONG, completion, counter, ended, poll_counter, poll_requests, poll_until};
use curtail_net::{Outcome, Peer, Reply, Tcp, TcpConfig, Transport};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn used(tcp: &Tcp) -> usize {
    counter(tcp, "tcp_memory_bytes") as usize
}

/// Asks, is answered by the test, and sees its answer: beside whatever else goes on.
fn round_trip(tcp: &mut Tcp, reply: &dyn Reply, client: &mut TcpStream, payload: &[u8]) {
    client.write_all(&frame(payload)).unwrap();
    let mut into = Collect::up_to(1_000_000);
    poll_until(tcp, &mut into, |_, into, _| into.requests.iter().any(|(had, _)| had == payload));
    for (had, from) in &into.requests {
        if had == payload {
            reply.reply(*from, had);
            tcp.completed(&completion(*from));
        }
    }
    assert!(receive(client) == payload);
}

/// Polls until nothing comes for a while although others write: what they may have, they have.
fn poll_until_settled(tcp: &mut Tcp, into: &mut Collect) {
    let begun = Instant::now();
    let mut seen = (0, Instant::now());
    while seen.1.elapsed().as_millis() < 100 {
        assert!(begun.elapsed() < LONG);
        tcp.poll(0, into);
        let now = into.requests.len() + used(tcp);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
    }
}

#[test]
fn one_connection_has_no_more_in_progress_than_it_may() {
    let config = TcpConfig { in_limit: MIB, ..TcpConfig::default() };
    let (mut tcp, address, reply) = server(&config);
    let mut greedy = client(address);
    let payload = vec![7; 64 * KIB];
    let bytes = frame(&payload).repeat(100);
    let writer = std::thread::spawn(move || {
        greedy.write_all(&bytes).unwrap();
        greedy
    });
    let mut into = Collect::up_to(1_000);
    poll_counter(&mut tcp, &mut into, "tcp_paused", 1);
    poll_until_settled(&mut tcp, &mut into);
    assert!((14..=17).contains(&into.requests.len()), "{}", into.requests.len());
    assert!(used(&tcp) < 2 * MIB);
    round_trip(&mut tcp, &*reply, &mut client(address), b"another");
    // Each that ends makes room for one.
    let mut done = 0;
    while done < 100 {
        poll_requests(&mut tcp, &mut into, done + 1);
        tcp.completed(&completion(into.requests[done].1));
        done += 1;
    }
    assert!(into.requests.iter().all(|(had, _)| *had == payload));
    drop(writer.join().unwrap());
    assert_ends(tcp);
}

#[test]
fn a_request_larger_than_the_share_is_served_alone() {
    let config = TcpConfig { in_limit: KIB, ..TcpConfig::default() };
    let (mut tcp, address, reply) = server(&config);
    let mut large = client(address);
    for byte in 0..4 {
        round_trip(&mut tcp, &*reply, &mut large, &[byte; 100 * KIB]);
    }
    drop(large);
    assert_ends(tcp);
}

/// Many peers that do `what`, in a server whose connections have 8 MiB together.
fn beside(count: usize, what: impl Fn(&mut TcpStream)) -> (Tcp, SocketAddr, Vec<TcpStream>) {
    let (tcp, address, _) = server(&TcpConfig { memory: 8 * MIB, ..TcpConfig::default() });
    let mut peers: Vec<_> = (0..count).map(|_| client(address)).collect();
    for peer in &mut peers {
        peer.set_nonblocking(true).unwrap();
        what(peer);
    }
    (tcp, address, peers)
}

/// As many bytes of it as the kernel takes without waiting.
fn push(peer: &mut TcpStream, bytes: &[u8]) {
    let mut left = bytes;
    while let Ok(count @ 1..) = peer.write(left) {
        left = &left[count..];
    }
}

#[test]
fn begun_frames_of_many_leave_others_theirs() {
    let begun = &frame(&vec![1; MIB])[..900 * KIB];
    let (mut tcp, address, mut peers) = beside(64, |peer| push(peer, begun));
    let reply = tcp.reply();
    let mut into = Collect::up_to(1_000);
    for _ in 0..20 {
        // They go on as far as they are read.
        peers.iter_mut().for_each(|peer| push(peer, &[1; 64 * KIB]));
        poll_until_settled(&mut tcp, &mut into);
        if counter(&tcp, "tcp_starved") > 0 {
            break;
        }
    }
    assert!(counter(&tcp, "tcp_starved") > 0);
    assert!(used(&tcp) <= 9 * MIB, "{}", used(&tcp));
    for payload in [&b"small"[..], &[5; 10 * KIB]] {
        round_trip(&mut tcp, &*reply, &mut client(address), payload);
    }
    assert!(counter(&tcp, "tcp_evicted") > 0, "the first had taken it all");
    peers.into_iter().for_each(reset);
    poll_until(&mut tcp, &mut into, |tcp, _, _| counter(tcp, "tcp_memory_bytes") < MIB as u64);
    drop(into);
    assert_ends(tcp);
}

#[test]
fn answers_that_many_never_read_leave_others_theirs() {
    let (mut tcp, address, peers) = beside(40, |peer| push(peer, &frame(b"?")));
    let reply = tcp.reply();
    let mut into = Collect::up_to(40);
    poll_requests(&mut tcp, &mut into, 40);
    // Far more than all may have: a connection that lets its responses pile up is cut.
    for _ in 0..80 {
        for (_, from) in &into.requests {
            reply.reply(*from, &[0; 64 * KIB]);
        }
        assert!(used(&tcp) <= 9 * MIB, "{}", used(&tcp));
    }
    into.requests.iter().for_each(|(_, from)| tcp.completed(&completion(*from)));
    assert_eq!(counter(&tcp, "tcp_unread"), 40);
    round_trip(&mut tcp, &*reply, &mut client(address), &[3; 10 * KIB]);
    poll_until(&mut tcp, &mut into, |tcp, _, _| counter(tcp, "tcp_memory_bytes") < MIB as u64);
    drop(peers);
    assert_ends(tcp);
}

#[test]
fn requests_in_progress_of_many_leave_others_theirs() {
    let bytes = frame(&vec![2; 100 * KIB]).repeat(20);
    let (mut tcp, address, mut peers) = beside(30, |peer| push(peer, &bytes));
    let reply = tcp.reply();
    let mut into = Collect::up_to(10_000);
    poll_until_settled(&mut tcp, &mut into);
    assert!(into.requests.len() > 30 && used(&tcp) <= 9 * MIB, "{}", used(&tcp));
    round_trip(&mut tcp, &*reply, &mut client(address), b"small");
    // They are brought on as others end.
    let mut done = 0;
    while done < into.requests.len() {
        tcp.completed(&completion(into.requests[done].1));
        done += 1;
        if done == into.requests.len() {
            poll_until_settled(&mut tcp, &mut into);
        }
    }
    let whole = |(payload, _): &&(Vec<u8>, Peer)| payload.len() == 100 * KIB;
    assert!(into.requests.iter().filter(whole).count() > 100);
    peers.drain(..).for_each(reset);
    assert_ends(tcp);
}

#[test]
fn requests_of_a_peer_that_has_gone_count_until_they_have_ended() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut goes = client(address);
    goes.write_all(&frame(&vec![1; 10 * KIB]).repeat(20)).unwrap();
    let mut into = Collect::up_to(20);
    poll_requests(&mut tcp, &mut into, 20);
    let from = into.requests[0].1;
    assert!(!reply.is_gone(from));
    reset(goes);
    poll_until(&mut tcp, &mut into, |_, _, _| reply.is_gone(from));
    assert!(used(&tcp) >= 200 * KIB);
    for _ in 0..20 {
        tcp.completed(&ended(from, Outcome::Orphaned));
    }
    assert_eq!(counter(&tcp, "tcp_requests_orphaned"), 20);
    assert_ends(tcp);
}
