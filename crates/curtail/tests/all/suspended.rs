//! What is suspended is shown with the functions on its stack.

use crate::common;

use common::{Does, STUCK, preset, serve, spin};
use curtail::net::{TcpListener, TcpStream};
use curtail::policy::Nanos;
use curtail::sync::{Arc, Mutex, Semaphore, mpsc};
use curtail::{Suspended, SuspendedStack, suspended};
use std::hint::black_box;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn with<'a>(seen: &'a Suspended, function: &str) -> Option<&'a SuspendedStack> {
    seen.stacks.iter().find(|stack| stack.frames.iter().any(|frame| frame.contains(function)))
}

/// The first look that shows all of these functions. From a plain thread.
fn until_seen(functions: &[&str]) -> Suspended {
    let begun = Instant::now();
    loop {
        let seen = suspended();
        if functions.iter().all(|function| with(&seen, function).is_some()) {
            return seen;
        }
        assert!(begun.elapsed() < STUCK, "{seen:#?}");
    }
}

#[inline(never)]
fn waits_for_a_mutex(mutex: &Mutex<u32>) {
    let mut locked = mutex.lock().unwrap();
    **black_box(&mut locked) += 1;
}

#[inline(never)]
fn waits_for_a_lock_of_std(mutex: &std::sync::Mutex<u32>) {
    let mut locked = mutex.lock().unwrap();
    **black_box(&mut locked) += 1;
}

#[inline(never)]
fn sleeps_for_days() {
    curtail::time::sleep(Duration::from_secs(1_000_000));
    black_box(());
}

#[inline(never)]
fn waits_for_a_message(messages: &mpsc::Receiver<u32>) {
    black_box(messages.recv().unwrap());
}

#[inline(never)]
fn waits_for_bytes(stream: &mut TcpStream) {
    let mut bytes = [0];
    stream.read_exact(&mut bytes).unwrap();
    black_box(&bytes);
}

const WAITS: [&str; 5] = [
    "waits_for_a_mutex",
    "waits_for_a_lock_of_std",
    "sleeps_for_days",
    "waits_for_a_message",
    "waits_for_bytes",
];

#[test]
fn threads_that_wait_are_shown_by_what_they_wait_in() {
    curtail::Runtime::builder().kthreads(2).run(|| {
        let mutex = Arc::new((Mutex::new(0), std::sync::Mutex::new(0)));
        let held = mutex.0.lock().unwrap();
        let held_too = mutex.1.lock().unwrap();
        let (sender, messages) = mpsc::channel();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let (one, other) = (mutex.clone(), mutex.clone());
        let named = curtail::Builder::new().name("locker");
        let waiting = [
            named.spawn(move || waits_for_a_mutex(&one.0)).unwrap(),
            curtail::spawn(move || waits_for_a_lock_of_std(&other.1)),
            curtail::spawn(move || waits_for_a_message(&messages)),
            curtail::spawn(move || waits_for_bytes(&mut client)),
        ];
        let _it_never_ends = curtail::spawn(sleeps_for_days);
        // And the first thread, which asks, and may not be suspended yet when that begins.
        let all = [&WAITS[..], &["src/blocking.rs"]].concat();
        let seen = curtail::blocking(|| until_seen(&all));
        for function in WAITS {
            let stack = with(&seen, function).unwrap();
            assert!(!stack.requests && stack.count == 1 && stack.numbers.len() == 1, "{stack:?}");
        }
        assert_eq!(with(&seen, "waits_for_a_mutex").unwrap().names, ["locker"]);
        drop((held, held_too));
        sender.send(1).unwrap();
        std::io::Write::write_all(&mut { peer }, b"x").unwrap();
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        let seen = curtail::blocking(suspended);
        assert!(with(&seen, "waits_for").is_none(), "{seen:#?}");
    });
    // Left behind, and no thread of a runtime any more.
    assert!(with(&suspended(), "sleeps_for_days").is_none());
}

#[inline(never)]
fn request_waits(until: &Semaphore) {
    let permit = until.acquire();
    black_box(&permit);
}

#[test]
fn requests_that_wait_are_shown_under_any_kind_of_policy() {
    for policy in ["tq", "fcfs", "shenango-ps"] {
        let until = Arc::new(Semaphore::new(0));
        let waits = until.clone();
        let app = Does(move |_: &[u8], response: &mut curtail::Response| {
            request_waits(&waits);
            response.write(b"done");
        });
        let settings =
            move |builder: curtail::ServerBuilder| builder.policy(preset(policy)).workers(1);
        serve(app, settings, move |client, _| {
            let tickets: Vec<_> = (0..3).map(|_| client.submit(Vec::new()).unwrap()).collect();
            let begun = Instant::now();
            loop {
                let seen = until_seen(&["request_waits"]);
                let stack = with(&seen, "request_waits").unwrap();
                assert!(stack.requests, "{stack:?}");
                if stack.count == 3 {
                    assert_eq!(stack.numbers.len(), 3, "{stack:?}");
                    break;
                }
                assert!(begun.elapsed() < STUCK, "{seen:#?}");
            }
            until.add_permits(1);
            for ticket in tickets {
                assert_eq!(ticket.wait_timeout(STUCK).unwrap().unwrap(), b"done", "{policy}");
            }
            assert!(with(&suspended(), "request_waits").is_none(), "{policy}");
        });
    }
}

#[inline(never)]
fn computes_until(stop: &AtomicBool) {
    let since = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        assert!(since.elapsed() < STUCK, "it is never told to stop");
        spin(1_000);
    }
}

/// Two requests take turns on one worker: one runs, the other was pre-empted.
#[test]
fn what_waits_for_its_turn_is_shown_at_its_safepoint() {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    let app = Does(move |_: &[u8], response: &mut curtail::Response| {
        computes_until(&stops);
        response.write(b"done");
    });
    let settings = |builder: curtail::ServerBuilder| {
        let mut policy = preset("tq");
        policy.quantum = Some(Nanos(5_000_000));
        builder.policy(policy).workers(1)
    };
    serve(app, settings, move |client, _| {
        let _stop = Stop(&stop);
        let tickets = [(); 2].map(|()| client.submit(Vec::new()).unwrap());
        let seen = until_seen(&["computes_until"]);
        let stack = with(&seen, "computes_until").unwrap();
        // Both, between two quanta.
        assert!(stack.requests && stack.count <= 2, "{stack:?}");
        stop.store(true, Ordering::Relaxed);
        for ticket in tickets {
            assert_eq!(ticket.wait_timeout(STUCK).unwrap().unwrap(), b"done");
        }
    });
}

/// Ends what computes, also where an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
