//! Kernel TCP over loopback: many at a time, and noise.

use crate::common;

use common::tcp::{assert_closed, client, frame, receive, reset, server};
use common::{Collect, Echo, completion, counter, poll_requests, poll_until};
use curtail_net::{Status, TcpConfig, Transport};
use std::io::Write;

#[test]
fn many_clients_with_many_requests_under_way() {
    let (tcp, address, _) = server(&TcpConfig::default());
    let echo = Echo::start(Box::new(tcp));
    let clients: Vec<_> = (0..16_u8)
        .map(|id| {
            std::thread::spawn(move || {
                let mut stream = client(address);
                let questions: Vec<_> =
                    (0..200).map(|round| vec![id; 1 + round * 7 % 300]).collect();
                for window in questions.chunks(20) {
                    let bytes: Vec<u8> =
                        window.iter().flat_map(|question| frame(question)).collect();
                    // In pieces that no frame boundary cares about.
                    for piece in bytes.chunks(111) {
                        stream.write_all(piece).unwrap();
                    }
                    for question in window {
                        assert_eq!(receive(&mut stream), *question);
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let (transport, malformed) = echo.stop();
    assert_eq!(malformed, 0);
    assert_eq!(counter(&*transport, "tcp_accepted"), 16);
    assert_eq!(counter(&*transport, "tcp_responses_dropped"), 0);
}

#[test]
fn workers_answer_one_connection_from_many_threads() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut client = client(address);
    client.write_all(&frame(b"go")).unwrap();
    let mut into = Collect::up_to(1);
    poll_requests(&mut tcp, &mut into, 1);
    let from = into.requests[0].1;
    let workers: Vec<_> = (0..4_u8)
        .map(|id| {
            let reply = reply.clone();
            std::thread::spawn(move || {
                for round in 0..500_usize {
                    reply.reply(from, &vec![id; round]);
                }
            })
        })
        .collect();
    let reader = std::thread::spawn(move || {
        // Of each worker, in order and whole.
        let mut next = [0_usize; 4];
        let mut empty = 0;
        for _ in 0..2_000 {
            let payload = receive(&mut client);
            let Some(&id) = payload.first() else {
                empty += 1;
                continue;
            };
            let expected = &mut next[usize::from(id)];
            *expected += 1;
            assert_eq!(payload, vec![id; *expected]);
        }
        assert_eq!((next, empty), ([499; 4], 4));
        client
    });
    for worker in workers {
        worker.join().unwrap();
    }
    tcp.completed(&completion(from));
    // What did not fit into the kernel is flushed by the dispatcher.
    tcp.close();
    poll_until(&mut tcp, &mut into, |_, _, status| status == Status::Closed);
    assert_closed(&mut reader.join().unwrap());
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn noise_is_never_fatal() {
    let (tcp, address, _) = server(&TcpConfig { limit: 1 << 16, ..TcpConfig::default() });
    let echo = Echo::start(Box::new(tcp));
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for _ in 0..200 {
        let mut noise = client(address);
        // Headers of small numbers make frames, cuts and oversized frames likely.
        let length = random() % 300;
        let bytes: Vec<u8> =
            (0..length).map(|at| (random() % if at % 4 < 2 { 16 } else { 2 }) as u8).collect();
        // The server may have closed already.
        let _ = noise.write_all(&bytes);
        if random() % 2 == 0 {
            reset(noise);
        }
    }
    let mut good = client(address);
    good.write_all(&frame(b"still there")).unwrap();
    assert_eq!(receive(&mut good), b"still there");
    drop(good);
    let (transport, malformed) = echo.stop();
    let counted = counter(&*transport, "tcp_too_long") + counter(&*transport, "tcp_cut");
    assert!(malformed > 0 && malformed == counted, "{malformed} {counted}");
}
