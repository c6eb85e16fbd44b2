//! Typed scheduling in the whole server: classifiers, reservations, flow control by class.

use crate::common;

use common::{Long, Verbs, look, preset, serve, when};
use curtail::net::{LocalClient, NoResponse};
use curtail::{ChangeError, ClassId, ClassifyFn, Handle};
use std::time::Instant;

/// Fills a window of 40 with as many calls of each class, one at a time: the long ones take eight
/// times as long as the short ones took to be answered, which is longer than they took their workers.
fn teach(client: &LocalClient, handle: &Handle) {
    let call = |request: &str| drop(client.call(request.as_bytes().to_vec()).unwrap());
    let begun = Instant::now();
    (0..20).for_each(|_| call("echo x"));
    let long = format!("take {}", 8 * begun.elapsed().as_nanos() / 20);
    // Requests are counted a little after they are answered.
    when(handle, |it| it.classes[0].completed == 20);
    (0..20).for_each(|_| call(&long));
    when(handle, |it| it.classes[1].completed == 20);
}

/// Once the dispatcher has answered, it has carried out the command.
fn classify(handle: &Handle, by: Option<Box<ClassifyFn>>) {
    handle.classify_by(by).unwrap();
    look(handle);
}

fn decided(handle: &Handle) -> String {
    look(handle).decided.expect("DARC decides")
}

#[test]
fn reservations_follow_from_what_is_measured() {
    for name in ["darc", "darc-static", "darc-ps"] {
        let mut spec = preset(name);
        spec.darc.window = 40;
        let (lines, report) = serve(
            Long::default(),
            |server| server.policy(spec).workers(2),
            |client, handle| {
                let before = decided(handle);
                teach(client, handle);
                (before, decided(handle))
            },
        );
        assert!(lines.0.contains("until the first profile (0 of 40 samples)"), "{}", lines.0);
        let short = if name == "darc-ps" { "steals 0–1" } else { "workers 0, steals 1" };
        let long = if name == "darc-ps" { "workers 0–1" } else { "workers 1" };
        assert!(lines.1.starts_with("short (demand "), "{}", lines.1);
        assert!(lines.1.contains(&format!("): {short}; long (")), "{name}: {}", lines.1);
        assert!(lines.1.contains(&format!("): {long}; spillway 1; ")), "{name}: {}", lines.1);
        assert_eq!(report.classes[0].completed + report.classes[1].completed, 40);
        assert!(report.decided.is_some());
    }
}

#[test]
fn a_policy_that_decides_nothing_says_nothing() {
    let (decided, _) = serve(
        Verbs,
        |server| server.workers(1),
        |client, handle| {
            client.call(b"echo x".to_vec()).unwrap();
            look(handle).decided
        },
    );
    assert_eq!(decided, None);
}

#[test]
fn classifiers_are_swapped_while_the_server_runs() {
    let (handle, report) = serve(
        Verbs,
        |server| server.policy(preset("darc")).workers(2),
        |client, handle| {
            let call = |n| (0..n).for_each(|_| drop(client.call(b"echo x".to_vec()).unwrap()));
            call(3);
            classify(handle, Some(Box::new(|_| ClassId::UNKNOWN)));
            call(5);
            classify(handle, Some(Box::new(|_| ClassId(77))));
            call(7);
            classify(handle, None);
            call(11);
            let stats = look(handle);
            assert_eq!((stats.unknown.completed, stats.unknown.name.as_str()), (5, "unknown"));
            handle.clone()
        },
    );
    let completed: Vec<u64> = report.classes.iter().map(|class| class.completed).collect();
    assert_eq!((completed, report.unknown.completed), (vec![14, 7], 5));
    assert_eq!(handle.classify_by(None), Err(ChangeError::Ended));
}

#[test]
fn a_swapped_in_classifier_that_panics_costs_its_requests_only() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let ((), report) = serve(
        Verbs,
        |server| server.workers(1),
        |client, handle| {
            let bomb = Bomb;
            let picky = move |request: &[u8]| {
                let _ = &bomb;
                assert_ne!(request, b"echo bad");
                ClassId(0)
            };
            classify(handle, Some(Box::new(picky)));
            assert_eq!(client.call(b"echo bad".to_vec()), Err(NoResponse::Failed));
            assert_eq!(client.call(b"echo good".to_vec()).unwrap(), b"good");
            classify(handle, None);
            assert_eq!(client.call(b"echo again".to_vec()).unwrap(), b"again");
        },
    );
    assert_eq!((report.malformed, report.classes[0].completed), (1, 2));
}

#[test]
fn a_full_queue_turns_away_its_own_class_only() {
    let mut spec = preset("darc");
    spec.plan_mut(1).bound = Some(2);
    let long = Long::default();
    let app = long.clone();
    let (refused, report) = serve(
        app,
        |server| server.policy(spec).workers(1),
        move |client, handle| {
            let held: Vec<_> = (0..50).map(|_| client.submit(b"hold".to_vec()).unwrap()).collect();
            // One has the worker and two wait.
            when(handle, |it| it.classes[1].dropped >= 47);
            let short: Vec<_> =
                (0..50).map(|_| client.submit(b"echo x".to_vec()).unwrap()).collect();
            long.open();
            short.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap(), b"x"));
            let answers = held.into_iter().map(|ticket| ticket.wait().unwrap());
            answers.filter(|answer| answer == b"overloaded").count() as u64
        },
    );
    assert!((47..50).contains(&refused), "{refused}");
    assert_eq!((report.classes[0].dropped, report.classes[0].completed), (0, 50));
    assert_eq!((report.classes[1].dropped, report.classes[1].completed), (refused, 50 - refused));
}

#[test]
fn long_requests_are_cut_for_short_ones_and_not_for_their_like() {
    let mut spec = preset("darc-ps");
    spec.darc.window = 40;
    let long = Long::default();
    let app = long.clone();
    let (passed, report) = serve(
        app,
        |server| server.policy(spec).workers(1),
        move |client, handle| {
            teach(client, handle);
            let mut held: Vec<_> =
                (0..2).map(|_| client.submit(b"hold".to_vec()).unwrap()).collect();
            // One has the worker and the other waits, before the short one comes.
            when(handle, |it| (it.in_system, it.waiting) == (2, 1));
            assert_eq!(client.call(b"echo hello".to_vec()).unwrap(), b"hello");
            let first = held.swap_remove(0).try_take();
            let passed = first.is_err();
            long.open();
            held.extend(first.err());
            held.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
            passed
        },
    );
    assert!(passed, "the short request waited for the long ones");
    assert!(report.preemptions > 0);
}
