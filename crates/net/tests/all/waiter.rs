//! Sleeping and waking.

use crate::common;

use common::{LONG, loopback, loopbacks};
use curtail_net::{Both, Tcp, Transport, Udp, Waiter};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn a_wake_before_the_wait_counts_once() {
    let mut waiter = Waiter::new(&[]).unwrap();
    let waker = waiter.waker();
    for _ in 0..3 {
        waker.wake();
        waker.clone().wake();
    }
    // Would sleep for ever if a wake were lost.
    assert!(!waiter.wait(None).unwrap());
    assert!(!waiter.wait(Some(Duration::from_millis(1))).unwrap(), "by timeout");
    waker.wake();
    assert!(!waiter.wait(None).unwrap());
}

#[test]
fn no_wake_is_lost_between_two_threads() {
    // Each waits, without a timeout, for the other's number: one lost wake and it never ends.
    const ROUNDS: u64 = 20_000;
    let mut here = Waiter::new(&[]).unwrap();
    let mut there = Waiter::new(&[]).unwrap();
    let (to_here, to_there) = (here.waker(), there.waker());
    let ping = Arc::new(AtomicU64::new(0));
    let pong = Arc::new(AtomicU64::new(0));
    let (ping_seen, pong_set) = (ping.clone(), pong.clone());
    let other = std::thread::spawn(move || {
        for round in 1..=ROUNDS {
            while ping_seen.load(Ordering::Relaxed) < round {
                there.wait(None).unwrap();
            }
            pong_set.store(round, Ordering::Relaxed);
            to_here.wake();
        }
    });
    for round in 1..=ROUNDS {
        ping.store(round, Ordering::Relaxed);
        to_there.wake();
        while pong.load(Ordering::Relaxed) < round {
            here.wait(None).unwrap();
        }
    }
    other.join().unwrap();
}

#[test]
fn wakes_of_many_threads_while_it_works_and_sleeps() {
    let mut waiter = Waiter::new(&[]).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (waker, count) = (waiter.waker(), count.clone());
            std::thread::spawn(move || {
                for _ in 0..10_000 {
                    count.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    while count.load(Ordering::Relaxed) < 30_000 {
        waiter.wait(None).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn descriptors_of_transports_wake_it() {
    let udp = Udp::bind(&loopbacks(), &Default::default()).unwrap();
    let tcp = Tcp::bind(&[loopback()], &Default::default()).unwrap();
    let (to_udp, to_tcp) = (udp.local_addrs()[0], tcp.local_addrs()[0]);
    let mut both = Both::new(udp, tcp);
    let mut waiter = Waiter::new(&both.wait_fds()).unwrap();
    assert!(!waiter.wait(Some(Duration::ZERO)).unwrap());
    let client = UdpSocket::bind(loopback()).unwrap();
    client.send_to(b"datagram", to_udp).unwrap();
    assert!(waiter.wait(Some(LONG)).unwrap());
    let mut into = common::Collect::up_to(10);
    common::poll_requests(&mut both, &mut into, 1);
    assert!(!waiter.wait(Some(Duration::ZERO)).unwrap());
    let mut stream = TcpStream::connect(to_tcp).unwrap();
    stream.write_all(&[1, 0, 0, 0, 9]).unwrap();
    assert!(waiter.wait(Some(LONG)).unwrap());
    common::poll_requests(&mut both, &mut into, 2);
    assert_eq!(into.payloads(), [b"datagram".to_vec(), vec![9]]);
}

#[test]
fn what_is_no_descriptor_is_an_error() {
    assert!(Waiter::new(&[-1]).is_err());
    assert!(Waiter::new(&[i32::MAX]).is_err());
}
