//! Runtimes of several sizes, and threads among plain threads.

use curtail::time::sleep;
use curtail::{Runtime, spawn};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// On one kthread and on several: most defects show on one of them only.
pub(crate) fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    for kthreads in [1, 2, 4] {
        let f = f.clone();
        Runtime::builder().kthreads(kthreads).run(f);
    }
}

/// Runs `f` on threads and on plain threads at once, each with its number; returns when all ended.
#[allow(dead_code, reason = "not every file has plain threads")]
pub(crate) fn together(threads: usize, plain: usize, f: impl Fn(usize) + Send + Sync + 'static) {
    let f = Arc::new(f);
    let plain: Vec<_> = (0..plain)
        .map(|n| {
            let f = f.clone();
            std::thread::spawn(move || f(threads + n))
        })
        .collect();
    let ours: Vec<_> = (0..threads)
        .map(|n| {
            let f = f.clone();
            spawn(move || f(n))
        })
        .collect();
    ours.into_iter().for_each(|thread| thread.join().unwrap());
    while !plain.iter().all(std::thread::JoinHandle::is_finished) {
        sleep(MS / 10);
    }
    plain.into_iter().for_each(|thread| thread.join().unwrap());
}
