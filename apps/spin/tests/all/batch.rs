//! Batch threads of a program: where it was built with safepoints that time themselves, they are cut
//! wherever they are. Otherwise they yield by hand, and the rest holds all the same.

use crate::common;

use common::{LONG, STUCK, work};
use curtail::{Builder, Runtime, SafepointKind, safepoint_kind, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Computes until it is to end. How much.
fn compute(told: &AtomicBool) -> u64 {
    let (begun, mut units) = (Instant::now(), 0);
    while !told.load(Ordering::SeqCst) {
        assert!(begun.elapsed() < STUCK, "the others never ran");
        work(LONG, units);
        units += 1;
        if safepoint_kind() != SafepointKind::Clock {
            yield_now();
        }
    }
    units
}

#[test]
fn sleepers_and_mail_come_in_between() {
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = ticks.clone();
    Runtime::builder().kthreads(1).run(move || {
        let told = Arc::new(AtomicBool::new(false));
        let batch: Vec<_> = (0..2)
            .map(|_| {
                let told = told.clone();
                Builder::new().batch().spawn(move || compute(&told)).unwrap()
            })
            .collect();
        let (sender, receiver) = curtail::sync::mpsc::channel();
        let plain = std::thread::spawn(move || (0..50_u64).for_each(|n| sender.send(n).unwrap()));
        assert_eq!(receiver.into_iter().sum::<u64>(), 50 * 49 / 2);
        for _ in 0..50 {
            curtail::time::sleep(Duration::from_micros(50));
            counted.fetch_add(1, Ordering::SeqCst);
        }
        told.store(true, Ordering::SeqCst);
        assert!(batch.into_iter().map(|one| one.join().unwrap()).sum::<u64>() > 0);
        plain.join().unwrap();
    });
    assert_eq!(ticks.load(Ordering::SeqCst), 50);
}

/// The lock is not left to a batch thread that was cut while it had it.
#[test]
fn a_lock_that_a_batch_thread_holds_comes_back() {
    let sum = Runtime::builder().kthreads(1).run(|| {
        let (told, value) = (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::Mutex::new(0)));
        let (ends, held) = (told.clone(), value.clone());
        let batch = Builder::new().batch().spawn(move || {
            let mut rounds = 0_u64;
            while !ends.load(Ordering::SeqCst) {
                *held.lock().unwrap() += work(LONG / 10, rounds) & 1 | 1;
                rounds += 1;
                if safepoint_kind() != SafepointKind::Clock {
                    yield_now();
                }
            }
            rounds
        });
        for _ in 0..200 {
            curtail::time::sleep(Duration::from_micros(20));
            *value.lock().unwrap() += 1;
        }
        told.store(true, Ordering::SeqCst);
        let rounds = batch.unwrap().join().unwrap();
        *value.lock().unwrap() - rounds
    });
    assert_eq!(sum, 200);
}
