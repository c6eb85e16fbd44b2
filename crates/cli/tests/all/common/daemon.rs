//! A core allocator in this process, which manages one core, or two.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::common::curtail;
use clap::Parser;
use curtail_shm::kthreads;
use curtail_shm::session::Session;
use curtaild::{Daemon, Options, Stop};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < STUCK, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Serves until it is dropped.
pub(crate) struct Running {
    pub(crate) path: PathBuf,
    pub(crate) core: u32,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(name: &str) -> Self {
        Self::with(name, |_| {})
    }

    /// Has `set` change the daemon before it serves.
    pub(crate) fn with(name: &str, set: impl FnOnce(&mut Daemon)) -> Self {
        Self::of_cores(name, 1, set)
    }

    /// It manages so many cores, if there are as many.
    pub(crate) fn of_cores(name: &str, cores: usize, set: impl FnOnce(&mut Daemon)) -> Self {
        Self::of(name, cores, &[], set)
    }

    /// It was started with more words.
    pub(crate) fn of(
        name: &str,
        cores: usize,
        more: &[&str],
        set: impl FnOnce(&mut Daemon),
    ) -> Self {
        let path = std::env::temp_dir().join(format!("curtail-{name}-{}.sock", std::process::id()));
        let all = kthreads::allowed_cpus().unwrap();
        let core = *all.last().unwrap();
        let own = all.iter().rev().take(cores).map(u32::to_string);
        let core_list = own.collect::<Vec<_>>().join(",");
        let line = ["curtaild", "--quiet", "--cores", &core_list, "--socket"];
        let line = line.iter().map(PathBuf::from).chain([path.clone()]);
        let line = line.chain(more.iter().map(PathBuf::from));
        let options = Options::try_parse_from(line).unwrap();
        let stop = Stop::new().unwrap();
        let mut daemon = Daemon::new(&options, stop.clone()).unwrap();
        set(&mut daemon);
        let thread = Some(std::thread::spawn(move || daemon.run().unwrap()));
        Self { path, stop, thread, core }
    }

    pub(crate) fn batch(&self, words: &[&str]) -> Output {
        let mut command = curtail();
        command.args(["batch", "--daemon"]).arg(&self.path).args(words);
        command.stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&Session::status(&self.path).unwrap()).unwrap()
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.status()["counts"][name].as_u64().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}
