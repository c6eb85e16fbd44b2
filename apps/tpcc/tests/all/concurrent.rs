//! Transactions at once, on few rows: threads of the runtime that are pre-empted every 2 µs, anywhere, also
//! while they hold locks. Built by `cargo curtail test` they are; built plainly they run to completion,
//! and the same must hold.

use curtail::{Look, SafepointKind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tpcc::transactions::Ended;
use tpcc::{Draw, Scale, Store, Transaction};

const THREADS: u64 = 24;
const EACH: u64 = 400;

/// Runs all five at once in so many threads; how many were rolled back.
fn at_once(store: &Arc<Store>) -> u32 {
    let rolled_back = Arc::new(AtomicU32::new(0));
    let (store, counted) = (store.clone(), rolled_back.clone());
    let look: Arc<OnceLock<Look>> = Arc::default();
    let at_start = look.clone();
    let runtime = curtail::Runtime::builder()
        .kthreads(2)
        .quantum(Duration::from_micros(2))
        .on_start(move |look| drop(at_start.set(look.clone())));
    let life = move || {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (store, counted) = (store.clone(), counted.clone());
                curtail::spawn(move || {
                    for n in 0..EACH {
                        let draw = &mut Draw::new(thread * EACH + n);
                        let each = Transaction::ALL[((thread + n) % 5) as usize];
                        if each.run(&store, draw) == Ended::RolledBack {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        let kthreads = look.get().and_then(Look::kthreads).expect("it runs");
        let cuts: u64 = kthreads.iter().map(|kthread| kthread.preemptions).sum();
        assert_eq!(cuts > 0, curtail::safepoint_kind() == SafepointKind::Clock, "{cuts}");
    };
    runtime.run(life);
    rolled_back.load(Ordering::Relaxed)
}

#[test]
fn what_must_hold_holds_after_transactions_at_once() {
    // One warehouse: everyone wants its row. Few items: orders meet in the stock.
    let store = Arc::new(Store::load(Scale { warehouses: 1, items: 40, customers: 30 }));
    assert!(at_once(&store) > 0, "some orders are undone while others go on");
    assert_eq!(store.check(), []);
}

#[test]
fn orders_between_warehouses_do_not_wait_in_a_circle() {
    let store = Arc::new(Store::load(Scale { warehouses: 4, items: 20, customers: 30 }));
    at_once(&store);
    assert_eq!(store.check(), []);
}
