//! Peers in this process: a thread on its core.

use crate::board::{Board, Stop};
use crate::machine::Pinned;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Runs `server` on a thread on that core while `generate` runs here.
pub(super) fn serve<T>(
    board: &Arc<Board>,
    core: Option<usize>,
    generate: impl FnOnce() -> T,
    server: impl FnOnce(&Arc<Board>) + Send,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let served = scope.spawn(move || {
            let _pin = Pinned::to(core);
            let _ = ready.send(());
            server(board);
        });
        // An error means that the thread is gone, which `join` will report.
        let _ = is_ready.recv();
        let stop = Stop(board);
        let value = generate();
        drop(stop);
        served.join().map_err(|_| "the serving thread panicked".to_owned())?;
        Ok(value)
    })
}

/// First come, first served, to completion.
pub(super) fn serve_in_order(board: &Arc<Board>) {
    let mut done = 0;
    while !board.stopped() {
        let published = board.published();
        if done == published {
            std::hint::spin_loop();
        }
        while done < published && !board.stopped() {
            board.serve(done);
            done += 1;
            board.complete(done);
        }
    }
}
