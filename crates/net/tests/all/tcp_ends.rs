//! Kernel TCP over loopback: whatever ends a connection, completed answers arrive, and the end comes.

use crate::common;

use common::tcp::{assert_ends, client, frame, poll_until_closed, receive, reset, server};
use common::{Collect, LONG, completion, counter, poll_counter, poll_requests, poll_until};
use curtail_net::{Peer, Reply, Status, Tcp, TcpConfig, Transport};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ASKED: usize = 60;
/// Sixty of them are more than kernels take for a peer that does not read yet, and fewer than a
/// connection may have waiting.
const ANSWER: usize = 64 << 10;

fn answer_all(tcp: &mut Tcp, reply: &dyn Reply, into: &Collect) {
    for (number, (_, from)) in into.requests.iter().enumerate() {
        reply.reply(*from, &[number as u8; ANSWER]);
        tcp.completed(&completion(*from));
    }
}

/// Reads all answers, and then the end.
fn reader(mut client: TcpStream) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for number in 0..ASKED {
            assert!(receive(&mut client) == [number as u8; ANSWER], "answer {number} differs");
        }
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "and a clean end");
    })
}

fn until_closed(tcp: &mut Tcp) {
    poll_until(tcp, &mut Collect::default(), |_, _, status| status == Status::Closed);
}

/// The first connection to have had the slot has been released.
fn until_gone(tcp: &mut Tcp, connection: u32) {
    let (reply, peer) = (tcp.reply(), Peer::Tcp { connection, generation: 0 });
    poll_until(tcp, &mut Collect::up_to(100), |_, _, _| reply.is_gone(peer));
}

#[test]
fn answers_arrive_although_another_request_follows_the_close() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut client = client(address);
    client.write_all(&frame(b"GET").repeat(ASKED)).unwrap();
    let mut into = Collect::up_to(ASKED);
    poll_requests(&mut tcp, &mut into, ASKED);
    answer_all(&mut tcp, &*reply, &into);
    tcp.close();
    client.write_all(&frame(b"one more")).unwrap();
    let reader = reader(client);
    until_closed(&mut tcp);
    reader.join().unwrap();
    assert_eq!(reply.dropped(), 0);
    assert_ends(tcp);
}

#[test]
fn answers_arrive_although_a_frame_behind_is_too_long() {
    let (mut tcp, address, reply) = server(&TcpConfig { limit: 64, ..TcpConfig::default() });
    let mut client = client(address);
    let bytes = [frame(b"GET").repeat(ASKED), frame(&[0; 300_000])].concat();
    client.write_all(&bytes).unwrap();
    let mut into = Collect::up_to(2 * ASKED);
    poll_counter(&mut tcp, &mut into, "tcp_too_long", 1);
    assert_eq!(into.requests.len(), ASKED);
    answer_all(&mut tcp, &*reply, &into);
    let reader = reader(client);
    until_gone(&mut tcp, 0);
    reader.join().unwrap();
    assert_eq!(reply.dropped(), 0);
    assert_ends(tcp);
}

#[test]
fn frames_that_were_read_before_the_close_are_served() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut client = client(address);
    client.write_all(&frame(b"GET").repeat(ASKED)).unwrap();
    // One read takes them all, and there is room for one.
    let mut into = Collect::up_to(1);
    poll_requests(&mut tcp, &mut into, 1);
    tcp.close();
    into.limit = ASKED;
    poll_requests(&mut tcp, &mut into, ASKED);
    answer_all(&mut tcp, &*reply, &into);
    let reader = reader(client);
    until_closed(&mut tcp);
    reader.join().unwrap();
}

#[test]
fn a_peer_that_never_closes_is_not_waited_for_long() {
    let fin_wait = Duration::from_millis(30);
    let (mut tcp, address, _) = server(&TcpConfig { fin_wait, ..TcpConfig::default() });
    let mut client = client(address);
    poll_counter(&mut tcp, &mut Collect::default(), "tcp_accepted", 1);
    tcp.close();
    poll_until_closed(&mut tcp, &mut client);
    until_closed(&mut tcp);
    assert_eq!(counter(&tcp, "tcp_no_fin"), 1);
}

#[test]
fn a_peer_that_never_stops_sending_is_not_read_for_ever() {
    let fin_wait = Duration::from_millis(200);
    let (mut tcp, address, _) = server(&TcpConfig { limit: 8, fin_wait, ..TcpConfig::default() });
    let mut client = client(address);
    let flood = std::thread::spawn(move || {
        let begun = Instant::now();
        while client.write_all(&[0xff; 64 << 10]).is_ok() {
            assert!(begun.elapsed() < LONG, "it is read for ever");
        }
    });
    until_gone(&mut tcp, 0);
    flood.join().unwrap();
    assert_eq!(counter(&tcp, "tcp_too_long"), 1);
    assert_ends(tcp);
}

#[test]
fn who_begins_a_frame_ends_it_in_time() {
    let stall = Some(Duration::from_millis(50));
    let (mut tcp, address, reply) = server(&TcpConfig { stall, ..TcpConfig::default() });
    let [mut slow, mut quiet, mut busy] = std::array::from_fn(|_| client(address));
    // Behind a request that is in progress: time enough while it is.
    busy.write_all(&[frame(b"work"), vec![9, 0]].concat()).unwrap();
    quiet.write_all(&frame(b"nothing more")).unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 2);
    let from = |name: &[u8], into: &Collect| {
        into.requests.iter().find(|(payload, _)| payload == name).unwrap().1
    };
    tcp.completed(&completion(from(b"nothing more", &into)));
    // A byte now and then is no excuse.
    slow.write_all(&[100, 0]).unwrap();
    let drip = std::thread::spawn(move || {
        let begun = Instant::now();
        while slow.write_all(&[0]).is_ok() {
            assert!(begun.elapsed() < LONG, "it may take for ever");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    until_gone(&mut tcp, 0);
    drip.join().unwrap();
    assert_eq!(counter(&tcp, "tcp_stalled"), 1);
    let worker = from(b"work", &into);
    reply.reply(worker, b"answer");
    tcp.completed(&completion(worker));
    assert_eq!(receive(&mut busy), b"answer");
    // From now on, nothing excuses that one either.
    poll_counter(&mut tcp, &mut into, "tcp_stalled", 2);
    quiet.write_all(&frame(b"still here")).unwrap();
    poll_requests(&mut tcp, &mut into, 3);
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn who_has_answers_waiting_takes_some_in_time() {
    let stall = Some(Duration::from_millis(50));
    let (mut tcp, address, reply) = server(&TcpConfig { stall, ..TcpConfig::default() });
    let mut deaf = client(address);
    deaf.write_all(&frame(b"?")).unwrap();
    let mut into = Collect::up_to(1);
    poll_requests(&mut tcp, &mut into, 1);
    let from = into.requests[0].1;
    while counter(&tcp, "tcp_memory_bytes") < 1 << 20 {
        reply.reply(from, &[0; ANSWER]);
    }
    poll_counter(&mut tcp, &mut into, "tcp_stalled", 1);
    poll_until(&mut tcp, &mut into, |_, _, _| reply.is_gone(from));
    assert!(reply.dropped() > 0);
    // What it asked still counts until it has ended.
    tcp.completed(&completion(from));
    assert_ends(tcp);
}

#[test]
fn a_storm_of_resets_is_dealt_with_in_pieces() {
    let (mut tcp, address, _) = server(&TcpConfig::default());
    let clients: Vec<_> = (0..200).map(|_| client(address)).collect();
    let mut into = Collect::up_to(1_000);
    let mut most = 0;
    let mut accepted = 0;
    let begun = Instant::now();
    while accepted < 200 {
        assert!(begun.elapsed() < LONG);
        tcp.poll(0, &mut into);
        let now = counter(&tcp, "tcp_accepted");
        most = most.max(now - accepted);
        accepted = now;
    }
    assert!(most <= 8, "{most} in one poll");
    let reply = tcp.reply();
    clients.into_iter().for_each(reset);
    let living = || {
        let peer = |connection| Peer::Tcp { connection, generation: 0 };
        (0..200).filter(|&slot| !reply.is_gone(peer(slot))).count()
    };
    let (mut left, mut most) = (200, 0);
    poll_until(&mut tcp, &mut into, |_, _, _| {
        let now = living();
        most = most.max(left - now);
        left = now;
        left == 0
    });
    assert!(most <= 16, "{most} in one poll");
    assert_ends(tcp);
}
