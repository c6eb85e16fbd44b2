//! Root and ends, polled by hand.

use super::*;
use curtail_net::{Outcome, Waiter};
use curtail_policy::Balance;
use std::sync::Mutex;

/// A transport with requests to bring, which notes its calls.
struct Source {
    requests: Vec<u8>,
    heard: Arc<Mutex<Vec<u64>>>,
    closed: bool,
}

struct NoReply;

impl Reply for NoReply {
    fn reply(&self, _: Peer, _: &[u8]) {}
    fn dropped(&self) -> u64 {
        0
    }
}

impl Transport for Source {
    fn poll(&mut self, _: u64, into: &mut dyn Intake) -> Status {
        while into.room() > 0 {
            let Some(request) = self.requests.pop() else { break };
            into.request(&[request], Peer::Local { slot: request.into(), generation: 0 }, 7);
        }
        if self.closed { Status::Closed } else { Status::Open }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(NoReply)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        self.heard.lock().unwrap().push(completion.tag);
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn describe(&self) -> String {
        "source".to_owned()
    }
}

/// A dispatcher that keeps what it gets.
struct Keeper {
    room: usize,
    kept: Vec<u8>,
}

impl Intake for Keeper {
    fn room(&self) -> usize {
        self.room
    }

    fn request(&mut self, payload: &[u8], _: Peer, arrived_tsc: u64) {
        assert_eq!((payload.len(), arrived_tsc), (1, 7));
        self.room -= 1;
        self.kept.push(payload[0]);
    }

    fn malformed(&mut self, _: u64) {}
}

impl Keeper {
    fn new() -> Self {
        Self { room: 10_000, kept: Vec::new() }
    }
}

fn done(request: u8) -> Completion {
    Completion {
        peer: Peer::None,
        class: 0,
        outcome: Outcome::Done,
        tag: request.into(),
        request_bytes: 0,
        arrived_tsc: 0,
        started_tsc: 0,
        finished_tsc: 0,
        ran_cycles: 0,
        preemptions: 0,
        disturbed: false,
    }
}

type Made = (Vec<Box<dyn Transport>>, Arc<Mutex<Vec<u64>>>, Vec<Waiter>);

fn made(balance: Balance, requests: Vec<u8>, workers: &[usize], capacity: usize) -> Made {
    let heard = Arc::default();
    let inner = Source { requests, heard: Arc::clone(&heard), closed: false };
    let waiters: Vec<Waiter> = workers.iter().map(|_| Waiter::new(&[]).unwrap()).collect();
    let seat = |(&workers, waiter): (&usize, &Waiter)| Seat { workers, waker: waiter.waker() };
    let seats: Vec<Seat> = workers.iter().zip(&waiters).map(seat).collect();
    let mut next = 0_u64;
    let random = move || {
        next = next.wrapping_add(0x9e37_79b9_7f4a_7c15);
        next
    };
    let balancer = Balancer::new(balance, workers.len(), 16, random);
    (spread(Box::new(inner), &seats, balancer, capacity), heard, waiters)
}

/// Polls until each end has what is there for it.
fn poll_all(ends: &mut [Box<dyn Transport>], keepers: &mut [Keeper]) -> Vec<Status> {
    ends.iter_mut().zip(keepers).map(|(end, keeper)| end.poll(0, keeper)).collect()
}

#[test]
fn all_requests_come_to_somebody_and_all_are_told_of() {
    for balance in Balance::ALL {
        let (mut ends, heard, _waiters) = made(balance, (0..200).collect(), &[1, 1, 2], 512);
        let mut keepers = [Keeper::new(), Keeper::new(), Keeper::new()];
        poll_all(&mut ends, &mut keepers);
        let mut all: Vec<u8> = keepers.iter().flat_map(|keeper| keeper.kept.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>(), "{balance}");
        assert!(keepers.iter().all(|keeper| !keeper.kept.is_empty()), "{balance}: all have some");
        if balance == Balance::Jsq {
            let counts: Vec<_> = keepers.iter().map(|keeper| keeper.kept.len()).collect();
            assert_eq!(counts, [50, 50, 100], "as many for each worker");
        }
        ends[0].close();
        let states = poll_all(&mut ends, &mut keepers);
        assert_eq!(states, [Status::Open, Status::Closed, Status::Closed], "{balance}");
        for (end, keeper) in ends.iter_mut().zip(&keepers) {
            keeper.kept.iter().for_each(|&request| end.completed(&done(request)));
        }
        assert_eq!(ends[0].poll(0, &mut keepers[0]), Status::Closed, "{balance}");
        let mut told = heard.lock().unwrap().clone();
        told.sort_unstable();
        assert_eq!(told, (0..200).collect::<Vec<_>>(), "{balance}");
    }
}

#[test]
fn without_room_at_an_end_requests_wait() {
    // Room for 1,024 on the way and one more outstanding: none is lost and none comes twice.
    let (mut ends, heard, _waiters) = made(Balance::Random, vec![0; 5_000], &[1, 1], 1);
    let mut keepers = [Keeper::new(), Keeper { room: 0, kept: Vec::new() }];
    let before = |keepers: &[Keeper; 2]| keepers[0].kept.len() + keepers[1].kept.len();
    poll_all(&mut ends, &mut keepers);
    poll_all(&mut ends, &mut keepers);
    assert!(before(&keepers) + WAY < 5_000, "some still wait in the transport");
    let mut told = [0, 0];
    for _ in 0..10_000 {
        keepers[1].room = 10;
        poll_all(&mut ends, &mut keepers);
        for ((end, keeper), told) in ends.iter_mut().zip(&keepers).zip(&mut told) {
            keeper.kept[*told..].iter().for_each(|&request| end.completed(&done(request)));
            *told = keeper.kept.len();
        }
        if before(&keepers) == 5_000 {
            break;
        }
    }
    ends[0].poll(0, &mut keepers[0]);
    assert_eq!((before(&keepers), heard.lock().unwrap().len()), (5_000, 5_000));
}

#[test]
fn a_dispatcher_that_ends_early_takes_nobody_along() {
    let (mut ends, _, _waiters) = made(Balance::Random, (0..100).collect(), &[1, 1], 64);
    let mut keeper = Keeper::new();
    drop(ends.pop());
    ends[0].poll(0, &mut keeper);
    assert_eq!(keeper.kept.len(), 100, "the first takes all");
    ends[0].close();
    assert_eq!(ends[0].poll(0, &mut keeper), Status::Closed);

    let (mut ends, _, _waiters) = made(Balance::Random, (0..100).collect(), &[1, 1], 64);
    let (mut own, mut other) = (Keeper::new(), Keeper::new());
    ends[0].poll(0, &mut own);
    drop(ends.remove(0));
    assert_eq!(ends[0].poll(0, &mut other), Status::Closed);
    assert_eq!(own.kept.len() + other.kept.len(), 100, "what was handed over is served");
}
