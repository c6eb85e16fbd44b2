//! Threads that a handler has spawned are cut as requests are: they keep no request waiting, and none of
//! each other.

use crate::common;

use common::{STUCK, dispatcher};
use curtail::net::{Local, LocalClient};
use curtail::{
    App, Builder, Response, SafepointKind, Server, Spec, WorkerId, safepoint_kind, spawn,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A request `0` spawns two threads that compute until it has seen both begin and a request of another
/// byte comes.
#[derive(Clone, Default)]
struct Spawns {
    open: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
}

impl App for Spawns {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match request {
            [0] => {
                for _ in 0..2 {
                    let this = self.clone();
                    drop(spawn(move || {
                        this.begun.fetch_add(1, Ordering::SeqCst);
                        let (since, mut turns) = (Instant::now(), 0_u64);
                        while !this.open.load(Ordering::SeqCst) {
                            turns = black_box(turns + 1);
                            if turns.is_multiple_of(1 << 20) {
                                assert!(since.elapsed() < STUCK, "no other request was served");
                            }
                        }
                        this.begun.fetch_sub(1, Ordering::SeqCst);
                    }));
                }
            }
            [1] => response.write(&[self.begun.load(Ordering::SeqCst) as u8]),
            _ => self.open.store(true, Ordering::SeqCst),
        }
        response.write(b"done");
    }
}

/// A request spawns two threads of a class, and is answered by which of them began and ended, in turn.
struct Orders(u16);

impl App for Orders {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        let order = Arc::new(Mutex::new(Vec::new()));
        let threads = [b'a', b'b'].map(|name| {
            let order = order.clone();
            let thread = Builder::new().class(self.0).spawn(move || {
                order.lock().unwrap().push(name);
                let since = Instant::now();
                while since.elapsed() < Duration::from_millis(20) {
                    black_box((0..1_000).fold(0_u64, |sum, n| sum ^ black_box(n)));
                }
                order.lock().unwrap().push(name);
            });
            thread.expect("memory for a stack")
        });
        for thread in threads {
            thread.join().unwrap();
        }
        response.write(&order.lock().unwrap());
    }
}

#[test]
fn a_class_of_threads_has_a_quantum_of_its_own() {
    if safepoint_kind() == SafepointKind::None {
        return;
    }
    for policy in ["tq", "concord", "shenango-ps"] {
        for (class, whole) in [(0, false), (1, true), (2, false)] {
            let (transport, local) = Local::new(64).unwrap();
            let server = Server::builder(Orders(class))
                .policy(Spec::preset(policy).unwrap())
                .workers(1)
                .dispatcher(dispatcher())
                .thread_quantum(1, None)
                .thread_quantum(2, Some(Duration::from_micros(50)))
                .transport(Box::new(transport))
                .build()
                .unwrap();
            let handle = server.handle();
            let server = thread::spawn(move || server.run());
            let order = ask(&local, 0);
            assert_eq!(order[0] == order[1], whole, "{policy}, class {class}: {order:?}");
            handle.shutdown();
            server.join().unwrap().unwrap();
        }
    }
}

fn ask(local: &LocalClient, byte: u8) -> Vec<u8> {
    local.submit(vec![byte]).unwrap().wait_timeout(STUCK).expect("it is served").unwrap()
}

#[test]
fn threads_of_handlers_are_cut_for_requests_and_for_each_other() {
    if safepoint_kind() == SafepointKind::None {
        return;
    }
    for policy in ["tq", "concord"] {
        let (transport, local) = Local::new(64).unwrap();
        let server = Server::builder(Spawns::default())
            .policy(Spec::preset(policy).unwrap())
            .workers(1)
            .dispatcher(dispatcher())
            .transport(Box::new(transport))
            .build()
            .unwrap();
        let handle = server.handle();
        let server = thread::spawn(move || server.run());
        assert_eq!(ask(&local, 0), b"done");
        let since = Instant::now();
        while ask(&local, 1) != b"\x02done" {
            assert!(since.elapsed() < STUCK, "{policy}: one thread waits for the other");
        }
        assert_eq!(ask(&local, 2), b"done");
        while ask(&local, 1) != b"\0done" {
            assert!(since.elapsed() < STUCK, "{policy}: the threads do not end");
        }
        handle.shutdown();
        server.join().unwrap().unwrap();
    }
}
