//! Kernel TCP over loopback: requests, answers and the ends of connections.

use crate::common;

use common::tcp::{
    assert_closed, assert_ends, client, frame, poll_until_closed, receive, reset, server,
};
use common::{
    Collect, completion, counter, loopback, loopbacks, poll_counter, poll_requests, poll_until,
};
use curtail_net::{OpenError, Peer, Status, Tcp, TcpConfig, Transport, Waiter, Wire};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

#[test]
fn requests_come_and_answers_go_on_every_address() {
    let mut tcp = Tcp::bind(&loopbacks(), &TcpConfig::default()).unwrap();
    let reply = tcp.reply();
    for address in tcp.local_addrs() {
        let mut client = client(address);
        client.write_all(&[frame(b"one"), frame(b""), frame(&[9; 100_000])].concat()).unwrap();
        let mut into = Collect::up_to(10);
        poll_requests(&mut tcp, &mut into, 3);
        assert_eq!(into.payloads(), [b"one".to_vec(), vec![], vec![9; 100_000]]);
        for (payload, from) in &into.requests {
            reply.reply(*from, payload);
            tcp.completed(&completion(*from));
        }
        assert_eq!(receive(&mut client), b"one");
        assert_eq!(receive(&mut client), b"");
        assert_eq!(receive(&mut client), vec![9; 100_000]);
    }
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn short_frames_have_sixteen_bits_of_length() {
    let config = TcpConfig { wire: Wire::ShortFrames, ..TcpConfig::default() };
    let (mut tcp, address, reply) = server(&config);
    let mut client = client(address);
    client.write_all(b"\x00\x03one\x00\x00\x01\x00").unwrap();
    client.write_all(&[7; 256]).unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 3);
    assert_eq!(into.payloads(), [b"one".to_vec(), vec![], vec![7; 256]]);
    let from = into.requests[0].1;
    reply.reply(from, b"two");
    reply.reply(from, &vec![9; 65_536]);
    assert_eq!(reply.dropped(), 1, "it has no length");
    reply.reply(from, &vec![8; 65_535]);
    let mut came = vec![0; 5 + 2 + 65_535];
    client.read_exact(&mut came).unwrap();
    assert_eq!(came[..7], *b"\x00\x03two\xff\xff");
    assert!(came[7..].iter().all(|byte| *byte == 8));
}

#[test]
fn without_room_nothing_is_lost() {
    let (mut tcp, address, _) = server(&TcpConfig::default());
    let mut client = client(address);
    let writer = std::thread::spawn(move || {
        // Far more than the kernel's buffers hold: this only ends because the server reads.
        for number in 0..200_u32 {
            let mut payload = vec![0; 100_000];
            payload[..4].copy_from_slice(&number.to_le_bytes());
            client.write_all(&frame(&payload)).unwrap();
        }
        client
    });
    let mut got = 0_u32;
    while got < 200 {
        assert_eq!(tcp.poll(0, &mut Collect::up_to(0)), Status::Open);
        let mut into = Collect::up_to(3.min(200 - got as usize));
        let wanted = into.limit;
        poll_requests(&mut tcp, &mut into, wanted);
        for (payload, from) in &into.requests {
            assert_eq!(payload[..4], got.to_le_bytes());
            got += 1;
            tcp.completed(&completion(*from));
        }
    }
    writer.join().unwrap();
}

/// Everything that was written has reached the other end's kernel.
fn delivered(stream: &TcpStream) {
    for _ in 0..1_000_000 {
        let mut unacknowledged: libc::c_int = 0;
        // SAFETY: this request writes one `int`, to the place that is passed.
        let answer = unsafe {
            libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut unacknowledged))
        };
        assert_eq!(answer, 0);
        if unacknowledged == 0 {
            return;
        }
        std::thread::yield_now();
    }
    panic!("not delivered");
}

#[test]
fn a_busy_connection_leaves_others_their_turn() {
    let (mut tcp, address, _) = server(&TcpConfig { burst: 4, ..TcpConfig::default() });
    let [mut one, mut calm, mut other] = std::array::from_fn(|_| client(address));
    poll_counter(&mut tcp, &mut Collect::default(), "tcp_accepted", 3);
    one.write_all(&frame(b"busy").repeat(100)).unwrap();
    delivered(&one);
    calm.write_all(&frame(b"calm")).unwrap();
    delivered(&calm);
    other.write_all(&frame(b"busy").repeat(100)).unwrap();
    delivered(&other);
    // There is room for one burst at a time. If turns were not taken in order, the first or the
    // last connection would have all of it.
    let mut calm = 0;
    for _ in 0..3 {
        let mut into = Collect::up_to(4);
        tcp.poll(0, &mut into);
        assert_eq!(into.requests.len(), 4);
        calm += into.payloads().iter().filter(|payload| *payload == b"calm").count();
    }
    assert_eq!(calm, 1);
    let mut rest = Collect::up_to(1_000);
    poll_requests(&mut tcp, &mut rest, 201 - 12);
}

#[test]
fn what_one_poll_leaves_although_there_is_room_keeps_the_descriptor_readable() {
    let (mut tcp, address, _) = server(&TcpConfig { burst: 1, ..TcpConfig::default() });
    let mut client = client(address);
    client.write_all(&frame(b"x").repeat(2_000)).unwrap();
    delivered(&client);
    let mut into = Collect::up_to(5_000);
    poll_requests(&mut tcp, &mut into, 1);
    assert!(into.requests.len() < 2_000, "one poll is bounded");
    // Sleeps before each further poll.
    poll_requests(&mut tcp, &mut into, 2_000);
    let mut waiter = Waiter::new(&tcp.wait_fds()).unwrap();
    tcp.poll(0, &mut into);
    assert!(!waiter.wait(Some(Duration::ZERO)).unwrap(), "and not for nothing");
}

#[test]
fn a_frame_above_the_limit_ends_the_requests_not_the_answers() {
    let (mut tcp, address, reply) = server(&TcpConfig { limit: 10, ..TcpConfig::default() });
    let mut client = client(address);
    client.write_all(&[frame(b"short"), frame(&[0; 11]), frame(b"never")].concat()).unwrap();
    let mut into = Collect::up_to(10);
    poll_counter(&mut tcp, &mut into, "tcp_too_long", 1);
    assert_eq!((into.payloads(), into.malformed), (vec![b"short".to_vec()], 1));
    let from = into.requests[0].1;
    reply.reply(from, b"answer");
    tcp.completed(&completion(from));
    assert_eq!(receive(&mut client), b"answer");
    poll_until_closed(&mut tcp, &mut client);
    drop(client);
    assert_ends(tcp);
}

#[test]
fn a_stream_that_ends_within_a_frame_is_malformed() {
    let (mut tcp, address, _) = server(&TcpConfig::default());
    let mut client = client(address);
    client.write_all(&frame(b"whole")).unwrap();
    client.write_all(&frame(b"not whole")[..7]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut into = Collect::up_to(10);
    poll_counter(&mut tcp, &mut into, "tcp_cut", 1);
    assert_eq!((into.payloads(), into.malformed), (vec![b"whole".to_vec()], 1));
    tcp.completed(&completion(into.requests[0].1));
    poll_until_closed(&mut tcp, &mut client);
    assert_ends(tcp);
}

#[test]
fn answers_go_out_after_the_peers_fin() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut client = client(address);
    client.write_all(&[frame(b"1"), frame(b"2"), frame(b"3")].concat()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    // With room for one at a time, the FIN is seen long before the last request.
    let mut into = Collect::default();
    for room in 1..=3 {
        into.limit = room;
        poll_requests(&mut tcp, &mut into, room);
    }
    into.limit = 10;
    tcp.poll(0, &mut into);
    for (payload, from) in into.requests {
        reply.reply(from, &payload);
        tcp.completed(&completion(from));
    }
    for expected in [b"1", b"2", b"3"] {
        assert_eq!(receive(&mut client), expected);
    }
    // Now nothing is under way, and whether the FIN was read above or is now, that is the end.
    poll_until_closed(&mut tcp, &mut client);
    assert_eq!(reply.dropped(), 0);
    assert_ends(tcp);
}

#[test]
fn an_answer_never_reaches_the_next_owner_of_a_slot() {
    let (mut tcp, address, reply) = server(&TcpConfig { connections: 1, ..TcpConfig::default() });
    let mut first = client(address);
    first.write_all(&frame(b"first")).unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 1);
    let old = into.requests[0].1;
    reset(first);
    // The only place becomes free; until the server has noticed, others are refused.
    let mut second = loop {
        let refused = counter(&tcp, "tcp_refused");
        let mut second = client(address);
        second.write_all(&frame(b"second")).unwrap();
        poll_until(&mut tcp, &mut into, |tcp, into, _| {
            into.requests.len() == 2 || counter(tcp, "tcp_refused") > refused
        });
        if into.requests.len() == 2 {
            break second;
        }
    };
    let new = into.requests[1].1;
    let (Peer::Tcp { connection: a, generation: g }, Peer::Tcp { connection: b, generation: h }) =
        (old, new)
    else {
        panic!("not TCP peers: {old:?} {new:?}")
    };
    assert!(a == b && g != h);
    reply.reply(old, b"for the first");
    assert_eq!(reply.dropped(), 1);
    tcp.completed(&completion(old));
    reply.reply(new, b"for the second");
    assert_eq!(receive(&mut second), b"for the second");
    // The old completion has not been taken for the new request's.
    second.shutdown(Shutdown::Write).unwrap();
    tcp.poll(0, &mut into);
    reply.reply(new, b"more");
    assert_eq!(receive(&mut second), b"more");
    tcp.completed(&completion(new));
}

#[test]
fn a_reset_ends_everything_at_once() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut client = client(address);
    client.write_all(&frame(b"bye")).unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 1);
    reset(client);
    tcp.close();
    poll_until(&mut tcp, &mut into, |_, _, status| status == Status::Closed);
    reply.reply(into.requests[0].1, b"nobody");
    assert_eq!(reply.dropped(), 1);
}

#[test]
fn a_flood_of_connections_gets_the_places_that_there_are() {
    let (mut tcp, address, reply) = server(&TcpConfig { connections: 4, ..TcpConfig::default() });
    let mut clients: Vec<_> = (0..12).map(|_| client(address)).collect();
    let mut into = Collect::up_to(100);
    poll_until(&mut tcp, &mut into, |tcp, _, _| {
        counter(tcp, "tcp_accepted") + counter(tcp, "tcp_refused") == 12
    });
    assert_eq!(counter(&tcp, "tcp_refused"), 8);
    for refused in &mut clients[4..] {
        assert_closed(refused);
    }
    for client in &mut clients[..4] {
        client.write_all(&frame(b"in")).unwrap();
    }
    poll_requests(&mut tcp, &mut into, 4);
    for (payload, from) in std::mem::take(&mut into.requests) {
        reply.reply(from, &payload);
        tcp.completed(&completion(from));
    }
    for mut client in clients.drain(..4) {
        assert_eq!(receive(&mut client), b"in");
        client.shutdown(Shutdown::Write).unwrap();
        poll_until(&mut tcp, &mut into, |_, _, _| {
            client.set_nonblocking(true).unwrap();
            matches!((&client).read(&mut [0; 1]), Ok(0))
        });
    }
    // The places are free again.
    let mut next = client(address);
    next.write_all(&frame(b"later")).unwrap();
    poll_requests(&mut tcp, &mut into, 1);
    assert_eq!(counter(&tcp, "tcp_accepted"), 5);
}

#[test]
fn a_taken_address_is_an_error_of_its_own() {
    let (_tcp, address, _) = server(&TcpConfig::default());
    let error = Tcp::bind(&[address], &TcpConfig::default()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { address: taken } if taken == address), "{error}");
    let config = TcpConfig { connections: 0, ..TcpConfig::default() };
    let error = Tcp::bind(&[loopback()], &config).err().unwrap();
    assert!(matches!(error, OpenError::Range { .. }), "{error}");
}
