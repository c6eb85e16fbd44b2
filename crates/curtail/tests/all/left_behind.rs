//! What requests borrow that a server leaves behind is never freed.

use crate::common;

use common::{in_time, preset};
use curtail::{App, ClassId, OnCancel, Response, Server, WorkerId};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Its requests borrow it, and their worker's state, in a call that blocks until it is told to end; or its
/// classifier does.
struct Site {
    classifies: bool,
    dropped: Counted,
    begun: Mutex<Sender<()>>,
    end: Arc<Mutex<Receiver<()>>>,
    looked: Sender<usize>,
}

impl App for Site {
    type Worker = Counted;

    fn setup_worker(&self, _: WorkerId) -> Counted {
        // A classifier borrows no worker's state.
        Counted(if self.classifies { Arc::default() } else { self.dropped.0.clone() })
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        if self.classifies {
            self.block(&self.dropped);
        }
        ClassId(0)
    }

    fn handle(&self, worker: &Counted, _: &[u8], _: &mut Response) {
        self.block(worker);
    }
}

impl Site {
    fn block(&self, borrowed: &Counted) {
        curtail::blocking(|| {
            self.begun.lock().unwrap().send(()).unwrap();
            let _ = self.end.lock().unwrap().recv();
            // Counts that were freed would be wrong, or no memory.
            let dropped = borrowed.0.load(Ordering::SeqCst) + self.dropped.0.load(Ordering::SeqCst);
            self.looked.send(dropped).unwrap();
        });
    }
}

fn leave_one(policy: &str, rule: Option<OnCancel>, classifies: bool) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let ((begun, has_begun), (end, is_to_end)) = (channel(), channel());
    let (looked, looks) = channel();
    let site = Site {
        classifies,
        dropped: Counted(dropped.clone()),
        begun: Mutex::new(begun),
        end: Arc::new(Mutex::new(is_to_end)),
        looked,
    };
    let (transport, client) = curtail::net::Local::new(16).unwrap();
    let mut server = Server::builder(site)
        .policy(preset(policy))
        .workers(1)
        .transport(Box::new(transport))
        .drain(Duration::from_millis(1));
    if let Some(rule) = rule {
        server = server.deadline("request", Duration::from_secs(1)).on_cancel("request", rule);
    }
    let server = server.build().unwrap();
    let handle = server.handle();
    let server = std::thread::spawn(move || server.run().unwrap());
    client.submit(vec![1]).unwrap().detach();
    has_begun.recv().unwrap();
    handle.shutdown();
    let report = server.join().unwrap();
    assert!(report.notes.iter().any(|note| note.contains("left behind")), "{:?}", report.notes);
    drop((report, handle, client));
    end.send(()).unwrap();
    assert_eq!(looks.recv().unwrap(), 0, "{policy}: they are in use");
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "{policy}");
}

#[test]
fn a_call_that_blocks_keeps_what_it_borrows() {
    for policy in ["tq", "fcfs", "concord", "shenango"] {
        in_time(move || leave_one(policy, None, false));
    }
}

#[test]
fn so_does_one_of_a_class_that_abandons_requests() {
    for policy in ["tq", "shenango"] {
        in_time(move || leave_one(policy, Some(OnCancel::Abandon { most: 4 }), false));
    }
}

#[test]
fn so_does_a_classifier_that_blocks() {
    for policy in ["tq", "fcfs", "concord", "shenango"] {
        in_time(move || leave_one(policy, None, true));
    }
}
