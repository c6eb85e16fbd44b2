//! Quanta of a runtime's threads: where the program was built with safepoints that time themselves.
//! Otherwise every thread runs to completion, and the rest holds all the same.

use crate::common;

use common::work;
use curtail::{Builder, Runtime, SafepointKind, safepoint_kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the processor went from one of two threads of a class to the other, while both computed.
fn turns(class: u16) -> u64 {
    let (last, turns) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let both = [1, 2].map(|me| {
        let (last, turns) = (last.clone(), turns.clone());
        let body = move || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {
                work(100, me);
                if last.swap(me, Ordering::Relaxed) != me {
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        Builder::new().class(class).spawn(body).unwrap()
    });
    both.into_iter().for_each(|one| one.join().unwrap());
    turns.load(Ordering::Relaxed)
}

#[test]
fn a_class_has_a_quantum_of_its_own() {
    let runtime = Runtime::builder()
        .kthreads(1)
        .quantum(Duration::from_micros(20))
        .class_quantum(1, None)
        .class_quantum(2, Some(Duration::from_micros(400)));
    let [usual, never, long] = runtime.run(|| [0, 1, 2].map(turns));
    assert_eq!(never, 2, "each runs to completion");
    match safepoint_kind() {
        // 40 ms of work: 2,000 quanta, or 100. The machine takes some of the time.
        SafepointKind::Clock => assert!(usual > 2 * long && long > 2, "{usual} {long}"),
        _ => assert_eq!((usual, long), (2, 2)),
    }
}
