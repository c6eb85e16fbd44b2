//! tokio as a peer: a current-thread runtime whose main task starts a task a request.

use crate::board::Board;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Serves until stopped. The main task yields after each look at the board, so that the tasks it
/// started run; the runtime never parks.
pub(super) fn serve_as_tasks(board: &Arc<Board>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without drivers asks the system for nothing");
    let completed = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut started = 0;
        while !board.stopped() {
            let published = board.published();
            while started < published {
                tokio::spawn(request(board.clone(), completed.clone(), started));
                started += 1;
            }
            tokio::task::yield_now().await;
        }
    });
}

async fn request(board: Arc<Board>, completed: Arc<AtomicUsize>, at: usize) {
    if board.stopped() {
        return;
    }
    board.serve(at);
    // One thread runs all tasks: no need for an atomic addition.
    let count = completed.load(Ordering::Relaxed) + 1;
    completed.store(count, Ordering::Relaxed);
    board.complete(count);
}
