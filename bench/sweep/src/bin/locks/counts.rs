//! Counts under locks, which must be exact, and a cache.

use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must};
use dashmap::DashMap;
use moka::sync::Cache;
use parking_lot::{Condvar, FairMutex, Mutex, ReentrantMutex, RwLock};
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static PASSES: AtomicU64 = AtomicU64::new(0);
static COUNT: Mutex<u64> = Mutex::new(0);
static FAIR: FairMutex<u64> = FairMutex::new(0);
/// One number, held twice.
static PAIR: RwLock<(u64, u64)> = RwLock::new((0, 0));
static OWNED: ReentrantMutex<RefCell<u64>> = ReentrantMutex::new(RefCell::new(0));
static TURN: Mutex<bool> = Mutex::new(false);
static TURN_CHANGED: Condvar = Condvar::new();

/// Adds one, not at once.
fn add_one(count: &mut u64) {
    let before = *count;
    compute();
    *count = before + 1;
}

pub fn parking_lot() -> Outcome {
    PASSES.fetch_add(1, Relaxed);
    add_one(&mut COUNT.lock());
    add_one(&mut FAIR.lock());
    {
        let mut pair = PAIR.write();
        add_one(&mut pair.0);
        add_one(&mut pair.1);
    }
    {
        let pair = PAIR.read();
        let first = pair.0;
        compute();
        must!(first == pair.1, "a reader saw {first} and {}", pair.1);
    }
    {
        let outer = OWNED.lock();
        let inner = OWNED.lock();
        let mut count = inner.try_borrow_mut().map_err(|_| "a re-entrant lock has two owners")?;
        add_one(&mut count);
        drop(count);
        drop(inner);
        compute();
        must!(outer.try_borrow().is_ok(), "a re-entrant lock was given away");
    }
    {
        let mut taken = TURN.lock();
        TURN_CHANGED.wait_while(&mut taken, |taken| *taken);
        *taken = true;
    }
    compute();
    *TURN.lock() = false;
    TURN_CHANGED.notify_one();
    Ok("counted".to_owned())
}

pub fn parking_lot_end() -> Result<(), String> {
    let passes = PASSES.load(Relaxed);
    let owned = *OWNED.lock().borrow();
    for (what, count) in [
        ("mutex", *COUNT.lock()),
        ("fair", *FAIR.lock()),
        ("pair", PAIR.read().0),
        ("re-entrant", owned),
    ] {
        must!(count == passes, "{what}: {count} instead of {passes}");
    }
    Ok(())
}

static MAP: LazyLock<DashMap<u64, u64>> = LazyLock::new(DashMap::new);
static ADDED: AtomicU64 = AtomicU64::new(0);

pub fn dashmap() -> Outcome {
    for _ in 0..20 {
        let key = ticket() % 50;
        ADDED.fetch_add(1, Relaxed);
        add_one(&mut MAP.entry(key).or_insert(0));
        let guard = MAP.get(&key).ok_or_else(|| format!("{key} is gone"))?;
        let before = *guard;
        compute();
        must!(*guard == before, "{key} changed under a guard");
    }
    let own = 1_000 + ticket();
    MAP.insert(own, 0);
    compute();
    must!(MAP.remove(&own) == Some((own, 0)), "{own} is not what it was");
    Ok("counted".to_owned())
}

pub fn dashmap_end() -> Result<(), String> {
    let (sum, added) = (MAP.iter().map(|entry| *entry.value()).sum::<u64>(), ADDED.load(Relaxed));
    must!(sum == added, "{sum} instead of {added}");
    Ok(())
}

/// Holds all that is put in: a value is made once.
static ALL: LazyLock<Cache<u64, (u64, u64)>> = LazyLock::new(|| Cache::new(1 << 24));
/// Holds few: values are made anew.
static FEW: LazyLock<Cache<u64, String>> = LazyLock::new(|| Cache::new(64));

/// How often each value was made, by key.
static MADE: [AtomicU64; 1 << 14] = [const { AtomicU64::new(0) }; 1 << 14];

pub fn moka() -> Outcome {
    for _ in 0..4 {
        // Eight keys in a row are asked for by as many threads.
        let key = ticket() / 8 % MADE.len() as u64;
        let value = ALL.get_with(key, || {
            compute();
            (key, MADE[key as usize].fetch_add(1, Relaxed) + 1)
        });
        must!(value == (key, 1), "key {key} has {value:?}");
        let few = FEW.get_with(key, || {
            compute();
            key.to_string()
        });
        must!(few == key.to_string(), "key {key} has {few}");
    }
    Ok("own".to_owned())
}
