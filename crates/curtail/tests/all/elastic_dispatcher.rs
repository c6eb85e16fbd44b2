//! Servers with a dispatcher that get their cores from a core allocator, which the test plays.

use crate::common;
use crate::daemon;
use crate::elastic_server::{DISPATCHED, WORKERS, client, grant};

use common::{Does, End, in_time, preset, when};
use curtail::net::{Transport, Udp, UdpConfig};
use curtail::{Response, Server};
use daemon::{Daemon, Guest, socket, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Grants the dispatcher its core, again and again until it is dropped: it answers what the test asks.
struct Keeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    fn start(daemon: &Arc<Daemon>, guest: &Arc<Guest>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stops, daemon, guest) = (stop.clone(), daemon.clone(), guest.clone());
        let thread = thread::spawn(move || {
            while !stops.load(Ordering::Acquire) {
                if guest.is_parked(WORKERS, daemon.board.word(guest.slot(WORKERS))) {
                    daemon.grant(&guest, WORKERS);
                }
                thread::sleep(Duration::from_micros(50));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_dispatcher_keeps_its_core_and_an_evicted_workers_requests_go_on() {
    // Where there is no worker, `concord`'s dispatcher runs requests itself.
    for policy in DISPATCHED.into_iter().filter(|&policy| policy != "concord") {
        in_time(move || evict_a_worker_of(policy));
    }
}

fn evict_a_worker_of(policy: &str) {
    let path = socket(&format!("server-evict-{policy}"));
    let daemon = Arc::new(Daemon::at(&path));
    let [opened, begun] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (is_open, begins) = (opened.clone(), begun.clone());
    let app = Does(move |request: &[u8], response: &mut Response| {
        begins.store(true, Ordering::Release);
        while request == b"hold" && !is_open.load(Ordering::Acquire) {
            curtail::safepoint();
        }
        response.write(request);
    });
    let udp = Udp::bind(&["127.0.0.1:0".parse().unwrap()], &UdpConfig::default()).unwrap();
    let datagrams = udp.local_addrs()[0];
    let server = Server::builder(app).transport(Box::new(udp)).policy(preset(policy));
    let server = server.workers(WORKERS as usize).safepoints_by_hand().watchdog(None);
    let server = server.daemon(&path).heartbeat(Duration::from_micros(20));
    let server = thread::spawn(move || server.build().unwrap());
    let guest = Arc::new(daemon.take(0));
    let spec = guest.page.spec();
    assert_eq!((spec.kthreads, spec.guaranteed, spec.burstable), (WORKERS + 1, 1, WORKERS));
    let server = server.join().unwrap();
    let _keeper = Keeper::start(&daemon, &guest);
    let end = End(server.handle());
    let report = thread::spawn(move || server.run().unwrap());
    let client = client(datagrams);
    client.send(b"hold").unwrap();
    let holder = || {
        let stats = end.0.stats()?;
        (0..WORKERS).find(|&worker| stats.workers[worker as usize].holds == 1)
    };
    let mut holds = None;
    until("it runs", || {
        grant(&daemon, &guest);
        holds = holder();
        begun.load(Ordering::Acquire) && holds.is_some()
    });
    let (holds, other) = (holds.unwrap(), 1 - holds.unwrap());
    assert_eq!(guest.look(WORKERS).stranded, 1, "the dispatcher's work is no other's");
    let word = daemon.board.evict(guest.slot(holds), None, 0);
    guest.until_parked(holds, word);
    // The other one serves what comes.
    client.send(b"pass").unwrap();
    let completed = || when(&end.0, |_| true).classes[0].completed;
    until("the other one has served it", || {
        if guest.look(other).is_parked {
            daemon.grant(&guest, other);
        }
        completed() == 1
    });
    let mut buffer = [0; 8];
    let mut receive = || client.recv(&mut buffer).map(|length| buffer[..length].to_vec());
    assert_eq!(receive().unwrap(), b"pass");
    opened.store(true, Ordering::Release);
    until("the held one has ended", || {
        grant(&daemon, &guest);
        completed() == 2
    });
    assert_eq!(receive().unwrap(), b"hold");
    drop(end);
    until("the server ends", || {
        grant(&daemon, &guest);
        report.is_finished()
    });
    let report = report.join().unwrap();
    assert_eq!((report.classes[0].completed, report.abandoned), (2, 0), "{policy}");
    assert!(guest.has_left());
}
