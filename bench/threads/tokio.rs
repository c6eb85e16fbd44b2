//! tokio's tasks on its current-thread scheduler: `threads-tokio OP COUNT` prints nanoseconds per
//! operation (README.md). tokio has no condition variable: its documentation waits for a condition by
//! a `Notify` beside the mutex, and so does this.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Notify;

async fn mutex(count: u64) {
    let mutex = tokio::sync::Mutex::new(0);
    for _ in 0..count {
        *black_box(&mutex).lock().await += 1;
    }
    assert_eq!(mutex.into_inner(), count);
}

async fn yield_in_turns(count: u64) {
    let yielding = move || async move {
        for _ in 0..count / 2 {
            tokio::task::yield_now().await;
        }
    };
    let both = [tokio::spawn(yielding()), tokio::spawn(yielding())];
    for task in both {
        task.await.expect("it only yields");
    }
}

/// As `yield_in_turns`, and counts how often the other one ran in between: every second time. The
/// scheduler keeps those that yielded on a list, last in, first out, so that A, B is followed by
/// B, A. Each yield goes through the scheduler nevertheless.
async fn check_turns(count: u64) {
    let turns = Arc::new(Mutex::new((2, 0)));
    let watching = |me: u64, turns: Arc<Mutex<(u64, u64)>>| async move {
        for _ in 0..count / 2 {
            {
                let mut turns = turns.lock().expect("no thread panics");
                turns.1 += u64::from(turns.0 != me);
                turns.0 = me;
            }
            tokio::task::yield_now().await;
        }
    };
    let both = [0, 1].map(|me| tokio::spawn(watching(me, Arc::clone(&turns))));
    for task in both {
        task.await.expect("it only yields");
    }
    let switches = turns.lock().expect("no thread panics").1;
    assert!(switches >= count * 9 / 20, "only {switches} of {count} yields switched");
}

#[derive(Default)]
struct Table {
    turn: tokio::sync::Mutex<usize>,
    changed: [Notify; 2],
}

async fn player(table: Arc<Table>, me: usize, times: u64) {
    for _ in 0..times {
        loop {
            let mut turn = table.turn.lock().await;
            if *turn == me {
                *turn = 1 - me;
                drop(turn);
                table.changed[1 - me].notify_one();
                break;
            }
            drop(turn);
            table.changed[me].notified().await;
        }
    }
}

async fn hand_over(count: u64) {
    let table = Arc::new(Table::default());
    let both = [0, 1].map(|me| tokio::spawn(player(Arc::clone(&table), me, count / 2)));
    for task in both {
        task.await.expect("it plays to its end");
    }
}

async fn spawn_and_join(count: u64) {
    for at in 0..count {
        assert_eq!(tokio::spawn(async move { black_box(at) }).await.expect("it returns"), at);
    }
}

async fn run(op: &str, count: u64) {
    match op {
        "mutex" => mutex(count).await,
        "yield" => yield_in_turns(count).await,
        "condvar" => hand_over(count).await,
        "spawn_join" => spawn_and_join(count).await,
        _ => panic!("there is no operation {op}"),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let count: u64 = args.get(2).and_then(|text| text.parse().ok()).expect("OP and COUNT");
    let op = args[1].clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A task, as what a program does; `block_on`'s own future is scheduled otherwise.
    let measured = runtime.block_on(runtime.spawn(async move {
        if op == "yield" {
            check_turns(2_000).await;
        }
        run(&op, count / 10).await;
        let start = Instant::now();
        run(&op, count).await;
        start.elapsed().as_nanos() as f64 / count as f64
    }));
    println!("{:.3}", measured.expect("it measures to its end"));
}
