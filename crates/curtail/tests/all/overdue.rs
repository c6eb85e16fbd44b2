//! What waits for a stuck kthread and is in no queue: a timer that is overdue, a socket that nobody looks
//! at. The watchdog tells of both, and of the lock that is held.

use crate::common;

use common::{STUCK, preset, serve};
use curtail::net::TcpListener;
use curtail::sync::Mutex;
use curtail::{App, Io, Response, Runtime, ServerBuilder, Stall, WorkerId, spawn, yield_now};
use std::io::{PipeReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A runtime with one kthread, which is in a read of the pipe before long; what its watchdog tells.
fn told(body: impl FnOnce(PipeReader) + Send + 'static) -> Stall {
    told_by(Io::Auto, body)
}

fn told_by(io: Io, body: impl FnOnce(PipeReader) + Send + 'static) -> Stall {
    let (tell, told) = channel::<Stall>();
    let (from, mut to) = std::io::pipe().unwrap();
    let builder = Runtime::builder()
        .kthreads(1)
        .io(io)
        .run_to_completion()
        .watchdog(Some(Duration::from_millis(10)))
        .on_stall(move |stall| _ = tell.send(stall.clone()));
    let program = std::thread::spawn(move || builder.run(move || body(from)));
    let stall = heard(&told);
    to.write_all(b"x").unwrap();
    program.join().unwrap();
    stall.expect("the kthread keeps its threads waiting, and nothing tells of it")
}

/// Waits for a time that ends a test, and is no figure.
fn heard(told: &Receiver<Stall>) -> Option<Stall> {
    told.recv_timeout(STUCK / 2).ok()
}

/// Keeps the kthread in the kernel, by a call that nothing of Curtail's sees.
fn block(from: &PipeReader) {
    assert_eq!(rustix::io::read(from, &mut [0]).unwrap(), 1);
}

#[test]
fn a_timer_that_was_set_after_the_round_began_is_overdue() {
    let stall = told(|from| {
        let sleeper = spawn(|| curtail::time::sleep(Duration::from_millis(1)));
        // It sleeps.
        yield_now();
        block(&from);
        sleeper.join().unwrap();
    });
    assert_eq!(stall.holds, None);
}

#[test]
fn a_socket_that_is_ready_is_not_looked_at() {
    let body = |from| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reader = spawn(move || {
            let mut byte = [0];
            listener.accept().unwrap().0.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [7]);
        });
        // It waits for a connection.
        yield_now();
        let mut peer = std::net::TcpStream::connect(address).unwrap();
        peer.write_all(&[7]).unwrap();
        block(&from);
        reader.join().unwrap();
    };
    told_by(Io::Epoll, body);
    told_by(Io::Uring, body);
}

#[test]
fn the_lock_that_is_held_is_named_and_where_it_was_taken() {
    let stall = told(|from| {
        let lock = Mutex::new(());
        let waiter = spawn(|| ());
        let held = lock.lock().unwrap();
        block(&from);
        drop(held);
        waiter.join().unwrap();
    });
    let holds = stall.holds.as_deref().unwrap_or_default();
    assert!(holds.starts_with("a lock taken at ") && holds.contains("overdue.rs:"), "{stall}");
    assert!(stall.to_string().contains(&format!(", holding {holds}, in")), "{stall}");
}

/// Sections that outlast their quanta.
struct Sections;

impl App for Sections {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        curtail::sync::no_preempt(|| {
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(1) {
                curtail::safepoint();
            }
        });
        response.write(b"done");
    }
}

#[test]
fn the_time_of_critical_sections_is_counted() {
    let settings = |builder: ServerBuilder| {
        builder.policy(preset("tq")).workers(1).safepoints_by_hand().watchdog(None)
    };
    let before = curtail::critical_time();
    serve(Sections, settings, |client, _| {
        let tickets: Vec<_> = (0..20).map(|_| client.submit(Vec::new()).unwrap()).collect();
        tickets.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap(), b"done"));
    });
    // Each but the last has others behind it.
    let counted = curtail::critical_time() - before;
    assert!(counted > Duration::from_millis(10), "{counted:?}");
}
