//! The native half of the Python modules `curtail_sim`, the simulator, and `curtail_shm`, a client of
//! servers over shared memory (`shm`).
//!
//! Arguments and results are JSON texts, so that results are those of `curtail sim --json` to the
//! letter; the half in Python (`package/curtail_sim`) turns them into keyword arguments and
//! dictionaries. Simulations run on threads of their own, which never touch an object of Python;
//! the thread that called waits for them without the interpreter's lock (see `wait`).
#![forbid(unsafe_code)]

mod given;
mod job;
mod shm;
mod wait;

use curtail_experiment::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

/// Options are called `--like-this` in messages; here they are called `like_this`.
fn renamed(message: &str) -> String {
    let mut words = message.split("--");
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let is_name = word.starts_with(|c: char| c.is_ascii_lowercase());
        let end = word.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(word.len());
        let (name, rest) = word.split_at(if is_name { end } else { 0 });
        out.push_str(if is_name { "" } else { "--" });
        out.push_str(&name.replace('-', "_"));
        out.push_str(rest);
    }
    out
}

/// What an error is in Python.
fn raised(error: &Error) -> PyErr {
    let message = renamed(&error.to_string());
    match error {
        Error::Usage(_) => PyValueError::new_err(message),
        Error::Failed(_) | Error::Stopped => PyRuntimeError::new_err(message),
    }
}

/// What is wrong with an argument, in Python: a file that cannot be read is a bad argument, too.
fn bad(error: &Error) -> PyErr {
    PyValueError::new_err(renamed(&error.to_string()))
}

#[pyo3::pymodule]
mod _native {
    use super::{bad, raised};
    use crate::job::Job;
    use crate::wait;
    use curtail_experiment::Error;
    use curtail_workload::{Slo, list, load};
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use serde_json::{json, to_string};

    #[pymodule_export]
    use crate::shm::{Client as ShmSession, NoAnswer};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    fn jobs(options: &[String]) -> PyResult<Vec<Job>> {
        options.iter().map(|options| Job::parse(options).map_err(|error| bad(&error))).collect()
    }

    fn text(value: &impl serde::Serialize) -> PyResult<String> {
        to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// One run for each of these options (JSON objects), in their order, as JSON.
    #[pyfunction]
    #[pyo3(signature = (options, threads, progress))]
    fn sweep(
        py: Python<'_>,
        options: Vec<String>,
        threads: Option<i64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<String>> {
        let threads = match threads {
            Some(..=0) => return Err(PyValueError::new_err("threads: at least one is needed")),
            Some(threads) => usize::try_from(threads)?,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut jobs = jobs(&options)?;
        let points = jobs.iter().map(Job::point).collect::<Result<Vec<_>, _>>();
        let points = points.map_err(|error| bad(&error))?;
        let total = jobs.len();
        let runs = wait::until_done(py, progress, Some(total), |stop, tick| {
            jobs.iter_mut().for_each(|job| job.setting.stop = stop.clone());
            let tasks: Vec<_> = jobs.iter().zip(&points).collect();
            curtail_sim::sweep(&tasks, threads, |&(job, &at)| {
                let measured = job.setting.measure(&job.spec, at, job.seed)?;
                tick();
                Ok::<_, Error>(measured.run)
            })
        })?;
        runs.iter().map(text).collect()
    }

    /// The highest load at which the objective is met, and all runs of the search, as JSON.
    #[pyfunction]
    #[pyo3(signature = (options, slo, progress))]
    fn find_max(
        py: Python<'_>,
        options: &str,
        slo: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let mut job = Job::parse(options).map_err(|error| bad(&error))?;
        job.needs_no_load().map_err(|error| bad(&error))?;
        let slo =
            Slo::parse(slo).map_err(|error| PyValueError::new_err(format!("slo: {error}")))?;
        let offer = &job.setting.offer;
        let class = curtail_experiment::class_of(&slo, &offer.name, offer.mix());
        let class = class.map_err(|error| bad(&error))?;
        let (runs, found) = wait::until_done(py, progress, None, |stop, tick| {
            job.setting.stop = stop;
            job.setting.find_max(&job.spec, (&slo, class), job.seed, |_| tick())
        })?;
        let runs: Vec<_> = runs.into_iter().map(|measured| measured.run).collect();
        let max_rps = found.max_load.map(|load| job.setting.offer.point(load, job.setting.workers));
        text(&json!({
            "slo": slo.to_string(), "policy": job.spec.name,
            "max_load": found.max_load, "fails_at": found.fails_at,
            "max_rps": max_rps.map(|point| point.rate_rps), "runs": runs,
        }))
    }

    /// Checks options, and says which policy they make: the same text for the same policy.
    #[pyfunction]
    fn policy_of(options: &str) -> PyResult<String> {
        let job = Job::parse(options).map_err(|error| bad(&error))?;
        Ok(format!("{:?}", job.spec))
    }

    /// The loads that a list or a range stands for.
    #[pyfunction]
    fn loads(text: &str) -> PyResult<Vec<f64>> {
        list(text, load).map_err(|error| PyValueError::new_err(format!("load: {error}")))
    }

    /// Costs by name, or a file's, as JSON.
    #[pyfunction]
    fn costs(named: &str) -> PyResult<String> {
        text(&curtail_experiment::costs(named).map_err(|error| raised(&error))?)
    }

    /// What policies there are, as JSON.
    #[pyfunction]
    fn policies() -> String {
        curtail_experiment::policies().to_string()
    }

    /// What workloads there are, as JSON.
    #[pyfunction]
    fn workloads() -> String {
        curtail_experiment::workloads().to_string()
    }
}
