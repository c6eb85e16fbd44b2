//! The fault middleware around a transport that follows a script.

use crate::common;

use common::{Collect, completion};
use curtail_net::{
    Completion, Fault, FaultConfig, FaultCounters, Intake, Local, Outcome, Peer, Reply, Status,
    Transport,
};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const REQUESTS: u32 = 20_000;
const PAYLOAD: usize = 16;

/// Brings numbered requests, as many as there is room for (asked once per poll, as one that
/// receives in batches does), each from a peer of its own, and keeps account of their ends.
#[derive(Default)]
struct Script {
    next: u32,
    batch: usize,
    ends: Arc<Mutex<HashMap<Peer, u32>>>,
    dropped: Arc<AtomicU64>,
}

impl Script {
    fn new(batch: usize) -> Self {
        Self { batch, ..Self::default() }
    }
}

impl Transport for Script {
    fn poll(&mut self, _now_tsc: u64, into: &mut dyn Intake) -> Status {
        for _ in 0..into.room().min(self.batch) {
            if self.next < REQUESTS {
                let payload = self.next.to_le_bytes().repeat(PAYLOAD / 4);
                into.request(&payload, peer(self.next), 0);
                self.next += 1;
            }
        }
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        unreachable!("no test asks this transport for answers")
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![7]
    }

    fn completed(&mut self, completion: &Completion) {
        *self.ends.lock().unwrap().entry(completion.peer).or_default() += 1;
        if completion.outcome == Outcome::Dropped {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn close(&mut self) {}

    fn describe(&self) -> String {
        "script".to_owned()
    }
}

fn peer(number: u32) -> Peer {
    Peer::Local { slot: number, generation: 0 }
}

fn number(peer: Peer) -> u32 {
    let Peer::Local { slot, .. } = peer else { panic!("{peer:?}") };
    slot
}

/// What came out, in order; the script was notified of every request's end exactly once.
fn run(config: FaultConfig, batch: usize) -> (Vec<(Vec<u8>, Peer)>, Arc<FaultCounters>) {
    let script = Script::new(batch);
    let (ends, dropped) = (script.ends.clone(), script.dropped.clone());
    let mut fault = Fault::new(script, config);
    let counts = fault.counts();
    let mut out = Vec::new();
    // The room changes from poll to poll and is nothing at times.
    for poll in 0..REQUESTS as usize * 2 {
        let mut into = Collect::up_to(poll % 5);
        fault.poll(0, &mut into);
        for request in into.requests {
            fault.completed(&completion(request.1));
            out.push(request);
        }
    }
    let ends = ends.lock().unwrap();
    assert_eq!(ends.len() as u32, REQUESTS, "each request has ended");
    assert!(ends.values().all(|&count| count == 1), "once");
    assert_eq!(dropped.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed));
    assert_eq!(counts.seen.load(Ordering::Relaxed), u64::from(REQUESTS));
    (out, counts)
}

/// Within six standard deviations of a binomial; with a fixed seed it is one number anyway.
fn assert_share(counter: &AtomicU64, share: f64) {
    let (count, trials) = (counter.load(Ordering::Relaxed) as f64, f64::from(REQUESTS));
    let tolerance = 6.0 * (trials * share * (1.0 - share)).sqrt();
    assert!((count - trials * share).abs() <= tolerance, "{count} of {trials}, not {share}");
}

#[test]
fn without_faults_nothing_changes() {
    let (out, _) = run(FaultConfig::default(), 3);
    let numbers: Vec<_> = out.iter().map(|(_, from)| number(*from)).collect();
    assert_eq!(numbers, (0..REQUESTS).collect::<Vec<_>>());
    assert!(out.iter().all(|(bytes, from)| *bytes == number(*from).to_le_bytes().repeat(4)));
}

#[test]
fn drops_and_duplicates_are_as_seeded() {
    let config = FaultConfig { seed: 1, drop: 0.1, duplicate: 0.2, ..FaultConfig::default() };
    let (out, counts) = run(config, 3);
    assert_share(&counts.dropped, 0.1);
    assert_share(&counts.duplicated, 0.2);
    let mut times = HashMap::<u32, u64>::new();
    for (_, from) in &out {
        *times.entry(number(*from)).or_default() += 1;
    }
    let twice = times.values().filter(|&&count| count == 2).count() as u64;
    assert_eq!(twice, counts.duplicated.load(Ordering::Relaxed));
    let lost = u64::from(REQUESTS) - times.len() as u64;
    assert_eq!(lost, counts.dropped.load(Ordering::Relaxed));
}

#[test]
fn reordered_and_delayed_requests_come_later_and_come() {
    for (reorder, delay) in [(0.3, 0.0), (0.0, 0.3)] {
        let config = FaultConfig { seed: 2, reorder, delay, ..FaultConfig::default() };
        let (out, counts) = run(config, 2);
        assert_share(&counts.reordered, reorder);
        assert_share(&counts.delayed, delay);
        let mut numbers: Vec<_> = out.iter().map(|(_, from)| number(*from)).collect();
        let overtaken = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(overtaken > 1_000, "{overtaken}");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..REQUESTS).collect::<Vec<_>>());
    }
}

#[test]
fn damage_is_one_bit_or_a_missing_end() {
    let config = FaultConfig { seed: 3, corrupt: 0.2, truncate: 0.1, ..FaultConfig::default() };
    let (out, counts) = run(config, 4);
    assert_share(&counts.corrupted, 0.2);
    assert_share(&counts.truncated, 0.1);
    let mut short = 0;
    for (bytes, from) in &out {
        let whole = number(*from).to_le_bytes().repeat(4);
        let wrong: u32 = bytes.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(wrong <= 1 && bytes.len() <= whole.len());
        short += u64::from(bytes.len() < whole.len());
    }
    assert_eq!(short, counts.truncated.load(Ordering::Relaxed));
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let config = |seed| FaultConfig {
        seed,
        drop: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        delay: 0.1,
        delay_polls: 7,
        corrupt: 0.1,
        truncate: 0.1,
    };
    let (first, _) = run(config(4), 3);
    let (again, _) = run(config(4), 3);
    let (other, _) = run(config(5), 3);
    assert!(first == again);
    assert!(first != other);
}

#[test]
fn nobody_sleeps_on_what_is_held_back() {
    let drop = FaultConfig { drop: 0.5, ..FaultConfig::default() };
    assert_eq!(Fault::new(Script::default(), drop).wait_fds(), [7]);
    let delay = FaultConfig { delay: 0.5, ..FaultConfig::default() };
    assert!(Fault::new(Script::default(), delay).wait_fds().is_empty());
}

#[test]
fn closing_ends_what_is_held_back() {
    let (local, client) = Local::new(4).unwrap();
    let config = FaultConfig { delay: 1.0, delay_polls: 1_000, ..FaultConfig::default() };
    let mut fault = Fault::new(local, config);
    let ticket = client.submit(vec![0]).unwrap();
    let mut into = Collect::up_to(1);
    fault.poll(0, &mut into);
    assert!(into.requests.is_empty());
    fault.close();
    assert!(ticket.wait().is_err());
    assert_eq!(fault.poll(0, &mut into), Status::Closed);
}
