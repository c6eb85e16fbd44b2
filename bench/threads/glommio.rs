//! glommio's tasks on one executor: `threads-glommio OP COUNT` prints nanoseconds per operation
//! (README.md). Its tasks never leave their thread, so that its locks hold no atomic variable. It
//! has no mutex and no condition variable: the mutex is its `RwLock`, taken for writing; a turn is
//! handed over by a semaphore beside that lock.

use glommio::sync::{RwLock, Semaphore};
use glommio::{LocalExecutorBuilder, Placement, spawn_local};
use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

async fn mutex(count: u64) {
    let lock = RwLock::new(0);
    for _ in 0..count {
        *black_box(&lock).write().await.expect("open") += 1;
    }
    assert_eq!(lock.into_inner().expect("open"), count);
}

async fn yield_now() {
    glommio::executor().yield_now().await;
}

async fn yield_in_turns(count: u64) {
    let yielding = move || async move {
        for _ in 0..count / 2 {
            yield_now().await;
        }
    };
    let both = [spawn_local(yielding()), spawn_local(yielding())];
    for task in both {
        task.await;
    }
}

/// As `yield_in_turns`, and counts how often the other one ran in between.
async fn check_turns(count: u64) {
    let turns = Rc::new(Cell::new((2, 0)));
    let watching = |me: u64, turns: Rc<Cell<(u64, u64)>>| async move {
        for _ in 0..count / 2 {
            let (last, switches) = turns.get();
            turns.set((me, switches + u64::from(last != me)));
            yield_now().await;
        }
    };
    let both = [0, 1].map(|me| spawn_local(watching(me, Rc::clone(&turns))));
    for task in both {
        task.await;
    }
    let switches = turns.get().1;
    assert!(switches >= count * 9 / 10, "only {switches} of {count} yields switched");
}

struct Table {
    turn: RwLock<usize>,
    changed: [Semaphore; 2],
}

async fn player(table: Rc<Table>, me: usize, times: u64) {
    for _ in 0..times {
        loop {
            let mut turn = table.turn.write().await.expect("open");
            if *turn == me {
                *turn = 1 - me;
                drop(turn);
                table.changed[1 - me].signal(1);
                break;
            }
            drop(turn);
            table.changed[me].acquire(1).await.expect("open");
        }
    }
}

async fn hand_over(count: u64) {
    let changed = [Semaphore::new(0), Semaphore::new(0)];
    let table = Rc::new(Table { turn: RwLock::new(0), changed });
    let both = [0, 1].map(|me| spawn_local(player(Rc::clone(&table), me, count / 2)));
    for task in both {
        task.await;
    }
}

async fn spawn_and_join(count: u64) {
    for at in 0..count {
        assert_eq!(spawn_local(async move { black_box(at) }).await, at);
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
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make();
    let executor = executor.unwrap_or_else(|error| {
        eprintln!("no io_uring for glommio here ({error})");
        std::process::exit(1);
    });
    let measured = executor.run(async move {
        if op == "yield" {
            check_turns(2_000).await;
        }
        run(&op, count / 10).await;
        let start = Instant::now();
        run(&op, count).await;
        start.elapsed().as_nanos() as f64 / count as f64
    });
    println!("{measured:.3}");
}
