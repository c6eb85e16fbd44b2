//! Seeded faults on the way in: a transport around a transport.
//!
//! Belongs to the dispatcher's thread like the one inside. For each request that comes, one draw
//! decides what happens to it; the same seed and the same requests give the same faults. Responses
//! pass untouched. Invariants: no request gets in beyond the outer `room`; what is held back is
//! bounded; the inner transport is notified of exactly one end for each request that it brought, also of
//! one that was dropped here or came out twice.

use crate::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
pub(crate) use draws::{Draws, Fate};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod draws;

/// Requests held back at most; beyond that none is delayed, reordered or duplicated.
const MOST_HELD: usize = 1_024;
/// A request that waits to be overtaken is let go after so many polls if no other one comes.
const REORDER_POLLS: u64 = 16;

/// What is to happen, as probabilities from 0 to 1. Drop, duplicate, reorder and delay exclude each
/// other (tried in this order, together at most 1); corrupt and truncate come on top of any but
/// drop.
#[derive(Clone, Debug)]
pub struct FaultConfig {
    /// Where the sequence of draws begins.
    pub seed: u64,
    /// The request is lost.
    pub drop: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// The next one overtakes it.
    pub reorder: f64,
    /// It comes some polls later.
    pub delay: f64,
    /// That many polls later at most; at least one.
    pub delay_polls: u64,
    /// One bit of it is wrong.
    pub corrupt: f64,
    /// Its end is missing.
    pub truncate: f64,
}

impl Default for FaultConfig {
    /// No faults.
    fn default() -> Self {
        Self {
            seed: 0,
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            delay: 0.0,
            delay_polls: 4,
            corrupt: 0.0,
            truncate: 0.0,
        }
    }
}

macro_rules! counters {
    ($($field:ident: $name:literal, $doc:literal;)*) => {
        /// What was done so far; shared, readable from any thread.
        #[derive(Debug, Default)]
        pub struct FaultCounters {
            $(#[doc = $doc] pub $field: AtomicU64,)*
        }
        impl FaultCounters {
            fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field.load(Relaxed)),)*]
            }
        }
    };
}

counters! {
    seen: "fault_seen", "Requests that the inner transport brought.";
    dropped: "fault_dropped", "Lost.";
    duplicated: "fault_duplicated", "Came twice.";
    reordered: "fault_reordered", "Made to wait for the next one.";
    delayed: "fault_delayed", "Made to wait for some polls.";
    corrupted: "fault_corrupted", "With a wrong bit.";
    truncated: "fault_truncated", "Without their end.";
}

/// A transport with faults.
pub struct Fault<T> {
    inner: T,
    faults: Faults,
    closed: bool,
}

struct Faults {
    config: FaultConfig,
    draws: Draws,
    counters: Arc<FaultCounters>,
    polls: u64,
    held: VecDeque<Held>,
    /// Ends of requests that never got out: told to the inner transport after its poll.
    ended: Vec<Completion>,
    /// Peers with requests that came out twice, and how many: so many ends are kept from the inner
    /// transport.
    doubled: HashMap<Peer, u64>,
}

struct Held {
    payload: Vec<u8>,
    from: Peer,
    arrived_tsc: u64,
    /// Not before this poll.
    due: u64,
    /// Or as soon as another has overtaken it.
    until_overtaken: bool,
}

impl<T: Transport> Fault<T> {
    /// Puts faults in front of `inner`.
    pub fn new(inner: T, config: FaultConfig) -> Self {
        let faults = Faults {
            draws: Draws::new(config.seed),
            config,
            counters: Arc::default(),
            polls: 0,
            held: VecDeque::new(),
            ended: Vec::new(),
            doubled: HashMap::new(),
        };
        Self { inner, faults, closed: false }
    }

    /// What it has done; stays readable after the transport was given away.
    #[must_use]
    pub fn counts(&self) -> Arc<FaultCounters> {
        self.faults.counters.clone()
    }
}

impl<T: Transport> Transport for Fault<T> {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        self.faults.polls += 1;
        self.faults.release_due(into);
        let status = self.inner.poll(now_tsc, &mut Faulty { faults: &mut self.faults, into });
        // Not in the middle of the inner poll, which may have planned with the room it saw.
        self.faults.release_due(into);
        for completion in self.faults.ended.drain(..) {
            self.inner.completed(&completion);
        }
        status
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.inner.reply()
    }

    fn before_wait(&mut self) -> bool {
        self.inner.before_wait()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        // What is held back comes out by polling, of which no descriptor knows.
        let config = &self.faults.config;
        if config.delay > 0.0 || config.reorder > 0.0 || config.duplicate > 0.0 {
            Vec::new()
        } else {
            self.inner.wait_fds()
        }
    }

    fn completed(&mut self, completion: &Completion) {
        if let Some(more) = self.faults.doubled.get_mut(&completion.peer) {
            *more -= 1;
            if *more == 0 {
                self.faults.doubled.remove(&completion.peer);
            }
        } else {
            self.inner.completed(completion);
        }
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            for held in std::mem::take(&mut self.faults.held) {
                self.completed(&unserved(&held));
            }
            self.inner.close();
        }
    }

    fn describe(&self) -> String {
        format!("{} with faults (seed {})", self.inner.describe(), self.faults.config.seed)
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.local_addrs()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        [self.inner.counters(), self.faults.counters.list()].concat()
    }
}

/// The intake that the inner transport sees.
struct Faulty<'a> {
    faults: &'a mut Faults,
    into: &'a mut dyn Intake,
}

impl Intake for Faulty<'_> {
    fn room(&self) -> usize {
        self.into.room()
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        let payload = payload.to_vec();
        let request = Held { payload, from, arrived_tsc, due: 0, until_overtaken: false };
        self.faults.meet(request, self.into);
    }

    fn malformed(&mut self, count: u64) {
        self.into.malformed(count);
    }

    fn departed(&mut self) {
        self.into.departed();
    }
}

impl Faults {
    /// One request has come: decides what becomes of it.
    fn meet(&mut self, mut request: Held, into: &mut dyn Intake) {
        count(&self.counters.seen);
        let fate = self.draws.fate(&self.config);
        if fate == Fate::Drop {
            count(&self.counters.dropped);
            self.ended.push(unserved(&request));
            return;
        }
        let damage = self.draws.damage(&self.config, &mut request.payload);
        if damage.corrupted {
            count(&self.counters.corrupted);
        }
        if damage.truncated {
            count(&self.counters.truncated);
        }
        let can_hold = self.held.len() < MOST_HELD;
        match fate {
            Fate::Duplicate if can_hold => {
                count(&self.counters.duplicated);
                *self.doubled.entry(request.from).or_default() += 1;
                into.request(&request.payload, request.from, request.arrived_tsc);
                request.due = self.polls;
                self.held.push_back(request);
            }
            Fate::Reorder if can_hold => {
                count(&self.counters.reordered);
                request.due = self.polls + REORDER_POLLS;
                request.until_overtaken = true;
                self.held.push_back(request);
            }
            Fate::Delay if can_hold => {
                count(&self.counters.delayed);
                request.due = self.polls + 1 + self.draws.next() % self.config.delay_polls.max(1);
                self.held.push_back(request);
            }
            _ => {
                into.request(&request.payload, request.from, request.arrived_tsc);
                for held in self.held.iter_mut().filter(|held| held.until_overtaken) {
                    held.due = self.polls;
                }
            }
        }
    }

    /// Lets go, in order of arrival, what is due, as far as there is room.
    fn release_due(&mut self, into: &mut dyn Intake) {
        let mut index = 0;
        while index < self.held.len() && into.room() > 0 {
            if self.held[index].due > self.polls {
                index += 1;
            } else if let Some(held) = self.held.remove(index) {
                into.request(&held.payload, held.from, held.arrived_tsc);
            }
        }
    }
}

/// The end of a request that was never passed on.
fn unserved(request: &Held) -> Completion {
    let mut tag = [0_u8; 8];
    for (to, from) in tag.iter_mut().zip(&request.payload) {
        *to = *from;
    }
    Completion {
        peer: request.from,
        class: 0,
        outcome: Outcome::Dropped,
        tag: u64::from_le_bytes(tag),
        request_bytes: request.payload.len() as u32,
        arrived_tsc: request.arrived_tsc,
        started_tsc: request.arrived_tsc,
        finished_tsc: request.arrived_tsc,
        ran_cycles: 0,
        preemptions: 0,
        disturbed: false,
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
