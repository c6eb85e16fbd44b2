//! Thousands of clients that hang up: by counts, what is still done for them.

use crate::common;

use common::tasks::{IN_TURN, POLICIES, Seen, Tasks, with};
use common::wire::{connect, frame, receive};
use common::{End, in_time, preset, when};
use curtail::net::open;
use curtail::{Handle, OnCancel, Report, Server, ServerBuilder};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

const CROWD: usize = 900;
/// Connections of a crowd, and the requests of each.
const CONNECTIONS: usize = 250;
const EACH: usize = 8;

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

/// A server of connections, where a FIN is a departure.
fn over_tcp(
    policy: &'static str,
    client: impl FnOnce(SocketAddr, &Handle, &Seen) + Send + 'static,
) -> Report {
    in_time(move || {
        let tasks = Tasks::default();
        let seen = tasks.0.clone();
        let tcp = open("tcp://127.0.0.1:0?fin=cancel").unwrap();
        let address = tcp.local_addrs()[0];
        let server = Server::builder(tasks).transport(tcp).safepoints_by_hand();
        let server = server.policy(preset(policy)).workers(1).build().unwrap();
        let end = End(server.handle());
        let client = thread::spawn(move || {
            let end = end;
            client(address, &end.0, &seen);
        });
        let report = server.run().unwrap();
        client.join().unwrap();
        report
    })
}

/// Clients that close their connections in the ordinary way. Their handlers would go on for ever;
/// each that has begun is told once, no other begins, and live requests are served meanwhile.
#[test]
fn two_thousand_requests_of_clients_that_close_end() {
    for policy in POLICIES {
        let report = over_tcp(policy, move |address, handle, seen| {
            let ask = |_| {
                let mut one = connect(address);
                one.write_all(&frame(b"Lcheck").repeat(EACH)).unwrap();
                one
            };
            let crowd: Vec<_> = (0..CONNECTIONS).map(ask).collect();
            seen.began(1);
            drop(crowd);
            let mut live = connect(address);
            let count = 20;
            for _ in 0..count {
                live.write_all(&frame(b"live")).unwrap();
                receive(&mut live);
            }
            let all = (CONNECTIONS * EACH) as u64;
            when(handle, |stats| stats.classes[1].completed + stats.classes[1].orphaned == all);
            when(handle, |stats| stats.in_system == 0);
            assert_eq!(seen.told().len() + count, seen.began.load(SeqCst), "{policy}");
        });
        let (short, long) = (&report.classes[0], &report.classes[1]);
        assert_eq!(short.completed, 20, "{policy}");
        assert_eq!(long.completed + long.orphaned, (CONNECTIONS * EACH) as u64, "{policy}");
        assert_eq!(report.abandoned, 0, "{policy}");
    }
}
