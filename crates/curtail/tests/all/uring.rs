//! Streams of threads by io_uring, beside the tests that run by epoll and io_uring alike.

use crate::daemon;

use curtail::net::{TcpStream, UdpSocket, UnixStream};
use curtail::time::timeout;
use curtail::{Io, Runtime, RuntimeBuilder, spawn, yield_now};
use daemon::{Daemon, socket, until};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream as Plain;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// By each way, on one kthread and on two.
fn each() -> impl Iterator<Item = RuntimeBuilder> {
    let ways = [Io::Epoll, Io::Uring].into_iter().flat_map(|io| [(io, 1), (io, 2)]);
    ways.map(|(io, kthreads)| Runtime::builder().kthreads(kthreads).io(io))
}

/// A thread's end, and that of a plain thread.
fn pair() -> (UnixStream, Plain) {
    let (ours, theirs) = Plain::pair().unwrap();
    (ours.into(), theirs)
}

/// A thread's end over TCP, and that of a plain thread.
fn tcp() -> (TcpStream, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0.into(), theirs)
}

fn echo(mut stream: impl Read + Write) -> usize {
    let (mut buffer, mut messages) = ([0; 64], 0);
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return messages,
            read => stream.write_all(&buffer[..read]).unwrap(),
        }
        messages += 1;
    }
}

#[test]
fn where_io_uring_is_refused_sockets_go_by_epoll() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
        let builder = Runtime::builder().kthreads(2).io(Io::Uring).refuse_io_uring(errno);
        builder.run(|| {
            let (ours, mut theirs) = pair();
            let echo = spawn(move || echo(ours));
            theirs.write_all(b"ping").unwrap();
            let mut back = [0; 4];
            theirs.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"ping");
            drop(theirs);
            assert!(echo.join().unwrap() > 0);
        });
    }
}

#[test]
fn reads_that_end_by_time_lose_nothing() {
    for builder in each() {
        builder.run(|| {
            const MESSAGES: u32 = 3_000;
            let (mut ours, mut theirs) = tcp();
            let writer = std::thread::spawn(move || {
                for number in 0..MESSAGES {
                    theirs.write_all(&number.to_ne_bytes()).unwrap();
                    (0..number % 7).for_each(|_| std::thread::yield_now());
                }
            });
            ours.set_read_timeout(Some(Duration::from_micros(20))).unwrap();
            let (mut got, mut late) = (Vec::new(), 0);
            let mut buffer = [0; 24];
            loop {
                match ours.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => got.extend_from_slice(&buffer[..read]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => late += 1,
                    Err(error) => panic!("{error}, after {late} that were late"),
                }
            }
            writer.join().unwrap();
            let sent: Vec<u8> = (0..MESSAGES).flat_map(u32::to_ne_bytes).collect();
            assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
        });
    }
}

#[test]
fn what_comes_after_a_read_was_given_up_is_not_written_into_its_buffer() {
    for builder in each() {
        builder.run(|| {
            for _ in 0..50 {
                let (mut ours, mut theirs) = pair();
                let mut buffer = vec![0; 64];
                let read = timeout(Duration::from_micros(200), || ours.read(&mut buffer));
                assert!(read.is_err(), "there is nothing to read");
                theirs.write_all(&[7; 64]).unwrap();
                let mut later = [0; 64];
                ours.read_exact(&mut later).unwrap();
                assert_eq!(later, [7; 64]);
                assert_eq!(buffer, [0; 64]);
            }
        });
    }
}

#[test]
fn a_write_that_has_no_room_ends_by_time() {
    for builder in each() {
        builder.run(|| {
            let (mut ours, mut theirs) = pair();
            ours.set_write_timeout(Some(Duration::from_millis(2))).unwrap();
            // There are others, so that small writes go by a ring.
            let other = spawn(|| (0..10_000).for_each(|_| yield_now()));
            let mut sent = 0;
            let error = loop {
                match ours.write(&[3; 1_000]) {
                    Ok(written) => sent += written,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            drop(ours);
            let mut received = Vec::new();
            theirs.read_to_end(&mut received).unwrap();
            assert_eq!(received.len(), sent);
            other.join().unwrap();
        });
    }
}

#[test]
fn more_operations_are_in_flight_than_a_ring_has_entries() {
    for builder in each() {
        builder.run(|| {
            let (ours, theirs): (Vec<_>, Vec<_>) = (0..400).map(|_| pair()).unzip();
            let echoes: Vec<_> = ours.into_iter().map(|ours| spawn(move || echo(ours))).collect();
            let client = std::thread::spawn(move || {
                for round in 0..20 {
                    theirs.iter().for_each(|mut end| end.write_all(&[round; 32]).unwrap());
                    for mut end in &theirs {
                        let mut back = [0; 32];
                        end.read_exact(&mut back).unwrap();
                        assert_eq!(back, [round; 32]);
                    }
                }
            });
            curtail::blocking(|| client.join().unwrap());
            let messages = echoes.into_iter().map(|echo| echo.join().unwrap());
            assert!(messages.sum::<usize>() >= 400 * 20);
        });
    }
}

#[test]
fn a_ring_that_always_has_something_starves_no_datagram() {
    for builder in each() {
        builder.run(|| {
            let (one, other) = UnixStream::pair().unwrap();
            let over = Arc::new(AtomicBool::new(false));
            let talkers = [one, other].map(|mut stream| {
                let over = over.clone();
                spawn(move || {
                    let mut talk = || {
                        stream.write_all(&[1; 8])?;
                        stream.read_exact(&mut [0; 8])
                    };
                    // At the end one of them is the first to leave.
                    while talk().is_ok() && !over.load(Ordering::Relaxed) {}
                })
            });
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            client.connect(socket.local_addr().unwrap()).unwrap();
            for number in 0..20 {
                let sending = client.try_clone().unwrap();
                // After it has begun to wait, mostly.
                let sender = std::thread::spawn(move || sending.send(&[number]).unwrap());
                let mut got = [0; 8];
                assert_eq!(socket.recv_from(&mut got).unwrap().0, 1);
                assert_eq!(got[0], number);
                sender.join().unwrap();
            }
            over.store(true, Ordering::Relaxed);
            talkers.into_iter().for_each(|talker| talker.join().unwrap());
        });
    }
}

#[test]
fn a_runtime_may_end_with_operations_in_flight() {
    for builder in each() {
        let (started, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counter, reads) = (started.clone(), seen.clone());
        let theirs = builder.run(move || {
            let start = |_| {
                let ((mut ours, theirs), started, reads) = (pair(), counter.clone(), reads.clone());
                drop(spawn(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    let _ = ours.read(&mut [0; 64]);
                    reads.fetch_add(1, Ordering::Relaxed);
                }));
                theirs
            };
            let theirs: Vec<_> = (0..100).map(start).collect();
            while counter.load(Ordering::Relaxed) < theirs.len() {
                yield_now();
            }
            theirs
        });
        // Nobody reads it any more.
        theirs.iter().for_each(|mut end| _ = end.write(&[1; 64]));
        assert_eq!((started.load(Ordering::Relaxed), seen.load(Ordering::Relaxed)), (100, 0));
    }
}

#[test]
fn an_operation_that_ends_brings_a_parked_kthread_its_core_back() {
    for io in [Io::Epoll, Io::Uring] {
        let path = socket("ring-parked");
        let daemon = Daemon::at(&path);
        let (ours, mut theirs) = Plain::pair().unwrap();
        let (tell, told) = sync_channel(1);
        let builder = Runtime::builder().kthreads(1).watchdog(None).io(io).daemon(&path);
        let program = std::thread::spawn(move || {
            builder.run(move || {
                tell.send(()).unwrap();
                echo(UnixStream::from(ours))
            })
        });
        let guest = daemon.take(0);
        let mut word = daemon.grant(&guest, 0);
        told.recv_timeout(SOON).unwrap();
        for number in 0..10 {
            guest.until_parked(0, word);
            theirs.write_all(&[number]).unwrap();
            assert!(guest.has_packets(SOON), "{io:?}: nothing tells of what has come");
            word = daemon.grant(&guest, 0);
            let mut back = [0];
            theirs.read_exact(&mut back).unwrap();
            assert_eq!(back, [number]);
        }
        guest.until_parked(0, word);
        drop(theirs);
        daemon.grant(&guest, 0);
        until("the program ends", || program.is_finished());
        assert_eq!(program.join().unwrap(), 10);
    }
}
