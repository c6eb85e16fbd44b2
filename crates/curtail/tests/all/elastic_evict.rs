//! Servers one of whose workers is told by a core allocator, which the test plays, to give its core back.

use crate::common;
use crate::daemon;
use crate::elastic_server::{DISPATCHED, WORKERS, client, grant};

use common::{DISPATCHERLESS, Does, End, in_time, preset};
use curtail::net::{Transport, Udp, UdpConfig};
use curtail::{Handle, Response, Server, Stats};
use daemon::{Daemon, Guest, socket, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How the server stands. A dispatcher, which answers, has its core meanwhile.
fn look(daemon: &Daemon, guest: &Guest, server: &Handle) -> Stats {
    let dispatcher = (guest.page.spec().kthreads > WORKERS).then_some(WORKERS);
    thread::scope(|scope| {
        let asked = scope.spawn(|| server.stats());
        until("it is answered", || {
            if let Some(kthread) = dispatcher
                && guest.is_parked(kthread, daemon.board.word(guest.slot(kthread)))
            {
                daemon.grant(guest, kthread);
            }
            asked.is_finished()
        });
        asked.join().unwrap().expect("it runs")
    })
}

#[test]
fn a_worker_that_is_evicted_leaves_its_core_and_its_requests_go_on() {
    // Where there is no worker, `concord`'s dispatcher runs requests itself.
    let dispatched = DISPATCHED.into_iter().filter(|&policy| policy != "concord");
    for policy in DISPATCHERLESS.into_iter().chain(dispatched) {
        in_time(move || evict_a_worker_of(policy));
    }
}

/// Says that it has begun, and holds on to a request for that until it is opened.
fn holding(opened: &Arc<AtomicBool>, begun: &Arc<AtomicBool>) -> impl curtail::App {
    let (is_open, begins) = (opened.clone(), begun.clone());
    Does(move |request: &[u8], response: &mut Response| {
        begins.store(true, Ordering::Release);
        while request == b"hold" && !is_open.load(Ordering::Acquire) {
            curtail::safepoint();
        }
        response.write(request);
    })
}

fn evict_a_worker_of(policy: &'static str) {
    let path = socket(&format!("server-evict-{policy}"));
    let daemon = Daemon::at(&path);
    let [opened, begun] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let app = holding(&opened, &begun);
    let udp = Udp::bind(&["127.0.0.1:0".parse().unwrap()], &UdpConfig::default()).unwrap();
    let datagrams = udp.local_addrs()[0];
    let server = Server::builder(app).transport(Box::new(udp)).policy(preset(policy));
    let server = server.workers(WORKERS as usize).safepoints_by_hand().watchdog(None);
    let server = server.daemon(&path).heartbeat(Duration::from_micros(20));
    let server = thread::spawn(move || server.build().unwrap());
    let guest = daemon.take(0);
    let spec = guest.page.spec();
    let dispatchers = u32::from(DISPATCHED.contains(&policy));
    let kthreads = (spec.kthreads, spec.guaranteed, spec.burstable);
    assert_eq!(kthreads, (WORKERS + dispatchers, dispatchers, WORKERS));
    let server = server.join().unwrap();
    let end = End(server.handle());
    let report = thread::spawn(move || server.run().unwrap());
    let client = client(datagrams);
    client.send(b"hold").unwrap();
    let holder = || {
        let stats = look(&daemon, &guest, &end.0);
        (0..WORKERS).find(|&worker| stats.workers[worker as usize].holds == 1)
    };
    let mut holds = None;
    until("it runs", || {
        grant(&daemon, &guest);
        holds = holder();
        begun.load(Ordering::Acquire) && holds.is_some()
    });
    let (holds, other) = (holds.unwrap(), 1 - holds.unwrap());
    if dispatchers > 0 {
        assert_eq!(guest.look(WORKERS).stranded, 1, "the dispatcher's work is no other's");
    }
    let word = daemon.board.evict(guest.slot(holds), None, 0);
    guest.until_parked(holds, word);
    // Where a dispatcher queues what was pre-empted, that has it.
    let central = ["shinjuku"].contains(&policy);
    assert_eq!(guest.look(holds).stranded, u32::from(!central), "{policy}: its own");
    // The other one serves what comes.
    client.send(b"pass").unwrap();
    let completed = || look(&daemon, &guest, &end.0).classes[0].completed;
    until("the other one has served it", || {
        if guest.look(other).is_parked {
            daemon.grant(&guest, other);
        }
        completed() == 1
    });
    let mut buffer = [0; 8];
    let mut receive = || client.recv(&mut buffer).map(|length| buffer[..length].to_vec());
    assert_eq!(receive().unwrap(), b"pass");
    assert!(guest.look(holds).is_parked, "{policy}");
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
    assert!(report.cpu.idle > 0.0 && report.cpu.app > 0.0, "{policy}: {:?}", report.cpu);
    assert!(guest.has_left());
}
