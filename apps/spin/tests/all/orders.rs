//! A batch program of threads hands its core over when that was ordered for another program, under the
//! core allocator itself.

use crate::daemon;

use curtail::{SafepointKind, safepoint_kind};
use curtail_shm::kthreads::allowed_cpus;
use daemon::{Running, STUCK, builder, ended, program, until};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn a_kthread_of_a_batch_program_follows_the_order_for_its_core() {
    if safepoint_kind() != SafepointKind::Clock {
        return; // Others are pre-empted by the kernel.
    }
    // The kernel is not asked before the test has failed.
    let daemon = Running::start("orders", STUCK);
    let (turns, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, told) = (turns.clone(), ends.clone());
    let batch = program(builder(&daemon.path, 0).batch(), move || {
        while !told.load(Ordering::Relaxed) {
            let turns = counted.load(Ordering::Relaxed);
            counted.store(black_box(turns + 1), Ordering::Relaxed);
        }
        allowed_cpus().unwrap()
    });
    until("it computes", || turns.load(Ordering::Relaxed) > 0);
    assert_eq!(daemon.status()["programs"][0]["looks"], true);
    for _ in 0..3 {
        let cores = ended(program(builder(&daemon.path, 1), || allowed_cpus().unwrap()));
        assert_eq!(cores, [daemon.managed]);
    }
    assert!(daemon.count("by_line") >= 3);
    assert_eq!((daemon.count("by_kernel"), daemon.count("wakes")), (0, 0));
    // It has the core again.
    let before = turns.load(Ordering::Relaxed);
    until("it computes", || turns.load(Ordering::Relaxed) > before);
    ends.store(true, Ordering::Relaxed);
    assert_eq!(ended(batch), [daemon.managed]);
}
