//! What waits for a stuck kthread and is in no queue: a timer that is overdue, a socket that nobody looks
//! at. The watchdog tells of both.

use crate::common;

use common::STUCK;
use curtail::net::TcpListener;
use curtail::{Runtime, Stall, spawn, yield_now};
use std::io::{PipeReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A runtime with one kthread, which is in a read of the pipe before long; what its watchdog tells.
fn told(body: impl FnOnce(PipeReader) + Send + 'static) {
    let (tell, told) = channel::<Stall>();
    let (from, mut to) = std::io::pipe().unwrap();
    let builder = Runtime::builder()
        .kthreads(1)
        .run_to_completion()
        .watchdog(Some(Duration::from_millis(10)))
        .on_stall(move |stall| _ = tell.send(stall.clone()));
    let program = std::thread::spawn(move || builder.run(move || body(from)));
    let stall = heard(&told);
    to.write_all(b"x").unwrap();
    program.join().unwrap();
    assert!(stall.is_some(), "the kthread keeps its threads waiting, and nothing tells of it");
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
    told(|from| {
        let sleeper = spawn(|| curtail::time::sleep(Duration::from_millis(1)));
        // It sleeps.
        yield_now();
        block(&from);
        sleeper.join().unwrap();
    });
}

#[test]
fn a_socket_that_is_ready_is_not_looked_at() {
    told(|from| {
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
    });
}
