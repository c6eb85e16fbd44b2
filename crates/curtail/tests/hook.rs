//! Requests of one worker that panic while another's panic is being reported. The process has one
//! panic hook, so this file has one test.

mod common;

use common::{Verbs, in_time, preset, serve};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What the hook needs, as the usual one needs standard error.
static LOCK: Mutex<()> = Mutex::new(());
static OURS: curtail::sync::Mutex<()> = curtail::sync::Mutex::new(());
static REPORTED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_hook_that_waits_is_not_entered_by_the_next_request_that_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some("reported") {
            return usual(info);
        }
        REPORTED.fetch_add(1, Ordering::SeqCst);
        drop(LOCK.lock().unwrap());
        drop(OURS.lock());
        // Lets others run, on a fiber.
        thread::yield_now();
    }));
    for name in ["tq", "ps", "concord", "shenango-ps"] {
        in_time(move || {
            REPORTED.store(0, Ordering::SeqCst);
            let ((), report) = serve(
                Verbs,
                |server| server.policy(preset(name)).workers(1),
                |client, _| {
                    let held = (LOCK.lock().unwrap(), OURS.lock());
                    let tickets: Vec<_> = (0..6)
                        .map(|_| client.submit(b"panic reported".to_vec()).unwrap())
                        .collect();
                    while REPORTED.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                    // The others come now, if they can.
                    thread::sleep(Duration::from_millis(50));
                    drop(held.0);
                    thread::sleep(Duration::from_millis(20));
                    drop(held.1);
                    for ticket in tickets {
                        assert_eq!(ticket.wait().unwrap(), b"failed: panic reported");
                    }
                },
            );
            assert_eq!((report.classes[0].failed, REPORTED.load(Ordering::SeqCst)), (6, 6));
        });
    }
}
