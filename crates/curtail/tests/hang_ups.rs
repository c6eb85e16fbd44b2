//! Thousands of clients that hang up: by counts, what is still done for them.

mod common;

use common::tasks::{IN_TURN, with};
use common::when;
use curtail::{OnCancel, ServerBuilder};
use std::sync::atomic::Ordering::SeqCst;

const CROWD: usize = 900;

/// All that have not begun when the last has hung up never begin; those that have end at their next
/// look, and live requests are served meanwhile.
#[test]
fn nothing_begins_for_clients_that_have_gone() {
    for policy in IN_TURN {
        let ((begun, live), report) = with(
            policy,
            |server: ServerBuilder| server,
            |client, handle, seen| {
                let crowd: Vec<_> =
                    (0..CROWD).map(|_| client.submit(b"Lcheck".to_vec()).unwrap()).collect();
                seen.began(1);
                drop(crowd);
                let begun = seen.began.load(SeqCst);
                let live = 20;
                for _ in 0..live {
                    client.call(b"live".to_vec()).unwrap();
                }
                when(handle, |stats| stats.in_system == 0);
                let now = seen.began.load(SeqCst) - live;
                assert!(now <= begun + 1, "{begun} had begun, and {now} have in the end");
                assert_eq!(seen.told().len(), now, "each was told once");
                (now, live)
            },
        );
        let (short, long) = (&report.classes[0], &report.classes[1]);
        assert_eq!((short.completed, long.completed), (live as u64, begun as u64), "{policy}");
        assert_eq!(long.orphaned, (CROWD - begun) as u64, "{policy}");
        assert_eq!(report.abandoned, 0, "{policy}");
    }
}

/// Handlers that would run for ever and look at nothing have at most their turns until they are told;
/// then the worker has nothing to do.
#[test]
fn a_crowd_that_is_abandoned_does_nothing_more() {
    for policy in IN_TURN {
        let settings =
            |server: ServerBuilder| server.on_cancel("long", OnCancel::Abandon { most: CROWD });
        let ((), report) = with(policy, settings, |client, handle, seen| {
            let crowd: Vec<_> =
                (0..CROWD).map(|_| client.submit(b"Lspin".to_vec()).unwrap()).collect();
            seen.began(50);
            drop(crowd);
            client.call(b"live".to_vec()).unwrap();
            when(handle, |stats| stats.in_system == 0);
            let steps = seen.steps.load(SeqCst);
            client.call(b"live".to_vec()).unwrap();
            assert_eq!(seen.steps.load(SeqCst), steps, "none goes on");
        });
        let long = &report.classes[1];
        assert_eq!(long.abandoned + long.orphaned, CROWD as u64, "{policy}");
        assert!(long.abandoned >= 50, "{policy}: {}", long.abandoned);
    }
}
