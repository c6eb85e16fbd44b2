//! Everything at once, for as long as wanted: `threads-stress [SECONDS [KTHREADS]]`. Forty threads
//! draw what they do next; each result is checked. For sanitizers, debuggers and long nights.

use curtail::sync::{Condvar, Mutex};
use curtail::time::{sleep, timeout};
use curtail::{Runtime, Thread, current, park, park_timeout, scope, spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the threads share.
#[derive(Default)]
struct Shared {
    done: AtomicU64,
    parked: Mutex<Vec<Thread>>,
    count: Mutex<u64>,
    changed: Condvar,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn micros(&mut self, below: u64) -> Duration {
        Duration::from_micros(self.next() % below)
    }
}

fn spawn_and_join(value: u64) {
    let child = spawn(move || {
        if value.is_multiple_of(2) {
            yield_now();
        }
        value
    });
    assert_eq!(child.join().expect("it returns"), value);
}

fn park_among_others(shared: &Shared, random: &mut Random) {
    shared.parked.lock().expect("no thread panics").push(current());
    park_timeout(random.micros(300));
}

fn wait_a_little(shared: &Shared) {
    let mut count = shared.count.lock().expect("no thread panics");
    *count += 1;
    if count.is_multiple_of(3) {
        let waited = shared.changed.wait_timeout(count, Duration::from_micros(100));
        count = waited.expect("no thread panics").0;
    }
    *count += 1;
    drop(count);
    shared.changed.notify_one();
}

fn in_a_scope() {
    let mut parts = [0; 5];
    scope(|s| {
        for (index, part) in parts.iter_mut().enumerate() {
            s.spawn(move || {
                yield_now();
                *part = index;
            });
        }
    });
    assert_eq!(parts.iter().sum::<usize>(), 10);
}

fn step(shared: &Shared, random: &mut Random) {
    match random.next() % 10 {
        0 => spawn_and_join(random.next()),
        1 => park_among_others(shared, random),
        2 => {
            let other = shared.parked.lock().expect("no thread panics").pop();
            other.inspect(Thread::unpark);
        }
        3 => sleep(random.micros(200)),
        4 => drop(timeout(random.micros(100), park)),
        5 => wait_a_little(shared),
        6 => in_a_scope(),
        7 => drop(spawn(yield_now)),
        8 => {
            let me = current();
            spawn(move || me.unpark());
            park_timeout(Duration::from_millis(5));
        }
        _ => yield_now(),
    }
}

fn main() {
    let number = |at| std::env::args().nth(at).map(|text| text.parse().expect("a number"));
    let seconds: u64 = number(1).unwrap_or(10);
    let kthreads = number(2).unwrap_or(3) as usize;
    Runtime::builder().kthreads(kthreads).stack_size(64 * 1024).run(move || {
        let shared = Arc::new(Shared::default());
        let until = Instant::now() + Duration::from_secs(seconds);
        let threads: Vec<_> = (1..=40)
            .map(|seed| {
                let shared = shared.clone();
                spawn(move || {
                    let mut random = Random(seed * 7_919);
                    while Instant::now() < until {
                        step(&shared, &mut random);
                        shared.done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("all results are right"));
        println!("{} steps on {kthreads} kthreads", shared.done.load(Ordering::Relaxed));
    });
}
