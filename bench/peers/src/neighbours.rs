//! Whether another program had a core meanwhile: the measured program's, or this thread's.
//!
//! The kernel tells of every thread how long it was ready to run while its core was another's (the
//! second number of its `schedstat`). It adds a wait when that ends. Threads of the measured program
//! wait for one another too, so that only waits of a single thread count that are longer than what
//! siblings take from each other when they wake. What the hypervisor takes away is not seen.

use crate::program::Running;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// A wait that is no sibling's doing.
const LONG: Duration = Duration::from_micros(400);

/// The threads of a program, and the calling one, with what they have waited so far.
#[derive(Debug)]
pub struct Neighbours {
    threads: Vec<(File, u64)>,
}

/// The number in that column of an open `schedstat`: nanoseconds run (0), waited (1).
fn read(file: &File, column: usize) -> Option<u64> {
    let mut buffer = [0; 96];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    text.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// The `schedstat` of every thread of `program`.
///
/// # Errors
/// Where it has ended.
fn of(program: &Running) -> Result<Vec<File>, String> {
    let tasks = format!("/proc/{}/task", program.id());
    let told = |error: std::io::Error| format!("{tasks}: {error}");
    let tasks = std::fs::read_dir(&tasks).map_err(told)?;
    // A thread may have ended meanwhile.
    Ok(tasks.filter_map(|task| File::open(task.ok()?.path().join("schedstat")).ok()).collect())
}

/// For how long the threads of `program` have run, so far.
///
/// # Errors
/// Where it has ended.
pub fn ran(program: &Running) -> Result<Duration, String> {
    let each = of(program)?;
    Ok(Duration::from_nanos(each.iter().filter_map(|file| read(file, 0)).sum()))
}

impl Neighbours {
    /// From now on; of the program, the threads that it has now.
    ///
    /// # Errors
    /// Where it has ended, or the kernel keeps no such statistics.
    pub fn of(program: &Running) -> Result<Self, String> {
        let own = Path::new("/proc/thread-self/schedstat");
        let own = File::open(own).map_err(|error| format!("{}: {error}", own.display()))?;
        let mut files = of(program)?;
        files.push(own);
        let threads = files.into_iter().filter_map(|file| read(&file, 1).map(|was| (file, was)));
        Ok(Self { threads: threads.collect() })
    }

    /// The longest that one thread has waited since the last look, if it was long.
    pub fn look(&mut self) -> Option<Duration> {
        let mut longest = 0;
        for (file, was) in &mut self.threads {
            // A thread that has ended waits no more.
            if let Some(now) = read(file, 1) {
                longest = longest.max(now - *was);
                *was = now;
            }
        }
        Some(Duration::from_nanos(longest)).filter(|wait| *wait > LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Cores, Running};
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(10);

    fn spinning() -> Running {
        let core = Cores::pick().unwrap().program;
        let script = ["-c", "echo go; while :; do :; done"];
        let mut program = Running::start(Path::new("/bin/sh"), &script, core).unwrap();
        program.line(LIMIT).unwrap();
        program
    }

    #[test]
    fn a_neighbour_on_the_core_is_noticed() {
        let first = spinning();
        let mut neighbours = Neighbours::of(&first).unwrap();
        let _second = spinning();
        // Both compute on one core: the one that waits, waits for the other.
        let deadline = Instant::now() + LIMIT;
        while neighbours.look().is_none() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_program_ran_is_counted() {
        let program = spinning();
        let deadline = Instant::now() + LIMIT;
        while ran(&program).unwrap() < Duration::from_millis(5) {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }
}
