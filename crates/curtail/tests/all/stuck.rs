//! A worker that is stuck in a system call keeps what has started there, and nothing else: requests that
//! wait for it go on elsewhere, and when it is back it serves again.

use crate::common;

use common::{CLASSES, DISPATCHERLESS, in_time, preset, serve, spin};
use curtail::net::{LocalClient, Ticket};
use curtail::{App, Class, ClassId, Response, ServerBuilder, WorkerId};
use std::io::{PipeReader, PipeWriter};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Handlers that read from a pipe in the kernel, where nothing of Curtail's sees them.
struct Pipe {
    from: PipeReader,
    to: PipeWriter,
    /// Workers that read.
    readers: Mutex<Vec<u16>>,
    met: AtomicUsize,
}

impl Pipe {
    fn new() -> Arc<Self> {
        let (from, to) = std::io::pipe().unwrap();
        Arc::new(Self { from, to, readers: Mutex::default(), met: AtomicUsize::new(0) })
    }

    fn wait_for_reader(&self) {
        self.wait_for_readers(1);
    }

    /// Until so many workers read.
    fn wait_for_readers(&self, count: usize) {
        while self.readers.lock().unwrap().len() < count {
            std::thread::yield_now();
        }
    }

    /// Has requests read until these workers do. Others may, too.
    fn occupy(&self, client: &LocalClient, workers: usize) -> Vec<Ticket> {
        let mut stuck = Vec::new();
        while !(0..workers as u16).all(|worker| self.readers.lock().unwrap().contains(&worker)) {
            stuck.push(ask(client, "read"));
            self.wait_for_readers(stuck.len());
        }
        stuck
    }

    /// Lets one reader go on.
    fn write(&self) {
        assert_eq!(rustix::io::write(&self.to, b"x").unwrap(), 1);
    }
}

impl App for Pipe {
    type Worker = WorkerId;

    fn classes(&self) -> Vec<Class> {
        CLASSES.into_iter().map(Class::named).collect()
    }

    fn setup_worker(&self, worker: WorkerId) -> WorkerId {
        worker
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, worker: &WorkerId, request: &[u8], response: &mut Response) {
        match request {
            b"read" => {
                self.readers.lock().unwrap().push(worker.0);
                assert_eq!(rustix::io::read(&self.from, &mut [0]).unwrap(), 1);
                self.readers.lock().unwrap().retain(|reader| *reader != worker.0);
            }
            // Two of them end, if two workers run them at once.
            b"meet" => {
                self.met.fetch_add(1, Ordering::SeqCst);
                while !self.met.load(Ordering::SeqCst).is_multiple_of(2) {
                    std::hint::spin_loop();
                }
            }
            b"spin" => drop(spin(1_000_000)),
            _ => {}
        }
        response.write(worker.0.to_string().as_bytes());
    }
}

fn ask(client: &LocalClient, what: &str) -> Ticket {
    client.submit(what.as_bytes().to_vec()).unwrap()
}

fn served(ticket: Ticket) -> u16 {
    String::from_utf8(ticket.wait().unwrap()).unwrap().parse().unwrap()
}

fn watched(server: ServerBuilder, name: &str, workers: usize) -> ServerBuilder {
    let limit = Some(Duration::from_millis(10));
    server.policy(preset(name)).workers(workers).watchdog(limit).on_stall(|_| {})
}

/// Central and two-level, with quanta and without, ranked and typed.
const POLICIES: [&str; 11] =
    ["fcfs", "jbsq", "ps", "concord", "dfcfs", "tq", "steal", "sjf", "srpt", "wrr", "fp"];

#[test]
fn what_waits_for_a_stuck_worker_goes_on_elsewhere() {
    for name in POLICIES {
        in_time(move || {
            let pipe = Pipe::new();
            let app = Does(pipe.clone());
            let client = move |client: &LocalClient, _: &curtail::Handle| {
                let stuck = ask(client, "read");
                pipe.wait_for_reader();
                let tickets: Vec<_> = (0..40).map(|_| ask(client, "")).collect();
                let by: Vec<u16> = tickets.into_iter().map(served).collect();
                // It still is where it was.
                pipe.write();
                let worker = served(stuck);
                assert!(!by.contains(&worker), "{name}: {worker} of {by:?}");
                // It is one of the two again.
                for _ in 0..10 {
                    let both = [ask(client, "meet"), ask(client, "meet")].map(served);
                    assert_ne!(both[0], both[1], "{name}");
                }
            };
            let ((), report) = serve(app, move |server| watched(server, name, 2), client);
            assert_eq!((report.classes[0].completed, report.abandoned), (61, 0), "{name}");
        });
    }
}

/// What has started there stays: under quanta others are cut and wait for the stuck one's worker.
#[test]
fn what_has_started_on_a_stuck_worker_waits_for_it() {
    for name in ["ps", "tq"] {
        in_time(move || {
            let pipe = Pipe::new();
            let client = {
                let pipe = pipe.clone();
                move |client: &LocalClient, _: &curtail::Handle| {
                    let tickets: Vec<_> = (0..8).map(|_| ask(client, "spin")).collect();
                    let stuck = ask(client, "read");
                    pipe.wait_for_reader();
                    let more: Vec<_> = (0..8).map(|_| ask(client, "")).collect();
                    more.into_iter().for_each(|ticket| _ = served(ticket));
                    pipe.write();
                    served(stuck);
                    tickets.into_iter().for_each(|ticket| _ = served(ticket));
                }
            };
            let settings = move |server| watched(server, name, 2);
            let ((), report) = serve(Does(pipe), settings, client);
            assert_eq!((report.classes[0].completed, report.abandoned), (17, 0), "{name}");
        });
    }
}

#[test]
fn where_there_is_one_worker_nothing_moves() {
    for name in ["fcfs", "tq", "concord"] {
        in_time(move || {
            let pipe = Pipe::new();
            let app = Does(pipe.clone());
            let client = move |client: &LocalClient, _: &curtail::Handle| {
                let stuck = ask(client, "read");
                pipe.wait_for_reader();
                let tickets: Vec<_> = (0..4).map(|_| ask(client, "")).collect();
                pipe.write();
                served(stuck);
                tickets.into_iter().for_each(|ticket| _ = served(ticket));
            };
            let ((), report) = serve(app, move |server| watched(server, name, 1), client);
            assert_eq!((report.classes[0].completed, report.abandoned), (5, 0), "{name}");
        });
    }
}

/// Both get stuck, one after the other; the first that is back serves what waits.
#[test]
fn where_all_are_stuck_the_first_one_back_serves() {
    for name in POLICIES {
        in_time(move || {
            let pipe = Pipe::new();
            let app = Does(pipe.clone());
            let client = move |client: &LocalClient, _: &curtail::Handle| {
                let stuck = [ask(client, "read"), ask(client, "read")];
                pipe.wait_for_readers(2);
                let tickets: Vec<_> = (0..20).map(|_| ask(client, "")).collect();
                pipe.write();
                tickets.into_iter().for_each(|ticket| _ = served(ticket));
                pipe.write();
                stuck.into_iter().for_each(|ticket| _ = served(ticket));
            };
            let ((), report) = serve(app, move |server| watched(server, name, 2), client);
            assert_eq!((report.classes[0].completed, report.abandoned), (22, 0), "{name}");
        });
    }
}

/// Under `concord` the dispatcher runs requests itself.
fn with_spares() -> impl Iterator<Item = &'static str> {
    DISPATCHERLESS.into_iter().chain(POLICIES).filter(|name| *name != "concord")
}

/// Twice: then the spare worker of the first time serves, and meanwhile it takes nothing.
#[test]
fn where_all_are_stuck_a_spare_worker_serves() {
    for (name, workers) in with_spares().flat_map(|name| [(name, 1), (name, 2)]) {
        in_time(move || {
            let pipe = Pipe::new();
            let app = Does(pipe.clone());
            let client = move |client: &LocalClient, handle: &curtail::Handle| {
                for _ in 0..2 {
                    let stuck = pipe.occupy(client, workers);
                    let tickets: Vec<_> = (0..40).map(|_| ask(client, "")).collect();
                    let by: Vec<u16> = tickets.into_iter().map(served).collect();
                    assert!(by.iter().all(|&worker| usize::from(worker) >= workers), "{by:?}");
                    // Those that never started are not shown.
                    let shown = handle.stats().unwrap().workers.len();
                    assert_eq!(shown, usize::from(*by.iter().max().unwrap()) + 1, "{name}");
                    stuck.iter().for_each(|_| pipe.write());
                    stuck.into_iter().for_each(|ticket| _ = served(ticket));
                }
            };
            let settings = move |server| watched(server, name, workers);
            let ((), report) = serve(app, settings, client);
            assert_eq!((report.workers, report.abandoned), (workers, 0), "{name}");
            assert_eq!(report.classes[0].failed, 0, "{name}");
        });
    }
}

/// Each that is stuck calls for the next, up to four.
#[test]
fn spare_workers_that_are_stuck_have_others_come() {
    for name in with_spares() {
        in_time(move || {
            let pipe = Pipe::new();
            let app = Does(pipe.clone());
            let client = move |client: &LocalClient, handle: &curtail::Handle| {
                let stuck: Vec<_> = (0..4).map(|_| ask(client, "read")).collect();
                pipe.wait_for_readers(4);
                assert_eq!(served(ask(client, "")), 4);
                let last = ask(client, "read");
                pipe.wait_for_readers(5);
                let workers = handle.stats().unwrap().workers;
                let mut held: Vec<_> = workers.iter().map(|it| (it.worker.0, it.holds)).collect();
                held.sort_unstable();
                assert_eq!(held, [0, 1, 2, 3, 4].map(|worker| (worker, 1)), "{name}");
                let waits = ask(client, "");
                (0..5).for_each(|_| pipe.write());
                stuck.into_iter().chain([last, waits]).for_each(|ticket| _ = served(ticket));
            };
            let ((), report) = serve(app, move |server| watched(server, name, 1), client);
            assert_eq!((report.classes[0].completed, report.abandoned), (7, 0), "{name}");
        });
    }
}

/// The application is shared with the test.
struct Does(Arc<Pipe>);

impl App for Does {
    type Worker = WorkerId;
    fn classes(&self) -> Vec<Class> {
        self.0.classes()
    }
    fn setup_worker(&self, worker: WorkerId) -> WorkerId {
        worker
    }
    fn handle(&self, worker: &WorkerId, request: &[u8], response: &mut Response) {
        self.0.handle(worker, request, response);
    }
}
