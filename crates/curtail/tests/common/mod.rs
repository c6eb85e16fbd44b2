//! An application for tests, and a way to run a server around a client.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod tasks;
pub mod wire;

use curtail::net::{Local, LocalClient};
use curtail::policy::Spec;
use curtail::{
    App, Class, ClassId, Handle, Report, Response, Server, ServerBuilder, Stats, WorkerId,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
pub const STUCK: Duration = Duration::from_secs(60);

/// Requests are a verb and its argument, as text.
pub struct Verbs;

pub const CLASSES: [&str; 2] = ["short", "long"];

impl App for Verbs {
    type Worker = WorkerId;

    fn classes(&self) -> Vec<Class> {
        CLASSES.into_iter().map(Class::named).collect()
    }

    fn setup_worker(&self, worker: WorkerId) -> WorkerId {
        worker
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request.starts_with(b"spin")))
    }

    fn handle(&self, worker: &WorkerId, request: &[u8], response: &mut Response) {
        let text = std::str::from_utf8(request).unwrap();
        let (verb, argument) = text.split_once(' ').unwrap_or((text, ""));
        match verb {
            "echo" => response.write(argument.as_bytes()),
            "spin" => response.write(spin(argument.parse().unwrap()).to_string().as_bytes()),
            "panic" => panic!("{argument}"),
            "worker" => response.write(worker.0.to_string().as_bytes()),
            "silent" => {}
            other => panic!("no such verb: {other}"),
        }
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        response.write(b"failed: ");
        response.write(request);
    }

    fn overloaded(&self, _: &[u8], response: &mut Response) {
        response.write(b"overloaded");
    }
}

/// [`Verbs`], and long requests that go on for as long as the test wants, however busy the machine:
/// `take` so many nanoseconds at least, or `hold` until the gate opens.
#[derive(Clone, Default)]
pub struct Long {
    gate: Arc<AtomicBool>,
}

impl Long {
    pub fn open(&self) {
        self.gate.store(true, Ordering::Release);
    }
}

impl App for Long {
    type Worker = WorkerId;

    fn classes(&self) -> Vec<Class> {
        Verbs.classes()
    }

    fn setup_worker(&self, worker: WorkerId) -> WorkerId {
        Verbs.setup_worker(worker)
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(!request.starts_with(b"echo")))
    }

    fn handle(&self, worker: &WorkerId, request: &[u8], response: &mut Response) {
        let begun = Instant::now();
        let text = std::str::from_utf8(request).unwrap();
        let least = match text.split_once(' ') {
            Some(("take", ns)) => Duration::from_nanos(ns.parse().unwrap()),
            None if text == "hold" => STUCK,
            _ => return Verbs.handle(worker, request, response),
        };
        while begun.elapsed() < least && !self.gate.load(Ordering::Acquire) {
            spin(100);
        }
        response.write(b"done");
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        Verbs.overloaded(request, response);
    }
}

/// Some work, with a safepoint every few dozen steps.
pub fn spin(steps: u64) -> u64 {
    let mut x = 1_u64;
    for step in 0..steps {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        if step % 32 == 0 {
            curtail::safepoint();
        }
    }
    std::hint::black_box(x)
}

pub fn preset(name: &str) -> Spec {
    Spec::preset(name).unwrap()
}

pub const PRESETS: [&str; 21] = [
    "fcfs",
    "dfcfs",
    "jbsq",
    "ps",
    "shinjuku",
    "concord",
    "steal",
    "fp",
    "sjf",
    "srpt",
    "edf",
    "wrr",
    "drr",
    "shinjuku-mq",
    "static-partition",
    "cscq",
    "darc",
    "darc-static",
    "darc-ps",
    "auto",
    "tq",
];

/// Those without a dispatcher: requests are threads, and the kthreads schedule them by themselves.
pub const DISPATCHERLESS: [&str; 2] = ["shenango", "shenango-ps"];

/// All of them.
pub fn presets() -> impl Iterator<Item = &'static str> + Clone {
    PRESETS.into_iter().chain(DISPATCHERLESS)
}

/// Ends the server, also when its client panics.
pub struct End(pub Handle);

impl Drop for End {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// Runs a server for `app` while `client` talks to it; ends it then.
pub fn serve<R: Send + 'static>(
    app: impl App,
    settings: impl FnOnce(ServerBuilder) -> ServerBuilder,
    client: impl FnOnce(&LocalClient, &Handle) -> R + Send + 'static,
) -> (R, Report) {
    let (local, user) = Local::new(1024).unwrap();
    let builder = Server::builder(app).transport(Box::new(local)).safepoints_by_hand();
    let server = settings(builder).build().unwrap();
    let handle = server.handle();
    let client = thread::spawn(move || {
        let end = End(handle);
        client(&user, &end.0)
    });
    let report = server.run().unwrap();
    (client.join().unwrap(), report)
}

/// The first look at which it is so. A server that has not begun yet, or is kept from its core, may not
/// answer one within a look's patience.
pub fn when(handle: &Handle, is_so: impl Fn(&Stats) -> bool) -> Stats {
    let begun = Instant::now();
    loop {
        let stats = handle.stats();
        if stats.as_ref().is_some_and(&is_so) {
            return stats.unwrap();
        }
        assert!(begun.elapsed() < STUCK, "{stats:?}");
    }
}

/// A look.
pub fn look(handle: &Handle) -> Stats {
    when(handle, |_| true)
}

/// The caller sleeps, and so does its kthread, as by C's or the standard library's sleep it would not.
pub fn in_kernel(duration: Duration) {
    let time = rustix::thread::Timespec::try_from(duration).unwrap();
    let _cut_short_or_not = rustix::thread::nanosleep(&time);
}

/// An application that is one function.
pub struct Does<F>(pub F);

impl<F: Fn(&[u8], &mut Response) + Send + Sync + 'static> App for Does<F> {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        (self.0)(request, response);
    }
}

/// Runs `body` on a thread of its own: where it hangs, the test fails and does not hang.
pub fn in_time<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (end, ended) = std::sync::mpsc::sync_channel(1);
    let thread = thread::spawn(move || end.send(body()).unwrap());
    match ended.recv_timeout(STUCK / 2) {
        Ok(result) => result,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(_) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}
