//! A server whose datagrams a core allocator receives, which the tests play.

use crate::common;
use crate::daemon;

use common::{Does, End, Verbs, in_time, preset, when};
use curtail::{App, Report, Response, Server, StartError};
use curtail_shm::{Answer, Arrival, DaemonEnd, PeerWords};
use daemon::{Daemon, Guest, socket, until};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

const WORKERS: u32 = 2;
const URL: &str = "udp://127.0.0.1:4100";
/// Where the index of a ring's producer is.
const TAIL: u64 = 128;
/// Where its first packet is, the length of which follows six words.
const SLOTS: u64 = 384;

/// A server that runs, and the daemon's end of its port.
struct Running {
    daemon: Daemon,
    guest: Guest,
    lanes: Vec<DaemonEnd>,
    rings: OwnedFd,
    end: End,
    report: JoinHandle<Report>,
}

impl Running {
    fn start(path: &Path, app: impl App) -> Self {
        Self::with(path, app, 1_000)
    }

    fn with(path: &Path, app: impl App, capacity: usize) -> Self {
        let daemon = Daemon::at(path);
        let server = Server::builder(app).policy(preset("shenango")).safepoints_by_hand();
        let server = server.workers(WORKERS as usize).watchdog(None).capacity(capacity);
        let server = server.daemon(path).daemon_port("udp://127.0.0.1:0?max=1400");
        let server = thread::spawn(move || server.build().unwrap());
        let guest = daemon.take(0);
        let (asked, rings) = guest.open_port(URL);
        assert_eq!(asked, "udp://127.0.0.1:0?max=1400");
        let server = server.join().unwrap();
        assert_eq!(server.listens(), format!("daemon+{URL}?max=1400"));
        let end = End(server.handle());
        let report = thread::spawn(move || server.run().unwrap());
        let lanes = DaemonEnd::map(rings.try_clone().unwrap(), WORKERS).unwrap();
        Self { daemon, guest, lanes, rings, end, report }
    }

    fn put(&mut self, kthread: usize, peer: u64, payload: &[u8]) {
        let arrival = Arrival::new(words(peer), u64::MAX, payload).unwrap();
        self.lanes[kthread].arrivals.push(arrival).unwrap();
    }

    /// A core for each that has something to do, packets of its ring included.
    fn grant(&mut self) {
        for kthread in 0..WORKERS {
            let look = self.guest.look(kthread);
            let word = self.daemon.board.word(self.guest.slot(kthread));
            let packets = self.lanes[kthread as usize].arrivals.free().is_ok_and(|free| free < 256);
            let works = packets || look.run.0 != look.run.1 || look.inbox.0 != look.inbox.1;
            if look.is_parked && look.generation == word.generation() && works {
                self.daemon.grant(&self.guest, kthread);
            }
        }
    }

    /// The next answer, through whichever ring.
    fn answer(&mut self) -> (usize, Answer) {
        let mut found = None;
        until("an answer comes", || {
            self.grant();
            found = (0..self.lanes.len())
                .find_map(|at| Some((at, self.lanes[at].answers.pop().unwrap()?)));
            found.is_some()
        });
        found.unwrap()
    }

    fn end(mut self) -> Report {
        drop(self.end);
        let (daemon, guest, report) = (&self.daemon, &self.guest, &self.report);
        until("the server ends", || {
            for kthread in 0..WORKERS {
                let look = guest.look(kthread);
                let has_work = look.inbox.0 != look.inbox.1 || look.run.0 != look.run.1;
                if look.is_parked && has_work {
                    daemon.grant(guest, kthread);
                }
            }
            report.is_finished()
        });
        self.lanes.clear();
        self.report.join().unwrap()
    }
}

fn words(peer: u64) -> PeerWords {
    [peer, 1, 2, 3, u64::MAX]
}

#[test]
fn packets_are_answered_through_the_rings() {
    in_time(|| {
        let path = socket("port-answers");
        let mut server = Running::start(&path, Verbs);
        for round in 0..40 {
            for kthread in 0..WORKERS as usize {
                server.put(kthread, round, format!("echo {round}").as_bytes());
                let (_, answer) = server.answer();
                assert_eq!(answer.payload().unwrap(), round.to_string().as_bytes());
                assert_eq!((answer.peer, answer.outcome()), (words(round), 0));
                assert_eq!((answer.arrived_tsc, answer.class), (u64::MAX, 0));
                assert_eq!(&answer.tag.to_le_bytes()[..5], b"echo ");
                assert!(answer.started_tsc > 0 && answer.started_tsc <= answer.finished_tsc);
            }
        }
        server.put(0, 1, b"spin 100");
        assert_eq!(server.answer().1.class, 1);
        // What is not answered has ended all the same, and so has what fails.
        for (request, outcome, says) in [("silent", 0, ""), ("panic now", 1, "failed: panic now")] {
            server.put(1, 7, request.as_bytes());
            let (_, answer) = server.answer();
            assert_eq!((answer.peer, answer.outcome()), (words(7), outcome));
            assert_eq!(answer.payload().unwrap(), says.as_bytes());
        }
        let stats = when(&server.end.0, |stats| stats.in_system == 0);
        assert_eq!((stats.classes[0].completed, stats.classes[0].failed), (81, 1));
        let report = server.end();
        assert_eq!((report.abandoned, report.unsent, report.malformed), (0, 0, 0));
    });
}

#[test]
fn what_lies_in_the_ring_of_a_parked_worker_is_taken_by_one_that_runs() {
    in_time(|| {
        let path = socket("port-steals");
        let mut server = Running::start(&path, Verbs);
        // The threads that take packets in have begun, on both.
        for kthread in 0..WORKERS {
            let word = server.daemon.grant(&server.guest, kthread);
            server.guest.until_parked(kthread, word);
        }
        for number in 0..20 {
            server.put(0, number, b"echo x");
        }
        server.daemon.grant(&server.guest, 1);
        let mut peers = Vec::new();
        until("all are answered", || {
            while let Some(answer) = server.lanes[1].answers.pop().unwrap() {
                peers.push(answer.peer[0]);
            }
            peers.len() == 20
        });
        peers.sort_unstable();
        assert_eq!(peers, (0..20).collect::<Vec<_>>());
        assert!(server.guest.look(0).is_parked);
        server.end();
    });
}

#[test]
fn there_is_room_for_so_many_and_the_others_are_told() {
    in_time(|| {
        let path = socket("port-full");
        let open = Arc::new(AtomicBool::new(false));
        let opens = open.clone();
        let app = Does(move |request: &[u8], response: &mut Response| {
            while !opens.load(Ordering::Acquire) {
                curtail::yield_now();
            }
            response.write(request);
        });
        let mut server = Running::with(&path, app, 3);
        for number in 0..5 {
            server.put(0, number, b"x");
        }
        let refused = [server.answer().1, server.answer().1];
        assert_eq!(refused.map(|answer| answer.outcome()), [2; 2]);
        open.store(true, Ordering::Release);
        let mut done: Vec<_> = (0..3).map(|_| server.answer().1).collect();
        done.extend(refused);
        let mut peers: Vec<_> = done.iter().map(|answer| answer.peer[0]).collect();
        peers.sort_unstable();
        assert_eq!(peers, [0, 1, 2, 3, 4]);
        let report = server.end();
        assert_eq!((report.classes[0].completed, report.classes[0].dropped), (3, 2));
    });
}

#[test]
fn answers_that_do_not_fit_are_counted_and_those_that_find_no_room_wait() {
    in_time(|| {
        let path = socket("port-large");
        let app = Does(|request: &[u8], response: &mut Response| {
            let bytes = usize::from(request[0]) * 100;
            response.write(&vec![1; bytes]);
        });
        let mut server = Running::start(&path, app);
        server.put(0, 1, &[15]);
        let (_, answer) = server.answer();
        assert_eq!((answer.outcome(), answer.payload().unwrap().len()), (0, 0));
        server.put(0, 1, &[14]);
        assert_eq!(server.answer().1.payload().unwrap().len(), 1_400);
        assert_eq!(server.end().unsent, 1);
    });
}

#[test]
fn a_ring_that_can_not_be_ends_the_session_and_the_server_registers_anew() {
    in_time(|| {
        let path = socket("port-hostile");
        let mut server = Running::start(&path, Verbs);
        server.put(0, 1, b"echo 1");
        server.answer();
        // As many packets as there can't be.
        let memory = File::from(server.rings.try_clone().unwrap());
        memory.write_all_at(&u64::MAX.to_le_bytes(), TAIL).unwrap();
        server.daemon.grant(&server.guest, 0);
        assert!(server.guest.has_left());
        let guest = server.daemon.take(4);
        let (asked, rings) = guest.open_port(URL);
        assert_eq!(asked, format!("{URL}?max=1400"), "at the same number");
        server.lanes = DaemonEnd::map(rings.try_clone().unwrap(), WORKERS).unwrap();
        (server.guest, server.rings) = (guest, rings);
        // Lengths that can't be are no packets.
        server.put(0, 1, b"echo 2");
        let memory = File::from(server.rings.try_clone().unwrap());
        memory.write_all_at(&1_473_u64.to_le_bytes(), SLOTS + 48).unwrap();
        server.put(0, 9, b"echo 3");
        assert_eq!(server.answer().1.payload().unwrap(), b"3");
        let report = server.end();
        assert_eq!((report.malformed, report.classes[0].completed), (1, 2));
    });
}

#[test]
fn a_port_without_a_core_allocator_is_an_error() {
    let server = || Server::builder(Verbs).policy(preset("shenango")).workers(1);
    let error = server().daemon_port(URL).build().err().unwrap();
    assert!(matches!(&error, StartError::Setting(text) if text.contains("needs one")), "{error}");
    let path = socket("port-refused");
    let daemon = Daemon::at(&path);
    let server = server().daemon(&path).daemon_port(URL);
    let server = thread::spawn(move || server.build().err().unwrap().to_string());
    let guest = daemon.take(0);
    guest.refuse_port("it is in use");
    let error = server.join().unwrap();
    assert!(error.contains(URL) && error.contains("it is in use"), "{error}");
}
