//! Pre-empted requests of programs built to migrate go on on any worker; those of others stay on the
//! one where they began.

use crate::common;

use common::{Does, STUCK, in_time, preset, serve, spin};
use curtail::Response;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// More than two workers, two inboxes and a dispatcher that helps have places for.
const LONG: usize = 7;

/// Long requests that take turns, until `enough` says so of how many have
/// been seen on more than one thread. How many have.
fn moved(policy: &'static str, migrates: bool, enough: fn(usize, Instant) -> bool) -> usize {
    in_time(move || {
        let (moved, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counts, ends) = (moved.clone(), end.clone());
        // Asked of the kernel: nothing of the thread is kept over a safepoint.
        let app = Does(move |_: &[u8], response: &mut Response| {
            let (begun, first) = (Instant::now(), rustix::thread::gettid());
            let mut has_moved = false;
            while !ends.load(Ordering::SeqCst) {
                spin(1_000);
                if !has_moved && rustix::thread::gettid() != first {
                    has_moved = true;
                    counts.fetch_add(1, Ordering::SeqCst);
                }
                if enough(counts.load(Ordering::SeqCst), begun) {
                    ends.store(true, Ordering::SeqCst);
                }
            }
            response.write(b"done");
        });
        let settings = |server: curtail::ServerBuilder| {
            let server = server.policy(preset(policy)).workers(2);
            // SAFETY: the handler keeps nothing that is tied to a thread, and its worker is `()`.
            if migrates { unsafe { server.migratable() } } else { server }
        };
        let (_, report) = serve(app, settings, |client, _| {
            let tickets: Vec<_> = (0..LONG).map(|_| client.submit(Vec::new()).unwrap()).collect();
            for ticket in tickets {
                assert_eq!(ticket.wait().unwrap(), b"done");
            }
        });
        assert_eq!((report.classes[0].completed, report.abandoned), (LONG as u64, 0));
        assert!(report.preemptions > 0, "{policy}");
        moved.load(Ordering::SeqCst)
    })
}

#[test]
fn a_preempted_request_goes_on_elsewhere_where_that_is_allowed() {
    for policy in ["ps", "shinjuku", "concord"] {
        let enough = |moved, begun: Instant| {
            assert!(begun.elapsed() < STUCK / 4, "{moved} moved");
            moved > 0
        };
        assert!(moved(policy, true, enough) > 0, "{policy}");
    }
}

#[test]
fn it_stays_where_it_began_otherwise() {
    for policy in ["ps", "concord"] {
        let enough = |_, begun: Instant| begun.elapsed().as_millis() > 200;
        assert_eq!(moved(policy, false, enough), 0, "{policy}");
    }
}
