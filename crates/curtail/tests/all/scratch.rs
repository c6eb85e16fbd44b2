//! Scratch memory is one request's own, also while that is pre-empted, and is used again.

use crate::common;

use common::{STUCK, preset, serve};
use curtail::{App, Response, Scratch, WorkerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A request writes its name into its scratch, waits until as many as its text says are in progress,
/// and answers with what is in the scratch then.
struct Together {
    in_progress: AtomicUsize,
    made: Arc<AtomicUsize>,
}

impl App for Together {
    type Worker = Scratch<Vec<u8>>;

    fn setup_worker(&self, _: WorkerId) -> Self::Worker {
        let made = self.made.clone();
        let make = move || {
            made.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        };
        Scratch::new(make).reset(|buffer| {
            buffer.clear();
            true
        })
    }

    fn handle(&self, scratch: &Self::Worker, request: &[u8], response: &mut Response) {
        let mut buffer = scratch.get();
        assert!(buffer.is_empty());
        buffer.extend_from_slice(request);
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        let wanted = usize::from(request[0] - b'0');
        let since = Instant::now();
        // On one worker, the others come in by pre-emption only.
        while self.in_progress.load(Ordering::Relaxed) < wanted {
            assert!(since.elapsed() < STUCK, "the others never begin");
            curtail::safepoint();
        }
        response.write(&buffer);
    }
}

#[test]
fn each_request_in_progress_has_its_own() {
    for policy in ["tq", "shenango-ps"] {
        let made = Arc::new(AtomicUsize::new(0));
        let app = Together { in_progress: AtomicUsize::new(0), made: made.clone() };
        let settings = |builder: curtail::ServerBuilder| builder.policy(preset(policy)).workers(1);
        serve(app, settings, |client, _| {
            let names = ["3 a", "3 b", "3 c"];
            let tickets = names.map(|name| client.submit(name.into()).unwrap());
            for (name, ticket) in names.into_iter().zip(tickets) {
                assert_eq!(ticket.wait_timeout(STUCK).unwrap().unwrap(), name.as_bytes());
            }
            // One after the other, these take what is idle.
            for _ in 0..5 {
                assert_eq!(client.call(b"0 d".to_vec()).unwrap(), b"0 d");
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 3, "{policy}");
    }
}

#[test]
fn what_comes_back_is_kept_within_bounds() {
    let scratch = Scratch::new(Vec::<u8>::new).keep(2).reset(|buffer| {
        buffer.clear();
        assert!(buffer.capacity() != 7, "a reset that panics");
        buffer.capacity() <= 100
    });
    let some = [scratch.get(), scratch.get(), scratch.get()];
    drop(some);
    assert_eq!(scratch.idle(), 2);
    // One that has grown too much, and one that is not reset, are dropped.
    let (mut large, mut odd) = (scratch.get(), scratch.get());
    large.reserve(1_000);
    *odd = Vec::with_capacity(7);
    drop((large, odd));
    assert_eq!(scratch.idle(), 0);
}
