//! What the primitives of `curtail::sync` cost without contention, and what handing over from
//! thread to thread costs: on one kthread, in ns an operation. Pin it:
//! `taskset -c 1 cargo run --release -p curtail --example sync_costs`.

use curtail::sync::{Condvar, Mutex, RwLock, Semaphore, mpsc, rcu::Rcu};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: u32 = 2_000_000;

/// The best of several runs: others use the machine, too.
fn cost(name: &str, mut run: impl FnMut(u32)) {
    let one = || {
        let before = Instant::now();
        run(ROUNDS);
        before.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    let best = std::iter::repeat_with(one).take(7).fold(f64::INFINITY, f64::min);
    println!("{name:<28}{best:>8.1}");
}

fn each(name: &str, mut operation: impl FnMut()) {
    cost(name, |rounds| (0..rounds).for_each(|_| operation()));
}

/// Two threads take turns, each of which waits for the other's notification.
fn ping_pong(rounds: u32) {
    let shared = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let side = |mine: u32| {
        let shared = shared.clone();
        curtail::spawn(move || {
            let (turn, changed) = &*shared;
            let mut turn = turn.lock().unwrap();
            for _ in 0..rounds / 2 {
                while *turn % 2 != mine {
                    turn = changed.wait(turn).unwrap();
                }
                *turn += 1;
                changed.notify_one();
            }
        })
    };
    let sides = [side(0), side(1)];
    sides.into_iter().for_each(|side| side.join().unwrap());
}

fn main() {
    curtail::Runtime::builder().kthreads(1).run(|| {
        let mutex = Mutex::new(0_u64);
        each("mutex", || *mutex.lock().unwrap() += 1);
        let std = std::sync::Mutex::new(0_u64);
        each("mutex of std", || *std.lock().unwrap() += 1);
        let word = std::sync::atomic::AtomicU64::new(0);
        each("a locked addition", || {
            word.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let lock = RwLock::new(0_u64);
        each("rwlock, read", || _ = black_box(*lock.read().unwrap()));
        each("rwlock, write", || *lock.write().unwrap() += 1);
        let semaphore = Semaphore::new(1);
        each("semaphore", || drop(semaphore.acquire()));
        let rcu = Rcu::new(5_u64);
        each("rcu, read", || _ = black_box(rcu.read(|value| *value)));
        let condvar = Condvar::new();
        each("notify, no waiter", || black_box(&condvar).notify_one());
        let (sender, receiver) = mpsc::channel();
        each("channel, send and receive", || {
            sender.send(1_u64).unwrap();
            black_box(receiver.recv().unwrap());
        });
        cost("condvar, hand-over", ping_pong);
        cost("yield", |rounds| {
            let side = move || (0..rounds / 2).for_each(|_| curtail::yield_now());
            let sides = [curtail::spawn(side), curtail::spawn(side)];
            sides.into_iter().for_each(|side| side.join().unwrap());
        });
    });
}
