//! Cancelled requests: why they are, what becomes of those that wait and of those that run.

use crate::common;

use common::tasks::{IN_TURN, POLICIES, Tasks, with};
use common::when;
use curtail::net::NoResponse;
use curtail::{OnCancel, Server, ServerBuilder};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
fn a_ticket_that_is_dropped_ends_its_requests_wait() {
    for policy in POLICIES {
        let ((), report) = with(
            policy,
            |server| server,
            |client, handle, seen| {
                let ticket = client.submit(b"sleep".to_vec()).unwrap();
                seen.began(1);
                drop(ticket);
                when(handle, |stats| stats.in_system == 0);
                assert_eq!(seen.dropped.load(SeqCst), 1, "what it owned was dropped");
            },
        );
        let class = &report.classes[0];
        let counts = (class.cancelled_running, class.completed, class.failed, class.orphaned);
        assert_eq!(counts, (1, 0, 0, 0), "{policy}");
    }
}

#[test]
fn a_ticket_that_is_detached_leaves_its_request_alone() {
    let ((), report) = with(
        "tq",
        |server| server,
        |client, handle, seen| {
            client.submit(b"hold".to_vec()).unwrap().detach();
            seen.began(1);
            seen.open.store(true, SeqCst);
            when(handle, |stats| stats.classes[0].completed == 1);
        },
    );
    assert_eq!(report.classes[0].cancelled_running, 0);
}

#[test]
fn a_deadline_ends_a_wait_and_who_asked_is_told() {
    for policy in POLICIES {
        let settings = |server: ServerBuilder| server.deadline("long", Duration::from_millis(5));
        let (asked, report) = with(policy, settings, |client, _, seen| {
            let mut asked = 0;
            // Until one has begun before its deadline.
            while seen.dropped.load(SeqCst) == 0 {
                let answer = client.call(b"Lsleep".to_vec());
                assert_eq!(answer.as_deref(), Ok(&b"its deadline has passed"[..]));
                asked += 1;
            }
            asked
        });
        let class = &report.classes[1];
        let counts = (class.cancelled_running, class.cancelled_queued);
        assert_eq!(counts, (1, asked - 1), "{policy}");
    }
}

#[test]
fn what_waits_beyond_its_deadline_is_not_run_and_answered() {
    for policy in POLICIES {
        let ((), report) = with(
            policy,
            |server| server,
            |client, handle, seen| {
                let held = client.submit(b"hold".to_vec()).unwrap();
                seen.began(1);
                let late = client.submit(b"would panic, at once".to_vec()).unwrap();
                let late = late.wait_timeout(Duration::from_millis(1)).map_or_else(
                    |late| late,
                    |_| {
                        // Answered while the only worker is held: where the dispatcher has it.
                        client.submit(b"would panic, at once".to_vec()).unwrap()
                    },
                );
                let stays = client.submit(b"echo".to_vec()).unwrap();
                seen.open.store(true, SeqCst);
                assert_eq!(late.wait().unwrap(), b"its deadline has passed");
                assert_eq!(stays.wait().unwrap(), b"echo");
                held.wait().unwrap_err();
                when(handle, |stats| stats.in_system == 0);
            },
        );
        let class = &report.classes[0];
        assert!(class.cancelled_queued >= 1, "{policy}");
        assert_eq!((class.completed, class.failed), (2, 0), "{policy}");
    }
}

#[test]
fn a_handle_cancels_by_name_and_a_check_tells() {
    for policy in POLICIES {
        let ((), report) = with(
            policy,
            |server| server,
            |client, handle, seen| {
                let ticket = client.submit(b"Lcheck".to_vec()).unwrap();
                seen.began(1);
                let id = seen.ids.lock().unwrap()[0];
                handle.cancel(id).unwrap();
                assert_eq!(ticket.wait(), Err(NoResponse::Silent));
                assert_eq!(seen.told(), ["the request was cancelled: the program asked for it"]);
                // It has ended: another one in its place is none of its.
                handle.cancel(id).unwrap();
                assert_eq!(client.call(b"echo".to_vec()).unwrap(), b"echo");
            },
        );
        assert_eq!((report.classes[0].completed, report.classes[1].completed), (1, 1), "{policy}");
    }
}

#[test]
fn a_check_tells_of_a_deadline_without_anyone_else() {
    for policy in POLICIES {
        let settings = |server: ServerBuilder| server.deadline("long", Duration::from_millis(2));
        let (told, _) = with(policy, settings, |client, _, seen| {
            // One whose deadline passes before it begins is answered.
            while client.call(b"Lcheck".to_vec()).is_ok() {}
            seen.told()
        });
        assert_eq!(told, ["the request was cancelled: its deadline has passed"], "{policy}");
    }
}

#[test]
fn threads_that_a_handler_spawns_have_its_context() {
    for policy in IN_TURN {
        with(
            policy,
            |server| server,
            |client, handle, seen| {
                let ticket = client.submit(b"child".to_vec()).unwrap();
                seen.began(1);
                drop(ticket);
                when(handle, |stats| stats.in_system == 0);
            },
        );
    }
}

#[test]
fn a_shield_keeps_waits_together() {
    for policy in POLICIES {
        let (answer, _) = with(
            policy,
            |server| server,
            |client, handle, seen| {
                let ticket = client.submit(b"shielded".to_vec()).unwrap();
                seen.began(1);
                let id = seen.ids.lock().unwrap()[0];
                handle.cancel(id).unwrap();
                assert_eq!(client.call(b"echo".to_vec()).unwrap(), b"echo");
                seen.open.store(true, SeqCst);
                ticket.wait()
            },
        );
        assert_eq!(answer.as_deref(), Ok(&b"whole"[..]), "{policy}");
    }
}

#[test]
fn a_class_may_want_its_requests_to_finish() {
    for policy in POLICIES {
        let settings = |server: ServerBuilder| server.on_cancel("short", OnCancel::Finish);
        let ((), report) = with(policy, settings, |client, handle, seen| {
            let ticket = client.submit(b"hold".to_vec()).unwrap();
            seen.began(1);
            drop(ticket);
            seen.open.store(true, SeqCst);
            when(handle, |stats| stats.in_system == 0);
        });
        let class = &report.classes[0];
        assert_eq!((class.completed, class.cancelled_running), (1, 0), "{policy}");
    }
}

#[test]
fn a_cancelled_request_runs_when_nothing_else_is_ready() {
    for policy in IN_TURN {
        let ((), report) = with(
            policy,
            |server| server,
            |client, handle, seen| {
                let given_up = client.submit(b"Lspin".to_vec()).unwrap();
                seen.began(1);
                drop(given_up);
                // It is marked when this one has been served, at the latest.
                client.call(b"live".to_vec()).unwrap();
                let before = seen.steps.load(SeqCst);
                seen.until(|seen| seen.steps.load(SeqCst) > before);
                for _ in 0..20 {
                    let live: Vec<_> =
                        (0..20).map(|_| client.submit(b"live".to_vec()).unwrap()).collect();
                    let steps = live.into_iter().map(|ticket| {
                        String::from_utf8(ticket.wait().unwrap()).unwrap().parse::<u64>().unwrap()
                    });
                    let mut steps: Vec<_> = steps.collect();
                    steps.sort_unstable();
                    // Those that came in one batch: it ran before the first, and between two of them
                    // only where the worker had none.
                    let most = steps.iter().filter(|&&at| at == steps[10]).count();
                    assert!(most >= 2, "it took turns with the others: {steps:?}");
                }
                let before = seen.steps.load(SeqCst);
                seen.until(|seen| seen.steps.load(SeqCst) > before);
                seen.open.store(true, SeqCst);
                when(handle, |stats| stats.in_system == 0);
            },
        );
        assert_eq!(report.classes[0].completed, 401, "{policy}");
    }
}

#[test]
fn abandoned_requests_are_counted_and_bounded() {
    for policy in IN_TURN {
        let settings =
            |server: ServerBuilder| server.on_cancel("long", OnCancel::Abandon { most: 2 });
        let ((), report) = with(policy, settings, |client, handle, seen| {
            for count in 1..=2 {
                let ticket = client.submit(b"Lspin".to_vec()).unwrap();
                seen.began(count);
                drop(ticket);
                when(handle, |stats| stats.classes[1].abandoned == count as u64);
            }
            // The class is full, the other one is not.
            assert_eq!(client.call(b"Lspin".to_vec()), Err(NoResponse::Dropped));
            assert_eq!(client.call(b"echo".to_vec()).unwrap(), b"echo");
            assert_eq!(seen.dropped.load(SeqCst), 1, "what they own is kept");
            let steps = seen.steps.load(SeqCst);
            client.call(b"live".to_vec()).unwrap();
            assert_eq!(seen.steps.load(SeqCst), steps, "they never go on");
            when(handle, |stats| stats.in_system == 0);
        });
        let class = &report.classes[1];
        let counts = (class.abandoned, class.dropped, class.cancelled_running);
        assert_eq!(counts, (2, 1, 0), "{policy}");
        assert_eq!(report.abandoned, 0, "{policy}");
    }
}

#[test]
fn a_rule_for_a_class_that_there_is_not_is_an_error() {
    let (local, _) = curtail::net::Local::new(1).unwrap();
    let server = Server::builder(Tasks::default()).transport(Box::new(local));
    let error = server.deadline("lnog", Duration::from_secs(1)).build().map(drop).unwrap_err();
    assert_eq!(error.to_string(), "no class is called `lnog`; there are short, long, unknown");
}
