//! More requests of a class than there is room for: who is refused, and who is not.

use crate::common;

use common::{Long, preset, serve, when};

/// Without any bound of its own, and before anything is known of the classes.
#[test]
fn a_flood_of_long_requests_refuses_long_ones_only() {
    for policy in ["darc", "darc-ps", "fcfs", "tq", "auto", "shenango"] {
        let long = Long::default();
        let app = long.clone();
        let (refused, report) = serve(
            app,
            |server| server.policy(preset(policy)).workers(1).capacity(40),
            move |client, handle| {
                let held = |_| client.submit(b"hold".to_vec()).unwrap();
                let held: Vec<_> = (0..100).map(held).collect();
                // A quarter of the room is the short ones'.
                when(handle, |it| it.classes[1].dropped == 70);
                let short = |_| client.submit(b"echo x".to_vec()).unwrap();
                let short: Vec<_> = (0..10).map(short).collect();
                long.open();
                short.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap(), b"x"));
                let answers = held.into_iter().map(|ticket| ticket.wait().unwrap());
                answers.filter(|answer| answer == b"overloaded").count()
            },
        );
        let of = |class: usize| (report.classes[class].dropped, report.classes[class].completed);
        assert_eq!((of(0), of(1), refused), ((0, 10), (70, 30), 70), "{policy}");
    }
}

#[test]
fn the_class_that_comes_first_may_have_all_the_room() {
    let long = Long::default();
    let app = long.clone();
    let ((), report) = serve(
        app,
        |server| server.policy(preset("fcfs")).workers(1).capacity(40).keep_room(false),
        move |client, handle| {
            let held = |_| client.submit(b"hold".to_vec()).unwrap();
            let held: Vec<_> = (0..100).map(held).collect();
            when(handle, |it| it.classes[1].dropped == 60);
            assert_eq!(client.call(b"echo x".to_vec()).unwrap(), b"overloaded");
            long.open();
            held.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
        },
    );
    assert_eq!((report.classes[0].dropped, report.classes[1].dropped), (1, 60));
}

/// A two-level policy's requests wait on workers: all that are in the system count.
#[test]
fn bounds_hold_for_policies_that_do_not_look_at_classes() {
    for (policy, held_most) in [("tq", 3), ("fcfs", 4), ("shenango", 3)] {
        let mut spec = preset(policy);
        spec.plan_mut(1).bound = Some(3);
        let long = Long::default();
        let app = long.clone();
        let ((), report) = serve(
            app,
            |server| server.policy(spec).workers(1),
            move |client, handle| {
                let held = |_| client.submit(b"hold".to_vec()).unwrap();
                let held: Vec<_> = (0..20).map(held).collect();
                when(handle, |it| it.classes[1].dropped >= 20 - held_most);
                long.open();
                held.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
            },
        );
        assert_eq!(report.classes[1].completed + report.classes[1].dropped, 20, "{policy}");
        let dropped = report.classes[1].dropped;
        assert!((20 - held_most..=17).contains(&dropped), "{policy}: {dropped}");
    }
}
