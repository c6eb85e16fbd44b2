//! How long the workers were ready while other programs had their cores, as the kernel's scheduler
//! counts it. It sees every policy alike, also where a request runs to completion and no code
//! looks at the clock in between.

use std::fs;
use std::time::{Duration, Instant};

/// Watches from its start on.
pub(super) struct Watch {
    /// The workers' files.
    files: Vec<String>,
    before: Option<Duration>,
    start: Instant,
}

impl Watch {
    /// Watches the worker threads of the one server of this process that is running.
    pub(super) fn start(workers: usize) -> Self {
        let names: Vec<String> = (0..workers).map(|n| format!("curtail-{n}\n")).collect();
        let files = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let files: Vec<String> = files
            .map(|task| task.path().display().to_string())
            .filter(|task| {
                fs::read_to_string(format!("{task}/comm")).is_ok_and(|name| names.contains(&name))
            })
            .map(|task| format!("{task}/schedstat"))
            .collect();
        let before = waited(&files);
        Self { files, before, start: Instant::now() }
    }

    /// The share of the time since then that a worker waited for its core, on average; `None`: the
    /// kernel does not tell.
    pub(super) fn waited_share(&self) -> Option<f64> {
        let waited = waited(&self.files)?.saturating_sub(self.before?);
        Some(waited.as_secs_f64() / self.start.elapsed().as_secs_f64() / self.files.len() as f64)
    }
}

fn waited(files: &[String]) -> Option<Duration> {
    if files.is_empty() {
        return None;
    }
    files.iter().map(|file| second(&fs::read_to_string(file).ok()?)).sum()
}

/// Of "time on a core, time waiting for one, time slices", in nanoseconds.
fn second(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_wait() {
        assert_eq!(second("7 1500 3\n"), Some(Duration::from_nanos(1_500)));
        assert_eq!(second(""), None);
    }

    #[test]
    fn without_workers_nothing_is_told() {
        assert_eq!(Watch::start(0).waited_share(), None);
    }
}
