//! Many threads on one store, compactions under way: every read is checked.
//!
//! Each writer owns a range of keys and writes round after round over it, in key order, the round's
//! number in the value. So what a reader may find is known: a key's round never goes back, and a
//! snapshot shows a range as some keys of one round followed by all others of the round before.
#![cfg(feature = "leveldb")]

use kv::{KeyRange, Store, StoreOptions};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const WRITERS: u64 = 3;
const KEYS: u64 = 60;
const ROUNDS: u64 = 60;
const VALUE_BYTES: usize = 600;

fn key(writer: u64, index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&writer.to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

fn value(writer: u64, index: u64, round: u64) -> Vec<u8> {
    let words = [writer, index, round].into_iter().cycle().flat_map(u64::to_le_bytes);
    words.take(VALUE_BYTES).collect()
}

/// The round in a value, after a check of every byte of it.
fn round_of(writer: u64, index: u64, bytes: &[u8]) -> u64 {
    let round = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    assert!(bytes == value(writer, index, round), "a torn or misplaced value");
    round
}

/// What all threads know: the rounds that writers have finished for each key.
struct World {
    store: Store,
    written: Vec<AtomicU64>,
    stop: AtomicBool,
    /// All start together.
    start: Barrier,
}

impl World {
    fn written(&self, writer: u64, index: u64) -> &AtomicU64 {
        &self.written[(writer * KEYS + index) as usize]
    }

    fn write(&self, writer: u64) {
        self.start.wait();
        for round in 1..=ROUNDS {
            for index in 0..KEYS {
                self.store.put(&key(writer, index), &value(writer, index, round)).unwrap();
                self.written(writer, index).store(round, Ordering::Release);
            }
            // A key that comes and goes, above all others of the range.
            let extra = key(writer, KEYS);
            self.store.put(&extra, b"extra").unwrap();
            self.store.delete(&extra).unwrap();
            assert_eq!(self.store.get(&extra), Ok(None));
        }
    }

    fn read(&self, seed: u64) {
        let mut latest = vec![0; self.written.len()];
        let mut reads = 0;
        self.start.wait();
        while reads == 0 || !self.stop.load(Ordering::Acquire) {
            let at = (seed + reads * 7) % (WRITERS * KEYS);
            let (writer, index) = (at / KEYS, at % KEYS);
            let least = self.written(writer, index).load(Ordering::Acquire);
            let found = self.store.get(&key(writer, index)).unwrap().expect("it is never deleted");
            let round = round_of(writer, index, &found);
            assert!(round >= least, "a finished write is lost: {round} after {least}");
            assert!(round >= latest[at as usize], "time went back");
            latest[at as usize] = round;
            reads += 1;
        }
    }

    fn scan(&self) {
        let mut scans = 0;
        self.start.wait();
        while scans == 0 || !self.stop.load(Ordering::Acquire) {
            for writer in 0..WRITERS {
                self.scan_range(writer);
                scans += 1;
            }
        }
    }

    fn scan_range(&self, writer: u64) {
        let least: Vec<_> =
            (0..KEYS).map(|index| self.written(writer, index).load(Ordering::Acquire)).collect();
        let mut rounds = Vec::new();
        let (start, end) = (key(writer, 0), key(writer + 1, 0));
        let range = KeyRange { start: &start, end: Some(&end) };
        self.store
            .scan(range, usize::MAX, |found, bytes| {
                let index = u64::from_be_bytes(found[8..].try_into().unwrap());
                if index == KEYS {
                    assert_eq!(bytes, b"extra");
                } else {
                    assert_eq!(index, rounds.len() as u64, "a key is missing");
                    rounds.push(round_of(writer, index, bytes));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(rounds.len() as u64, KEYS);
        assert!(rounds.iter().zip(&least).all(|(round, least)| round >= least));
        assert!(rounds.is_sorted_by(|a, b| a >= b), "not a moment that ever was: {rounds:?}");
        assert!(rounds[0] - rounds[KEYS as usize - 1] <= 1, "{rounds:?}");
    }
}

#[test]
fn every_read_is_one_that_may_be() {
    let options = StoreOptions { write_buffer_bytes: 1, block_cache_bytes: 256 << 10 };
    let world = World {
        store: Store::open(&options).unwrap(),
        written: (0..WRITERS * KEYS).map(|_| AtomicU64::new(0)).collect(),
        stop: AtomicBool::new(false),
        start: Barrier::new(WRITERS as usize + 3),
    };
    for writer in 0..WRITERS {
        for index in 0..KEYS {
            world.store.put(&key(writer, index), &value(writer, index, 0)).unwrap();
        }
    }
    thread::scope(|scope| {
        let world = &world;
        let readers: Vec<_> = (0..2).map(|seed| scope.spawn(move || world.read(seed))).collect();
        let scanner = scope.spawn(|| world.scan());
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || world.write(writer))).collect();
        // Whatever happens to the writers, the others must end.
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        world.stop.store(true, Ordering::Release);
        assert!(results.iter().all(Result::is_ok), "a writer failed");
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        scanner.join().unwrap();
    });
    for writer in 0..WRITERS {
        world.scan_range(writer);
        assert_eq!(
            world.store.get(&key(writer, 0)),
            Ok(Some(value(writer, 0, ROUNDS))),
            "the last round stands"
        );
    }
    // 6.5 MB went through a buffer of 64 KiB: this was no test of the memtable alone.
    let stats = world.store.property("leveldb.stats").unwrap().unwrap();
    assert!(stats.lines().count() > 3, "{stats}");
}
