//! Peers: one worker each, on a core of its own, that serves what the generator publishes on the
//! [`Board`].
//!
//! Each receives in the way that is cheapest for it: a loop that looks at the board and starts a
//! task (goroutine) a request, so that no peer pays for a wake-up by the kernel.

mod go;
mod thread;
mod tokio;

pub use go::{Go, Switches, switches};

use crate::board::{Board, Stop};
use crate::machine::Cores;
use std::path::PathBuf;
use std::sync::Arc;

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A thread that serves one request after the other: first come, first served.
    Thread,
    /// tokio's current-thread runtime, a task a request.
    Tokio,
    /// Go with one processor, a goroutine a request; the program at that path.
    Go(PathBuf),
}

impl Peer {
    /// Its name, which stands in a result's `policy`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Tokio => "tokio",
            Self::Go(_) => "go",
        }
    }

    /// How it pre-empts, and after how long: Go's runtime interrupts a goroutine by a signal after
    /// 10 ms.
    #[must_use]
    pub fn preemption(&self) -> (&'static str, Option<u64>) {
        match self {
            Self::Thread | Self::Tokio => ("never", None),
            Self::Go(_) => ("signal", Some(10_000_000)),
        }
    }

    /// Starts the peer on its core, runs `generate` once it is ready, stops it and waits for its
    /// end. Requests that are not finished by then never are.
    ///
    /// # Errors
    /// Where the peer did not start or did not end well.
    pub fn serve<T>(
        &self,
        board: &Arc<Board>,
        cores: Option<Cores>,
        generate: impl FnOnce() -> T,
    ) -> Result<T, String> {
        let core = cores.map(|cores| cores.there);
        match self {
            Self::Thread => thread::serve(board, core, generate, thread::serve_in_order),
            Self::Tokio => thread::serve(board, core, generate, tokio::serve_as_tasks),
            Self::Go(program) => {
                let mut go = Go::start(program, board, core)?;
                let stop = Stop(board);
                let value = generate();
                drop(stop);
                go.end()?;
                Ok(value)
            }
        }
    }
}
