//! C++ exceptions on fibers: those that are caught stay each request's own although requests
//! interleave in the middle of their catch blocks, and one that is not caught fails its request
//! alone.
#![cfg(feature = "leveldb")]

use curtail::net::Local;
use curtail::{App, Nanos, Response, Server, Spec, WorkerId};
use kv_lock_probe::{catch, throw};
use std::thread;
use std::time::Duration;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// Many quanta of work with safepoints in it, whether the program is instrumented or not.
extern "C" fn pause() {
    let mut x = 1_u64;
    for step in 0..20_000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        if step % 32 == 0 {
            curtail::safepoint();
        }
    }
    std::hint::black_box(x);
}

struct Thrower;

impl App for Thrower {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match std::str::from_utf8(request).unwrap() {
            "throw" => throw(),
            id => response.write(catch(id.parse().unwrap(), pause).to_string().as_bytes()),
        }
    }
    fn failed(&self, _: &[u8], response: &mut Response) {
        response.write(b"failed");
    }
}

#[test]
fn exceptions_belong_to_their_requests() {
    let (transport, local) = Local::new(1024).unwrap();
    let spec = Spec::preset("tq").unwrap().with_quantum(Nanos::from_micros(1)).unwrap();
    let server = Server::builder(Thrower)
        .policy(spec)
        .workers(1)
        .stack_size(128 << 10)
        .safepoints_by_hand()
        .transport(Box::new(transport))
        .build()
        .unwrap();
    let handle = server.handle();
    let server = thread::spawn(move || server.run());
    let requests: Vec<String> =
        (0..300).map(|id| if id % 10 == 3 { "throw".into() } else { id.to_string() }).collect();
    let tickets: Vec<_> = requests
        .iter()
        .map(|request| local.submit(request.clone().into_bytes()).expect("a place"))
        .collect();
    for (request, ticket) in requests.iter().zip(tickets) {
        let answer = ticket.wait_timeout(STUCK).expect("no request is stuck").expect("an answer");
        let expected = if request == "throw" { "failed" } else { request };
        assert_eq!(String::from_utf8(answer).unwrap(), expected);
    }
    handle.shutdown();
    let report = server.join().unwrap().unwrap();
    assert_eq!((report.classes[0].completed, report.classes[0].failed), (270, 30));
    assert!(report.preemptions > 300, "they interleave: {}", report.preemptions);
}
