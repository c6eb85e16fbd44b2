//! The whole server, from a client's place: every policy, failures, overload, switching, draining.

use crate::common;

use common::{PRESETS, Verbs, look, preset, serve, spin};
use curtail::net::{Local, NoResponse};
use curtail::policy::catalogue;
use curtail::{App, Nanos, Preempt, Response, RunError, Server, WorkerId, sync};
use std::sync::OnceLock;
use std::time::Duration;

#[test]
fn every_policy_answers_every_request() {
    let presets = catalogue().iter().map(|entry| preset(entry.name));
    let preemptive = presets.clone().filter_map(|spec| {
        let optional = spec.dispatch.may_preempt().is_none() && !spec.preemptive;
        optional.then(|| spec.with_preemptive(true).unwrap())
    });
    for spec in presets.clone().chain(preemptive) {
        let name = format!("{} ({})", spec.name, spec.preemptive);
        let kthreads = spec.is_dispatcherless().then_some(4);
        for workers in [1, 2].into_iter().chain(kthreads) {
            let (spec, name) = (spec.clone(), name.clone());
            let shown = name.clone();
            let ((), report) = serve(
                Verbs,
                |server| server.policy(spec).workers(workers),
                move |client, _| {
                    let tickets: Vec<_> = (0..300)
                        .map(|index| {
                            let text = if index % 10 == 0 {
                                format!("spin {}", 20_000 + index)
                            } else {
                                format!("echo {index}")
                            };
                            (index, client.submit(text.into_bytes()).unwrap())
                        })
                        .collect();
                    for (index, ticket) in tickets {
                        let answer = String::from_utf8(ticket.wait().unwrap()).unwrap();
                        let expected = if index % 10 == 0 { spin(20_000 + index) } else { index };
                        assert_eq!(answer, expected.to_string(), "{name}");
                    }
                },
            );
            assert_eq!(report.classes[0].completed, 270, "{shown}");
            assert_eq!(report.classes[1].completed, 30, "{shown}");
            assert_eq!((report.abandoned, report.workers), (0, workers), "{shown}");
        }
    }
}

#[test]
fn long_requests_are_cut_and_short_ones_pass_them() {
    for name in ["ps", "shinjuku", "concord", "tq", "srpt", "shenango-ps"] {
        let (passed, report) = serve(
            Verbs,
            |server| server.policy(preset(name)).workers(1),
            |client, _| {
                let long = client.submit(b"spin 20000000".to_vec()).unwrap();
                let short = client.call(b"echo hello".to_vec()).unwrap();
                assert_eq!(short, b"hello");
                let long_was_running = long.try_take().err();
                long_was_running.map(|long| long.wait().unwrap()).is_some()
            },
        );
        assert!(passed, "{name}: the short request waited for the long one");
        assert!(report.preemptions > 0, "{name}");
        assert_ne!(report.preempt, Preempt::Never);
    }
}

#[test]
fn run_to_completion_does_not_preempt() {
    for name in ["fcfs", "dfcfs", "jbsq", "shenango"] {
        let ((), report) = serve(
            Verbs,
            |server| server.policy(preset(name)).workers(1),
            |client, _| {
                let long = client.submit(b"spin 200000".to_vec()).unwrap();
                client.call(b"echo x".to_vec()).unwrap();
                assert!(long.try_take().is_ok(), "the long request was first");
            },
        );
        assert_eq!((report.preemptions, report.preempt), (0, Preempt::Never), "{name}");
    }
}

#[test]
fn without_safepoints_the_program_says_that_preemption_is_off() {
    let (local, _client) = curtail::net::Local::new(4).unwrap();
    let server = Server::builder(Verbs).transport(Box::new(local)).workers(1).build().unwrap();
    server.handle().shutdown();
    let report = server.run().unwrap();
    if curtail::safepoint_kind() == curtail::SafepointKind::None {
        assert_eq!(report.preempt, Preempt::Never);
        assert!(report.preempt_note.unwrap().contains("pre-emption is off"));
    }
}

#[test]
fn a_panic_fails_one_request_only() {
    std::panic::set_hook(Box::new(|_| {}));
    let ((), report) = serve(
        Verbs,
        |server| server.workers(1),
        |client, _| {
            for round in 0..50 {
                let bad = client.submit(b"panic on purpose".to_vec()).unwrap();
                let good = client.submit(format!("echo {round}").into_bytes()).unwrap();
                assert_eq!(bad.wait().unwrap(), b"failed: panic on purpose");
                assert_eq!(good.wait().unwrap(), round.to_string().as_bytes());
            }
        },
    );
    assert_eq!((report.classes[0].failed, report.classes[0].completed), (50, 50));
}

#[test]
fn a_classifier_that_panics_costs_one_request() {
    struct Picky;
    impl App for Picky {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn classify(&self, request: &[u8]) -> curtail::ClassId {
            assert_ne!(request, b"bad");
            curtail::ClassId(9) // Beyond the classes: the last one.
        }
        fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
            response.write(request);
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let ((), report) = serve(
        Picky,
        |server| server.workers(1),
        |client, _| {
            assert_eq!(client.call(b"bad".to_vec()), Err(NoResponse::Failed));
            assert_eq!(client.call(b"good".to_vec()).unwrap(), b"good");
        },
    );
    assert_eq!((report.malformed, report.classes[0].completed), (1, 1));
}

#[test]
fn a_silent_handler_ends_without_an_answer() {
    let ((), report) = serve(
        Verbs,
        |server| server.workers(1),
        |client, _| {
            assert_eq!(client.call(b"silent".to_vec()), Err(NoResponse::Silent));
        },
    );
    assert_eq!(report.classes[0].completed, 1);
}

#[test]
fn large_requests_and_responses_travel_whole() {
    let ((), _) = serve(
        Verbs,
        |server| server.workers(1),
        |client, _| {
            for length in [0, 1, 26, 27, 28, 100, 5_000, 100_000] {
                let body = "x".repeat(length);
                let answer = client.call(format!("echo {body}").into_bytes());
                match length {
                    0 => assert_eq!(answer, Err(NoResponse::Silent)),
                    _ => assert_eq!(answer.unwrap(), body.as_bytes()),
                }
            }
        },
    );
}

#[test]
fn overload_is_answered_and_counted_for_its_class() {
    let (refused, report) = serve(
        Verbs,
        |server| server.workers(1).capacity(8),
        |client, _| {
            let tickets: Vec<_> =
                (0..100).map(|_| client.submit(b"spin 300000".to_vec()).unwrap()).collect();
            let answers = tickets.into_iter().map(|ticket| ticket.wait().unwrap());
            answers.filter(|answer| answer == b"overloaded").count() as u64
        },
    );
    assert!(refused > 0);
    assert_eq!(report.classes[1].dropped, refused);
    assert_eq!(report.classes[1].completed, 100 - refused);
    assert_eq!(report.classes[0].dropped, 0);
}

#[test]
fn policies_switch_under_load_and_nothing_is_lost() {
    let ((), report) = serve(
        Verbs,
        |server| server.workers(2).policy(preset("fcfs")),
        |client, handle| {
            let mut expected = 0;
            let mut tickets = Vec::new();
            for round in 0..4 {
                for name in PRESETS {
                    handle.switch(preset(name)).unwrap();
                    handle.set_quantum(Some(Nanos(1_000 + 500 * round))).unwrap();
                    for _ in 0..10 {
                        let text: &[u8] = if expected % 3 == 0 { b"spin 30000" } else { b"echo y" };
                        tickets.push(client.submit(text.to_vec()).unwrap());
                        expected += 1;
                    }
                }
            }
            for ticket in tickets {
                ticket.wait().unwrap();
            }
            let stats = look(handle);
            assert_eq!(stats.policy, PRESETS[PRESETS.len() - 1]);
            assert!(handle.switch(preset("tq").with_quantum(Nanos(700)).unwrap()).is_ok());
            let dispatcherless = curtail::policy::SpecError::Dispatcherless("shenango".to_owned());
            let refused = handle.switch(preset("shenango"));
            assert_eq!(refused, Err(curtail::ChangeError::Policy(dispatcherless)));
        },
    );
    let completed: u64 = report.classes.iter().map(|class| class.completed).sum();
    assert_eq!(completed, 4 * PRESETS.len() as u64 * 10);
}

#[test]
fn a_switch_to_a_work_conserving_policy_cuts_what_the_dispatcher_runs() {
    let ((), report) = serve(
        Verbs,
        |server| server.workers(1).policy(preset("fcfs")),
        |client, handle| {
            handle.switch(preset("concord")).unwrap();
            let long: Vec<_> =
                (0..8).map(|_| client.submit(b"spin 2000000".to_vec()).unwrap()).collect();
            assert_eq!(client.call(b"echo passed".to_vec()).unwrap(), b"passed");
            for ticket in long {
                assert_eq!(ticket.wait().unwrap(), spin(2_000_000).to_string().as_bytes());
            }
        },
    );
    assert!(report.preemptions > 0);
}

#[test]
fn an_ended_server_obeys_nobody() {
    let (handle, _) = serve(Verbs, |server| server.workers(1), |_, handle| handle.clone());
    assert_eq!(handle.switch(preset("tq")), Err(curtail::ChangeError::Ended));
    assert_eq!(handle.set_quantum(None), Err(curtail::ChangeError::Ended));
    assert!(handle.stats().is_none());
}

#[test]
fn a_server_that_cannot_run_obeys_nobody() {
    /// Its second worker does not start.
    struct Broken;
    impl App for Broken {
        type Worker = ();
        fn setup_worker(&self, worker: WorkerId) {
            assert_ne!(worker, WorkerId(1), "on purpose");
        }
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {}
    }
    std::panic::set_hook(Box::new(|_| {}));
    let server = || {
        let (local, _) = Local::new(8).unwrap();
        Server::builder(Broken).workers(2).transport(Box::new(local)).build().unwrap()
    };
    let (broken, never_run) = (server(), server());
    let handles = [broken.handle(), never_run.handle()];
    assert!(matches!(broken.run(), Err(RunError::Worker { worker: WorkerId(1), .. })));
    drop(never_run);
    for handle in handles {
        assert_eq!(handle.set_quantum(None), Err(curtail::ChangeError::Ended));
        assert!(handle.stats().is_none());
    }
}

#[test]
fn shutdown_drains_what_is_under_way() {
    let (ticket, report) = serve(
        Verbs,
        |server| server.workers(1),
        |client, _| {
            let ticket = client.submit(b"spin 3000000".to_vec()).unwrap();
            while !client.call(b"echo up".to_vec()).is_ok_and(|answer| answer == b"up") {}
            ticket
        },
    );
    assert_eq!(ticket.wait().unwrap(), spin(3_000_000).to_string().as_bytes());
    assert_eq!(report.abandoned, 0);
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_server() {
    static STUCK: OnceLock<sync::Mutex<()>> = OnceLock::new();
    struct Stuck(sync::Condvar);
    impl App for Stuck {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {
            let mut guard = STUCK.get_or_init(|| sync::Mutex::new(())).lock().unwrap();
            loop {
                guard = self.0.wait(guard).unwrap();
            }
        }
    }
    let (ticket, report) = serve(
        Stuck(sync::Condvar::new()),
        |server| server.workers(1).drain(Duration::from_millis(20)),
        |client, _| client.submit(b"forever".to_vec()).unwrap(),
    );
    assert!(ticket.wait().is_err());
    assert_eq!(report.abandoned, 1);
}

#[test]
fn bad_settings_are_refused_with_a_reason() {
    let build = |server: curtail::ServerBuilder| server.build().err().unwrap().to_string();
    assert!(build(Server::builder(Verbs)).contains("transport"));
    let local = || Box::new(curtail::net::Local::new(4).unwrap().0);
    let server = || Server::builder(Verbs).transport(local());
    assert!(build(server().stack_size(100)).contains("stack"));
    assert!(build(server().capacity(0)).contains("capacity"));
    assert!(build(server().cores(vec![])).contains("cores"));
    let own = curtail::allowed_cores()[0];
    assert_eq!(build(server().cores(vec![own, 9_999])), "the process may not use core 9999");
    assert_eq!(build(server().cores(vec![own, own])), format!("core {own} is named twice"));
    assert_eq!(build(server().workers(0)), "a server of 0 workers");
    struct Broken;
    impl App for Broken {
        type Worker = ();
        fn setup(&self) -> Result<(), String> {
            Err("no database".to_owned())
        }
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {}
    }
    let text = build(Server::builder(Broken).transport(local()));
    assert!(text.contains("no database"), "{text}");
}
