//! What the application is asked before a request is let in may wait: its class, its hint, what to
//! answer where there is no room. That delays this request and no other.

use crate::common;

use common::{End, STUCK, in_time, preset, when};
use curtail::net::{Local, LocalClient, NoResponse, Ticket};
use curtail::policy::Nanos;
use curtail::sync::{Condvar, Mutex};
use curtail::{App, ClassId, Handle, Report, Response, Server, ServerBuilder, WorkerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What is asked waits until it is open.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    /// How many have come to it.
    came: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let begun = Instant::now();
        while self.came.load(Ordering::SeqCst) < count {
            assert!(begun.elapsed() < STUCK, "{} of {count}", self.came.load(Ordering::SeqCst));
            thread::yield_now();
        }
        assert_eq!(self.came.load(Ordering::SeqCst), count);
    }
}

/// Requests say what waits at the gate: their classification, their hint, their handler, their refusal.
struct Asks(Arc<Gate>);

impl Asks {
    fn wait(&self, what: &[u8], request: &[u8]) {
        if request.starts_with(what) {
            self.0.pass();
        }
    }
}

impl App for Asks {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        self.wait(b"classify", request);
        // It may yield as well.
        thread::yield_now();
        ClassId(0)
    }

    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        self.wait(b"hint", request);
        None
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        self.wait(b"handle", request);
        if request == b"open" {
            self.0.open();
        }
        response.write(b"done ");
        response.write(&request[..request.len().min(16)]);
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        self.wait(b"refuse", request);
        response.write(b"no room");
    }
}

/// One of each kind of dispatcher, and the front of those without one.
const POLICIES: [&str; 5] = ["tq", "ps", "concord", "fcfs", "shenango"];

/// Runs a server under each policy while `client` talks to it.
fn on_each<R: Send + 'static>(
    settings: impl Fn(ServerBuilder) -> ServerBuilder + Send + Clone + 'static,
    client: impl Fn(&LocalClient, &Handle, &Gate) -> R + Send + Clone + 'static,
    check: impl Fn(R, Report),
) {
    for name in POLICIES {
        let (settings, client) = (settings.clone(), client.clone());
        let (result, report) = in_time(move || {
            let gate = Arc::new(Gate::default());
            let (local, user) = Local::new(1024).unwrap();
            let server = Server::builder(Asks(gate.clone())).transport(Box::new(local));
            let server = settings(server.policy(preset(name)).workers(1)).build().unwrap();
            let handle = server.handle();
            let client = thread::spawn(move || {
                let end = End(handle);
                client(&user, &end.0, &gate)
            });
            let report = server.run().unwrap();
            (client.join().unwrap(), report)
        });
        check(result, report);
    }
}

fn ask(client: &LocalClient, what: &str) -> Ticket {
    client.submit(what.as_bytes().to_vec()).unwrap()
}

fn call(client: &LocalClient, what: &str) -> String {
    String::from_utf8(client.call(what.as_bytes().to_vec()).unwrap()).unwrap()
}

#[test]
fn a_class_that_is_waited_for_delays_its_own_request_only() {
    on_each(
        |server| server,
        |client, handle, gate| {
            // Also one that is too long for a message.
            let long = format!("classify {}", "x".repeat(5_000));
            let tickets: Vec<_> =
                [&*long, "classify", "classify"].map(|what| ask(client, what)).into();
            gate.wait_for(3);
            for _ in 0..100 {
                assert_eq!(call(client, "plain"), "done plain");
            }
            // The last answer may come before the dispatcher has heard of it.
            when(handle, |stats| stats.in_system == 3 && stats.waiting == 3);
            assert_eq!(call(client, "open"), "done open");
            for ticket in tickets {
                assert!(ticket.wait().unwrap().starts_with(b"done classify"));
            }
        },
        |(), report| {
            assert_eq!((report.classes[0].completed, report.abandoned), (104, 0));
            assert_eq!(report.classes[0].dropped + report.malformed, 0);
        },
    );
}

#[test]
fn a_hint_that_is_waited_for_delays_its_own_request_only() {
    in_time(|| {
        let gate = Arc::new(Gate::default());
        let client = {
            let gate = gate.clone();
            move |client: &LocalClient, _: &Handle| {
                let waits = ask(client, "hint");
                gate.wait_for(1);
                assert_eq!(call(client, "plain"), "done plain");
                assert_eq!(call(client, "open"), "done open");
                assert_eq!(waits.wait().unwrap(), b"done hint");
            }
        };
        common::serve(Asks(gate), |server| server.policy(preset("sjf")).workers(1), client)
    });
}

#[test]
fn a_refusal_that_is_waited_for_delays_its_own_request_only() {
    on_each(
        |server| server.capacity(1),
        |client, _, gate| {
            let holds = ask(client, "handle");
            gate.wait_for(1);
            let refused = ask(client, "refuse");
            gate.wait_for(2);
            assert_eq!(call(client, "plain"), "no room");
            gate.open();
            assert_eq!(refused.wait().unwrap(), b"no room");
            assert_eq!(holds.wait().unwrap(), b"done handle");
        },
        |(), report| {
            let class = &report.classes[0];
            assert_eq!((class.completed, class.dropped, report.abandoned), (1, 2, 0));
        },
    );
}

#[test]
fn what_is_waited_for_at_the_end_is_still_served() {
    on_each(
        |server| server,
        |client, handle, gate| {
            let waits = ask(client, "classify");
            gate.wait_for(1);
            handle.shutdown();
            gate.open();
            assert_eq!(waits.wait().unwrap(), b"done classify");
        },
        |(), report| assert_eq!((report.classes[0].completed, report.abandoned), (1, 0)),
    );
}

/// An inquiry that has gone is not woken by the gate that opens then.
#[test]
fn what_is_waited_for_beyond_the_end_is_given_up() {
    struct Opens(Arc<Gate>, Arc<std::sync::Mutex<u32>>);
    impl App for Opens {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn classify(&self, request: &[u8]) -> ClassId {
            match request {
                b"own" => self.0.pass(),
                // A lock of the standard library's, by which others wait in the kernel.
                _ => {
                    self.0.came.fetch_add(1, Ordering::SeqCst);
                    drop(self.1.lock());
                }
            }
            ClassId(0)
        }
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {}
    }
    for name in POLICIES {
        in_time(move || {
            let (gate, lock) = (Arc::new(Gate::default()), Arc::default());
            let held = std::sync::Mutex::lock(&lock).unwrap();
            let (local, client) = Local::new(16).unwrap();
            let server = Server::builder(Opens(gate.clone(), lock.clone()))
                .policy(preset(name))
                .workers(1)
                .drain(Duration::from_millis(20))
                .transport(Box::new(local))
                .build()
                .unwrap();
            let handle = server.handle();
            let server = thread::spawn(move || server.run().unwrap());
            let tickets = [ask(&client, "own"), ask(&client, "own"), ask(&client, "std")];
            gate.wait_for(3);
            handle.shutdown();
            let report = server.join().unwrap();
            assert_eq!((report.abandoned, report.classes[0].completed), (3, 0), "{name}");
            for ticket in tickets {
                assert!(matches!(ticket.wait(), Err(NoResponse::Closed)));
            }
            gate.open();
            drop(held);
            // No inquiry that is gone holds it.
            drop(lock.lock().unwrap());
        });
    }
}

#[test]
fn so_many_are_waited_for_and_more_are_refused() {
    const MOST: usize = 256;
    const MORE: usize = 40;
    on_each(
        |server| server,
        |client, _, gate| {
            let waiting: Vec<_> = (0..MOST).map(|_| ask(client, "classify")).collect();
            gate.wait_for(MOST);
            let refused: Vec<_> = (0..MORE).map(|_| ask(client, "classify")).collect();
            for ticket in refused {
                assert_eq!(ticket.wait().unwrap(), b"no room");
            }
            gate.open();
            for ticket in waiting {
                assert_eq!(ticket.wait().unwrap(), b"done classify");
            }
            assert_eq!(call(client, "plain"), "done plain", "there is room again");
        },
        |(), report| {
            assert_eq!(report.classes[0].completed, MOST as u64 + 1);
            assert_eq!((report.unknown.dropped, report.abandoned), (MORE as u64, 0));
        },
    );
}

/// A quarter of the memory.
#[test]
fn so_many_bytes_are_waited_for_and_more_are_refused() {
    on_each(
        |server| server.memory(4 << 20),
        |client, _, gate| {
            let large = format!("classify {}", "x".repeat(400 << 10));
            let waiting = [ask(client, &large), ask(client, &large)];
            gate.wait_for(2);
            assert_eq!(call(client, &large), "no room");
            let small = ask(client, "classify");
            gate.wait_for(3);
            gate.open();
            for ticket in waiting.into_iter().chain([small]) {
                assert!(ticket.wait().unwrap().starts_with(b"done classify"));
            }
            assert!(call(client, &large).starts_with("done classify"), "there is room again");
        },
        |(), report| {
            assert_eq!((report.classes[0].completed, report.unknown.dropped), (4, 1));
        },
    );
}

/// One that was put in may wait, too, and for several requests at once.
#[test]
fn a_classifier_that_was_put_in_may_wait() {
    on_each(
        |server| server,
        |client, handle, gate| {
            let other = Arc::new(Gate::default());
            let waits = other.clone();
            let classify = move |request: &[u8]| {
                if request.starts_with(b"other") {
                    waits.pass();
                }
                ClassId(0)
            };
            handle.classify_by(Some(Box::new(classify))).unwrap();
            when(handle, |_| true);
            let waiting = [ask(client, "other"), ask(client, "other")];
            other.wait_for(2);
            assert_eq!(call(client, "classify"), "done classify");
            handle.classify_by(None).unwrap();
            when(handle, |_| true);
            gate.open();
            assert_eq!(call(client, "other"), "done other");
            other.open();
            for ticket in waiting {
                assert_eq!(ticket.wait().unwrap(), b"done other");
            }
        },
        |(), report| assert_eq!(report.classes[0].completed, 4),
    );
}
