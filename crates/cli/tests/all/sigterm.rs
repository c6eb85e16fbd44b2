//! SIGTERM in the middle of a load, under every policy: the server ends in time and by itself, and what
//! it completed has arrived.

use crate::server;

use curtail_policy::catalogue;
use rustix::process::Signal;
use server::Server;
use spin::protocol::{Answer, BYTES, Request, Status};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);
/// Requests under way on each connection.
const WINDOW: u64 = 32;
const CONNECTIONS: u64 = 3;

fn frame(tag: u64) -> Vec<u8> {
    // Every tenth is long: some are cut, where that is the policy's way.
    let service_ns = if tag.is_multiple_of(10) { 50_000 } else { 2_000 };
    let request = Request { tag, class: u16::from(service_ns > 10_000), service_ns };
    let mut frame = (BYTES as u32).to_le_bytes().to_vec();
    frame.extend(request.encode());
    frame
}

/// Keeps so many requests under way until the server closes; which were answered.
fn client(address: &str, answered: &AtomicU64) -> HashSet<u64> {
    let mut line = TcpStream::connect(address).unwrap();
    line.set_read_timeout(Some(STUCK)).unwrap();
    let mut answers = HashSet::new();
    let mut next = 0;
    let mut may_send = true;
    loop {
        while may_send && next < answers.len() as u64 + WINDOW {
            // Once it fails the server reads no more; answers may still be under way.
            may_send = line.write_all(&frame(next)).is_ok();
            next += 1;
        }
        let mut bytes = [0; 4 + BYTES];
        if line.read_exact(&mut bytes).is_err() {
            return answers;
        }
        assert_eq!(bytes[..4], (BYTES as u32).to_le_bytes());
        let answer = Answer::decode(&bytes[4..]).unwrap();
        assert_eq!(answer.status, Status::Done);
        assert!(answer.tag < next && answers.insert(answer.tag), "{} twice", answer.tag);
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

fn ends_in_the_middle(policy: &str) {
    let more = ["--policy", policy, "--workers", "2"];
    let server = Server::with("tcp://127.0.0.1:0", &more);
    let address = server.url.strip_prefix("tcp://").unwrap().to_owned();
    let answered = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (address, answered) = (address.clone(), answered.clone());
            thread::spawn(move || client(&address, &answered))
        })
        .collect();
    let begun = Instant::now();
    while answered.load(Ordering::SeqCst) < 500 {
        assert!(begun.elapsed() < STUCK, "{policy}: {answered:?}");
        thread::yield_now();
    }
    let ending = Instant::now();
    let told = server.stop(Signal::TERM);
    assert!(ending.elapsed() < STUCK / 2, "{policy}: {:?}", ending.elapsed());
    let answers: usize = clients.into_iter().map(|client| client.join().unwrap().len()).sum();
    let completed = told["completed"].as_u64().unwrap();
    assert_eq!(told["valid"], true, "{policy}: {told}");
    assert_eq!(told["dropped"], 0, "{policy}: {told}");
    assert_eq!(answers as u64, completed, "{policy}: completed answers were lost: {told}");
}

#[test]
fn a_server_ends_in_the_middle_of_a_load_under_every_policy() {
    for entry in catalogue() {
        ends_in_the_middle(entry.name);
    }
}
