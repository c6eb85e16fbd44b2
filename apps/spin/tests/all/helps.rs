//! Concord's dispatcher (§3.3): where all inboxes are full it serves a request itself, which its own
//! safepoints end in time, whichever kind they are of.

use crate::common;

use common::STUCK;
use curtail::net::Local;
use curtail::{
    App, DispatcherMode, Response, SafepointKind, Server, Spec, WorkerId, safepoint_kind,
};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Requests of the byte 0 compute until one of another byte has been served.
#[derive(Clone, Default)]
struct Holds {
    open: Arc<AtomicBool>,
    /// The dispatcher serves one.
    helps: Arc<AtomicBool>,
}

impl App for Holds {
    type Worker = WorkerId;

    fn setup_worker(&self, worker: WorkerId) -> WorkerId {
        worker
    }

    fn handle(&self, worker: &WorkerId, request: &[u8], response: &mut Response) {
        if request == [0] {
            self.helps.fetch_or(*worker == WorkerId::DISPATCHER, Ordering::SeqCst);
            let mut turns = 0_u64;
            while !self.open.load(Ordering::SeqCst) {
                turns = black_box(turns + 1);
            }
        } else {
            self.open.store(true, Ordering::SeqCst);
        }
        response.write(b"done");
    }
}

#[test]
fn the_dispatcher_serves_a_request_and_comes_back() {
    let (transport, local) = Local::new(64).unwrap();
    let app = Holds::default();
    let server = Server::builder(app.clone())
        .policy(Spec::preset("concord").unwrap())
        .workers(1)
        .dispatcher(DispatcherMode::Busy)
        .transport(Box::new(transport))
        .build()
        .unwrap();
    let handle = server.handle();
    let server = thread::spawn(move || server.run());
    if safepoint_kind() != SafepointKind::None {
        // One more than the worker and its inbox have room for.
        let held: Vec<_> = (0..3).map(|_| local.submit(vec![0]).unwrap()).collect();
        let begun = Instant::now();
        while !app.helps.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < STUCK, "the dispatcher serves none");
            thread::yield_now();
        }
        // It takes this in only if its own request was interrupted.
        let opens = local.submit(vec![1]).unwrap();
        for ticket in held.into_iter().chain([opens]) {
            let answer = ticket.wait_timeout(STUCK).expect("the dispatcher comes back");
            assert_eq!(answer.unwrap(), b"done");
        }
    }
    handle.shutdown();
    let report = server.join().unwrap().unwrap();
    assert_eq!(report.abandoned, 0);
}
