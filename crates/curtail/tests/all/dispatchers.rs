//! Several dispatchers in one server: each with workers and a policy of its own, together one
//! service.

use crate::common;

use common::{PRESETS, STUCK, Verbs, look, preset, serve, when};
use curtail::net::LocalClient;
use curtail::{App, Response, Server, ServerBuilder, StartError, WorkerId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Two dispatchers with one worker each.
fn two(server: ServerBuilder) -> ServerBuilder {
    server.workers(2).dispatchers(2).capacity(256)
}

/// Asks so many times, a window at a time, and answers what came.
fn ask(client: &LocalClient, requests: usize, request: impl Fn(usize) -> String) -> Vec<String> {
    let mut answers = Vec::new();
    for start in (0..requests).step_by(64) {
        let window = start..requests.min(start + 64);
        let tickets: Vec<_> =
            window.map(|at| client.submit(request(at).into_bytes()).unwrap()).collect();
        for ticket in tickets {
            let answer = ticket.wait().expect("it is answered");
            answers.push(String::from_utf8(answer).unwrap());
        }
    }
    answers
}

#[test]
fn together_they_serve_everything_and_lose_nothing() {
    let (answers, report) =
        serve(Verbs, two, |client, _| ask(client, 2_000, |at| format!("echo {at}")));
    let expected: Vec<String> = (0..2_000).map(|at| at.to_string()).collect();
    assert_eq!(answers, expected);
    assert_eq!(report.classes[0].completed, 2_000, "both are counted");
    assert_eq!((report.workers, report.abandoned), (2, 0));
}

#[test]
fn each_has_its_worker_and_all_workers_have_work() {
    let (seen, _) = serve(Verbs, two, |client, _| {
        let begun = Instant::now();
        let mut seen = BTreeSet::new();
        // Who has time takes what there is, so for a while that may be one of them.
        while seen.len() < 2 && begun.elapsed() < STUCK {
            seen.extend(ask(client, 64, |_| "worker".to_owned()));
        }
        seen
    });
    // Their numbers in the server; a work-conserving dispatcher would be another.
    assert_eq!(seen, BTreeSet::from(["0".to_owned(), "1".to_owned()]));
}

#[test]
fn policies_are_switched_live_on_both() {
    let (told, report) = serve(
        Verbs,
        |server| two(server).policy(preset("tq")),
        |client, handle| {
            let mut told = Vec::new();
            for name in PRESETS.into_iter().filter(|name| *name != "darc-static") {
                handle.switch(preset(name)).unwrap();
                let request = |at: usize| {
                    if at.is_multiple_of(8) { "spin 20000".into() } else { format!("echo {at}") }
                };
                let answers = ask(client, 128, request);
                assert!(answers.iter().all(|answer| !answer.is_empty()), "{name}");
                told.push((name, look(handle).policy));
            }
            let unfit = handle.switch(preset("darc-static").with_reserved(1).unwrap());
            assert!(unfit.is_err(), "it would leave either worker to one class alone");
            told
        },
    );
    assert!(told.iter().all(|(asked, told)| asked == told), "{told:?}");
    let served: u64 = report.classes.iter().map(|class| class.completed).sum();
    assert_eq!((served, report.abandoned), (128 * told.len() as u64, 0));
}

#[test]
fn a_classifier_is_in_force_on_both() {
    let (_, report) = serve(Verbs, two, |client, handle| {
        let all_long: Box<curtail::ClassifyFn> = Box::new(|_| curtail::ClassId(1));
        handle.classify_by(Some(all_long)).unwrap();
        // It is in force when this is answered.
        look(handle);
        ask(client, 300, |at| format!("echo {at}"));
    });
    let counts: Vec<u64> = report.classes.iter().map(|class| class.completed).collect();
    assert_eq!(counts, [0, 300]);
}

#[test]
fn stats_are_of_both_and_those_under_way_are_served_at_the_end() {
    const REQUESTS: usize = 100;
    let gate = Arc::new(AtomicBool::new(false));
    let (answers, report) = serve(Gated(gate.clone()), two, move |client, handle| {
        let gate = Open(gate);
        let tickets: Vec<_> = (0..REQUESTS).map(|_| client.submit(Vec::new()).unwrap()).collect();
        // No request leaves, so that all are there as soon as both have taken theirs in.
        let stats = when(handle, |stats| stats.in_system >= REQUESTS);
        let held: Vec<usize> = stats.workers.iter().map(|worker| worker.holds).collect();
        assert_eq!((stats.in_system, held.len()), (REQUESTS, 2), "{stats:?}");
        assert_eq!(held.iter().sum::<usize>() + stats.waiting, REQUESTS, "{stats:?}");
        handle.shutdown();
        drop(gate);
        tickets.into_iter().map(|ticket| ticket.wait()).collect::<Vec<_>>()
    });
    let open = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|it| it == b"open"));
    assert_eq!(open.count(), REQUESTS, "{answers:?}");
    assert_eq!(report.classes[0].completed, REQUESTS as u64, "who was taken in was answered");
    assert_eq!(report.abandoned, 0);
}

/// Its handlers do not end before the gate is open.
struct Gated(Arc<AtomicBool>);

impl App for Gated {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        let begin = Instant::now();
        while !self.0.load(Ordering::Relaxed) {
            assert!(begin.elapsed() < 2 * STUCK, "the gate stays shut");
            std::thread::yield_now();
            curtail::safepoint();
        }
        response.write(b"open");
    }
}

/// Opens the gate in the end, also where an assertion fails before that.
struct Open(Arc<AtomicBool>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let build = |settings: fn(ServerBuilder) -> ServerBuilder| {
        let (local, _client) = curtail::net::Local::new(8).unwrap();
        settings(Server::builder(Verbs).transport(Box::new(local))).build()
    };
    for settings in [
        (|server| server.workers(1).dispatchers(2)) as fn(ServerBuilder) -> ServerBuilder,
        |server| server.workers(2).dispatchers(0),
        |server| {
            server.workers(2).dispatchers(2).policy(preset("darc-static").with_reserved(1).unwrap())
        },
    ] {
        let refused = build(settings).err().expect("it is refused");
        assert!(matches!(refused, StartError::Setting(_) | StartError::Policy(_)), "{refused}");
    }
}
