//! How far a run is, on standard error, if that is a terminal. A thread of its own draws it four
//! times a second, and lives as long as the run: the client has requests to send.

use crate::output;
use indicatif::ProgressBar;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        Self(output::bar(Some(1), "{bar:20} {percent:>3}% {msg}"))
    }

    /// Does `run`, which takes about so `long`; `what` it is.
    pub(super) fn during<T>(&self, what: String, long: Duration, run: impl FnOnce() -> T) -> T {
        let Self(bar) = self;
        if bar.is_hidden() {
            return run();
        }
        bar.set_length(long.as_millis().max(1) as u64);
        bar.set_position(0);
        bar.set_message(what);
        scope(|scope| {
            let (running, ended) = channel::<()>();
            let begun = Instant::now();
            let draw = move || {
                while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                    bar.set_position(begun.elapsed().as_millis().min(long.as_millis()) as u64);
                }
            };
            // Without a thread for it, nothing is drawn.
            let _ = Builder::new().name("progress".to_owned()).spawn_scoped(scope, draw);
            let result = run();
            drop(running);
            result
        })
    }

    /// A line between two runs.
    pub(super) fn say(&self, line: &str) {
        self.0.suspend(|| say!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
