//! Curtail's threads on one kthread: `threads-curtail OP COUNT [--quantum-2us|--light]` prints nanoseconds
//! per operation (README.md).

use curtail::sync::{Condvar, Mutex};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn mutex(count: u64) {
    let mutex = Mutex::new(0);
    for _ in 0..count {
        *black_box(&mutex).lock().expect("no thread panics") += 1;
    }
    assert_eq!(mutex.into_inner().expect("no thread panics"), count);
}

fn yield_in_turns(count: u64) {
    let both = [0, 1].map(|_| {
        curtail::spawn(move || {
            for _ in 0..count / 2 {
                curtail::yield_now();
            }
        })
    });
    for thread in both {
        thread.join().expect("it only yields");
    }
}

/// As `yield_in_turns`, and counts how often the other one ran in between.
fn check_turns(count: u64) {
    let turns = Arc::new(Mutex::new((2, 0)));
    let both = [0, 1].map(|me| {
        let turns = Arc::clone(&turns);
        curtail::spawn(move || {
            for _ in 0..count / 2 {
                {
                    let mut turns = turns.lock().expect("no thread panics");
                    turns.1 += u64::from(turns.0 != me);
                    turns.0 = me;
                }
                curtail::yield_now();
            }
        })
    });
    for thread in both {
        thread.join().expect("it only yields");
    }
    let switches = turns.lock().expect("no thread panics").1;
    assert!(switches >= count * 9 / 10, "only {switches} of {count} yields switched");
}

fn hand_over(count: u64) {
    let table = Arc::new((Mutex::new(0), Condvar::new()));
    let both = [0, 1].map(|me| {
        let table = Arc::clone(&table);
        curtail::spawn(move || {
            let (turn, changed) = &*table;
            let mut turn = turn.lock().expect("no thread panics");
            for _ in 0..count / 2 {
                while *turn != me {
                    turn = changed.wait(turn).expect("no thread panics");
                }
                *turn = 1 - me;
                changed.notify_one();
            }
        })
    });
    for thread in both {
        thread.join().expect("it plays to its end");
    }
}

fn spawn_and_join(count: u64) {
    for at in 0..count {
        assert_eq!(curtail::spawn(move || black_box(at)).join().expect("it returns"), at);
    }
}

fn run(op: &str, count: u64) {
    match op {
        "mutex" => mutex(count),
        "yield" => yield_in_turns(count),
        "condvar" => hand_over(count),
        "spawn_join" => spawn_and_join(count),
        _ => panic!("there is no operation {op}"),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let count: u64 = args.get(2).and_then(|text| text.parse().ok()).expect("OP and COUNT");
    let op = args[1].clone();
    let runtime = curtail::Runtime::builder().kthreads(1);
    let runtime = match args.get(3).map(String::as_str) {
        Some("--quantum-2us") => runtime.quantum(Duration::from_micros(2)),
        Some("--light") => runtime.light(),
        _ => runtime,
    };
    let measured = runtime.run(move || {
        if op == "yield" {
            check_turns(2_000);
        }
        run(&op, count / 10);
        let start = Instant::now();
        run(&op, count);
        start.elapsed().as_nanos() as f64 / count as f64
    });
    println!("{measured:.3}");
}
