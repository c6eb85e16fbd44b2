//! The store against a `BTreeMap`, with the smallest write buffer, so that entries are in memory, in
//! fresh tables and in compacted ones at once; and its safety at the border.
#![cfg(feature = "leveldb")]

use kv::{Engine, KeyRange, Store, StoreOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SMALLEST: StoreOptions = StoreOptions { write_buffer_bytes: 1, block_cache_bytes: 64 << 10 };

const ENGINES: &[Engine] = &[
    Engine::LevelDb,
    #[cfg(feature = "rocksdb")]
    Engine::RocksDb,
];

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, u8, usize),
    Delete(Vec<u8>),
    Get(Vec<u8>),
    Scan(Vec<u8>, Option<Vec<u8>>, usize),
    Compact,
}

/// Few distinct keys, so that steps meet; all byte values, and the empty key.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..24_u8).prop_map(|k| vec![b'k', k]),
        1 => proptest::collection::vec(any::<u8>(), 0..3),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Values of some KiB fill the smallest write buffer (64 KiB) several times a case.
        6 => (key(), any::<u8>(), 0..6_000_usize).prop_map(|(k, b, n)| Step::Put(k, b, n)),
        2 => key().prop_map(Step::Delete),
        3 => key().prop_map(Step::Get),
        2 => (key(), proptest::option::of(key()), 0..30_usize)
            .prop_map(|(s, e, n)| Step::Scan(s, e, n)),
        1 => Just(Step::Compact),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn model_scan(
    model: &Model,
    start: &[u8],
    end: Option<&[u8]>,
    limit: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let from = (Bound::Included(start), Bound::Unbounded);
    let entries = model.range::<[u8], _>(from).take_while(|(k, _)| end.is_none_or(|e| &k[..] < e));
    entries.take(limit).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn store_scan(
    store: &Store,
    start: &[u8],
    end: Option<&[u8]>,
    limit: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    let shown = store.scan(KeyRange { start, end }, limit, |k, v| {
        seen.push((k.to_vec(), v.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(shown, Ok(seen.len()));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_a_map(
        engine in prop::sample::select(ENGINES),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let store = Store::open_with(engine, &SMALLEST).unwrap();
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Put(key, byte, length) => {
                    let value = vec![byte; length];
                    store.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                Step::Delete(key) => {
                    store.delete(&key).unwrap();
                    model.remove(&key);
                }
                Step::Get(key) => prop_assert_eq!(store.get(&key), Ok(model.get(&key).cloned())),
                Step::Scan(start, end, limit) => prop_assert_eq!(
                    store_scan(&store, &start, end.as_deref(), limit),
                    model_scan(&model, &start, end.as_deref(), limit)
                ),
                Step::Compact => store.compact(),
            }
        }
        let all: Vec<_> = model.into_iter().collect();
        prop_assert_eq!(store_scan(&store, &[], None, usize::MAX), all);
    }
}

#[test]
fn get_appends_and_grows_as_needed() {
    let store = Store::open(&StoreOptions::default()).unwrap();
    for length in [0, 1, 15, 16, 255, 256, 100_000] {
        let value: Vec<u8> = (0..length).map(|i| i as u8).collect();
        store.put(b"key", &value).unwrap();
        for capacity in [0, 4, 4 + length, 200_000] {
            let mut out = Vec::with_capacity(capacity);
            out.extend_from_slice(b"left");
            assert_eq!(store.get_into(b"key", &mut out), Ok(true));
            assert_eq!((&out[..4], &out[4..]), (&b"left"[..], &value[..]));
            assert_eq!(store.get_into(b"no key", &mut out), Ok(false));
            assert_eq!(out.len(), 4 + length);
        }
    }
}

#[test]
fn a_snapshot_does_not_see_later_writes() {
    let store = Store::open(&SMALLEST).unwrap();
    for i in 0..100_u8 {
        store.put(&[i], &[1; 1000]).unwrap();
    }
    let mut scan = store.snapshot(KeyRange { start: &[10], end: Some(&[90]) }).unwrap();
    for i in 0..=255_u8 {
        store.put(&[i], &[2; 1000]).unwrap();
        store.delete(&[i.wrapping_mul(3)]).unwrap();
    }
    store.compact();
    for i in 10..90_u8 {
        assert_eq!(scan.entry(), Ok(Some((&[i][..], &[1; 1000][..]))));
        scan.advance();
    }
    for _ in 0..300 {
        assert_eq!(scan.entry(), Ok(None));
        scan.advance();
    }
}

#[test]
fn a_scan_stops_when_told_and_survives_a_panic() {
    let store = Store::open(&StoreOptions::default()).unwrap();
    for i in 0..50_u8 {
        store.put(&[i], &[i]).unwrap();
    }
    let mut last = None;
    let shown = store.scan(KeyRange::ALL, usize::MAX, |key, _| {
        // The store may be used from inside, and what is written does not show.
        store.put(&[200], key).unwrap();
        last = Some(key[0]);
        if key[0] == 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((shown, last), (Ok(31), Some(30)));

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.scan(KeyRange::ALL, usize::MAX, |key, _| {
            assert!(key[0] < 7, "seven");
            ControlFlow::Continue(())
        })
    }));
    let text = panicked.expect_err("the callback panics").downcast::<&str>().unwrap();
    assert_eq!(*text, "seven");
    assert_eq!(store.get(&[200]), Ok(Some(vec![30])));
    assert_eq!(store.scan(KeyRange::ALL, 1000, |_, _| ControlFlow::Continue(())), Ok(51));
}

#[test]
fn properties_show_compactions() {
    let store = Store::open(&SMALLEST).unwrap();
    assert_eq!(store.property("leveldb.num-files-at-level0"), Ok(Some("0".into())));
    for i in 0..400_u32 {
        store.put(&i.to_le_bytes(), &[7; 1000]).unwrap();
    }
    let tables = |level: u8| {
        let text = store.property(&format!("leveldb.num-files-at-level{level}")).unwrap().unwrap();
        text.parse::<u32>().unwrap()
    };
    // 400 kB through a buffer of 64 KiB: some of it must be in tables by now.
    assert!((0..7).map(tables).sum::<u32>() > 0);
    store.compact();
    assert_eq!(tables(0), 0);
    assert_eq!(store.property("leveldb.nothing"), Ok(None));
    assert_eq!(store.property("a\0b"), Ok(None));
}

#[test]
fn stores_are_separate() {
    let (one, other) = (Store::open(&SMALLEST).unwrap(), Store::open(&SMALLEST).unwrap());
    one.put(b"k", b"1").unwrap();
    assert_eq!(other.get(b"k"), Ok(None));
    drop(one);
    other.put(b"k", b"2").unwrap();
    assert_eq!(other.get(b"k"), Ok(Some(b"2".to_vec())));
}
