//! A server around a test's handlers, with quanta of a microsecond: for the tests of all applications.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use curtail::net::{Local, Ticket};
use curtail::{
    App, DispatcherMode, Nanos, Preempt, Report, SafepointKind, Server, Spec, safepoint_kind,
};
use std::hint::black_box;
use std::thread;
use std::time::Duration;

/// No figure is judged by it: it turns a deadlock into a failure.
pub const STUCK: Duration = Duration::from_secs(120);
/// Work of many microseconds: many quanta.
pub const LONG: u64 = 30_000;

/// Sends one request for each byte of `requests`, all at once, and collects the answers.
pub fn serve(app: impl App, workers: usize, requests: &[u8]) -> (Report, Vec<Vec<u8>>) {
    serve_with(curtail::Grace::default(), app, workers, requests)
}

/// [`serve`] with that grace inside of locks.
pub fn serve_with(
    grace: curtail::Grace,
    app: impl App,
    workers: usize,
    requests: &[u8],
) -> (Report, Vec<Vec<u8>>) {
    let (transport, local) = Local::new(1024).unwrap();
    let spec = Spec::preset("tq").unwrap().with_quantum(Nanos::from_micros(1)).unwrap();
    let server = Server::builder(app)
        .policy(spec)
        .workers(workers)
        .stack_size(128 << 10)
        .lock_grace(grace)
        .dispatcher(dispatcher())
        .transport(Box::new(transport))
        .build()
        .unwrap();
    let handle = server.handle();
    // Not joined where a request is stuck: then the test fails instead of waiting for it.
    let server = thread::spawn(move || server.run());
    let tickets: Vec<Ticket> =
        requests.iter().map(|&byte| local.submit(vec![byte]).expect("a place")).collect();
    let answers = tickets
        .into_iter()
        .map(|ticket| ticket.wait_timeout(STUCK).expect("no request is stuck").expect("an answer"))
        .collect();
    handle.shutdown();
    (server.join().unwrap().unwrap(), answers)
}

/// Flags need a dispatcher that raises them, however few cores there are.
pub fn dispatcher() -> DispatcherMode {
    match safepoint_kind() {
        SafepointKind::Flag => DispatcherMode::Busy,
        _ => DispatcherMode::Auto,
    }
}

/// Checks that the server pre-empted as this program can; whether it did so in time for figures to say
/// anything. (How often a flag is raised is up to the cores that the dispatcher gets.)
pub fn is_preempting(report: &Report) -> bool {
    match safepoint_kind() {
        SafepointKind::None => {
            assert_eq!((report.preempt, report.preemptions), (Preempt::Never, 0))
        }
        SafepointKind::Clock => {
            assert_ne!(report.preempt, Preempt::Never, "{:?}", report.preempt_note);
            assert!(report.preemptions > 0, "long requests, and others waiting");
        }
        SafepointKind::Flag => assert_eq!(report.preempt, Preempt::Flag),
    }
    safepoint_kind() == SafepointKind::Clock
}

/// Work that the compiler cannot shorten.
pub fn work(turns: u64, mut x: u64) -> u64 {
    for turn in 0..turns {
        x = (x ^ (x >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(turn);
    }
    black_box(x)
}
