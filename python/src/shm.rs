//! A client of a server's `shm://PATH`: the session, for `package/curtail_shm`.

use curtail_net::{NoResponse, ShmClient, ShmRefused};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

pyo3::create_exception!(
    curtail_shm,
    NoAnswer,
    PyRuntimeError,
    "A request has no answer, and never will have one; `reason` says why in a word."
);

/// Looks for an answer before a caller sleeps.
const LOOKS: u32 = 2_000;
/// So often a caller who waits looks whether the interrupt key was pressed.
const NAP: Duration = Duration::from_millis(50);

fn reason(why: NoResponse) -> &'static str {
    match why {
        NoResponse::Silent => "silent",
        NoResponse::Failed => "failed",
        NoResponse::Dropped => "dropped",
        NoResponse::Cancelled => "cancelled",
        NoResponse::TooLong => "too long",
        NoResponse::Closed => "closed",
    }
}

fn no_answer(py: Python<'_>, why: NoResponse) -> PyErr {
    let error = NoAnswer::new_err(why.to_string());
    match error.value(py).setattr("reason", reason(why)) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn refused(py: Python<'_>, why: ShmRefused) -> PyErr {
    match why {
        ShmRefused::TooLong => PyValueError::new_err(why.to_string()),
        ShmRefused::Closed => no_answer(py, NoResponse::Closed),
        ShmRefused::Full => PyRuntimeError::new_err(why.to_string()),
    }
}

type Answer = (u32, Result<Vec<u8>, NoResponse>);

struct State {
    client: ShmClient,
    /// Answers that `call` took for others.
    kept: VecDeque<Answer>,
}

impl State {
    /// Takes what has come.
    fn take(&mut self, into: &mut Vec<Answer>) -> Result<(), NoResponse> {
        let mut take = |tag, answer: Result<&[u8], NoResponse>| {
            into.push((tag, answer.map(<[u8]>::to_vec)));
        };
        self.client.receive(&mut take).map(drop)
    }
}

/// A session with a server: one thread at a time uses it.
#[pyclass(module = "curtail_shm", name = "ShmSession", frozen)]
pub(crate) struct Client(Mutex<Option<State>>);

impl Client {
    fn state(&self) -> PyResult<MutexGuard<'_, Option<State>>> {
        let in_use = |_| PyRuntimeError::new_err("another thread uses the client");
        self.0.try_lock().map_err(in_use)
    }

    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut State) -> PyResult<R>) -> PyResult<R> {
        let mut state = self.state()?;
        f(state.as_mut().ok_or_else(|| no_answer(py, NoResponse::Closed))?)
    }
}

/// Sleeps, without the interpreter's lock, until there may be something, or the time is over.
fn nap(py: Python<'_>, client: &mut ShmClient, until: Option<Instant>) -> PyResult<bool> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) {
        return Ok(false);
    }
    py.detach(|| client.wait(Some(left.map_or(NAP, |left| left.min(NAP)))))?;
    py.check_signals()?;
    Ok(true)
}

fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let bad = |_| PyValueError::new_err("timeout: a number of seconds, 0 or more");
    let timeout = timeout.map(Duration::try_from_secs_f64).transpose().map_err(bad)?;
    Ok(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
}

#[pymethods]
impl Client {
    #[new]
    fn connect(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Self> {
        let client = py.detach(|| ShmClient::connect(path))?;
        Ok(Self(Mutex::new(Some(State { client, kept: VecDeque::new() }))))
    }

    /// The longest request and the longest answer in bytes.
    #[getter]
    fn most_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |state| Ok(state.client.most_bytes()))
    }

    /// Requests that have no answer yet.
    #[getter]
    fn under_way(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |state| Ok(state.client.under_way() + state.kept.len()))
    }

    fn submit(&self, py: Python<'_>, request: &[u8]) -> PyResult<Option<u32>> {
        self.with(py, |state| match state.client.submit(request) {
            Ok(tag) => Ok(Some(tag)),
            Err(ShmRefused::Full) => Ok(None),
            Err(why) => Err(refused(py, why)),
        })
    }

    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u32, Bound<'py, PyAny>)>> {
        self.with(py, |state| {
            let mut all: Vec<Answer> = state.kept.drain(..).collect();
            let ended = state.take(&mut all);
            if all.is_empty() {
                ended.map_err(|why| no_answer(py, why))?;
            }
            let object = |(tag, answer): Answer| match answer {
                Ok(bytes) => (tag, PyBytes::new(py, &bytes).into_any()),
                Err(why) => (tag, no_answer(py, why).into_value(py).into_bound(py).into_any()),
            };
            Ok(all.into_iter().map(object).collect())
        })
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let until = deadline(timeout)?;
        self.with(py, |state| {
            while state.kept.is_empty() && state.client.before_wait() {
                if !nap(py, &mut state.client, until)? {
                    break;
                }
            }
            Ok(())
        })
    }

    #[pyo3(signature = (request, timeout=None))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        request: &[u8],
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let until = deadline(timeout)?;
        self.with(py, |state| {
            let (mut own, mut looks, mut come) = (None, 0, Vec::new());
            loop {
                if own.is_none() {
                    match state.client.submit(request) {
                        Ok(tag) => own = Some(tag),
                        Err(ShmRefused::Full) => {}
                        Err(why) => return Err(refused(py, why)),
                    }
                }
                let ended = state.take(&mut come);
                let mut found = None;
                for (tag, answer) in come.drain(..) {
                    match own == Some(tag) {
                        true => found = Some(answer),
                        false => state.kept.push_back((tag, answer)),
                    }
                }
                if let Some(answer) = found {
                    let answer = answer.map_err(|why| no_answer(py, why))?;
                    return Ok(Some(PyBytes::new(py, &answer)));
                }
                ended.map_err(|why| no_answer(py, why))?;
                looks += 1;
                if looks > LOOKS && !nap(py, &mut state.client, until)? {
                    return Ok(None);
                }
            }
        })
    }

    /// Its descriptor is readable when there is something to receive, after `before_wait`.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |state| Ok(state.client.as_fd().as_raw_fd()))
    }

    fn before_wait(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| Ok(state.client.before_wait() && state.kept.is_empty()))
    }

    fn close(&self) -> PyResult<()> {
        drop(self.state()?.take());
        Ok(())
    }
}
