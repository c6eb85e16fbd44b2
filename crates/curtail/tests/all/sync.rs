//! `curtail::sync` on one kthread and on several, with plain threads among them: locks, permits, and
//! what brings threads together. (`conditions.rs`, `channels.rs` have the rest.)

use crate::together;

use curtail::sync::{
    Barrier, LazyLock, Mutex, Once, OnceLock, PoisonError, RwLock, RwLockWriteGuard, Semaphore,
    TryLockError, WaitGroup,
};
use curtail::time::{sleep, timeout};
use curtail::{Runtime, scope, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use together::{MS, on_each, together};

#[test]
fn a_mutex_has_one_holder() {
    on_each(|| {
        let shared = Arc::new((Mutex::new(0_u64), AtomicBool::new(false)));
        let same = shared.clone();
        together(6, 2, move |n| {
            for round in 0..3_000 {
                let mut count = same.0.lock().unwrap();
                assert!(!same.1.swap(true, Ordering::Relaxed));
                if round % 16 == n {
                    yield_now(); // Others wait meanwhile.
                }
                assert!(same.1.swap(false, Ordering::Relaxed));
                *count += 1;
            }
        });
        assert_eq!(*shared.0.lock().unwrap(), 8 * 3_000);
    });
}

#[test]
fn who_lost_a_mutex_once_gets_it_next() {
    // On one kthread: the holder always comes back before the others run.
    Runtime::builder().kthreads(1).run(|| {
        let (mutex, done) = (Mutex::new(()), AtomicBool::new(false));
        let rounds = AtomicUsize::new(0);
        scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _held = mutex.lock().unwrap();
                    rounds.fetch_add(1, Ordering::Relaxed);
                    assert!(rounds.load(Ordering::Relaxed) < 100, "the other one starves");
                    yield_now();
                }
            });
            s.spawn(|| {
                drop(mutex.lock().unwrap());
                done.store(true, Ordering::Relaxed);
            });
        });
    });
}

#[test]
fn what_a_holder_broke_is_poisoned() {
    on_each(|| {
        let mutex = Arc::new(Mutex::new(1));
        let same = mutex.clone();
        let broken = spawn(move || {
            let mut held = same.lock().unwrap();
            *held = 2;
            panic!("with the lock");
        });
        assert!(broken.join().is_err());
        assert!(mutex.is_poisoned());
        assert_eq!(*mutex.lock().unwrap_err().into_inner(), 2);
        assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
        mutex.clear_poison();
        *mutex.lock().unwrap() = 3;
        assert_eq!(Arc::into_inner(mutex).unwrap().into_inner().unwrap(), 3);

        let lock = RwLock::new(1);
        let panics = |write: bool| {
            let body = || match write {
                true => {
                    let _held = lock.write().unwrap();
                    panic!("writing");
                }
                false => {
                    let _held = lock.read().unwrap();
                    panic!("reading");
                }
            };
            assert!(catch_unwind(AssertUnwindSafe(body)).is_err());
        };
        panics(false);
        assert!(!lock.is_poisoned(), "a reader breaks nothing");
        panics(true);
        assert!(lock.is_poisoned() && lock.read().is_err() && lock.try_write().is_err());
        assert_eq!(*lock.write().unwrap_or_else(PoisonError::into_inner), 1);
    });
}

#[test]
fn readers_share_and_writers_do_not() {
    on_each(|| {
        let shared = Arc::new((RwLock::new([0_u64; 2]), AtomicUsize::new(0)));
        let same = shared.clone();
        together(6, 2, move |n| {
            for round in 0..1_000 {
                if (n + round) % 4 == 0 {
                    let mut pair = same.0.write().unwrap();
                    assert_eq!(same.1.load(Ordering::Relaxed), 0, "no thread reads");
                    pair[0] += 1;
                    if round % 8 == 0 {
                        yield_now();
                    }
                    pair[1] += 1;
                    let pair = RwLockWriteGuard::downgrade(pair);
                    assert_eq!(pair[0], pair[1]);
                } else {
                    let pair = same.0.read().unwrap();
                    same.1.fetch_add(1, Ordering::Relaxed);
                    if round % 8 == 0 {
                        yield_now();
                    }
                    assert_eq!(pair[0], pair[1]);
                    same.1.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(*shared.0.read().unwrap(), [2_000; 2]);
        assert!(shared.0.try_write().is_ok(), "nothing is left of those who waited");
    });
}

#[test]
fn writers_do_not_starve() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(()));
        let done = Arc::new(AtomicBool::new(false));
        let reader = || {
            let (lock, done) = (lock.clone(), done.clone());
            spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let _held = lock.read().unwrap();
                    yield_now(); // At any time a thread reads.
                }
            })
        };
        let readers: Vec<_> = (0..4).map(|_| reader()).collect();
        yield_now();
        for _ in 0..20 {
            drop(lock.write().unwrap());
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        // A writer that gives up lets the readers behind it in.
        let held = lock.read().unwrap();
        scope(|s| {
            let writer = s.spawn(|| timeout(2 * MS, || drop(lock.write())).is_err());
            sleep(MS / 2);
            let reader = s.spawn(|| drop(lock.read().unwrap()));
            assert!(writer.join().unwrap());
            reader.join().unwrap();
        });
        drop(held);
    });
}

#[test]
fn permits_are_counted_and_handed_out_in_turn() {
    on_each(|| {
        let semaphore = Arc::new((Semaphore::new(3), AtomicUsize::new(0)));
        let same = semaphore.clone();
        together(8, 2, move |n| {
            for round in 0..500 {
                let count = 1 + (n + round) as u32 % 3;
                let _permit = same.0.acquire_many(count);
                let now = same.1.fetch_add(count as usize, Ordering::Relaxed);
                assert!(now + count as usize <= 3);
                if round % 8 == 0 {
                    yield_now();
                }
                same.1.fetch_sub(count as usize, Ordering::Relaxed);
            }
        });
        let semaphore = &semaphore.0;
        assert_eq!(semaphore.available_permits(), 3);
        let all = semaphore.try_acquire_many(3).unwrap();
        assert!(semaphore.try_acquire().is_none());
        assert!(semaphore.acquire_timeout(MS).is_none());
        assert!(timeout(MS, || drop(semaphore.acquire())).is_err());
        all.forget();
        semaphore.add_permits(2);
        // A waiter that wants many is in front, gives up, and lets those behind have theirs.
        scope(|s| {
            let many = s.spawn(|| timeout(2 * MS, || drop(semaphore.acquire_many(3))).is_err());
            sleep(MS / 2);
            let few = s.spawn(|| drop(semaphore.acquire()));
            assert!(many.join().unwrap());
            few.join().unwrap();
        });
        assert_eq!(semaphore.available_permits(), 2);
    });
}

#[test]
fn barriers_and_wait_groups_bring_all_together() {
    on_each(|| {
        let shared = Arc::new((Barrier::new(6), AtomicUsize::new(0), AtomicUsize::new(0)));
        let same = shared.clone();
        together(4, 2, move |_| {
            for round in 1..=200 {
                same.1.fetch_add(1, Ordering::Relaxed);
                if same.0.wait().is_leader() {
                    same.2.fetch_add(1, Ordering::Relaxed);
                }
                assert!(same.1.load(Ordering::Relaxed) >= 6 * round);
            }
        });
        assert_eq!(shared.2.load(Ordering::Relaxed), 200, "one leader each round");
        // A thread that gives up is not counted.
        let pair = Barrier::new(2);
        assert!(timeout(MS, || pair.wait().is_leader()).is_err());
        scope(|s| {
            let other = s.spawn(|| pair.wait().is_leader());
            assert!(pair.wait().is_leader() != other.join().unwrap());
        });

        let group = Arc::new(WaitGroup::new());
        let done = Arc::new(AtomicUsize::new(0));
        group.add(50);
        for _ in 0..50 {
            let (group, done) = (group.clone(), done.clone());
            drop(spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
                group.done();
            }));
        }
        let same = group.clone();
        let plain = std::thread::spawn(move || same.wait());
        group.wait();
        assert_eq!(done.load(Ordering::Relaxed), 50);
        plain.join().unwrap();
        group.wait();
        assert!(catch_unwind(AssertUnwindSafe(|| group.done())).is_err());
    });
}

#[test]
fn what_is_made_once_is_made_once() {
    on_each(|| {
        let shared = Arc::new((Once::new(), OnceLock::new(), AtomicUsize::new(0)));
        let same = shared.clone();
        together(6, 2, move |n| {
            same.0.call_once(|| {
                yield_now(); // Others come meanwhile, and wait.
                same.2.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(same.2.load(Ordering::Relaxed), 1);
            let value = *same.1.get_or_init(|| {
                yield_now();
                n
            });
            assert_eq!(same.1.get(), Some(&value));
            assert_eq!(*same.1.wait(), value);
        });
        assert!(shared.0.is_completed() && shared.1.set(100).is_err());

        let once = Once::new();
        let panics = || once.call_once(|| panic!("once"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| {}))).is_err(), "poisoned");
        once.call_once_force(|state| assert!(state.is_poisoned()));
        once.call_once(|| unreachable!("it has run"));

        static LAZY: LazyLock<Mutex<Vec<u32>>> = LazyLock::new(|| Mutex::new(vec![1]));
        LAZY.lock().unwrap().push(2);
        let mut cell = OnceLock::from(String::from("a"));
        cell.get_mut().unwrap().push('b');
        assert_eq!((cell.take(), cell.into_inner()), (Some("ab".to_owned()), None));
    });
}
