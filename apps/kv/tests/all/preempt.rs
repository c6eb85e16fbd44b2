//! The server as it runs: the real runtime, the in-process transport, quanta of 1 µs, compactions
//! under way, and clients that check every answer.
//!
//! Each writer owns a range of keys and has one write under way at a time, so the range goes through
//! numbered states: state *s* is what *s* writes have made of it. A client knows which states may be
//! seen between asking and answer: from the last one that was acknowledged before to the last one
//! that was begun by then. A GET must answer a value, a SCAN the checksum, of one of these.
//!
//! Built by `cargo curtail test` the handlers are pre-empted, LevelDB included; built plainly they
//! run to completion, and all the same must hold.
#![cfg(feature = "leveldb")]

use crate::common;

use common::{dispatcher, is_preempting};
use curtail::net::{Local, LocalClient, NoResponse, Ticket};
use curtail::{Handle, Nanos, Report, Server, Spec};
use kv::protocol::{Checksum, MAX_LISTED, NO_LIMIT, Op, Opcode, Reply, Request, Status};
use kv::{Engine, KvApp, KvOptions, StoreOptions};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const WRITERS: usize = 2;
const KEYS: u64 = 150;
const WRITES: u64 = 3_000;
const VALUE_BYTES: usize = 200;
/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(20);

fn key(range: usize, index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(range as u64).to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

/// What the `state`-th write of a range puts under its key. Writes go round the keys in order;
/// the first `KEYS` of them fill the range.
fn value(range: usize, state: u64) -> Vec<u8> {
    let words = [range as u64, state, !state].into_iter().cycle().flat_map(u64::to_le_bytes);
    words.take(VALUE_BYTES).collect()
}

/// The write that key `index` has its value from in `state` (`state` ≥ `KEYS`).
fn write_of(index: u64, state: u64) -> u64 {
    state - (state - 1 - index) % KEYS
}

fn sum_of(range: usize, state: u64) -> u64 {
    let mut sum = Checksum::default();
    for index in 0..KEYS {
        sum.entry(&key(range, index), &value(range, write_of(index, state)));
    }
    sum.value()
}

/// How far a range is.
#[derive(Default)]
struct Progress {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

struct Client {
    local: LocalClient,
    server: Handle,
    ranges: Arc<[Progress; WRITERS]>,
    stop: Arc<AtomicBool>,
    sent: u64,
}

/// A request under way, and the first state that its answer may show.
struct Asked {
    ticket: Ticket,
    id: u64,
    range: usize,
    index: u64,
    from: u64,
}

impl Client {
    fn send(&mut self, op: Op<'_>) -> (Ticket, u64) {
        let mut bytes = Vec::new();
        self.sent += 1;
        Request { id: self.sent, op }.write(&mut bytes).unwrap();
        (self.local.submit(bytes).expect("there is a place for every request"), self.sent)
    }

    fn receive<T>(
        &self,
        ticket: Ticket,
        id: u64,
        opcode: Opcode,
        look: impl Fn(&Reply<'_>) -> T,
    ) -> T {
        let answer: Result<Vec<u8>, NoResponse> = ticket.wait_timeout(STUCK).unwrap_or_else(|_| {
            let stats = self.server.stats().expect("the server is alive");
            let (waiting, all) = (stats.waiting, stats.in_system);
            panic!("{opcode:?} {id} is stuck: {waiting} of {all} requests wait centrally")
        });
        let bytes = answer.unwrap_or_else(|why| panic!("{opcode:?} {id}: {why}"));
        let reply = Reply::parse(&bytes).expect("a well-formed reply");
        assert_eq!((reply.id, reply.opcode), (id, Some(opcode)));
        look(&reply)
    }

    fn write(&mut self, range: usize) {
        for state in KEYS + 1..=KEYS + WRITES {
            let key = key(range, (state - 1) % KEYS);
            let value = value(range, state);
            self.ranges[range].begun.store(state, Ordering::SeqCst);
            let (ticket, id) = self.send(Op::Put { key: &key, value: &value });
            let status = self.receive(ticket, id, Opcode::Put, |reply| reply.status);
            assert_eq!(status, Status::Ok);
            self.ranges[range].acknowledged.store(state, Ordering::SeqCst);
        }
    }

    /// One key that comes and goes, in a range of this client's own.
    fn come_and_go(&mut self, range: usize) {
        let key = key(range, 0);
        for round in 0..WRITES / 4 {
            let value = value(range, round);
            let (ticket, id) = self.send(Op::Put { key: &key, value: &value });
            assert_eq!(self.receive(ticket, id, Opcode::Put, |r| r.status), Status::Ok);
            let (ticket, id) = self.send(Op::Get { key: &key });
            self.receive(ticket, id, Opcode::Get, |r| assert_eq!(r.body, value));
            let (ticket, id) = self.send(Op::Delete { key: &key });
            assert_eq!(self.receive(ticket, id, Opcode::Delete, |r| r.status), Status::Ok);
            let (ticket, id) = self.send(Op::Get { key: &key });
            assert_eq!(self.receive(ticket, id, Opcode::Get, |r| r.status), Status::NotFound);
        }
    }

    /// Keeps `depth` requests under way until the writers are done.
    fn ask_all_along(&mut self, opcode: Opcode, depth: usize) {
        let mut under_way = VecDeque::new();
        for turn in 0_u64.. {
            if turn > 0 && self.stop.load(Ordering::SeqCst) {
                break;
            }
            while under_way.len() < depth {
                let asked = self.ask(opcode, turn * 7 + under_way.len() as u64);
                under_way.push_back(asked);
            }
            self.check(opcode, under_way.pop_front().expect("just filled"));
        }
        for asked in under_way {
            self.check(opcode, asked);
        }
    }

    fn ask(&mut self, opcode: Opcode, at: u64) -> Asked {
        let range = (at % WRITERS as u64) as usize;
        let index = at / WRITERS as u64 % KEYS;
        let from = self.ranges[range].acknowledged.load(Ordering::SeqCst);
        let (ticket, id) = match opcode {
            Opcode::Get => self.send(Op::Get { key: &key(range, index) }),
            _ => {
                let (start, end) = (key(range, 0), key(range + 1, 0));
                self.send(Op::Scan { start: &start, end: &end, limit: NO_LIMIT })
            }
        };
        Asked { ticket, id, range, index, from }
    }

    fn check(&self, opcode: Opcode, asked: Asked) {
        let Asked { ticket, id, range, index, from } = asked;
        self.receive(ticket, id, opcode, |reply| {
            let to = self.ranges[range].begun.load(Ordering::SeqCst);
            assert_eq!(reply.status, Status::Ok);
            if opcode == Opcode::Get {
                let write = u64::from_le_bytes(reply.body[8..16].try_into().unwrap());
                assert!(reply.body == value(range, write), "a torn or misplaced value");
                let allowed = write_of(index, from)..=write_of(index, to);
                assert!(allowed.contains(&write), "{write} instead of one of {allowed:?}");
            } else {
                assert_eq!(reply.entries as u64, KEYS);
                assert!(reply.listed().eq((0..MAX_LISTED as u64).map(|i| key(range, i))));
                let seen = (from..=to).any(|state| sum_of(range, state) == reply.checksum);
                assert!(seen, "no moment from {from} to {to} looked like this");
            }
        });
    }
}

/// Serves the clients under `spec` and answers the server's report and how many requests there were.
fn serve(engine: Engine, spec: Spec, workers: usize) -> (Report, u64) {
    let store = StoreOptions { write_buffer_bytes: 1, block_cache_bytes: 1 << 20 };
    let app = KvApp::open(KvOptions { keys: 0, value_bytes: 0, engine, store }).unwrap();
    for range in 0..WRITERS {
        for state in 1..=KEYS {
            app.store().put(&key(range, state - 1), &value(range, state)).unwrap();
        }
    }
    let (transport, local) = Local::new(256).unwrap();
    let server = Server::builder(app)
        .policy(spec)
        .workers(workers)
        .transport(Box::new(transport))
        .stack_size(128 << 10)
        .dispatcher(dispatcher())
        .build()
        .unwrap();
    let handle = server.handle();
    // Not a scoped thread: a server that is stuck must not keep the test from failing.
    let server = thread::spawn(move || server.run());

    let progress = || Progress { begun: KEYS.into(), acknowledged: KEYS.into() };
    let ranges: Arc<[Progress; WRITERS]> = Arc::new(std::array::from_fn(|_| progress()));
    let stop = Arc::new(AtomicBool::new(false));
    let run = |job: fn(&mut Client, usize), argument: usize| {
        let (local, server) = (local.clone(), handle.clone());
        let (ranges, stop) = (ranges.clone(), stop.clone());
        let mut client = Client { local, server, ranges, stop, sent: 0 };
        thread::spawn(move || {
            job(&mut client, argument);
            client.sent
        })
    };
    let askers = [
        run(|client, depth| client.ask_all_along(Opcode::Get, depth), 12),
        run(|client, depth| client.ask_all_along(Opcode::Scan, depth), 6),
    ];
    let mut writers: Vec<_> = (0..WRITERS).map(|range| run(Client::write, range)).collect();
    writers.push(run(Client::come_and_go, WRITERS + 1));
    let written: Vec<_> = writers.into_iter().map(thread::JoinHandle::join).collect();
    stop.store(true, Ordering::SeqCst);
    let asked = askers.map(thread::JoinHandle::join);
    handle.shutdown();
    let sent = written.into_iter().chain(asked).map(|client| client.expect("a client failed"));
    let sent: u64 = sent.sum();
    let report = server.join().expect("the server does not panic").expect("the server runs");
    (report, sent)
}

fn check(policy: &str, workers: usize) {
    check_of(Engine::LevelDb, policy, workers);
}

fn check_of(engine: Engine, policy: &str, workers: usize) {
    let spec = Spec::preset(policy).unwrap().with_quantum(Nanos::from_micros(1)).unwrap();
    let (report, sent) = serve(engine, spec, workers);
    assert!(sent >= WRITERS as u64 * WRITES + WRITES);
    let completed: u64 = report.classes.iter().map(|class| class.completed).sum();
    let lost: u64 = report.classes.iter().map(|class| class.failed + class.dropped).sum();
    assert_eq!((completed, lost, report.abandoned, report.unsent), (sent, 0, 0, 0));
    assert!(report.classes.iter().all(|class| class.completed > 0));
    // SCANs of 150 entries take several quanta, and a request is always waiting.
    is_preempting(&report);
}

#[test]
fn two_level_processor_sharing_on_one_worker() {
    check("tq", 1);
}

#[test]
fn two_level_processor_sharing_on_two_workers() {
    check("tq", 2);
}

#[test]
fn a_central_queue_with_a_dispatcher_that_helps() {
    check("concord", 1);
}

#[test]
fn a_central_queue_of_single_jobs_on_two_workers() {
    check("shinjuku", 2);
}

#[test]
fn states_are_what_the_writes_make_of_them() {
    // The checks above rest on this little model: try it by replaying the writes.
    let mut range = vec![0; KEYS as usize];
    for state in 1..=3 * KEYS + 7 {
        range[((state - 1) % KEYS) as usize] = state;
        if state >= KEYS {
            let model: Vec<_> = (0..KEYS).map(|index| write_of(index, state)).collect();
            assert_eq!(model, range, "state {state}");
        }
    }
    assert_ne!(sum_of(0, KEYS), sum_of(0, KEYS + 1));
    assert_ne!(sum_of(0, KEYS), sum_of(1, KEYS));
}

/// RocksDB keeps what it reads from in a thread-local while it reads. Were that the worker's, the next
/// request there would take a mark for a pointer, and the process would end.
#[test]
#[cfg(feature = "rocksdb")]
fn rocksdb_reads_while_it_is_read() {
    for policy in ["tq", "concord"] {
        check_of(Engine::RocksDb, policy, 1);
    }
}
