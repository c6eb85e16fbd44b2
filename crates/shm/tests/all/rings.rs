//! Rings between a program and the daemon, and a port to be opened for them.

use curtail_shm::session::{Listener, Request, Session};
use curtail_shm::{
    Answer, Arrival, DaemonEnd, KthreadEnd, MOST_BYTES, MapError, Page, RING_CAPACITY, Rings, Spec,
};
use curtail_shm::{Board, Class};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use std::time::Duration;

fn pair(kthreads: u32) -> (Vec<KthreadEnd>, Vec<DaemonEnd>) {
    let mut rings = Rings::create(kthreads).unwrap();
    let daemon = DaemonEnd::map(rings.fd().try_clone_to_owned().unwrap(), kthreads).unwrap();
    let ends = (0..kthreads).map(|kthread| rings.take(kthread).unwrap()).collect();
    assert!(rings.take(0).is_none() && rings.take(kthreads).is_none());
    (ends, daemon)
}

#[test]
fn packets_go_to_their_kthread_and_answers_come_back() {
    let (mut kthreads, mut daemon) = pair(3);
    for (index, end) in (0..).zip(&mut daemon) {
        let arrival = Arrival::new([index; 5], 100 + index, &[index as u8; 9]).unwrap();
        end.arrivals.push(arrival).unwrap();
    }
    for (index, end) in (0_u64..).zip(&mut kthreads) {
        let arrival = end.arrivals.pop().unwrap().unwrap();
        assert_eq!((arrival.peer, arrival.arrived_tsc), ([index; 5], 100 + index));
        assert_eq!(arrival.payload(), Some(&[index as u8; 9][..]));
        assert!(end.arrivals.pop().unwrap().is_none());
        let mut answer = Answer::to(arrival.peer, arrival.arrived_tsc);
        assert!(answer.set_payload(b"yes"));
        answer.set_outcome(2);
        end.answers.push(answer).unwrap();
    }
    for (index, end) in (0..).zip(&mut daemon) {
        let answer = end.answers.pop().unwrap().unwrap();
        assert_eq!((answer.peer, answer.outcome()), ([index; 5], 2));
        assert_eq!(answer.payload(), Some(&b"yes"[..]));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(Arrival::new([0; 5], 0, &[7; MOST_BYTES]).is_some());
    assert!(Arrival::new([0; 5], 0, &[7; MOST_BYTES + 1]).is_none());
    let mut answer = Answer::to([0; 5], 0);
    assert!(!answer.set_payload(&[7; MOST_BYTES + 1]));
    assert_eq!(answer.payload(), Some(&[][..]));
    let (_kthreads, mut daemon) = pair(1);
    let arrival = Arrival::new([0; 5], 0, b"").unwrap();
    for _ in 0..RING_CAPACITY {
        daemon[0].arrivals.push(arrival).unwrap();
    }
    assert!(daemon[0].arrivals.push(arrival).is_err());
    assert_eq!(daemon[0].arrivals.free().unwrap(), 0);
}

/// Bytes that nothing of ours wrote: lengths that can't be are seen.
#[test]
fn forged_lengths_are_no_payload() {
    use zerocopy::{FromBytes, IntoBytes};
    let mut bytes = Arrival::new([0; 5], 0, b"four").unwrap().as_bytes().to_vec();
    bytes[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(Arrival::read_from_bytes(&bytes).unwrap().payload(), None);
    let mut answer = Answer::to([0; 5], 0);
    let length = size_of::<Answer>() - MOST_BYTES - 4;
    answer.as_mut_bytes()[length..length + 4].copy_from_slice(&1_473_u32.to_le_bytes());
    assert_eq!(answer.payload(), None);
}

#[test]
fn rings_of_fewer_kthreads_or_of_none_are_not_mapped() {
    let rings = Rings::create(2).unwrap();
    let fd = || rings.fd().try_clone_to_owned().unwrap();
    assert!(matches!(DaemonEnd::map(fd(), 3), Err(MapError::Header(_))));
    assert!(matches!(DaemonEnd::map(fd(), 1), Err(MapError::Header(_))));
    let board = Board::create(&[0], 20_000, Duration::from_micros(5)).unwrap();
    assert!(DaemonEnd::map(board.fd().try_clone_to_owned().unwrap(), 1).is_err());
}

#[test]
fn a_port_is_asked_for_with_its_rings() {
    let name = format!("curtail-shm-port-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = Listener::bind(&path).unwrap();
    let program = std::thread::spawn({
        let path = path.clone();
        move || {
            let class = Class::LatencyCritical;
            let spec = Spec { class, kthreads: 2, guaranteed: 1, burstable: 1 };
            let page = Page::create(&spec).unwrap();
            let (session, _) = Session::connect(&path, "a program", page.fd()).unwrap();
            let rings = Rings::create(2).unwrap();
            let first = session.open_port("udp://127.0.0.1:0", rings.fd()).unwrap();
            let second = session.open_port("udp://127.0.0.1:0", rings.fd()).unwrap_err();
            let long = session.open_port(&"u".repeat(1_005), rings.fd()).unwrap_err();
            (first, second.to_string(), long.to_string())
        }
    });
    let wait = |fd: BorrowedFd<'_>| {
        let most = rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&most)),
            Ok(1),
            "nothing came"
        );
    };
    wait(listener.as_fd());
    let session = listener.accept().unwrap().unwrap();
    let next = || {
        wait(session.as_fd());
        session.next_request().unwrap().unwrap()
    };
    assert!(matches!(next(), Request::Hello { .. }));
    let board = Board::create(&[0], 8, Duration::from_micros(5)).unwrap();
    session.welcome(board.fd(), curtail_shm::Slot(0), 2).unwrap();
    let Request::Port { url, rings } = next() else { panic!("no port") };
    assert_eq!((url.as_str(), DaemonEnd::map(rings, 2).unwrap().len()), ("udp://127.0.0.1:0", 2));
    session.opened("udp://127.0.0.1:4321").unwrap();
    assert!(matches!(next(), Request::Port { .. }));
    session.refuse("one is enough").unwrap();
    let (first, second, long) = program.join().unwrap();
    assert_eq!(
        (first.as_str(), second.as_str()),
        ("udp://127.0.0.1:4321", "the daemon refuses: one is enough")
    );
    assert!(long.contains("too long"), "{long}");
    drop(listener);
    assert!(!path.exists());
}
