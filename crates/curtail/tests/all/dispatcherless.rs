//! Servers without a dispatcher: requests are threads, on one, two and four kthreads.

use crate::common;

use common::{DISPATCHERLESS, Does, Verbs, in_kernel, in_time, look, preset, serve, when};
use curtail::net::{Local, Udp, UdpConfig};
use curtail::policy::SpecError;
use curtail::{
    App, ChangeError, ClassId, Nanos, Preempt, RequestState, Response, Server, StartError,
    WorkerId, spawn, sync,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const KTHREADS: [usize; 3] = [1, 2, 4];

/// Each kthread's state knows its thread.
struct Places {
    made: Mutex<Vec<(WorkerId, libc::pid_t)>>,
    dropped: Arc<AtomicUsize>,
}

fn kernel_thread() -> libc::pid_t {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::gettid() }
}

struct Place(WorkerId, libc::pid_t, Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        assert_eq!(kernel_thread(), self.1, "on the thread that made it");
        self.2.fetch_add(1, Ordering::SeqCst);
    }
}

struct Shared(Arc<Places>);

impl App for Shared {
    type Worker = Place;

    fn setup_worker(&self, worker: WorkerId) -> Place {
        let here = kernel_thread();
        self.0.made.lock().unwrap().push((worker, here));
        Place(worker, here, self.0.dropped.clone())
    }

    fn handle(&self, place: &Place, _: &[u8], response: &mut Response) {
        assert_eq!(kernel_thread(), place.1, "a request runs where its worker's state is");
        curtail::yield_now();
        assert_eq!(kernel_thread(), place.1, "and stays there");
        response.write(place.0.0.to_string().as_bytes());
    }
}

#[test]
fn each_kthread_has_one_state_and_its_requests_see_that() {
    for kthreads in KTHREADS {
        let places =
            Arc::new(Places { made: Mutex::default(), dropped: Arc::new(AtomicUsize::new(0)) });
        let (answers, report) = serve(
            Shared(places.clone()),
            |server| server.policy(preset("shenango")).workers(kthreads),
            |client, _| {
                let tickets: Vec<_> =
                    (0..500).map(|_| client.submit(Vec::new()).unwrap()).collect();
                tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect::<Vec<_>>()
            },
        );
        let mut made: Vec<_> = places.made.lock().unwrap().iter().map(|(id, _)| id.0).collect();
        made.sort_unstable();
        assert_eq!(made, (0..kthreads as u16).collect::<Vec<_>>());
        assert_eq!(places.dropped.load(Ordering::SeqCst), kthreads);
        let number = |answer: &Vec<u8>| String::from_utf8_lossy(answer).parse::<usize>().unwrap();
        assert!(answers.iter().all(|answer| number(answer) < kthreads));
        assert_eq!((report.classes[0].completed, report.workers), (500, kthreads));
    }
}

#[test]
fn what_lies_behind_a_long_request_is_stolen() {
    let gate = Arc::new((AtomicBool::new(false), AtomicUsize::new(0)));
    let (opens, app) = (gate.clone(), gate);
    let app = Does(move |request: &[u8], response: &mut Response| {
        if request == b"hold" {
            app.1.fetch_add(1, Ordering::SeqCst);
            while !app.0.load(Ordering::SeqCst) {
                in_kernel(Duration::from_micros(50)); // It keeps its kthread.
            }
        }
        response.write(request);
    });
    serve(
        app,
        |server| server.policy(preset("shenango")).workers(2),
        move |client, handle| {
            let held = client.submit(b"hold".to_vec()).unwrap();
            while opens.1.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            // Every second one is given to the kthread that is held.
            let tickets: Vec<_> =
                (0..100).map(|_| client.submit(b"pass".to_vec()).unwrap()).collect();
            for ticket in tickets {
                assert_eq!(ticket.wait().unwrap(), b"pass");
            }
            let stats = when(handle, |stats| stats.in_system == 1);
            assert_eq!((stats.waiting, stats.classes[0].completed), (0, 100));
            assert_eq!(stats.workers.iter().map(|worker| worker.holds).sum::<usize>(), 1);
            opens.0.store(true, Ordering::SeqCst);
            assert_eq!(held.wait().unwrap(), b"hold");
        },
    );
}

#[test]
fn classes_are_counted_and_classifiers_replaced() {
    for name in DISPATCHERLESS {
        let ((), report) = serve(
            Verbs,
            |server| server.policy(preset(name)).workers(2),
            move |client, handle| {
                for _ in 0..10 {
                    client.call(b"echo x".to_vec()).unwrap();
                    client.call(b"spin 100".to_vec()).unwrap();
                }
                let unknown: Box<curtail::ClassifyFn> = Box::new(|_| ClassId::UNKNOWN);
                handle.classify_by(Some(unknown)).unwrap();
                look(handle);
                client.call(b"echo x".to_vec()).unwrap();
                handle.classify_by(None).unwrap();
                look(handle);
                client.call(b"echo x".to_vec()).unwrap();
                let stats = when(handle, |stats| stats.in_system == 0);
                assert_eq!((stats.classes[0].completed, stats.unknown.completed), (11, 1));
                assert_eq!(stats.policy, name);
            },
        );
        let counts: Vec<_> = report.classes.iter().map(|class| class.completed).collect();
        assert_eq!((counts, report.unknown.completed), (vec![11, 10], 1));
        for class in &report.classes {
            let lengths =
                [&class.sojourn_ns, &class.queueing_ns, &class.service_ns].map(|all| all.len());
            assert_eq!(lengths, [class.completed; 3]);
            assert!(class.sojourn_ns.max() >= class.queueing_ns.min());
        }
        assert!(report.cpu.app > 0.0 && report.cpu.idle > 0.0, "{:?}", report.cpu);
    }
}

#[test]
fn service_is_the_time_on_a_core_and_not_the_time_that_it_waits() {
    let app = Does(|_: &[u8], response: &mut Response| {
        curtail::time::sleep(Duration::from_millis(20));
        let served = curtail::served_cycles().unwrap();
        response.write(&curtail::clock::Clock::get().ns(served).to_le_bytes());
    });
    let (ns, report) = serve(
        app,
        |server| server.policy(preset("shenango")).workers(1),
        |client, _| {
            let answer = client.call(Vec::new()).unwrap();
            u64::from_le_bytes(answer.try_into().unwrap())
        },
    );
    let class = &report.classes[0];
    assert!(class.sojourn_ns.max() >= 20_000_000);
    assert!(class.service_ns.max() < 15_000_000 && ns < 15_000_000, "{ns}: it slept");
    assert!(class.service_ns.max() >= ns / 2);
}

#[test]
fn a_quantum_lets_the_others_through_and_can_be_changed() {
    let ((), report) = serve(
        Verbs,
        |server| {
            let spec = preset("shenango").with_quantum(Nanos(10_000)).unwrap();
            server.policy(spec).workers(1)
        },
        |client, handle| {
            let long = client.submit(b"spin 300000000".to_vec()).unwrap();
            assert_eq!(client.call(b"echo passed".to_vec()).unwrap(), b"passed");
            // An answer may be there before its request is counted out.
            when(handle, |stats| stats.preemptions > 0 && stats.in_system == 1);
            handle.set_quantum(Some(Nanos(2_000))).unwrap();
            assert_eq!(look(handle).quantum, Some(Nanos(2_000)));
            assert_eq!(client.call(b"echo again".to_vec()).unwrap(), b"again");
            assert!(long.wait().is_ok());
        },
    );
    assert_eq!(report.preempt, Preempt::Clock);
    assert!(report.preemptions > 0);
}

/// The test's side of requests that go on until it lets them.
#[derive(Clone, Default)]
struct Held {
    gate: Arc<AtomicBool>,
    lock: Arc<sync::Mutex<()>>,
}

#[test]
fn single_requests_are_shown_that_run_and_that_wait() {
    for policy in DISPATCHERLESS {
        let held = Held::default();
        let own = held.clone();
        let app = Does(move |request: &[u8], response: &mut Response| {
            match request {
                b"wait" => drop(own.lock.lock().unwrap()),
                _ => {
                    let _guard = own.lock.lock().unwrap();
                    while !own.gate.load(Ordering::Acquire) {
                        common::spin(100);
                    }
                }
            }
            response.write(b"done");
        });
        let builder = |server: curtail::ServerBuilder| {
            server.policy(preset(policy)).workers(1).safepoints_by_hand()
        };
        serve(app, builder, move |client, handle| {
            let holds = client.submit(b"hold".to_vec()).unwrap();
            when(handle, |stats| stats.oldest.len() == 1);
            let waits = client.submit(b"wait".to_vec()).unwrap();
            let on = WorkerId(0);
            // It starts when it is its turn: where the first runs to completion, after that.
            let cut = policy == "shenango-ps";
            let states = |stats: &curtail::Stats| -> Vec<RequestState> {
                stats.oldest.iter().map(|request| request.state).collect()
            };
            let expected = match cut {
                true => vec![RequestState::On(on), RequestState::Blocked(on)],
                false => vec![RequestState::On(on)],
            };
            let stats = when(handle, |stats| states(stats) == expected);
            assert!(stats.oldest[0].attained > Nanos::ZERO, "{policy}: {:?}", stats.oldest);
            assert!(stats.oldest[0].age >= stats.oldest[0].attained, "{:?}", stats.oldest);
            held.gate.store(true, Ordering::Release);
            assert!(holds.wait().is_ok() && waits.wait().is_ok());
            let stats = when(handle, |stats| stats.in_system == 0);
            assert_eq!(stats.oldest, []);
        });
    }
}

#[test]
fn a_switch_begins_to_cut_requests_and_ends_that() {
    let ((), report) = serve(
        Verbs,
        |server| server.policy(preset("shenango")).workers(1).safepoints_by_hand(),
        |client, handle| {
            // Alone, and beside others: run to completion.
            let run = |spins: usize| {
                let spin = || client.submit(b"spin 2000000".to_vec()).unwrap();
                let tickets: Vec<_> = (0..spins).map(|_| spin()).collect();
                tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
            };
            run(4);
            let before = look(handle);
            assert_eq!((before.policy.as_str(), before.preemptions), ("shenango", 0));
            assert_eq!(before.preempt, Preempt::Never);
            handle.switch(preset("shenango-ps").with_quantum(Nanos(20_000)).unwrap()).unwrap();
            let cut = look(handle);
            assert_eq!((cut.policy.as_str(), cut.quantum), ("shenango-ps", Some(Nanos(20_000))));
            assert_eq!(cut.preempt, Preempt::Clock);
            run(4);
            let cut = look(handle).preemptions;
            assert!(cut > 0, "they took turns");
            handle.switch(preset("shenango")).unwrap();
            assert_eq!(look(handle).preempt, Preempt::Never);
            run(4);
            assert_eq!(look(handle).preemptions, cut, "and do so no more");
        },
    );
    assert_eq!(report.policy, "shenango");
    assert_eq!(report.classes.iter().map(|class| class.completed).sum::<u64>(), 12);
}

#[test]
fn nobody_changes_between_it_and_a_dispatcher_while_it_runs() {
    let refused = |name: &str| Err(ChangeError::Policy(SpecError::Dispatcherless(name.to_owned())));
    serve(
        Verbs,
        |server| server.policy(preset("shenango")).workers(1),
        move |client, handle| {
            assert_eq!(handle.switch(preset("tq")), refused("shenango"));
            assert_eq!(client.call(b"echo on".to_vec()).unwrap(), b"on");
        },
    );
    serve(
        Verbs,
        |server| server.policy(preset("tq")).workers(1),
        move |client, handle| {
            assert_eq!(handle.switch(preset("shenango")), refused("shenango"));
            assert_eq!(client.call(b"echo on".to_vec()).unwrap(), b"on");
        },
    );
}

#[test]
fn settings_that_need_a_dispatcher_are_refused() {
    let server = || {
        let (local, _) = Local::new(4).unwrap();
        Server::builder(Verbs).transport(Box::new(local)).policy(preset("shenango"))
    };
    let says = |result: Result<Server, StartError>, text: &str| {
        let error = result.err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
    };
    says(server().workers(2).dispatchers(2).build(), "no dispatcher");
    says(server().workers(65).build(), "64");
    says(server().preempt(Preempt::Signal).build(), "no dispatcher to pre-empt by signal");
    says(server().preempt(Preempt::Flag).build(), "no dispatcher to pre-empt by flag");
    says(server().record("/nowhere/record").build(), "record");
}

#[test]
fn what_handlers_leave_running_ends_after_them() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let app = Does(|_: &[u8], response: &mut Response| {
        drop(spawn(|| {
            curtail::time::sleep(Duration::from_millis(5));
            ENDED.fetch_add(1, Ordering::SeqCst);
        }));
        response.write(b"gone");
    });
    let ((), report) = serve(
        app,
        |server| server.policy(preset("shenango")).workers(2),
        |client, _| {
            for _ in 0..20 {
                assert_eq!(client.call(Vec::new()).unwrap(), b"gone");
            }
        },
    );
    assert_eq!((report.abandoned, ENDED.load(Ordering::SeqCst)), (0, 20));
}

#[test]
fn a_server_whose_requests_are_given_up_returns_with_what_did_not_start() {
    static LOCK: sync::Mutex<()> = sync::Mutex::new(());
    static NEVER: sync::Condvar = sync::Condvar::new();
    let held = Arc::new(AtomicUsize::new(0));
    let begun = held.clone();
    let app = Does(move |request: &[u8], _: &mut Response| {
        if request == b"hold" {
            begun.fetch_add(1, Ordering::SeqCst);
            loop {
                curtail::safepoint();
            }
        }
        drop(NEVER.wait(LOCK.lock().unwrap()));
    });
    let report = in_time(move || {
        let settings = |server: curtail::ServerBuilder| {
            let spec = preset("shenango").with_quantum(Nanos(1_000_000_000)).unwrap();
            server.policy(spec).workers(1).drain(Duration::from_millis(50))
        };
        let (_, report) = serve(app, settings, move |client, handle| {
            let waits = client.submit(b"wait".to_vec()).unwrap();
            let hold = client.submit(b"hold".to_vec()).unwrap();
            while held.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            let others: Vec<_> = (0..500).map(|_| client.submit(vec![1; 100]).unwrap()).collect();
            when(handle, |stats| (stats.in_system, stats.waiting) == (502, 500));
            // The quantum of a second is over in the end.
            (waits, hold, others)
        });
        report
    });
    assert_eq!(report.abandoned, 502);
}

#[test]
fn an_idle_server_sleeps() {
    let udp = Udp::bind(&["127.0.0.1:0".parse().unwrap()], &UdpConfig::default()).unwrap();
    let server = Server::builder(Verbs)
        .transport(Box::new(udp))
        .policy(preset("shenango"))
        .dispatcher(curtail::DispatcherMode::Blocking)
        .workers(4)
        .build()
        .unwrap();
    let handle = server.handle();
    let ends = thread::spawn(move || {
        look(&handle);
        thread::sleep(Duration::from_millis(500)); // Time itself is what is tested.
        handle.shutdown();
    });
    let report = server.run().unwrap();
    ends.join().unwrap();
    assert!(report.cpu.idle > 0.9, "{:?}", report.cpu);
    assert!(report.cpu.busy_s < 0.1, "{:?}: four kthreads of half a second each", report.cpu);
}
