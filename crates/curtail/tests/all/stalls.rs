//! Code without safepoints is named while it runs, with its stack and how often.

use crate::common;

use common::{Does, STUCK, look, preset, serve};
use curtail::Stall;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Until it is reported.
#[inline(never)]
fn library_without_safepoints(told: &AtomicBool) {
    let since = Instant::now();
    while since.elapsed() < STUCK {
        // Hardly ever in the clock's code, whose stacks end early.
        for _ in 0..1 << 16 {
            if told.swap(false, Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
    }
    panic!("it is never told of");
}

/// Nothing else waits meanwhile.
#[test]
fn a_stall_is_named_while_it_lasts_and_counted_by_place() {
    for policy in ["tq", "shenango-ps"] {
        let told = Arc::new(AtomicBool::new(false));
        let stalls: Arc<Mutex<Vec<Stall>>> = Arc::default();
        let (heard, of_it) = (told.clone(), stalls.clone());
        let settings = move |builder: curtail::ServerBuilder| {
            builder
                .policy(preset(policy))
                .workers(1)
                .watchdog(Some(Duration::from_millis(2)))
                .on_stall(move |stall| {
                    let name = |frame: &String| frame.contains("library_without_safepoints");
                    if stall.stack.iter().any(name) {
                        of_it.lock().unwrap().push(stall.clone());
                        heard.store(true, Ordering::Relaxed);
                    }
                })
        };
        let library = told.clone();
        let app = Does(move |_: &[u8], response: &mut curtail::Response| {
            library_without_safepoints(&library);
            response.write(b"done");
        });
        let (places, _) = serve(app, settings, |client, handle| {
            let here = |place: &curtail::StallPlace| {
                place.function.contains("library_without_safepoints") && place.count >= 2
            };
            // One whose stack was taken in the clock's code is counted there.
            let since = Instant::now();
            while !handle.stalls().iter().any(here) {
                assert!(since.elapsed() < STUCK, "{:?}", handle.stalls());
                let ticket = client.submit(Vec::new()).unwrap();
                assert_eq!(ticket.wait_timeout(STUCK).unwrap().unwrap(), b"done");
            }
            (look(handle).stalls, handle.stalls())
        });
        let here =
            |place: &&curtail::StallPlace| place.function.contains("library_without_safepoints");
        let place = places.0.iter().find(here).unwrap_or_else(|| panic!("{places:?}"));
        assert!(place.count >= 2 && place.longest >= Duration::from_millis(2), "{place:?}");
        assert!(places.1.iter().any(|other| other.function == place.function));
        let stalls = stalls.lock().unwrap();
        let again = stalls.iter().find(|stall| stall.count == 2).unwrap().to_string();
        assert!(again.contains("library_without_safepoints (stall 2 there)"), "{again}");
    }
}

/// A request that runs alone comes to its safepoints, and is no stall however long it takes.
#[test]
fn what_has_safepoints_is_no_stall() {
    let app = Does(|_: &[u8], response: &mut curtail::Response| {
        let since = Instant::now();
        // Quanta are 2 µs.
        while since.elapsed() < Duration::from_millis(50) {
            curtail::safepoint();
        }
        response.write(b"done");
    });
    let settings = |builder: curtail::ServerBuilder| {
        builder.policy(preset("tq")).workers(1).watchdog(Some(Duration::from_millis(2)))
    };
    let (stalls, _) = serve(app, settings, |client, handle| {
        assert_eq!(client.call(Vec::new()).unwrap(), b"done");
        handle.stalls()
    });
    let here = |place: &curtail::StallPlace| place.function.contains("safepoints_is_no_stall");
    assert!(!stalls.iter().any(here), "{stalls:?}");
}
