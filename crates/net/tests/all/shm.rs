//! Shared memory: both sides well-behaved.

use crate::common;

use common::{Collect, Echo, LONG, completion, counter, ended, poll_requests, poll_until};
use curtail_net::{
    NoResponse, OpenError, Outcome, Reason, Shm, ShmClient, ShmConfig, ShmRefused, Status,
    Transport, open,
};
use std::collections::HashSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file of its own for each test.
pub(crate) fn file() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("curtail-shm-{}-{number}.sock", std::process::id()))
}

pub(crate) fn small() -> ShmConfig {
    ShmConfig { ring: 4_096, sessions: 3, requests: 8, ..ShmConfig::default() }
}

/// A transport that nobody polls but the test, and a client of it.
pub(crate) fn pair(config: &ShmConfig) -> (Shm, ShmClient) {
    let path = file();
    let mut shm = Shm::listen(&path, config).unwrap();
    let client = join(&mut shm, &path);
    (shm, client)
}

pub(crate) fn join(shm: &mut Shm, path: &std::path::Path) -> ShmClient {
    let path = path.to_owned();
    let before = counter(shm, "shm_accepted");
    let client = std::thread::spawn(move || ShmClient::connect(path).unwrap());
    poll_until(shm, &mut Collect::default(), |shm, _, _| counter(shm, "shm_accepted") > before);
    client.join().unwrap()
}

/// The answers that there are by now, at least one.
fn answers(client: &mut ShmClient) -> Vec<(u32, Result<Vec<u8>, NoResponse>)> {
    let mut all = Vec::new();
    loop {
        let mut take = |tag, answer: Result<&[u8], _>| all.push((tag, answer.map(<[u8]>::to_vec)));
        if client.receive(&mut take).expect("it lasts") > 0 {
            return all;
        }
        client.wait(Some(LONG)).unwrap();
    }
}

#[test]
fn every_size_comes_back() {
    let path = file();
    let shm = open(&format!("shm://{}?ring=4k&requests=5", path.display())).unwrap();
    assert_eq!(shm.describe(), format!("shm://{}", path.display()));
    let echo = Echo::start(shm);
    let mut client = ShmClient::connect(&path).unwrap();
    let most = client.most_bytes();
    assert_eq!(most, 2_040);
    for len in 0..=most {
        let question: Vec<u8> = (0..len).map(|at| (at * 3 + len) as u8).collect();
        assert_eq!(client.call(&question).unwrap(), question);
    }
    assert_eq!(client.call(&vec![0; most + 1]), Err(NoResponse::TooLong));
    assert_eq!(client.under_way(), 0);
    let (transport, malformed) = echo.stop();
    assert_eq!((transport.reply().dropped(), malformed), (0, 0));
    assert_eq!(client.call(b"?"), Err(NoResponse::Closed));
    assert!(!path.exists(), "the file goes with the transport");
}

#[test]
fn many_sessions_with_many_under_way() {
    let path = file();
    let config = ShmConfig { ring: 4_096, sessions: 8, requests: 64, ..ShmConfig::default() };
    let echo = Echo::start(Box::new(Shm::listen(&path, &config).unwrap()));
    let threads: Vec<_> = (0..8_u32)
        .map(|id| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut client = ShmClient::connect(&path).unwrap();
                let (mut sent, mut come) = (0_u32, HashSet::new());
                while come.len() < 5_000 {
                    let mut full = sent == 5_000;
                    while !full {
                        let question = [id, sent].map(u32::to_le_bytes).concat();
                        let padded = [&question[..], &vec![7; sent as usize % 100]].concat();
                        match client.submit(&padded) {
                            Ok(_) => sent += 1,
                            Err(why) => assert_eq!(why, ShmRefused::Full),
                        }
                        full = client.under_way() == 64 || sent == 5_000 || sent.is_multiple_of(17);
                    }
                    let mut take = |_, answer: Result<&[u8], NoResponse>| {
                        let answer = answer.unwrap();
                        let word = |at| u32::from_le_bytes(answer[at..at + 4].try_into().unwrap());
                        assert_eq!(word(0), id);
                        assert_eq!(answer.len(), 8 + word(4) as usize % 100);
                        assert!(come.insert(word(4)), "twice");
                    };
                    if client.receive(&mut take).unwrap() == 0 {
                        client.wait(Some(LONG)).unwrap();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (transport, malformed) = echo.stop();
    assert_eq!(
        (transport.reply().dropped(), malformed, counter(&*transport, "shm_lies")),
        (0, 0, 0)
    );
    assert_eq!(counter(&*transport, "shm_accepted"), 8);
}

#[test]
fn a_request_without_an_answer_says_why() {
    let (mut shm, mut client) = pair(&small());
    let (reply, mut into) = (shm.reply(), Collect::up_to(100));
    let outcomes = [Outcome::Done, Outcome::Failed, Outcome::Dropped, Outcome::Cancelled];
    let tags: Vec<_> = (0..5).map(|n| client.submit(&[n]).unwrap()).collect();
    poll_requests(&mut shm, &mut into, 5);
    for ((_, peer), outcome) in into.requests.iter().zip(outcomes) {
        reply.refuse(*peer);
        shm.completed(&ended(*peer, outcome));
    }
    let last = into.requests[4].1;
    assert!(!reply.is_gone(last));
    reply.reply(last, b"yes");
    reply.reply(last, b"again");
    shm.completed(&completion(last));
    reply.reply(last, b"and again");
    assert_eq!(reply.dropped(), 2, "one answer a request");
    let got = answers(&mut client);
    let why = [NoResponse::Silent, NoResponse::Failed, NoResponse::Dropped, NoResponse::Cancelled];
    let expected = why.map(Err).into_iter().chain([Ok(b"yes".to_vec())]);
    assert_eq!(got, tags.into_iter().zip(expected).collect::<Vec<_>>());
    // An answer that the ring can't carry.
    let tag = client.submit(b"long").unwrap();
    poll_requests(&mut shm, &mut into, 6);
    reply.reply(into.requests[5].1, &[0; 4_096]);
    assert_eq!(answers(&mut client), [(tag, Err(NoResponse::TooLong))]);
}

#[test]
fn no_more_is_taken_than_may_be_in_progress() {
    let (mut shm, mut client) = pair(&small());
    let (reply, mut into) = (shm.reply(), Collect::up_to(100));
    for n in 0..8 {
        client.submit(&[n]).unwrap();
    }
    assert_eq!(client.submit(&[8]), Err(ShmRefused::Full));
    poll_requests(&mut shm, &mut into, 8);
    // Answered, but not ended: the client may ask again, and it is not taken yet.
    reply.reply(into.requests[0].1, b"");
    assert_eq!(answers(&mut client).len(), 1);
    client.submit(&[9]).unwrap();
    shm.poll(0, &mut into);
    assert!(shm.before_wait(), "there is nothing to do");
    assert_eq!(into.requests.len(), 8);
    shm.completed(&completion(into.requests[0].1));
    assert!(!shm.before_wait(), "there is now");
    shm.poll(0, &mut into);
    assert_eq!(into.requests[8].0, [9]);
}

#[test]
fn requests_wait_while_there_is_no_room() {
    let (mut shm, mut client) = pair(&small());
    let mut into = Collect::up_to(2);
    for n in 0..4 {
        client.submit(&[n]).unwrap();
    }
    shm.poll(0, &mut into);
    assert!(shm.before_wait(), "its caller polls again once it has room");
    into.limit = 4;
    shm.poll(0, &mut into);
    assert_eq!(into.payloads(), [[0], [1], [2], [3]]);
}

#[test]
fn a_full_ring_of_requests_makes_the_client_wait() {
    let (mut shm, mut client) = pair(&small());
    client.submit(&[1; 2_000]).unwrap();
    client.submit(&[2; 2_000]).unwrap();
    assert_eq!(client.submit(&[3; 2_000]), Err(ShmRefused::Full));
    let sleeper = std::thread::spawn(move || {
        while client.submit(&[3; 2_000]).is_err() {
            client.wait(Some(LONG)).unwrap();
        }
        client
    });
    let mut into = Collect::up_to(100);
    poll_requests(&mut shm, &mut into, 3);
    assert_eq!(into.requests[2].0, [3; 2_000]);
    drop(sleeper.join().unwrap());
}

#[test]
fn answers_wait_for_room_and_come_in_order() {
    let (mut shm, mut client) = pair(&small());
    let (reply, mut into) = (shm.reply(), Collect::up_to(100));
    let tags: Vec<_> = (0..6).map(|n| client.submit(&[n]).unwrap()).collect();
    poll_requests(&mut shm, &mut into, 6);
    for (payload, peer) in &into.requests {
        reply.reply(*peer, &[payload[0]; 1_500]);
        shm.completed(&completion(*peer));
    }
    // What is asked meanwhile waits, too.
    client.submit(&[6]).unwrap();
    shm.poll(0, &mut into);
    assert_eq!(into.requests.len(), 6);
    let taker = std::thread::spawn(move || {
        let mut all = Vec::new();
        while all.len() < 6 {
            all.extend(answers(&mut client));
        }
        (all, client)
    });
    poll_requests(&mut shm, &mut into, 7);
    let (all, _client) = taker.join().unwrap();
    let expected = tags.into_iter().zip(0..).map(|(tag, n)| (tag, Ok(vec![n; 1_500])));
    assert_eq!(all, expected.collect::<Vec<_>>());
    assert_eq!(reply.dropped(), 0);
}

#[test]
fn who_takes_no_answers_is_disconnected() {
    let (mut shm, mut client) = pair(&ShmConfig { out_limit: 3_000, ..small() });
    let (reply, mut into) = (shm.reply(), Collect::up_to(100));
    for n in 0..8 {
        client.submit(&[n]).unwrap();
    }
    poll_requests(&mut shm, &mut into, 8);
    for (_, peer) in &into.requests {
        reply.reply(*peer, &[0; 1_500]);
    }
    poll_until(&mut shm, &mut into, |shm, _, _| counter(shm, "shm_sessions") == 0);
    assert!(into.requests.iter().all(|(_, peer)| reply.is_gone(*peer)));
    let mut count = 0;
    while let Ok(more) = client.receive(|_, answer| assert!(answer.is_ok())) {
        count += more;
        if more == 0 {
            client.wait(Some(LONG)).unwrap();
        }
    }
    assert_eq!(count, 2, "what was in the ring is there still");
    assert_eq!(client.submit(b""), Err(ShmRefused::Closed));
}

#[test]
fn a_client_that_goes_is_gone() {
    let (mut shm, mut client) = pair(&small());
    let (reply, mut into) = (shm.reply(), Collect::up_to(100));
    client.submit(b"1").unwrap();
    poll_requests(&mut shm, &mut into, 1);
    let peer = into.requests[0].1;
    drop(client);
    poll_until(&mut shm, &mut into, |shm, _, _| counter(shm, "shm_sessions") == 0);
    assert!(reply.is_gone(peer));
    // Its place has another session; nothing of the first reaches it.
    let path = PathBuf::from(shm.describe().strip_prefix("shm://").unwrap());
    let mut second = join(&mut shm, &path);
    let tag = second.submit(b"2").unwrap();
    poll_requests(&mut shm, &mut into, 2);
    reply.reply(peer, b"late");
    shm.completed(&completion(peer));
    assert_eq!(reply.dropped(), 1);
    reply.reply(into.requests[1].1, b"own");
    assert_eq!(answers(&mut second), [(tag, Ok(b"own".to_vec()))]);
}

#[test]
fn closing_answers_what_is_under_way() {
    let (mut shm, mut client) = pair(&small());
    let (reply, mut into) = (shm.reply(), Collect::up_to(1));
    let tag = client.submit(b"taken").unwrap();
    client.submit(b"not taken").unwrap();
    poll_requests(&mut shm, &mut into, 1);
    shm.close();
    into.limit = 100;
    assert_eq!(shm.poll(0, &mut into), Status::Open);
    reply.reply(into.requests[0].1, b"yes");
    shm.completed(&completion(into.requests[0].1));
    assert_eq!(shm.poll(0, &mut into), Status::Closed);
    assert_eq!(into.requests.len(), 1);
    assert_eq!(answers(&mut client), [(tag, Ok(b"yes".to_vec()))]);
    client.wait(Some(LONG)).unwrap();
    assert_eq!(client.receive(|_, _| ()), Err(NoResponse::Closed));
}

#[test]
fn sessions_are_counted_and_files_are_its_own() {
    let path = file();
    let config = ShmConfig { sessions: 1, ..small() };
    let mut shm = Shm::listen(&path, &config).unwrap();
    let first = join(&mut shm, &path);
    let refused = {
        let path = path.clone();
        std::thread::spawn(move || ShmClient::connect(path).err().unwrap())
    };
    poll_until(&mut shm, &mut Collect::default(), |shm, _, _| counter(shm, "shm_refused") == 1);
    assert_eq!(refused.join().unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(matches!(Shm::listen(&path, &config), Err(OpenError::UnixInUse { .. })));
    drop(first);
    poll_until(&mut shm, &mut Collect::default(), |shm, _, _| counter(shm, "shm_sessions") == 0);
    drop(join(&mut shm, &path));
}

#[test]
fn urls() {
    let path = file();
    let at = path.display();
    let reason = |url: String| match open(&url).err() {
        Some(OpenError::Url { reason, .. }) => reason,
        _ => panic!("{url}"),
    };
    assert!(matches!(reason("shm://relative".to_owned()), Reason::File(_)));
    assert_eq!(reason(format!("shm://{at},shm://{at}2")), Reason::Twice);
    assert_eq!(reason(format!("http://127.0.0.1:0,shm://{at}")), Reason::Mixed);
    assert!(matches!(reason(format!("shm://{at}?max=1")), Reason::Option { .. }));
    let error = open(&format!("shm://{at}?ring=1k")).err().unwrap().to_string();
    assert_eq!(error, "ring is 1024, not within 4096..=67108864");
    // Beside others.
    let list = format!("udp://127.0.0.1:0,shm://{at}?ring=4k&sessions=2&out=1m,tcp://127.0.0.1:0");
    let echo = Echo::start(open(&list).unwrap());
    let mut client = ShmClient::connect(&path).unwrap();
    assert_eq!(client.call(b"hello").unwrap(), b"hello");
    drop(client);
    let (transport, _) = echo.stop();
    assert_eq!(transport.local_addrs().len(), 2);
    assert!(UnixStream::connect(&path).is_err());
}
