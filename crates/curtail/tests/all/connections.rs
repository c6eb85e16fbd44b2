//! Servers without a dispatcher: a thread for each connection.

use crate::common;

use common::wire::{connect, frame, receive};
use common::{DISPATCHERLESS, Does, End, STUCK, in_kernel, in_time, look, preset, when};
use curtail::net::{Tcp, TcpConfig, Transport};
use curtail::{App, ClassId, Handle, Report, Response, Server, WorkerId, sync};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a server by `policy` on so many kthreads while `client` talks to it; ends it then. Its
/// connections' counters, by name, are the last thing the client can ask for.
fn serve<R: Send + 'static>(
    (policy, kthreads): (&'static str, usize),
    app: impl App,
    config: TcpConfig,
    client: impl FnOnce(SocketAddr, &Handle) -> R + Send + 'static,
) -> (R, Report) {
    in_time(move || {
        let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &config).unwrap();
        let address = tcp.local_addrs()[0];
        let server = Server::builder(app).transport(Box::new(tcp)).safepoints_by_hand();
        let server = server.policy(preset(policy)).workers(kthreads).build().unwrap();
        let handle = server.handle();
        let client = thread::spawn(move || {
            let end = End(handle);
            client(address, &end.0)
        });
        let report = server.run().unwrap();
        (client.join().unwrap(), report)
    })
}

fn ask(stream: &mut TcpStream, payload: &[u8]) -> Vec<u8> {
    stream.write_all(&frame(payload)).unwrap();
    receive(stream)
}

/// The peer has closed, in whatever way.
fn is_over(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

fn echo() -> impl App {
    Does(|request: &[u8], response: &mut Response| response.write(request))
}

/// Looks again and again. Keeps its kthread.
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < STUCK / 4, "waited in vain");
        in_kernel(Duration::from_micros(50));
    }
}

#[test]
fn a_thousand_idle_connections_take_little_and_others_are_served() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let most = limit.maximum.map_or(1_000, |most| (most.saturating_sub(200) / 2).min(1_000));
    let count = most as usize;
    let config = TcpConfig { connections: count + 1, ..TcpConfig::default() };
    let ((), report) = serve(("shenango", 2), echo(), config, move |server, _| {
        let mut idle: Vec<_> = (0..count).map(|_| connect(server)).collect();
        // Each has been read from, so each has a thread.
        for stream in &mut idle {
            assert_eq!(ask(stream, b"here"), b"here");
        }
        let mut busy = connect(server);
        for number in 0..500_u32 {
            assert_eq!(ask(&mut busy, &number.to_le_bytes()), number.to_le_bytes());
        }
        let mut beyond = connect(server);
        assert!(is_over(&mut beyond), "there is no place for it");
        // They are as they were.
        for stream in idle.iter_mut().step_by(50) {
            assert_eq!(ask(stream, b"still"), b"still");
        }
    });
    assert_eq!((report.abandoned, report.unsent, report.malformed), (0, 0, 0));
}

#[test]
fn requests_of_one_connection_run_beside_each_other() {
    let opens = Arc::new(AtomicBool::new(false));
    let gate = opens.clone();
    let app = Does(move |request: &[u8], response: &mut Response| {
        if request == b"hold" {
            until(|| gate.load(SeqCst));
        }
        response.write(request);
    });
    let (answers, _) = serve(("shenango", 2), app, TcpConfig::default(), move |server, _| {
        let mut stream = connect(server);
        stream.write_all(&[frame(b"hold"), frame(b"pass")].concat()).unwrap();
        let first = receive(&mut stream);
        opens.store(true, SeqCst);
        [first, receive(&mut stream)]
    });
    assert_eq!(answers, [b"pass", b"hold"]);
}

#[test]
fn frames_come_in_whatever_pieces() {
    for policy in DISPATCHERLESS {
        let ((), report) = serve((policy, 2), echo(), TcpConfig::default(), |server, _| {
            let mut stream = connect(server);
            stream.set_nodelay(true).unwrap();
            let payloads: Vec<Vec<u8>> = (0..40)
                .map(|n| vec![n as u8; n * n * n % 3_000 + 1])
                .chain([vec![7; 300_000]])
                .collect();
            let bytes: Vec<u8> = payloads.iter().flat_map(|payload| frame(payload)).collect();
            let mut writer = stream.try_clone().unwrap();
            let sender = thread::spawn(move || {
                let mut rest = &bytes[..];
                for size in (1..).map(|n: usize| n * 7919 % 4_001 + 1) {
                    let (now, later) = rest.split_at(size.min(rest.len()));
                    writer.write_all(now).unwrap();
                    rest = later;
                    if rest.is_empty() {
                        return;
                    }
                }
            });
            let mut wanted = payloads.clone();
            for _ in 0..payloads.len() {
                let answer = receive(&mut stream);
                let place = wanted.iter().position(|payload| *payload == answer);
                wanted.swap_remove(place.expect("an answer to what was asked, once"));
            }
            sender.join().unwrap();
        });
        assert_eq!((report.classes[0].completed, report.malformed), (41, 0), "{policy}");
    }
}

#[test]
fn a_frame_that_is_too_long_ends_its_connection_after_the_answers() {
    let config = TcpConfig { limit: 1_000, ..TcpConfig::default() };
    let ((), report) = serve(("shenango", 1), echo(), config, |server, handle| {
        let mut other = connect(server);
        let mut stream = connect(server);
        let bytes = [frame(b"one"), frame(b"two"), frame(&[0; 1_001])].concat();
        stream.write_all(&bytes).unwrap();
        let mut answers = [receive(&mut stream), receive(&mut stream)];
        answers.sort_unstable();
        assert_eq!(answers, [b"one", b"two"]);
        assert!(is_over(&mut stream));
        when(handle, |stats| stats.malformed == 1);
        assert_eq!(ask(&mut other, &[1; 1_000]), [1; 1_000]);
    });
    assert_eq!((report.malformed, report.classes[0].completed), (1, 3));
}

#[test]
fn a_peer_that_goes_within_a_frame_is_counted_and_one_that_ends_has_its_answers() {
    let ((), report) = serve(("shenango", 1), echo(), TcpConfig::default(), |server, handle| {
        let mut cut = connect(server);
        cut.write_all(&frame(b"whole")).unwrap();
        cut.write_all(&frame(b"half of it")[..9]).unwrap();
        cut.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive(&mut cut), b"whole");
        assert!(is_over(&mut cut));
        when(handle, |stats| stats.malformed == 1);
        let mut ends = connect(server);
        ends.write_all(&frame(b"last words").repeat(100)).unwrap();
        ends.shutdown(Shutdown::Write).unwrap();
        for _ in 0..100 {
            assert_eq!(receive(&mut ends), b"last words");
        }
        assert!(is_over(&mut ends));
    });
    assert_eq!((report.malformed, report.classes[0].completed), (1, 101));
}

#[test]
fn a_frame_that_does_not_end_in_time_ends_its_connection() {
    let stall = Some(Duration::from_millis(100));
    let config = TcpConfig { stall, ..TcpConfig::default() };
    serve(("shenango", 1), echo(), config, |server, _| {
        let mut slow = connect(server);
        // The time for the rest begins when nothing is in progress any more.
        assert_eq!(ask(&mut slow, b"first"), b"first");
        slow.write_all(&frame(b"never whole")[..6]).unwrap();
        assert!(is_over(&mut slow));
        assert_eq!(ask(&mut connect(server), b"other"), b"other");
    });
}

#[test]
fn silence_ends_a_connection_and_work_does_not() {
    let idle = Some(Duration::from_millis(100));
    let config = TcpConfig { idle, ..TcpConfig::default() };
    let app = Does(|request: &[u8], response: &mut Response| {
        curtail::time::sleep(Duration::from_millis(400)); // Longer than silence may be.
        response.write(request);
    });
    serve(("shenango", 1), app, config, |server, _| {
        let mut silent = connect(server);
        assert_eq!(ask(&mut connect(server), b"works"), b"works");
        assert!(is_over(&mut silent));
    });
}

#[test]
fn a_connection_that_has_its_share_goes_on_when_something_has_ended() {
    // Each counts 512 bytes more than it has: two at a time.
    let config = TcpConfig { in_limit: 1_500, ..TcpConfig::default() };
    let most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let seen = most.clone();
    let app = Does(move |request: &[u8], response: &mut Response| {
        let now = most.0.fetch_add(1, SeqCst) + 1;
        most.1.fetch_max(now, SeqCst);
        curtail::time::sleep(Duration::from_micros(200));
        most.0.fetch_sub(1, SeqCst);
        response.write(request);
    });
    serve(("shenango", 2), app, config, move |server, _| {
        let mut stream = connect(server);
        stream.write_all(&frame(&[9; 500]).repeat(100)).unwrap();
        for _ in 0..100 {
            assert_eq!(receive(&mut stream), [9; 500]);
        }
        assert!(seen.1.load(SeqCst) <= 2, "{seen:?}");
    });
}

#[test]
fn requests_of_a_connection_that_has_gone_are_not_run() {
    const ASKED: usize = 10;
    let gate = Arc::new((AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0)));
    let seen = gate.clone();
    let app = Does(move |request: &[u8], response: &mut Response| match request {
        b"hold" => {
            gate.0.store(true, SeqCst);
            until(|| gate.1.load(SeqCst));
        }
        b"scan" => drop(gate.2.fetch_add(1, SeqCst)),
        _ => response.write(request),
    });
    let (run, report) = serve(("shenango", 1), app, TcpConfig::default(), move |server, handle| {
        let mut stays = connect(server);
        let mut goes = connect(server);
        assert_eq!(ask(&mut stays, b"here"), b"here");
        goes.write_all(&[frame(b"hold"), frame(b"scan").repeat(ASKED)].concat()).unwrap();
        until(|| seen.0.load(SeqCst));
        let stats = look(handle);
        assert_eq!((stats.in_system, stats.waiting), (1 + ASKED, ASKED));
        reset(goes);
        thread::sleep(Duration::from_millis(1)); // Those that did not wait are not asked about.
        seen.1.store(true, SeqCst);
        assert_eq!(ask(&mut stays, b"after"), b"after");
        when(handle, |stats| stats.in_system == 0);
        seen.2.load(SeqCst)
    });
    let class = &report.classes[0];
    assert_eq!((run, class.orphaned, class.completed), (0, ASKED as u64, 3));
}

#[test]
fn what_there_is_no_room_for_is_refused() {
    struct Full(Arc<AtomicBool>);
    impl App for Full {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
            until(|| self.0.load(SeqCst));
            response.write(request);
        }
        fn overloaded(&self, request: &[u8], response: &mut Response) {
            response.write(b"no: ");
            response.write(request);
        }
    }
    let opens = Arc::new(AtomicBool::new(false));
    let app = Full(opens.clone());
    let report = in_time(move || {
        let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
        let address = tcp.local_addrs()[0];
        let server = Server::builder(app).transport(Box::new(tcp)).policy(preset("shenango"));
        let server = server.workers(1).capacity(3).build().unwrap();
        let handle = server.handle();
        let client = thread::spawn(move || {
            let mut stream = connect(address);
            // The connection's thread has handed in all of them before the first one runs.
            let asked: Vec<_> = (0..5).map(|n| format!("{n}")).collect();
            let bytes: Vec<u8> = asked.iter().flat_map(|text| frame(text.as_bytes())).collect();
            stream.write_all(&bytes).unwrap();
            let refused = [receive(&mut stream), receive(&mut stream)];
            opens.store(true, SeqCst);
            let mut rest: Vec<_> = (0..3).map(|_| receive(&mut stream)).collect();
            assert_eq!(ask(&mut stream, b"again"), b"again");
            handle.shutdown();
            rest.sort_unstable();
            (refused, rest)
        });
        let report = server.run().unwrap();
        let (refused, rest) = client.join().unwrap();
        assert_eq!(refused, [b"no: 3", b"no: 4"]);
        assert_eq!(rest, [b"0", b"1", b"2"]);
        report
    });
    assert_eq!((report.classes[0].dropped, report.classes[0].completed), (2, 4));
}

#[test]
fn a_classifier_that_waits_keeps_its_own_connection_only() {
    #[derive(Default)]
    struct Locks {
        outer: sync::Mutex<()>,
        turn: sync::Mutex<bool>,
        changed: sync::Condvar,
        holding: AtomicBool,
    }
    struct Asks(Arc<Locks>);
    impl App for Asks {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn classify(&self, request: &[u8]) -> ClassId {
            if request == b"ask" {
                drop(self.0.outer.lock().unwrap());
            }
            ClassId(0)
        }
        fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
            let locks = &*self.0;
            match request {
                b"hold" => {
                    let _outer = locks.outer.lock().unwrap();
                    let mut turn = locks.turn.lock().unwrap();
                    locks.holding.store(true, SeqCst);
                    while !*turn {
                        turn = locks.changed.wait(turn).unwrap();
                    }
                }
                b"release" => {
                    *locks.turn.lock().unwrap() = true;
                    locks.changed.notify_all();
                }
                _ => {}
            }
            response.write(request);
        }
    }
    let locks = Arc::new(Locks::default());
    let app = Asks(locks.clone());
    serve(("shenango", 1), app, TcpConfig::default(), move |server, _| {
        let (mut holds, mut asks, mut releases) =
            (connect(server), connect(server), connect(server));
        holds.write_all(&frame(b"hold")).unwrap();
        until(|| locks.holding.load(SeqCst));
        asks.write_all(&frame(b"ask")).unwrap();
        assert_eq!(ask(&mut releases, b"release"), b"release");
        assert_eq!(receive(&mut holds), b"hold");
        assert_eq!(receive(&mut asks), b"ask");
    });
}
