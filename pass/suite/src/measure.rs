//! Runs programs, one at a time, on one core, and takes what the kernel and the safepoints say.
//!
//! Time is the CPU time of the whole process, user and system together: the kernel counts the sum
//! exactly, and guesses at its parts by what each timer tick happened to interrupt. User time alone
//! is recorded beside it.

use nix::sys::resource::{Resource, Usage, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

/// What `CURTAIL_TIMING` wrote: intervals between firings, in TSC cycles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// The quantum.
    pub quantum_cycles: f64,
    /// Firings.
    pub yields: f64,
    /// Mean interval.
    pub interval_mean: f64,
    /// Mean absolute error against the quantum.
    pub interval_mae: f64,
    /// Median interval.
    pub interval_p50: f64,
    /// 99th percentile.
    pub interval_p99: f64,
    /// The longest.
    pub interval_max: f64,
    /// The counter's rate, per second.
    pub tsc_hz: f64,
    /// Intervals longer than five quanta: the system's doing, or a library's.
    pub disturbed: f64,
    /// The error over all others.
    pub calm_mae: f64,
    /// The 99th percentile of all others.
    pub calm_p99: f64,
}

/// One run of one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// User time alone.
    pub user_s: f64,
    /// By the clock on the wall.
    pub wall_s: f64,
    /// What it printed.
    pub output: String,
    /// What its safepoints recorded, if they were armed.
    pub timing: Option<Timing>,
}

/// A program that hangs is killed after so many seconds of CPU time (a healthy run takes a few).
const LONGEST_S: u64 = 600;

/// Keeps this process, and so what it starts, on one core: `wanted`, or the last one allowed. Ends
/// what runs wild. Returns the core.
///
/// # Errors
/// The system refuses.
pub fn settle(wanted: Option<usize>) -> Result<usize, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("affinity: {error}"))?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|core| allowed.is_set(*core));
    let core = wanted.or(last).filter(|core| *core < CpuSet::MAX_CPU).ok_or("no such core")?;
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).map_err(|error| format!("core {core}: {error}"))?;
    // Inherited by the programs, each of which is counted for itself.
    setrlimit(Resource::RLIMIT_CPU, LONGEST_S, LONGEST_S).map_err(|e| format!("limit: {e}"))?;
    Ok(core)
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6
}

fn children() -> Result<Usage, String> {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))
}

/// Runs `program`; with a quantum, its main thread's safepoints fire and record into `scratch`.
/// Nothing else may be waited for meanwhile: the time is what this process's children took.
///
/// # Errors
/// The program fails, or wrote no record where it should have.
pub fn run(
    program: &Path,
    scale: f64,
    quantum: Option<&str>,
    scratch: &Path,
) -> Result<Run, String> {
    let record = scratch.join("timing.json");
    let mut command = Command::new(program);
    command.arg(scale.to_string()).env_remove("CURTAIL_TIMING").env_remove("CURTAIL_TIMING_OUT");
    if let Some(quantum) = quantum {
        let _ = fs::remove_file(&record);
        command.env("CURTAIL_TIMING", quantum).env("CURTAIL_TIMING_OUT", &record);
    }
    let before = children()?;
    let begin = Instant::now();
    let out = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let wall_s = begin.elapsed().as_secs_f64();
    let after = children()?;
    let output = printed(program, &out)?;
    let user_s = seconds(after.user_time()) - seconds(before.user_time());
    let system_s = seconds(after.system_time()) - seconds(before.system_time());
    let timing = quantum.map(|_| timing(&record)).transpose();
    let timing = timing.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(Run { cpu_s: user_s + system_s, user_s, wall_s, output, timing })
}

fn printed(program: &Path, out: &Output) -> Result<String, String> {
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("{}: {}: {}", program.display(), out.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn timing(record: &Path) -> Result<Timing, String> {
    let text = fs::read_to_string(record).map_err(|e| format!("{}: {e}", record.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("CURTAIL_TIMING: {error}: {text}"))
}

/// How many instructions a run executes, the loader's included: the same in every run.
///
/// # Errors
/// There is no valgrind, or it failed.
pub fn instructions(program: &Path, scale: f64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).arg(scale.to_string()).env_remove("CURTAIL_TIMING");
    let out = command.output().map_err(|error| format!("valgrind: {error}"))?;
    printed(program, &out)?;
    let said = String::from_utf8_lossy(&out.stderr);
    collected(&said).ok_or_else(|| format!("valgrind counted nothing: {}", said.trim()))
}

fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_output_and_times() {
        let scratch = tempfile::tempdir().unwrap();
        let run = run(Path::new("/bin/echo"), 0.5, None, scratch.path()).unwrap();
        assert_eq!(run.output, "0.5");
        assert!(run.cpu_s >= run.user_s && run.wall_s > 0.0 && run.timing.is_none());
    }

    #[test]
    fn a_program_that_fails_or_records_nothing_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(run(Path::new("/bin/false"), 1.0, None, scratch.path()).is_err());
        let error = run(Path::new("/bin/echo"), 1.0, Some("2us"), scratch.path()).unwrap_err();
        assert!(error.contains("timing.json"), "{error}");
    }

    #[test]
    fn records_are_read_and_new_fields_do_no_harm() {
        let text = "{\"quantum_cycles\":4000, \"yields\":7, \"interval_mae\":1.500, \"later\":1}\n";
        let timing: Timing = serde_json::from_str(text).unwrap();
        assert_eq!((timing.yields, timing.interval_mae), (7.0, 1.5));
    }

    #[test]
    fn counts_are_found() {
        assert_eq!(collected("==1== x\n==1== Collected : 42\n"), Some(42));
        assert_eq!(collected("nothing"), None);
    }
}
