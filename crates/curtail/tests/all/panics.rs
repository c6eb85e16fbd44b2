//! A panic of any of the application's functions, with a payload of any kind, costs the request that
//! it was for, and nothing else. One whose own `Drop` panics is the worst of them.

use crate::common;

use common::{in_time, serve};
use curtail::net::{Local, NoResponse};
use curtail::policy::Spec;
use curtail::{App, Class, ClassId, Nanos, Response, RunError, Server, WorkerId};
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Task {
    Handle,
    Failed,
    Classify,
    Hint,
    Overloaded,
    GivenClassifier,
}

#[derive(Clone, Copy, Debug)]
enum Payload {
    Text,
    String,
    Bomb,
    /// What the drop panics with is one, too.
    Bombs(u8),
}

/// Panics when it is dropped.
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        match self.0 {
            0 => panic!("dropped"),
            left => panic_any(Bomb(left - 1)),
        }
    }
}

impl Payload {
    fn throw(self) -> ! {
        match self {
            Self::Text => panic!("on purpose"),
            Self::String => panic!("on {}", "purpose"),
            Self::Bomb => panic_any(Bomb(0)),
            Self::Bombs(more) => panic_any(Bomb(more)),
        }
    }
}

const PAYLOADS: [Payload; 4] = [Payload::Text, Payload::String, Payload::Bomb, Payload::Bombs(3)];

/// Panics in `task` at requests that begin with `bad`.
struct Throws {
    task: Task,
    payload: Payload,
    /// Requests that begin with `hold` wait for it.
    go: Arc<AtomicBool>,
}

impl Throws {
    fn at(&self, task: Task, request: &[u8]) {
        if self.task == task && request.starts_with(b"bad") {
            self.payload.throw();
        }
    }
}

impl App for Throws {
    type Worker = ();
    fn classes(&self) -> Vec<Class> {
        ["good", "bad"].map(Class::named).to_vec()
    }
    fn setup_worker(&self, _: WorkerId) {}
    fn classify(&self, request: &[u8]) -> ClassId {
        self.at(Task::Classify, request);
        ClassId(u16::from(request.starts_with(b"bad")))
    }
    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        self.at(Task::Hint, request);
        Some(Nanos(request.len() as u64))
    }
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        response.write(b"half");
        self.at(Task::Handle, request);
        if self.task == Task::Failed && request.starts_with(b"bad") {
            panic!("first");
        }
        while request == b"hold" && !self.go.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        response.clear();
        response.write(request);
    }
    fn failed(&self, request: &[u8], response: &mut Response) {
        assert!(response.as_bytes().is_empty(), "half an answer is none");
        response.write(b"half");
        self.at(Task::Failed, request);
        response.clear();
        response.write(b"failed");
    }
    fn overloaded(&self, request: &[u8], response: &mut Response) {
        response.write(b"half");
        self.at(Task::Overloaded, request);
        response.clear();
        response.write(b"overloaded");
    }
}

fn throws(task: Task, payload: Payload, policy: &'static str) {
    let go = Arc::new(AtomicBool::new(false));
    let app = Throws { task, payload, go: go.clone() };
    let overload = task == Task::Overloaded;
    let ((), report) = serve(
        app,
        |server| {
            let server = server.policy(Spec::preset(policy).unwrap()).workers(1);
            if overload { server.capacity(1) } else { server }
        },
        move |client, handle| {
            if task == Task::GivenClassifier {
                let classify = move |request: &[u8]| {
                    if request.starts_with(b"bad") {
                        payload.throw();
                    }
                    ClassId(0)
                };
                handle.classify_by(Some(Box::new(classify))).unwrap();
                common::look(handle);
            }
            for _ in 0..10 {
                go.store(false, Ordering::SeqCst);
                let hold = overload.then(|| client.submit(b"hold".to_vec()).unwrap());
                let bad = client.call(b"bad, and long enough to lie in the buffer".to_vec());
                match task {
                    Task::Handle => assert_eq!(bad.unwrap(), b"failed"),
                    Task::Failed | Task::Classify | Task::GivenClassifier => {
                        assert_eq!(bad, Err(NoResponse::Failed));
                    }
                    Task::Hint => assert!(bad.unwrap().starts_with(b"bad")),
                    Task::Overloaded => assert_eq!(bad, Err(NoResponse::Dropped)),
                }
                go.store(true, Ordering::SeqCst);
                if let Some(hold) = hold {
                    assert_eq!(hold.wait().unwrap(), b"hold");
                }
                // Its place is free a little after the answer.
                common::when(handle, |stats| stats.in_system == 0);
                assert_eq!(client.call(b"good".to_vec()).unwrap(), b"good");
                common::when(handle, |stats| stats.in_system == 0);
            }
        },
    );
    assert_eq!((report.abandoned, &report.notes), (0, &Vec::new()));
}

#[test]
fn a_panic_costs_one_request_whatever_it_carries() {
    for task in [
        Task::Handle,
        Task::Failed,
        Task::Classify,
        Task::Hint,
        Task::Overloaded,
        Task::GivenClassifier,
    ] {
        for payload in PAYLOADS {
            // One that asks for hints; one that runs requests on the dispatcher, too; the usual one; one
            // without a dispatcher.
            for policy in ["sjf", "concord", "tq", "shenango"] {
                in_time(move || throws(task, payload, policy));
            }
        }
    }
}

#[test]
fn a_worker_that_cannot_be_set_up_is_named() {
    struct Broken(WorkerId, Payload);
    impl App for Broken {
        type Worker = ();
        fn setup_worker(&self, worker: WorkerId) {
            if worker == self.0 {
                self.1.throw();
            }
        }
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {}
    }
    for broken in [WorkerId(0), WorkerId(1), WorkerId::DISPATCHER] {
        for payload in PAYLOADS {
            in_time(move || {
                let (local, _client) = Local::new(4).unwrap();
                let server = Server::builder(Broken(broken, payload)).workers(2);
                let server = server.transport(Box::new(local)).build().unwrap();
                match server.run() {
                    Err(RunError::Worker { worker, error }) => {
                        assert_eq!(worker, broken);
                        assert!(error.contains("setup_worker panicked"), "{error}");
                    }
                    other => panic!("{broken:?} {payload:?}: {:?}", other.map(|_| ())),
                }
            });
        }
    }
}
