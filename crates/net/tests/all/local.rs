//! The in-process transport.

use crate::common;

use common::{Collect, Echo, completion, counter, ended, poll_requests, poll_until};
use curtail_net::{
    Intake, Local, NoResponse, Outcome, Peer, Refused, Reply, Status, Transport, Waiter,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[test]
fn many_threads_get_their_own_answers() {
    let (local, client) = Local::new(16).unwrap();
    let echo = Echo::start(Box::new(local));
    let threads: Vec<_> = (0..4_u32)
        .map(|id| {
            let client = client.clone();
            std::thread::spawn(move || {
                for round in 0..2_000_u32 {
                    let question = [id.to_le_bytes(), round.to_le_bytes()].concat();
                    if round % 3 == 0 {
                        let tickets: Vec<_> =
                            (0..4).map(|_| client.submit(question.clone()).unwrap()).collect();
                        // Every second one is given up.
                        for (index, ticket) in tickets.into_iter().enumerate() {
                            if index % 2 == 0 {
                                assert_eq!(ticket.wait().unwrap(), question);
                            }
                        }
                    } else {
                        match client.call(question.clone()) {
                            Ok(answer) => assert_eq!(answer, question),
                            // Given-up tickets keep their place until they are answered.
                            Err(why) => assert_eq!(why, NoResponse::Dropped),
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (transport, malformed) = echo.stop();
    assert_eq!((malformed, counter(&*transport, "local_responses_dropped")), (0, 0));
}

#[test]
fn a_full_transport_gives_the_request_back() {
    let (mut local, client) = Local::new(2).unwrap();
    let first = client.submit(vec![1]).unwrap();
    let _second = client.submit(vec![2]).unwrap();
    assert_eq!(client.submit(vec![3]).unwrap_err(), Refused::Full(vec![3]));
    assert_eq!(client.call(vec![3]), Err(NoResponse::Dropped));
    let mut into = Collect::up_to(1);
    poll_requests(&mut local, &mut into, 1);
    local.reply().reply(into.requests[0].1, b"one");
    assert_eq!(first.wait().unwrap(), b"one");
    drop(client.submit(vec![3]).unwrap());
    // A dropped ticket's request comes all the same, and its place is free afterwards.
    into.limit = 3;
    poll_requests(&mut local, &mut into, 3);
    assert_eq!(into.payloads(), [[1], [2], [3]]);
    assert!(matches!(client.submit(vec![4]), Err(Refused::Full(_))));
    local.completed(&completion(into.requests[2].1));
    assert!(client.submit(vec![4]).is_ok());
}

#[test]
fn a_request_without_a_response_has_a_reason() {
    let (mut local, client) = Local::new(8).unwrap();
    let cases = [
        (Outcome::Done, NoResponse::Silent),
        (Outcome::Failed, NoResponse::Failed),
        (Outcome::Dropped, NoResponse::Dropped),
    ];
    for (outcome, why) in cases {
        let ticket = client.submit(vec![0]).unwrap();
        let mut into = Collect::up_to(1);
        poll_requests(&mut local, &mut into, 1);
        let ticket = ticket.try_take().expect_err("nothing has been said yet");
        local.completed(&ended(into.requests[0].1, outcome));
        assert_eq!(ticket.wait(), Err(why));
    }
}

#[test]
fn late_answers_find_nobody() {
    let (mut local, client) = Local::new(1).unwrap();
    let reply = local.reply();
    let first = client.submit(vec![1]).unwrap();
    let mut into = Collect::up_to(2);
    poll_requests(&mut local, &mut into, 1);
    let old = into.requests[0].1;
    reply.reply(old, b"once");
    reply.reply(old, b"twice");
    assert_eq!(reply.dropped(), 1);
    assert_eq!(first.wait().unwrap(), b"once");
    let second = client.submit(vec![2]).unwrap();
    poll_requests(&mut local, &mut into, 2);
    reply.reply(old, b"stale");
    local.completed(&completion(old));
    reply.reply(Peer::Local { slot: 77, generation: 0 }, b"nowhere");
    reply.reply(Peer::None, b"nobody");
    assert_eq!(reply.dropped(), 4);
    let second = second.try_take().expect_err("the second has not been answered");
    reply.reply(into.requests[1].1, b"second");
    assert_eq!(second.wait().unwrap(), b"second");
}

/// Answers on the dispatcher, from inside `request`, as an overloaded server does.
struct Overloaded(Arc<dyn Reply>);

impl Intake for Overloaded {
    fn room(&self) -> usize {
        1
    }

    fn request(&mut self, _payload: &[u8], from: Peer, _arrived_tsc: u64) {
        self.0.reply(from, b"sorry");
    }

    fn malformed(&mut self, _count: u64) {}
}

#[test]
fn a_dispatcher_may_answer_while_it_takes() {
    let (mut local, client) = Local::new(4).unwrap();
    let tickets: Vec<_> = (0..4).map(|_| client.submit(vec![0]).unwrap()).collect();
    let mut into = Overloaded(local.reply());
    assert_eq!(local.poll(0, &mut into), Status::Open);
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap(), b"sorry");
    }
}

#[test]
fn the_descriptor_sleeps_when_there_is_nothing() {
    let (mut local, client) = Local::new(4).unwrap();
    let mut waiter = Waiter::new(&local.wait_fds()).unwrap();
    let mut into = Collect::up_to(100);
    for round in 1..=20 {
        assert!(!waiter.wait(Some(Duration::ZERO)).unwrap(), "readable for nothing");
        drop(client.submit(vec![0]).unwrap());
        drop(client.submit(vec![0]).unwrap());
        assert!(waiter.wait(None).unwrap());
        local.poll(0, &mut into);
        assert_eq!(into.requests.len(), 2 * round);
        for (_, peer) in into.requests.iter().rev().take(2) {
            local.completed(&completion(*peer));
        }
    }
}

#[test]
fn closing_ends_what_waits_and_leaves_what_is_under_way() {
    let (mut local, client) = Local::new(4).unwrap();
    let running = client.submit(vec![1]).unwrap();
    let mut into = Collect::up_to(1);
    poll_requests(&mut local, &mut into, 1);
    let waiting = client.submit(vec![2]).unwrap();
    local.close();
    assert_eq!(waiting.wait(), Err(NoResponse::Closed));
    assert_eq!(client.submit(vec![3]).unwrap_err(), Refused::Closed(vec![3]));
    assert_eq!(client.call(vec![3]), Err(NoResponse::Closed));
    poll_until(&mut local, &mut into, |_, _, status| status == Status::Closed);
    let reply = local.reply();
    reply.reply(into.requests[0].1, b"still");
    assert_eq!(running.wait().unwrap(), b"still");
}

#[test]
fn a_dropped_transport_leaves_nobody_waiting() {
    let (mut local, client) = Local::new(4).unwrap();
    let running = client.submit(vec![1]).unwrap();
    let mut into = Collect::up_to(1);
    poll_requests(&mut local, &mut into, 1);
    let waiting = client.submit(vec![2]).unwrap();
    let reply = local.reply();
    let waiter = std::thread::spawn(move || (running.wait(), waiting.wait()));
    drop(local);
    let closed = Err(NoResponse::Closed);
    assert_eq!(waiter.join().unwrap(), (closed.clone(), closed));
    reply.reply(into.requests[0].1, b"late");
    assert_eq!(reply.dropped(), 1);
}

#[test]
fn submitting_against_closing_always_ends() {
    for _ in 0..200 {
        let (mut local, client) = Local::new(4).unwrap();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let client = client.clone();
                std::thread::spawn(move || {
                    // Ends by itself only because each call ends.
                    (0..10).map(|_| client.call(vec![0])).filter(Result::is_ok).count()
                })
            })
            .collect();
        let reply = local.reply();
        for _ in 0..5 {
            let mut into = Collect::up_to(2);
            local.poll(0, &mut into);
            for (_, peer) in into.requests {
                reply.reply(peer, b"");
            }
        }
        local.close();
        let served: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(served <= 10);
    }
}

#[test]
fn a_ticket_is_a_future() {
    let (mut local, client) = Local::new(2).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let mut ticket = client.submit(vec![1]).unwrap();
    let mut given_up = client.submit(vec![2]).unwrap();
    assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
    assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
    assert!(Pin::new(&mut given_up).poll(&mut context).is_pending());
    drop(given_up);
    let mut into = Collect::up_to(2);
    poll_requests(&mut local, &mut into, 2);
    local.reply().reply(into.requests[1].1, b"two");
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "it was given up");
    local.reply().reply(into.requests[0].1, b"one");
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert_eq!(Pin::new(&mut ticket).poll(&mut context), Poll::Ready(Ok(b"one".to_vec())));
    drop(ticket);
    // Both places are free again, and the waker is not kept.
    let both = [client.submit(vec![3]).unwrap(), client.submit(vec![4]).unwrap()];
    assert_eq!(Arc::strong_count(&wakes), 2);
    drop((both, local));
}

/// Counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
