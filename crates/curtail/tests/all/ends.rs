//! How a server ends, and what it leaves to the next one: endless handlers, requests that wait
//! forever, a transport that panics, two servers in one process.

use crate::common;

use common::{Does, Verbs, in_time, preset, serve, when};
use curtail::net::{Completion, Intake, Local, Reply, Status, Transport};
use curtail::{App, Report, Response, Server, WorkerId, sync};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn an_endless_handler_does_not_keep_the_server() {
    // With eight, a work-conserving dispatcher has one itself.
    let preemptive =
        ["ps", "shinjuku", "concord", "srpt", "shinjuku-mq", "darc-ps", "tq", "shenango-ps"];
    let each = preemptive.into_iter().flat_map(|name| [(name, 1), (name, 8)]);
    for (name, requests) in each.chain([("fcfs", 2), ("shenango", 2)]) {
        let let_go = Arc::new(AtomicBool::new(false));
        let (endless, begun) = (let_go.clone(), Arc::new(AtomicUsize::new(0)));
        let (took, report) = in_time(move || {
            let count = begun.clone();
            let endless = Does(move |_: &[u8], _: &mut Response| {
                count.fetch_add(1, Ordering::SeqCst);
                while !endless.load(Ordering::Relaxed) {
                    curtail::safepoint();
                }
            });
            let (closing, report) = serve(
                endless,
                |server| server.policy(preset(name)).workers(1).drain(Duration::from_millis(100)),
                move |client, handle| {
                    let tickets: Vec<_> =
                        (0..requests).map(|_| client.submit(b"go".to_vec()).unwrap()).collect();
                    while begun.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                    when(handle, |stats| stats.in_system == requests);
                    (Instant::now(), tickets)
                },
            );
            (closing.0.elapsed(), report)
        });
        let_go.store(true, Ordering::Relaxed);
        assert_eq!(report.abandoned, requests, "{name}");
        let left_behind = report.notes.iter().any(|note| note.contains("is stuck in a request"));
        // Where requests are pre-empted, the end does so, too.
        assert_eq!(left_behind, name == "fcfs", "{name}: {:?}", report.notes);
        assert!(left_behind || took < Duration::from_secs(2), "{name}: {took:?}");
    }
}

/// Two requests that wait for one condition variable in a server that gives them up, then one in the
/// next server, and one wake-up.
fn the_wake_up_is_not_lost(wait: fn(), wake: fn()) {
    let waiting = || {
        static WAITING: AtomicUsize = AtomicUsize::new(0);
        &WAITING
    };
    let app = move || {
        Does(move |_: &[u8], response: &mut Response| {
            waiting().fetch_add(1, Ordering::SeqCst);
            wait();
            response.write(b"woken");
        })
    };
    for name in ["tq", "concord", "fcfs", "shenango"] {
        in_time(move || {
            waiting().store(0, Ordering::SeqCst);
            let settings = move |server: curtail::ServerBuilder| {
                server.policy(preset(name)).workers(1).drain(Duration::from_millis(10))
            };
            let ((), report) = serve(app(), settings, move |client, _| {
                let tickets = [(); 2].map(|()| client.submit(b"wait".to_vec()).unwrap());
                while waiting().load(Ordering::SeqCst) < 2 {
                    thread::yield_now();
                }
                tickets.into_iter().for_each(curtail::net::Ticket::detach);
            });
            assert_eq!(report.abandoned, 2, "{name}");
            waiting().store(0, Ordering::SeqCst);
            let ((), report) = serve(app(), settings, move |client, handle| {
                let ticket = client.submit(b"wait".to_vec()).unwrap();
                while waiting().load(Ordering::SeqCst) < 1 {
                    thread::yield_now();
                }
                // It has begun; that it waits shows in the look after the next request's turn.
                when(handle, |stats| stats.in_system == 1 && stats.waiting == 0);
                thread::sleep(Duration::from_millis(20));
                wake();
                assert_eq!(ticket.wait().unwrap(), b"woken", "{name}");
            });
            assert_eq!(report.abandoned, 0, "{name}");
        });
    }
}

#[test]
fn who_waited_in_a_server_that_ended_takes_no_wake_up_of_the_next() {
    static LOCK: sync::Mutex<()> = sync::Mutex::new(());
    static CHANGED: sync::Condvar = sync::Condvar::new();
    the_wake_up_is_not_lost(
        || drop(CHANGED.wait(LOCK.lock().unwrap())),
        || {
            let _guard = LOCK.lock();
            CHANGED.notify_one();
        },
    );
}

#[test]
fn who_waited_for_a_std_condvar_takes_none_either() {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    static CHANGED: std::sync::Condvar = std::sync::Condvar::new();
    the_wake_up_is_not_lost(
        || drop(CHANGED.wait(LOCK.lock().unwrap())),
        || {
            let _guard = LOCK.lock();
            CHANGED.notify_one();
        },
    );
}

#[test]
fn who_waited_with_a_time_limit_takes_none_either() {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    static CHANGED: std::sync::Condvar = std::sync::Condvar::new();
    the_wake_up_is_not_lost(
        || {
            let hour = Duration::from_secs(3600);
            assert!(!CHANGED.wait_timeout(LOCK.lock().unwrap(), hour).unwrap().1.timed_out());
        },
        || {
            let _guard = LOCK.lock();
            CHANGED.notify_one();
        },
    );
}

/// Its workers' states count themselves.
struct Counted(Arc<AtomicUsize>);

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl App for Counted {
    type Worker = Alive;
    fn setup_worker(&self, _: WorkerId) -> Alive {
        self.0.fetch_add(1, Ordering::SeqCst);
        Alive(self.0.clone())
    }
    fn handle(&self, _: &Alive, request: &[u8], response: &mut Response) {
        response.write(request);
    }
}

/// Panics on the dispatcher when it is told to.
struct Faulty(Local, Arc<AtomicBool>);

impl Transport for Faulty {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        assert!(!self.1.load(Ordering::SeqCst), "on purpose");
        self.0.poll(now_tsc, into)
    }
    fn reply(&self) -> Arc<dyn Reply> {
        self.0.reply()
    }
    fn wait_fds(&self) -> Vec<RawFd> {
        self.0.wait_fds()
    }
    fn completed(&mut self, completion: &Completion) {
        self.0.completed(completion);
    }
    fn close(&mut self) {
        self.0.close();
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn a_panic_of_the_dispatcher_stops_the_workers_and_comes_out_of_run() {
    for (policy, dispatchers) in [("tq", 1), ("tq", 2), ("shenango", 1)] {
        in_time(move || {
            let (alive, fault) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (local, client) = Local::new(64).unwrap();
            let server = Server::builder(Counted(alive.clone()))
                .transport(Box::new(Faulty(local, fault.clone())))
                .policy(preset(policy))
                .workers(2)
                .dispatchers(dispatchers)
                .build()
                .unwrap();
            let handle = server.handle();
            let asks = thread::spawn(move || {
                assert_eq!(client.call(b"up".to_vec()).unwrap(), b"up");
                fault.store(true, Ordering::SeqCst);
                // Wakes the dispatcher, which does not answer it.
                let ask = || client.submit(b"down".to_vec()).map(|ticket| ticket.wait());
                // A poll that was under way when the fault came may have taken the first.
                let first = ask();
                if matches!(first, Ok(Ok(_))) { ask() } else { first }
            });
            let payload = catch_unwind(AssertUnwindSafe(|| server.run())).unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
            assert_eq!(alive.load(Ordering::SeqCst), 0, "workers go on without a dispatcher");
            assert!(handle.stats().is_none());
            let answer = asks.join().unwrap();
            assert!(!matches!(answer, Ok(Ok(_))), "{answer:?}");
        });
    }
}

#[test]
fn two_servers_in_one_process_know_nothing_of_each_other() {
    let life = |name: &'static str, other: &'static str| {
        move || -> Report {
            let ((), report) = serve(
                Verbs,
                |server| server.policy(preset(name)).workers(2),
                move |client, handle| {
                    for round in 0..20 {
                        let tickets: Vec<_> = (0..30)
                            .map(|index| {
                                let text = format!("echo {name} {round} {index}");
                                let long = client.submit(b"spin 20000".to_vec()).unwrap();
                                (long, client.submit(text.clone().into_bytes()).unwrap(), text)
                            })
                            .collect();
                        for (long, short, text) in tickets {
                            assert_eq!(format!("echo {}", utf8(short.wait().unwrap())), text);
                            long.wait().unwrap();
                        }
                        // One changes; the other does not.
                        handle.switch(preset(if round % 2 == 0 { other } else { name })).unwrap();
                    }
                },
            );
            report
        }
    };
    let reports = in_time(move || {
        let first = thread::spawn(life("tq", "darc"));
        let second = thread::spawn(life("concord", "fcfs"));
        [first.join().unwrap(), second.join().unwrap()]
    });
    for report in reports {
        let counts: Vec<_> = report.classes.iter().map(|class| class.completed).collect();
        assert_eq!((counts, report.abandoned), (vec![600, 600], 0));
    }
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn one_of_two_servers_ends_and_the_other_serves_on() {
    in_time(|| {
        static LOCK: sync::Mutex<u32> = sync::Mutex::new(0);
        static CHANGED: sync::Condvar = sync::Condvar::new();
        // Requests of both wait for one condition variable.
        let app = || {
            Does(|request: &[u8], response: &mut Response| {
                let mut turn = LOCK.lock().unwrap();
                match request {
                    b"wait" => {
                        while *turn == 0 {
                            turn = CHANGED.wait(turn).unwrap();
                        }
                        response.write(b"woken");
                    }
                    _ => {
                        *turn += 1;
                        CHANGED.notify_all();
                        response.write(b"done");
                    }
                }
            })
        };
        let ((), report) = serve(
            app(),
            |server| server.policy(preset("tq")).workers(1),
            move |client, _| {
                let waits = client.submit(b"wait".to_vec()).unwrap();
                let ((), inner) = serve(
                    app(),
                    |server| server.workers(1).drain(Duration::from_millis(20)),
                    |client, handle| {
                        let ticket = client.submit(b"wait".to_vec()).unwrap();
                        when(handle, |stats| stats.in_system == 1 && stats.waiting == 0);
                        ticket.detach();
                    },
                );
                assert_eq!(inner.abandoned, 1);
                assert_eq!(client.call(b"go".to_vec()).unwrap(), b"done");
                assert_eq!(waits.wait().unwrap(), b"woken");
            },
        );
        assert_eq!(report.abandoned, 0);
    });
}
