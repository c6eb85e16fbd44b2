//! Cancelled requests: why they are, what becomes of those that wait and of those that run.

mod common;

use common::wire::{connect, frame, receive};
use common::{End, STUCK, in_time, preset, serve, spin, when};
use curtail::net::{NoResponse, Peer, Tcp, TcpConfig, Transport};
use curtail::{
    App, Cancelled, Cause, Class, ClassId, Handle, OnCancel, RequestId, Response, Server,
    ServerBuilder, WorkerId, check, context, shield, spawn, time,
};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const POLICIES: [&str; 4] = ["shenango-ps", "tq", "ps", "fcfs"];
/// Those whose requests run in turn.
const IN_TURN: [&str; 3] = ["shenango-ps", "tq", "ps"];
const FOR_EVER: Duration = Duration::from_secs(3_600);

#[derive(Default)]
struct Seen {
    began: AtomicUsize,
    dropped: AtomicUsize,
    steps: AtomicU64,
    open: AtomicBool,
    ids: Mutex<Vec<RequestId>>,
    told: Mutex<Vec<String>>,
}

impl Seen {
    fn until(&self, is: impl Fn(&Self) -> bool) {
        let end = Instant::now() + STUCK;
        while !is(self) {
            assert!(Instant::now() < end, "it does not come");
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn began(&self, count: usize) {
        self.until(|seen| seen.began.load(SeqCst) >= count);
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

/// Requests of two classes, by their first letter.
#[derive(Clone, Default)]
struct Tasks(Arc<Seen>);

struct Dropped<'a>(&'a Seen);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

impl App for Tasks {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("short"), Class::named("long")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request.starts_with(b"L")))
    }

    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        request.ends_with(b" at once").then_some(Duration::ZERO)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let seen = &*self.0;
        let _dropped = Dropped(seen);
        seen.ids.lock().unwrap().push(context().unwrap().id());
        seen.began.fetch_add(1, SeqCst);
        match request {
            b"echo" => response.write(request),
            b"live" => {
                spin(2_000);
                let steps = seen.steps.load(SeqCst).to_string();
                response.write(steps.as_bytes());
            }
            b"Lsleep" | b"sleep" => time::sleep(FOR_EVER),
            b"shielded" => shield(|| {
                while !seen.open.load(SeqCst) {
                    time::sleep(Duration::from_micros(100));
                }
                response.write(b"whole");
            }),
            b"Lcheck" => {
                let told = loop {
                    spin(64);
                    if let Err(told) = check() {
                        break told;
                    }
                };
                seen.told.lock().unwrap().push(told.to_string());
            }
            b"child" => {
                let id = context().unwrap().id();
                let child = spawn(move || {
                    assert_eq!(context().unwrap().id(), id);
                    while check().is_ok() {
                        time::sleep(Duration::from_micros(100));
                    }
                });
                // It cannot fail, and is waited for.
                shield(|| child.join()).unwrap();
            }
            b"Lspin" => {
                while !seen.open.load(SeqCst) {
                    spin(32);
                    seen.steps.fetch_add(1, SeqCst);
                }
            }
            b"hold" => {
                while !seen.open.load(SeqCst) {
                    common::in_kernel(Duration::from_micros(50));
                }
            }
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }

    fn failed(&self, _: &[u8], response: &mut Response) {
        response.write(b"failed");
    }

    fn cancelled(&self, _: &[u8], cause: Cause, response: &mut Response) {
        response.write(cause.to_string().as_bytes());
    }
}

fn with<R: Send + 'static>(
    policy: &str,
    settings: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static,
    client: impl FnOnce(&curtail::net::LocalClient, &Handle, &Seen) -> R + Send + 'static,
) -> (R, curtail::Report) {
    let (policy, tasks) = (policy.to_owned(), Tasks::default());
    let seen = tasks.0.clone();
    in_time(move || {
        let settings = |server: ServerBuilder| {
            let server = server.policy(preset(&policy)).workers(1).drain(STUCK);
            settings(server)
        };
        serve(tasks, settings, move |user, handle| client(user, handle, &seen))
    })
}

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

/// A server of connections.
fn over_tcp(
    policy: &'static str,
    client: impl FnOnce(SocketAddr, &Handle, &Seen) + Send + 'static,
) {
    in_time(move || {
        let tasks = Tasks::default();
        let seen = tasks.0.clone();
        let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
        let address = tcp.local_addrs()[0];
        let server = Server::builder(tasks).transport(Box::new(tcp)).safepoints_by_hand();
        let server = server.policy(preset(policy)).workers(1).build().unwrap();
        let end = End(server.handle());
        let client = thread::spawn(move || {
            let end = end;
            client(address, &end.0, &seen);
        });
        server.run().unwrap();
        client.join().unwrap();
    });
}

#[test]
fn a_connection_that_is_reset_cancels_its_requests() {
    for policy in POLICIES {
        over_tcp(policy, |address, handle, seen| {
            let mut goes = connect(address);
            let mut stays = connect(address);
            goes.write_all(&[frame(b"sleep"), frame(b"sleep")].concat()).unwrap();
            stays.write_all(&frame(b"sleep")).unwrap();
            seen.began(3);
            reset(goes);
            when(handle, |stats| stats.classes[0].cancelled_running == 2);
            assert_eq!(when(handle, |_| true).in_system, 1, "the others' go on");
            stays.write_all(&frame(b"echo")).unwrap();
            assert_eq!(receive(&mut stays), b"echo");
            reset(stays);
        });
    }
}

/// Closes it so that nothing under way is waited for.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_context_knows_its_request_and_its_connection() {
    #[derive(Default)]
    struct Count(AtomicU64);
    struct Counts;
    impl App for Counts {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
            let context = context().unwrap();
            assert_eq!((context.class(), context.deadline()), (ClassId(0), None));
            assert!(matches!(context.peer(), Peer::Tcp { .. }));
            assert!(context.arrived() <= Instant::now() && context.check().is_ok());
            let count = context.connection::<Count>();
            let count = count.map_or(0, |count| count.0.fetch_add(1, SeqCst) + 1);
            response.write(count.to_string().as_bytes());
        }
    }
    for policy in POLICIES {
        in_time(move || {
            let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
            let address = tcp.local_addrs()[0];
            let server = Server::builder(Counts).transport(Box::new(tcp));
            let server = server.policy(preset(policy)).workers(1).build().unwrap();
            let end = End(server.handle());
            let client = thread::spawn(move || {
                let _end = end;
                for _ in 0..2 {
                    let mut stream = connect(address);
                    for expected in 1..=3_u64 {
                        stream.write_all(&frame(b"")).unwrap();
                        assert_eq!(receive(&mut stream), expected.to_string().as_bytes());
                    }
                }
            });
            server.run().unwrap();
            client.join().unwrap();
        });
    }
    assert!(context().is_none() && check().is_ok(), "no request here");
}

#[test]
fn an_error_of_io_says_why() {
    let told = std::io::Error::from(cancelled());
    assert_eq!(told.kind(), std::io::ErrorKind::Other);
    assert_eq!(Cancelled::of(&told).map(Cancelled::cause), Some(Cause::Deadline));
    assert_eq!(Cancelled::of(&std::io::ErrorKind::TimedOut.into()), None);
}

/// One that a request was told.
fn cancelled() -> Cancelled {
    struct Late(Arc<Mutex<Option<Cancelled>>>);
    impl App for Late {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {
            let told = loop {
                if let Err(told) = check() {
                    break told;
                }
                curtail::yield_now();
            };
            *self.0.lock().unwrap() = Some(told);
        }
    }
    let told = Arc::new(Mutex::new(None));
    let app = Late(told.clone());
    let limit = |server: ServerBuilder| server.deadline("request", Duration::from_millis(1));
    serve(app, limit, |client, _| drop(client.call(Vec::new())));
    let told = *told.lock().unwrap();
    told.unwrap()
}

#[test]
fn a_rule_for_a_class_that_there_is_not_is_an_error() {
    let (local, _) = curtail::net::Local::new(1).unwrap();
    let server = Server::builder(Tasks::default()).transport(Box::new(local));
    let error = server.deadline("lnog", Duration::from_secs(1)).build().map(drop).unwrap_err();
    assert_eq!(error.to_string(), "no class is called `lnog`; there are short, long, unknown");
}
