//! Kernel TCP over loopback: what a peer's FIN says of its requests in progress.

use crate::common;

use common::tcp::{assert_ends, client, frame, receive, server};
use common::{Collect, completion, counter, poll_counter, poll_requests, poll_until};
use curtail_net::{OnFin, Status, Tcp, TcpConfig, Transport};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

fn cancels() -> TcpConfig {
    TcpConfig { on_fin: OnFin::Cancel, ..TcpConfig::default() }
}

fn http_cancels() -> TcpConfig {
    TcpConfig { on_fin: OnFin::Cancel, ..TcpConfig::http() }
}

/// Every connection there was has been released.
fn until_all_gone(tcp: &mut Tcp, into: &mut Collect) {
    let reply = tcp.reply();
    poll_until(tcp, into, |_, into, _| into.requests.iter().all(|(_, from)| reply.is_gone(*from)));
}

#[test]
fn it_cancels_what_is_in_progress_where_it_is_to() {
    for (config, request) in [(cancels(), frame(b"?")), (http_cancels(), GET.to_vec())] {
        let (mut tcp, address, reply) = server(&config);
        let mut goes = client(address);
        goes.write_all(&request).unwrap();
        let mut into = Collect::up_to(10);
        poll_requests(&mut tcp, &mut into, 1);
        let from = into.requests[0].1;
        assert!(!reply.is_gone(from));
        drop(goes);
        poll_counter(&mut tcp, &mut into, "tcp_hung_up", 1);
        assert!(reply.is_gone(from), "from then on it need not begin");
        reply.reply(from, b"too late");
        tcp.completed(&completion(from));
        assert_ends(tcp);
    }
}

#[test]
fn one_that_comes_with_the_request_cancels_it_too() {
    let (mut tcp, address, reply) = server(&http_cancels());
    let mut goes = client(address);
    goes.write_all(GET).unwrap();
    drop(goes);
    let mut into = Collect::up_to(10);
    poll_counter(&mut tcp, &mut into, "tcp_hung_up", 1);
    assert_eq!(into.requests.len(), 1, "its class counts it");
    let from = into.requests[0].1;
    assert!(reply.is_gone(from));
    tcp.completed(&completion(from));
    assert_ends(tcp);
}

#[test]
fn it_leaves_what_is_in_progress_alone_by_default() {
    let (mut tcp, address, reply) = server(&TcpConfig::default());
    let mut asks = client(address);
    asks.write_all(&frame(b"one").repeat(3)).unwrap();
    asks.shutdown(Shutdown::Write).unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 3);
    for (payload, from) in &into.requests {
        assert!(!reply.is_gone(*from));
        reply.reply(*from, payload);
        tcp.completed(&completion(*from));
    }
    until_all_gone(&mut tcp, &mut into);
    for _ in 0..3 {
        assert_eq!(receive(&mut asks), b"one");
    }
    assert_eq!(asks.read(&mut [0; 1]).unwrap(), 0, "and the end");
    assert_eq!((counter(&tcp, "tcp_hung_up"), reply.dropped()), (0, 0));
    assert_ends(tcp);
}

/// Of HTTP, too: what it sent at once is answered in turn.
#[test]
fn it_leaves_requests_of_http_alone_by_default() {
    let (mut tcp, address, reply) = server(&TcpConfig::http());
    let mut asks = client(address);
    asks.write_all(&GET.repeat(3)).unwrap();
    asks.shutdown(Shutdown::Write).unwrap();
    let mut into = Collect::up_to(10);
    for count in 1..=3 {
        poll_requests(&mut tcp, &mut into, count);
        let from = into.requests[count - 1].1;
        assert!(!reply.is_gone(from), "{count}");
        reply.reply(from, b"answer");
        tcp.completed(&completion(from));
    }
    until_all_gone(&mut tcp, &mut into);
    let mut answers = String::new();
    asks.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("\r\n\r\nanswer").count(), 3, "{answers}");
    assert_eq!((counter(&tcp, "tcp_hung_up"), reply.dropped()), (0, 0));
    assert_ends(tcp);
}

/// A peer that has closed its socket looks the same, until something is written to it.
#[test]
fn a_write_that_fails_is_a_departure() {
    let (mut tcp, address, reply) = server(&TcpConfig::http());
    let mut goes = client(address);
    goes.write_all(&GET.repeat(2)).unwrap();
    drop(goes);
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 1);
    let from = into.requests[0].1;
    assert!(!reply.is_gone(from));
    reply.reply(from, b"answer");
    tcp.completed(&completion(from));
    // The kernel's answer to that is a reset, whether the second one has begun or not.
    poll_until(&mut tcp, &mut into, |_, _, _| reply.is_gone(from));
    for (_, from) in &into.requests[1..] {
        tcp.completed(&completion(*from));
    }
    assert_ends(tcp);
}

/// The end of a request is reported after its answer: a client that has that may close at once.
#[test]
fn a_client_that_has_its_answer_may_go() {
    let (mut tcp, address, reply) = server(&http_cancels());
    let mut asks = client(address);
    asks.write_all(GET).unwrap();
    let mut into = Collect::up_to(10);
    poll_requests(&mut tcp, &mut into, 1);
    let from = into.requests[0].1;
    reply.reply(from, b"answer");
    let mut answer = Vec::new();
    asks.shutdown(Shutdown::Write).unwrap();
    // Its FIN is looked at before the end is reported.
    let (other, marker) = (client(address), "tcp_accepted");
    poll_counter(&mut tcp, &mut into, marker, 2);
    tcp.completed(&completion(from));
    until_all_gone(&mut tcp, &mut into);
    asks.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(b"\r\n\r\nanswer"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(counter(&tcp, "tcp_hung_up"), 0);
    drop(other);
    assert_ends(tcp);
}

#[test]
fn a_crowd_that_closes_leaves_nothing() {
    let (mut tcp, address, reply) = server(&cancels());
    let crowd: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut one = client(address);
            one.write_all(&frame(b"?").repeat(10)).unwrap();
            one
        })
        .collect();
    let mut into = Collect::up_to(2_000);
    poll_requests(&mut tcp, &mut into, 2_000);
    drop(crowd);
    until_all_gone(&mut tcp, &mut into);
    assert_eq!(counter(&tcp, "tcp_hung_up"), 200);
    for (_, from) in &into.requests {
        tcp.completed(&completion(*from));
    }
    tcp.close();
    poll_until(&mut tcp, &mut into, |_, _, status| status == Status::Closed);
    assert_eq!(counter(&tcp, "tcp_memory_bytes"), 0);
    assert_eq!(reply.dropped(), 0);
}
