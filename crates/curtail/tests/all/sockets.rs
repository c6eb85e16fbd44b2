//! Sockets under threads: std's behaviour, without blocking the kthread.

use crate::streams as sockets;

use curtail::net::{TcpListener, TcpStream};
use curtail::{spawn, yield_now};
use sockets::{Pair, families, on_each};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn what_is_written_is_read_in_every_size() {
    on_each(|| {
        for family in families() {
            let Pair(mut client, server) = family.pair();
            let echo = spawn(move || {
                let mut server = server;
                let mut buffer = vec![0; 70_001];
                let mut total = 0;
                loop {
                    match server.read(&mut buffer).unwrap() {
                        0 => return total,
                        read => server.write_all(&buffer[..read]).unwrap(),
                    }
                    total += 1;
                }
            });
            for len in [1, 2, 7, 64, 1_460, 4_095, 65_536, 300_001, 1 << 20] {
                let sent = pattern(len);
                // Both directions are full at once where this is large: another thread has to
                // write.
                let writer = client.duplicate();
                let copy = sent.clone();
                let writing = spawn(move || {
                    let mut writer = writer;
                    writer.write_all(&copy).unwrap();
                });
                let mut received = vec![0; len];
                client.read_exact(&mut received).unwrap();
                writing.join().unwrap();
                assert!(received == sent, "{len} bytes over {}", family.name());
            }
            client.stop(Shutdown::Write).unwrap();
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
            assert!(echo.join().unwrap() >= 9);
        }
    });
}

#[test]
fn pieces_of_every_size_make_a_whole() {
    on_each(|| {
        for family in families() {
            let Pair(client, server) = family.pair();
            let sent = pattern(200_000);
            let copy = sent.clone();
            let writing = spawn(move || {
                let mut client = client;
                let mut rest = &copy[..];
                let mut len = 1;
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(len.min(rest.len()));
                    let half = piece.len() / 2;
                    let slices = [IoSlice::new(&piece[..half]), IoSlice::new(&piece[half..])];
                    let written = client.write_vectored(&slices).unwrap();
                    client.write_all(&piece[written..]).unwrap();
                    rest = after;
                    len = len * 7 % 8_191 + 1;
                    if len % 3 == 0 {
                        yield_now();
                    }
                }
            });
            let mut server = server;
            let mut received = Vec::new();
            let (mut one, mut two) = ([0; 13], vec![0; 5_000]);
            loop {
                let mut slices = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
                let read = server.read_vectored(&mut slices).unwrap();
                if read == 0 {
                    break;
                }
                received.extend_from_slice(&one[..read.min(13)]);
                received.extend_from_slice(&two[..read.saturating_sub(13)]);
            }
            writing.join().unwrap();
            assert!(received == sent, "over {}", family.name());
        }
    });
}

#[test]
fn a_waiting_thread_leaves_its_kthread_to_others() {
    curtail::Runtime::builder().kthreads(1).run(|| {
        for family in families() {
            let Pair(mut client, server) = family.pair();
            let got = Arc::new(AtomicBool::new(false));
            let reading = {
                let got = got.clone();
                spawn(move || {
                    let mut server = server;
                    let mut byte = [0];
                    server.read_exact(&mut byte).unwrap();
                    got.store(true, Ordering::Release);
                    byte[0]
                })
            };
            for _ in 0..100 {
                yield_now(); // On one kthread this would never return otherwise.
            }
            assert!(!got.load(Ordering::Acquire));
            client.write_all(&[7]).unwrap();
            assert_eq!(reading.join().unwrap(), 7);
        }
    });
}

#[test]
fn timeouts_end_waits_as_in_std() {
    on_each(|| {
        for family in families() {
            let Pair(mut client, server) = family.pair();
            assert_eq!(client.read_timeout(Some(Duration::ZERO)), Err(ErrorKind::InvalidInput));
            client.read_timeout(Some(Duration::from_millis(3))).unwrap();
            let begin = Instant::now();
            let error = client.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(begin.elapsed() >= Duration::from_millis(3));
            // The peer does not read: it is full at some time, and the write ends.
            client.write_timeout(Some(Duration::from_millis(3))).unwrap();
            let error = (0..10_000).find_map(|_| client.write_all(&[0; 65_536]).err()).unwrap();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            // The connection goes on.
            let mut server = server;
            server.write_all(&[9]).unwrap();
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [9]);
            // The limit of a timeout around it unwinds.
            client.read_timeout(None).unwrap();
            let ended = curtail::time::timeout(Duration::from_millis(3), || client.read(&mut [0]));
            assert!(ended.is_err());
            server.write_all(&[8]).unwrap();
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [8]);
        }
    });
}

#[test]
fn each_direction_ends_by_itself() {
    on_each(|| {
        for family in families() {
            let Pair(mut client, server) = family.pair();
            let answering = spawn(move || {
                let mut server = server;
                let mut all = Vec::new();
                server.read_to_end(&mut all).unwrap();
                server.write_all(&all).unwrap();
            });
            client.write_all(b"half").unwrap();
            client.stop(Shutdown::Write).unwrap();
            let mut back = Vec::new();
            client.read_to_end(&mut back).unwrap();
            assert_eq!(back, b"half");
            answering.join().unwrap();
            let error = client.write(b"x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe, "and no signal");
        }
    });
}

#[test]
fn closing_ends_the_waits_of_others() {
    on_each(|| {
        for family in families() {
            let Pair(client, _server) = family.pair();
            let mut other = client.duplicate();
            let reading = spawn(move || other.read(&mut [0; 8]).map_err(|error| error.kind()));
            for _ in 0..20 {
                yield_now();
            }
            client.close();
            // It was shut down before it was woken, or the other way round.
            let ended = reading.join().unwrap();
            assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionAborted)), "{ended:?}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = listener.try_clone().unwrap();
        let accepting = spawn(move || other.accept().map(|_| ()).unwrap_err());
        for _ in 0..20 {
            yield_now();
        }
        listener.close();
        assert_eq!(accepting.join().unwrap().kind(), ErrorKind::ConnectionAborted);
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::ConnectionAborted);
        // Shutting down ends a wait too.
        let Pair(client, _server) = families()[0].pair();
        let mut other = client.duplicate();
        let reading = spawn(move || other.read(&mut [0; 8]).unwrap());
        for _ in 0..20 {
            yield_now();
        }
        client.stop(Shutdown::Both).unwrap();
        assert_eq!(reading.join().unwrap(), 0);
    });
}

#[test]
fn connections_that_are_refused_or_never_answered() {
    on_each(|| {
        let address = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let wait = Duration::from_millis(200);
        let refused = TcpStream::connect_timeout(&address, wait).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // One that accepts nothing: its queue is full at some time, and the next one waits.
        let full = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let address = full.local_addr().unwrap();
        let wait = Duration::from_millis(20);
        let mut kept = Vec::new();
        let error = loop {
            match TcpStream::connect_timeout(&address, wait) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
            assert!(kept.len() < 100);
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let ended = curtail::time::timeout(wait, || TcpStream::connect(address));
        assert!(ended.is_err());
        let no_path = curtail::net::UnixStream::connect("/nowhere/at/all").unwrap_err();
        assert_eq!(no_path.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_stream_moves_between_kthreads_and_plain_threads() {
    curtail::Runtime::builder().kthreads(4).run(|| {
        let Pair(mut client, server) = families()[0].pair();
        let mut server = Some(server);
        for round in 0..200_u32 {
            // Each round on a thread of its own, stolen or not; some of them plain.
            let mut stream = server.take().unwrap();
            let turn = move || {
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
                stream
            };
            let serve = if round % 5 == 4 {
                let plain = std::thread::spawn(turn);
                Err(plain)
            } else {
                Ok(spawn(turn))
            };
            client.write_all(&round.to_ne_bytes()).unwrap();
            let mut back = [0; 4];
            client.read_exact(&mut back).unwrap();
            assert_eq!(u32::from_ne_bytes(back), round);
            server = Some(match serve {
                Ok(thread) => thread.join().unwrap(),
                Err(plain) => curtail::blocking(|| plain.join().unwrap()),
            });
        }
    });
}

#[test]
fn plain_threads_use_the_same_types() {
    for family in families() {
        let Pair(mut client, mut server) = family.pair_of_plain_threads();
        client.read_timeout(Some(Duration::from_millis(3))).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.read_timeout(None).unwrap();
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 100];
            while let Ok(read @ 1..) = server.read(&mut buffer) {
                server.write_all(&buffer[..read]).unwrap();
            }
        });
        let sent = pattern(30_000);
        for piece in sent.chunks(777) {
            client.write_all(piece).unwrap();
            let mut back = vec![0; piece.len()];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, piece);
        }
        let mut other = client.duplicate();
        let reading = std::thread::spawn(move || other.read(&mut [0]).map_err(|e| e.kind()));
        client.close();
        let ended = reading.join().unwrap();
        assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionAborted)), "{ended:?}");
        echo.join().unwrap();
    }
}

#[test]
fn a_socket_outlives_its_runtime() {
    let (mut one, mut other) = curtail::run(|| {
        let (one, other) = curtail::net::UnixStream::pair().unwrap();
        let mut reader = one.try_clone().unwrap();
        // Left waiting when the runtime ends.
        drop(spawn(move || reader.read(&mut [0])));
        yield_now();
        (one, other)
    });
    curtail::run(move || {
        let writing = spawn(move || {
            yield_now();
            other.write_all(&[1, 2, 3]).unwrap();
            other
        });
        let mut bytes = [0; 3];
        one.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3]);
        drop(writing.join().unwrap());
    });
}
