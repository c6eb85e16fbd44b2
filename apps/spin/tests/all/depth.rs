//! What the compiler pass makes of Rust's locks: the critical-section depth is raised exactly while
//! one is held, however it is taken and released.
//!
//! Instrumented, the depth inside is that of the locks held; built plainly, nothing is counted.

use curtail::{SafepointKind, safepoint_kind};
use curtail_fiber::safepoint::Safepoint;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, OnceLock, RwLock, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

fn depth() -> u32 {
    Safepoint::this_thread().depth()
}

/// Asserts that so many locks are held.
#[track_caller]
fn held(locks: u32) {
    let expected = if safepoint_kind() == SafepointKind::None { 0 } else { locks };
    assert_eq!(depth(), expected);
}

#[inline(never)]
fn made_elsewhere(mutex: &Mutex<u64>) -> std::sync::MutexGuard<'_, u64> {
    mutex.lock().unwrap()
}

#[inline(never)]
fn dropped_elsewhere<G>(guard: G) {
    drop(guard);
}

#[test]
fn a_mutex_of_std() {
    let mutex = black_box(Mutex::new(0_u64));
    for _ in 0..2 {
        held(0);
        *mutex.lock().unwrap() += 1;
        held(0);
        let mut guard = made_elsewhere(&mutex);
        held(1);
        *guard += 1;
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
        held(1);
        dropped_elsewhere(guard);
        held(0);
        let tried = mutex.try_lock().unwrap();
        held(1);
        drop(tried);
        held(0);
    }
    assert_eq!(mutex.into_inner().unwrap(), 4);
}

#[test]
fn two_at_a_time() {
    let (first, second) = black_box((Mutex::new(1_u64), RwLock::new(2_u64)));
    let one = first.lock().unwrap();
    held(1);
    let two = second.write().unwrap();
    held(2);
    drop(one);
    held(1);
    drop(two);
    held(0);
}

#[test]
fn a_read_write_lock_of_std() {
    let lock = black_box(RwLock::new(7_u64));
    let first = lock.read().unwrap();
    held(1);
    let second = lock.try_read().unwrap();
    held(2);
    assert!(lock.try_write().is_err());
    held(2);
    drop((first, second));
    held(0);
    *lock.write().unwrap() += 1;
    held(0);
    let writer = lock.try_write().unwrap();
    held(1);
    assert!(lock.try_read().is_err());
    assert!(lock.try_write().is_err());
    held(1);
    dropped_elsewhere(writer);
    held(0);
}

#[test]
fn poisoned_and_unwound() {
    let mutex = black_box(Mutex::new(0_u64));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = mutex.lock().unwrap();
        held(1);
        panic!("with the lock");
    }));
    assert!(panicked.is_err());
    held(0);
    let poisoned = mutex.lock().unwrap_err();
    held(1);
    drop(poisoned);
    held(0);
    assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
    held(0);
    let unwrapped = catch_unwind(AssertUnwindSafe(|| *mutex.lock().unwrap()));
    assert!(unwrapped.is_err());
    held(0);
}

#[test]
fn contended() {
    const TURNS: u64 = 20_000;
    let shared = Arc::new((Mutex::new(0_u64), RwLock::new(0_u64), parking_lot::Mutex::new(0_u64)));
    let start = Arc::new(Barrier::new(2));
    let work = |shared: &(Mutex<u64>, RwLock<u64>, parking_lot::Mutex<u64>), start: &Barrier| {
        start.wait();
        for _ in 0..TURNS {
            *shared.0.lock().unwrap() += 1;
            *shared.1.write().unwrap() += 1;
            black_box(*shared.1.read().unwrap());
            *shared.2.lock() += 1;
        }
        held(0);
    };
    let other = {
        let (shared, start) = (shared.clone(), start.clone());
        thread::spawn(move || work(&shared, &start))
    };
    work(&shared, &start);
    other.join().unwrap();
    let sums = (*shared.0.lock().unwrap(), *shared.1.read().unwrap(), *shared.2.lock());
    assert_eq!(sums, (2 * TURNS, 2 * TURNS, 2 * TURNS));
}

#[test]
fn a_condition_variable_of_std() {
    let (mutex, changed) = black_box((Mutex::new(0_u64), Condvar::new()));
    let (mut guard, result) =
        changed.wait_timeout(mutex.lock().unwrap(), Duration::from_micros(1)).unwrap();
    assert!(result.timed_out());
    held(1);
    *guard = 1;
    let guard = changed.wait_while(guard, |value| *value == 0).unwrap();
    held(1);
    drop(guard);
    changed.notify_all();
    held(0);
}

#[test]
fn what_runs_once() {
    static LAZY: LazyLock<u32> = LazyLock::new(depth);
    let expected = u32::from(safepoint_kind() != SafepointKind::None);
    assert_eq!(*LAZY, expected);
    held(0);
    let once = black_box(OnceLock::new());
    assert_eq!(*once.get_or_init(depth), expected);
    held(0);
    let parked = parking_lot::Once::new();
    parked.call_once(|| held(1));
    held(0);
}

#[test]
fn channels_and_standard_streams_leave_nothing_behind() {
    let (sender, receiver) = mpsc::channel();
    let (bounded, arrivals) = mpsc::sync_channel(1);
    for value in 0..100 {
        sender.send(value).unwrap();
        bounded.send(value).unwrap();
        assert_eq!((receiver.recv(), arrivals.recv()), (Ok(value), Ok(value)));
        assert!(arrivals.try_recv().is_err());
        assert!(receiver.recv_timeout(Duration::from_nanos(1)).is_err());
    }
    held(0);
    drop((sender, bounded));
    assert!(receiver.recv().is_err());
    held(0);
    // Re-entrant, so not counted.
    let outer = std::io::stdout().lock();
    drop(std::io::stdout().lock());
    drop(outer);
    held(0);
    let input = std::io::stdin().lock();
    held(1);
    drop(input);
    held(0);
}

#[test]
fn a_mutex_of_parking_lot() {
    let mutex = black_box(parking_lot::Mutex::new(0_u64));
    let mut guard = mutex.lock();
    held(1);
    *guard += 1;
    assert!(mutex.try_lock().is_none());
    assert!(mutex.try_lock_for(Duration::from_micros(1)).is_none());
    held(1);
    parking_lot::MutexGuard::unlocked(&mut guard, || held(0));
    held(1);
    dropped_elsewhere(guard);
    held(0);
    let tried = mutex.try_lock_for(Duration::from_micros(1)).unwrap();
    held(1);
    parking_lot::MutexGuard::unlock_fair(tried);
    held(0);
    let changed = parking_lot::Condvar::new();
    let mut guard = mutex.try_lock().unwrap();
    assert!(changed.wait_for(&mut guard, Duration::from_micros(1)).timed_out());
    held(1);
    drop(guard);
    changed.notify_one();
    held(0);
    let reentrant = black_box(parking_lot::ReentrantMutex::new(0_u64));
    let (outer, inner) = (reentrant.lock(), reentrant.lock());
    held(1);
    drop((outer, inner));
    held(0);
}

#[test]
fn a_read_write_lock_of_parking_lot() {
    use parking_lot::{RwLockUpgradableReadGuard as Upgradable, RwLockWriteGuard as Writer};
    let lock = black_box(parking_lot::RwLock::new(0_u64));
    let (first, second) = (lock.read(), lock.try_read().unwrap());
    held(2);
    assert!(lock.try_write().is_none());
    assert!(lock.try_write_for(Duration::from_micros(1)).is_none());
    held(2);
    drop((first, second));
    held(0);
    let writer = lock.write();
    held(1);
    assert!(lock.try_read().is_none());
    let reader = Writer::downgrade(writer);
    held(1);
    drop(reader);
    held(0);
    let upgradable = lock.upgradable_read();
    held(1);
    let other = lock.read();
    held(2);
    let upgradable = Upgradable::try_upgrade(upgradable).unwrap_err();
    held(2);
    drop(other);
    let mut writer = Upgradable::upgrade(upgradable);
    *writer += 1;
    held(1);
    dropped_elsewhere(writer);
    held(0);
    let upgradable = lock.try_upgradable_read().unwrap();
    held(1);
    drop(upgradable);
    held(0);
}
