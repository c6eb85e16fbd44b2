//! Waiting for simulations: the thread that called has the interpreter's lock only to look for
//! signals and to tell of progress.

use crate::raised;
use curtail_experiment::Error;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often a signal (the interrupt key, most likely) is looked for. Python runs its handlers on
/// its main thread only: elsewhere nothing is found.
const LOOK: Duration = Duration::from_millis(50);

/// Does `work` on a thread of its own, until it is done. It gets a flag that ends its simulations,
/// and what it is to call after each one; `progress` is called then, on this thread, with how many
/// are done and how many there are.
///
/// # Errors
/// Those of `work`, of `progress`, and what a signal's handler raised. The last two end the
/// simulations.
pub(crate) fn until_done<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    total: Option<usize>,
    work: impl FnOnce(Arc<AtomicBool>, &(dyn Fn() + Sync)) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, result) = py.detach(|| {
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            let flag = stop.clone();
            let worker = scope.spawn(move || {
                let tick = move || {
                    // The receiver outlives the thread.
                    let _ = tell.send(());
                };
                work(flag, &tick)
            });
            let (mut done, mut ended) = (0_usize, Ok(()));
            loop {
                let before = done;
                match told.recv_timeout(LOOK) {
                    Ok(()) => done += 1,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                // What else is done already is told of with it.
                done += told.try_iter().count();
                if ended.is_ok() {
                    let news = progress.as_ref().filter(|_| done > before);
                    ended = Python::attach(|py| look(py, news, (done, total)));
                    stop.store(ended.is_err(), Ordering::Relaxed);
                }
            }
            (ended, worker.join())
        })
    });
    let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    ended?;
    result.map_err(|error| raised(&error))
}

fn look(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    so_far: (usize, Option<usize>),
) -> PyResult<()> {
    py.check_signals()?;
    progress.map_or(Ok(()), |progress| progress.call1(py, so_far).map(drop))
}
