//! Condition variables of `curtail::sync` on one kthread and on several, with plain threads among
//! them: notifications, and ends in time.

use crate::together;

use curtail::sync::{Condvar, Mutex, Semaphore};
use curtail::time::{sleep, timeout};
use curtail::{Runtime, scope, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use together::{MS, on_each, together};

#[test]
fn a_guard_that_waits_for_a_condition_is_not_poisoned_by_the_end_of_its_time() {
    on_each(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let over = timeout(MS, || drop(condvar.wait(mutex.lock().unwrap())));
        assert!(over.is_err() && !mutex.is_poisoned());
        let held = mutex.lock().unwrap();
        scope(|s| {
            let waits = s.spawn(|| timeout(MS, || drop(mutex.lock())).is_err());
            sleep(5 * MS);
            assert!(waits.is_finished(), "its time is over, and the lock is held");
            assert!(waits.join().unwrap());
        });
        drop(held);
        drop(mutex.try_lock().expect("free"));
        // No depth is left behind: others are pre-empted and switched to as before.
        assert_eq!(spawn(|| 5).join().unwrap(), 5);
    });
}

#[test]
fn notifications_arrive() {
    on_each(|| {
        let shared = Arc::new((Mutex::new(0_usize), Condvar::new()));
        let same = shared.clone();
        // Each waits for its turn; the one that had it tells all or the next.
        together(5, 2, move |n| {
            let (turn, changed) = &*same;
            for round in 0..200 {
                let mine = |turn: &mut usize| *turn != 7 * round + n;
                let mut turn = changed.wait_while(turn.lock().unwrap(), mine).unwrap();
                *turn += 1;
                if round % 2 == 0 {
                    drop(turn); // With the lock, and without.
                }
                changed.notify_all();
            }
        });
        assert_eq!(*shared.0.lock().unwrap(), 7 * 200);
    });
}

#[test]
fn one_notification_wakes_one() {
    on_each(|| {
        let shared = Arc::new((Mutex::new((0_usize, 0_usize)), Condvar::new()));
        let same = shared.clone();
        // Tokens and takers: a lost notification leaves a taker waiting for ever.
        together(6, 2, move |n| {
            let (tokens, changed) = &*same;
            for _ in 0..500 {
                let mut state = tokens.lock().unwrap();
                if n % 2 == 0 {
                    state.0 += 1;
                    changed.notify_one();
                } else {
                    let none = |state: &mut (usize, usize)| state.0 == 0;
                    let mut state = changed.wait_while(state, none).unwrap();
                    state.0 -= 1;
                    state.1 += 1;
                }
            }
        });
        assert_eq!(*shared.0.lock().unwrap(), (0, 4 * 500));
    });
}

#[test]
fn time_limits_race_with_notifications() {
    on_each(|| {
        let shared = Arc::new((Mutex::new(0_usize), Condvar::new()));
        let same = shared.clone();
        let until = Instant::now() + 200 * MS;
        together(6, 2, move |n| {
            let (tokens, changed) = &*same;
            while Instant::now() < until {
                let mut held = tokens.lock().unwrap();
                if n % 2 == 0 {
                    *held += 1;
                    changed.notify_one();
                    drop(held);
                    sleep(MS / 20);
                } else {
                    let limit = Duration::from_micros(10 * n as u64);
                    let (mut held, result) =
                        changed.wait_timeout_while(held, limit, |tokens| *tokens == 0).unwrap();
                    assert!(result.timed_out() == (*held == 0));
                    *held = held.saturating_sub(1);
                }
            }
        });
        // No node is left behind: a notification goes to one that waits now.
        let (tokens, changed) = &*shared;
        scope(|s| {
            *tokens.lock().unwrap() = 0;
            let waits = s.spawn(|| {
                let none = |tokens: &mut usize| *tokens == 0;
                drop(changed.wait_while(tokens.lock().unwrap(), none).unwrap());
            });
            while !waits.is_finished() {
                *tokens.lock().unwrap() = 1;
                changed.notify_one();
                yield_now();
            }
        });
        let before = Instant::now();
        let (_, result) = changed.wait_timeout(tokens.lock().unwrap(), 3 * MS).unwrap();
        assert!(result.timed_out() && before.elapsed() >= 3 * MS);
    });
}

#[test]
fn a_condition_variable_refuses_a_second_mutex() {
    on_each(|| {
        let (first, second, condvar) = (Mutex::new(false), Mutex::new(()), Condvar::new());
        scope(|s| {
            let waits = s.spawn(|| {
                drop(condvar.wait_while(first.lock().unwrap(), |done| !*done).unwrap());
            });
            sleep(2 * MS);
            let other = catch_unwind(AssertUnwindSafe(|| condvar.wait(second.lock().unwrap())));
            assert!(other.is_err() && second.try_lock().is_ok());
            *first.lock().unwrap() = true;
            condvar.notify_one();
            waits.join().unwrap();
        });
        // One after the other is fine.
        let (_, result) = condvar.wait_timeout(second.lock().unwrap(), MS).unwrap();
        assert!(result.timed_out());
    });
}

#[test]
fn who_waits_does_not_run() {
    let used = || {
        // SAFETY: fills in our own structure.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        let time = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    Runtime::builder().kthreads(1).run(move || {
        let (mutex, condvar) = (Mutex::new(false), Condvar::new());
        let semaphore = Semaphore::new(0);
        let before = used();
        scope(|s| {
            for _ in 0..20 {
                s.spawn(|| drop(condvar.wait_while(mutex.lock().unwrap(), |done| !*done)));
                s.spawn(|| drop(semaphore.acquire()));
                s.spawn(|| drop(semaphore.acquire_timeout(150 * MS)));
            }
            sleep(300 * MS);
            let while_waiting = used() - before;
            assert!(while_waiting < 0.06, "{while_waiting} s of 0.3 s");
            *mutex.lock().unwrap() = true;
            condvar.notify_all();
            semaphore.add_permits(20);
        });
    });
}
