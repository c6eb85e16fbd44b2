//! A quantum that ends while a lock of C++ is held: without pre-emption under locks the holder goes on, and
//! yields when it gives the lock back (Concord §3.1, safe pre-emption); the others that want it get on.
//!
//! Built plainly no request is pre-empted, and the rest must hold all the same.
#![cfg(feature = "leveldb")]

use crate::common;

use common::{LONG, is_preempting, serve, serve_with};
use curtail::{App, ClassId, Grace, Response, WorkerId};
use kv::{Store, StoreOptions};
use kv_lock_probe::{KINDS, Probe, initialised, work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const ROUNDS: u64 = 10;

/// Holders take one of the probe's locks again and again; bystanders work without it. All move the
/// clock of their worker on.
struct Holders {
    probe: Arc<Probe>,
    kind: usize,
}

const HOLDER: u8 = 1;
const BYSTANDER: u8 = 2;

impl App for Holders {
    type Worker = AtomicU64;

    fn setup_worker(&self, _: WorkerId) -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, clock: &AtomicU64, request: &[u8], response: &mut Response) {
        let (mut inside, mut after) = (0_u64, 0_u64);
        for _ in 0..ROUNDS {
            clock.fetch_add(1, Ordering::Relaxed);
            if request[0] == HOLDER {
                let held = self.probe.hold(self.kind, clock, LONG);
                inside += held.inside;
                after += u64::from(held.after > 0);
            } else {
                work(LONG / 10);
            }
        }
        response.write(&inside.to_le_bytes());
        response.write(&after.to_le_bytes());
    }
}

#[test]
fn the_holder_of_a_lock_yields_after_it_and_not_before() {
    for (kind, name) in KINDS.iter().enumerate() {
        let probe = Arc::new(Probe::default());
        let requests: Vec<u8> = [HOLDER, BYSTANDER].into_iter().cycle().take(40).collect();
        let holders = Holders { probe: probe.clone(), kind };
        let (report, answers) = serve_with(Grace::Ban, holders, 1, &requests);
        let (mut inside, mut after) = (0, 0);
        for answer in &answers {
            inside += u64::from_le_bytes(answer[..8].try_into().unwrap());
            after += u64::from_le_bytes(answer[8..].try_into().unwrap());
        }
        assert_eq!(probe.taken(kind), 20 * ROUNDS, "{name} excludes");
        assert_eq!(inside, 0, "another request ran on this thread while {name} was held");
        if is_preempting(&report) {
            // Every critical section lasts for many quanta, and but for the last a request waits.
            assert!(after > 10 * ROUNDS, "{name}: {after} yielded when they gave it back");
        } else if report.preemptions == 0 {
            assert_eq!(after, 0);
        }
    }
}

/// Readers and writers of a shared mutex, and requests that wait for their turn on a condition
/// variable, the last to come having the first.
struct Waiters {
    probe: Arc<Probe>,
    count: u8,
}

impl App for Waiters {
    type Worker = AtomicU64;

    fn setup_worker(&self, _: WorkerId) -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, clock: &AtomicU64, request: &[u8], response: &mut Response) {
        for _ in 0..ROUNDS {
            if request[0].is_multiple_of(2) {
                assert!(self.probe.read(LONG / 10), "a writer came in");
            } else {
                let _ = self.probe.hold(3, clock, LONG / 10);
            }
        }
        self.probe.turn(u64::from(self.count - 1 - request[0]), LONG / 10);
        response.write(request);
    }
}

#[test]
fn readers_writers_and_turns() {
    const COUNT: u8 = 20;
    let probe = Arc::new(Probe::default());
    let requests: Vec<u8> = (0..COUNT).collect();
    let (report, answers) = serve(Waiters { probe: probe.clone(), count: COUNT }, 1, &requests);
    assert!(answers.iter().zip(0..).all(|(answer, request)| answer == &[request]));
    assert_eq!(probe.taken(3), ROUNDS * u64::from(COUNT) / 2);
    is_preempting(&report);
}

/// The first to come lets all others come, too, before it has initialised what they want.
struct Initialisers;

static CAME: AtomicU64 = AtomicU64::new(0);

extern "C" fn until_all_came() -> u64 {
    while CAME.load(Ordering::Relaxed) < 10 {
        thread::yield_now();
    }
    work(LONG);
    CAME.fetch_add(1, Ordering::Relaxed)
}

impl App for Initialisers {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        CAME.fetch_add(1, Ordering::Relaxed);
        response.write(&initialised(until_all_came).to_le_bytes());
    }
}

#[test]
fn the_initialiser_of_a_static_is_waited_for() {
    let (_, answers) = serve(Initialisers, 1, &[0; 10]);
    assert_eq!(answers, vec![10_u64.to_le_bytes(); 10]);
}

/// LevelDB's own mutex: describing its tables takes long and happens under it; reads and writes
/// need it too.
struct Described {
    store: Store,
}

fn long_key(index: u32) -> Vec<u8> {
    // A description shows each table's first and last key, byte by byte.
    [&index.to_be_bytes()[..], &[0xFF; 1000]].concat()
}

impl App for Described {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let index = u32::from(request[0]);
        for round in 0..4 {
            let key = long_key(index + 256 * round);
            match request[0] % 3 {
                0 => {
                    let text = self.store.property("leveldb.sstables").unwrap().unwrap();
                    response.write(&[u8::from(text.len() > 10_000)]);
                }
                1 => {
                    let found = self.store.get(&key).unwrap();
                    response.write(&[u8::from(found.is_some_and(|value| value == key))]);
                }
                _ => {
                    self.store.put(&key, &key).unwrap();
                    response.write(&[1]);
                }
            }
        }
    }
}

#[test]
fn a_description_under_leveldbs_mutex_keeps_nobody_from_going_on() {
    let store = Store::open(&StoreOptions { write_buffer_bytes: 1, block_cache_bytes: 1 << 20 });
    let store = store.unwrap();
    // 12 MB: tables of 2 MB, as LevelDB makes them, and their keys in the description.
    for index in 0..6_000 {
        let key = long_key(index);
        store.put(&key, &key).unwrap();
    }
    store.compact();
    let requests: Vec<u8> = (0..=255).cycle().take(150).collect();
    let (report, answers) = serve(Described { store }, 1, &requests);
    assert!(answers.iter().all(|answer| answer == &[1; 4]));
    assert_eq!(report.classes[0].completed, 150);
    is_preempting(&report);
}
