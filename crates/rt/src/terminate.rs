//! SIGINT and SIGTERM: what is to be done when the process is asked to end.
//!
//! One thread of the process waits for them, from the first call of [`on_terminate`] on. The calls
//! are made there, never in a signal handler.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Call = Box<dyn FnOnce() + Send>;

struct Calls {
    listens: bool,
    /// A signal has come.
    came: bool,
    waiting: Vec<Call>,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { listens: false, came: false, waiting: Vec::new() });

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has `f` called once, on a thread of its own, when the first SIGINT or SIGTERM comes; at once where
/// it has come already. A second signal ends the process, as it would have without this.
///
/// A server has [`Handle::shutdown_on_signals`](../curtail/struct.Handle.html#method.shutdown_on_signals) for it.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let (end, ends) = std::sync::mpsc::channel();
/// curtail::on_terminate(move || drop(end.send(())))?;
/// // … what the program does, in other threads …
/// let _ = ends.recv();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The system gives no thread or descriptors, or does not let the signals be handled.
pub fn on_terminate(f: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut calls = calls();
    if calls.came {
        drop(calls);
        f();
        return Ok(());
    }
    if !calls.listens {
        listen()?;
        calls.listens = true;
    }
    calls.waiting.push(Box::new(f));
    Ok(())
}

fn listen() -> io::Result<()> {
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Set after the first signal: then the next one does what it does by default.
        register_conditional_default(signal, again.clone())?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let life = move || {
        for _ in signals.forever() {
            again.store(true, Ordering::SeqCst);
            let waiting = {
                let mut calls = calls();
                calls.came = true;
                std::mem::take(&mut calls.waiting)
            };
            waiting.into_iter().for_each(|call| call());
        }
    };
    std::thread::Builder::new().name("curtail-signals".to_owned()).spawn(life).map(drop)
}
