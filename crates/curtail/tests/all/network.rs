//! Servers and clients that are strangers to each other: what a peer may cost, and what becomes of
//! its requests.

use crate::common;

use common::wire::{connect, frame, receive};
use common::{End, STUCK, in_kernel, preset, serve};
use curtail::net::{Peer, Tcp, TcpConfig, Transport};
use curtail::{App, Class, ClassId, Preempt, Report, Response, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// `hold` keeps its worker, without a safepoint, until the gate is open; anything else is counted and
/// answered with itself.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    held: AtomicBool,
    run: AtomicU64,
}

struct Gated(Arc<Gate>);

impl App for Gated {
    type Worker = ();

    fn setup_worker(&self, _: curtail::WorkerId) {}

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("any")]
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request.starts_with(b"hold") {
            self.0.held.store(true, SeqCst);
            until(|| self.0.open.load(SeqCst));
        } else {
            self.0.run.fetch_add(1, SeqCst);
        }
        response.write(request);
    }

    fn overloaded(&self, _: &[u8], response: &mut Response) {
        response.write(b"overloaded");
    }
}

/// Looks again and again. Keeps its kthread: `yield_now` or `thread::sleep` would let others run.
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < STUCK, "waited in vain");
        in_kernel(Duration::from_micros(50));
    }
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// One worker serves the gate over TCP by `policy`; a peer asks `count` times while the worker is
/// held, and goes. How many of its requests were run.
fn asked_by_a_peer_that_goes(policy: &str, count: u64) -> (u64, Report) {
    let gate = Arc::new(Gate::default());
    let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
    let (address, reply) = (tcp.local_addrs()[0], tcp.reply());
    let server = Server::builder(Gated(gate.clone()))
        .transport(Box::new(tcp))
        .policy(preset(policy))
        .preempt(Preempt::Never)
        .workers(1)
        .build()
        .unwrap();
    let handle = server.handle();
    let client = {
        let gate = gate.clone();
        thread::spawn(move || {
            let end = End(handle);
            let handle = &end.0;
            let mut stays = connect(address);
            stays.write_all(&frame(b"hold")).unwrap();
            until(|| gate.held.load(SeqCst));
            let mut goes = connect(address);
            goes.write_all(&frame(b"SCAN").repeat(count as usize)).unwrap();
            common::when(handle, |stats| stats.in_system as u64 == 1 + count);
            reset(goes);
            // It was the second to come, so that is its place.
            until(|| reply.is_gone(Peer::Tcp { connection: 1, generation: 0 }));
            gate.open.store(true, SeqCst);
            assert_eq!(receive(&mut stays), b"hold");
            stays.write_all(&frame(b"after")).unwrap();
            assert_eq!(receive(&mut stays), b"after");
            drop(stays);
        })
    };
    let report = server.run().unwrap();
    client.join().unwrap();
    (gate.run.load(SeqCst) - 1, report)
}

#[test]
fn requests_of_a_peer_that_has_gone_are_not_run() {
    for policy in ["fcfs", "tq", "jbsq", "darc"] {
        let (run, report) = asked_by_a_peer_that_goes(policy, 2_000);
        let class = &report.classes[0];
        assert_eq!((run, class.orphaned, class.completed), (0, 2_000, 2), "{policy}");
        assert_eq!(class.sojourn_ns.len(), 2, "{policy}: what was not run took no time");
    }
}

#[test]
fn completed_answers_arrive_although_the_server_shuts_down() {
    const ASKED: usize = 60;
    // More, all together, than kernels take for a peer that does not read yet.
    let request = vec![b'x'; 32 << 10];
    for policy in ["tq", "concord", "shenango", "shenango-ps"] {
        let gate = Arc::new(Gate::default());
        let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
        let address = tcp.local_addrs()[0];
        let server = Server::builder(Gated(gate.clone()))
            .transport(Box::new(tcp))
            .policy(preset(policy))
            .workers(1)
            .build()
            .unwrap();
        let end = End(server.handle());
        let request = request.clone();
        let client = thread::spawn(move || {
            let mut stream = connect(address);
            stream.write_all(&frame(&request).repeat(ASKED)).unwrap();
            common::when(&end.0, |stats| stats.classes[0].completed == ASKED as u64);
            drop(end);
            stream.write_all(&frame(b"one more")).unwrap();
            for number in 0..ASKED {
                assert!(receive(&mut stream) == request, "answer {number}");
            }
            // Whether the last one was still taken is a race; what follows is a clean end.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            assert!(rest.is_empty() || rest == frame(b"one more"));
        });
        let report = server.run().unwrap();
        client.join().unwrap();
        assert_eq!((report.unsent, report.abandoned), (0, 0), "{policy}");
    }
}

#[test]
fn requests_beyond_the_memory_for_them_are_refused() {
    const BYTES: usize = 64 << 10;
    let gate = Arc::new(Gate::default());
    let app = Gated(gate.clone());
    let settings = |server: curtail::ServerBuilder| {
        // Ten of them and the one that is held.
        server.policy(preset("fcfs")).workers(1).memory(10 * BYTES + 4)
    };
    let (answers, report) = serve(app, settings, move |user, handle| {
        let held = user.submit(b"hold".to_vec()).unwrap();
        until(|| gate.held.load(SeqCst));
        let asked: Vec<_> = (0..16).map(|_| user.submit(vec![7; BYTES]).unwrap()).collect();
        common::when(handle, |stats| stats.classes[0].dropped == 6 && stats.in_system == 11);
        gate.open.store(true, SeqCst);
        assert_eq!(held.wait().unwrap(), b"hold");
        let mut answers: Vec<_> = asked.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
        answers.push(user.call(vec![8; BYTES]).unwrap());
        answers
    });
    let (taken, refused) = answers.split_at(10);
    assert!(taken.iter().all(|answer| *answer == vec![7; BYTES]));
    assert!(refused[..6].iter().all(|answer| answer == b"overloaded"));
    assert_eq!(refused[6], vec![8; BYTES], "there is room again");
    assert_eq!(report.classes[0].dropped, 6);
}
