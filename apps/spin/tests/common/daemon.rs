//! The core allocator itself, in a test's process, and programs under it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use curtail::{Runtime, RuntimeBuilder};
use curtail_shm::kthreads::allowed_cpus;
use curtail_shm::session::Session;
use curtaild::{Cores, Daemon, Idle, Options, Stop};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
pub const STUCK: Duration = Duration::from_secs(60);
/// Waits until it is so. By a plain thread.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < STUCK, "{what}");
        std::thread::yield_now();
    }
}

/// Tests take turns: there is one managed core.
static TURN: Mutex<()> = Mutex::new(());

/// The core allocator, on a thread of its own.
pub struct Running {
    _turn: MutexGuard<'static, ()>,
    pub path: PathBuf,
    pub managed: u32,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(name: &str, grace: Duration) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let file = format!("curtail-spin-{name}-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(file);
        let managed = *allowed_cpus().unwrap().last().unwrap();
        let options = Options {
            cores: Some(Cores(vec![managed])),
            socket: Some(path.clone()),
            interval: Duration::from_micros(50),
            idle: Idle::Halt,
            grace,
            linger: Duration::from_millis(1),
            slots: 16,
            interfaces: None,
            json: false,
            quiet: true,
            verbose: false,
            status: false,
        };
        let stop = Stop::new().unwrap();
        let daemon = Daemon::new(&options, stop.clone()).unwrap();
        let thread = Some(std::thread::spawn(move || daemon.run().unwrap()));
        Self { _turn: turn, path, managed, stop, thread }
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&Session::status(&self.path).unwrap()).unwrap()
    }

    pub fn count(&self, name: &str) -> u64 {
        self.status()["counts"][name].as_u64().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A program of one kthread.
pub fn builder(path: &Path, guaranteed: usize) -> RuntimeBuilder {
    Runtime::builder().kthreads(1).watchdog(None).daemon(path).guaranteed(guaranteed)
}

/// Runs it, on a thread of its own.
pub fn program<T: Send + 'static>(
    builder: RuntimeBuilder,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    std::thread::spawn(move || builder.run(body))
}

pub fn ended<T>(program: JoinHandle<T>) -> T {
    until("a program ends", || program.is_finished());
    program.join().unwrap()
}
