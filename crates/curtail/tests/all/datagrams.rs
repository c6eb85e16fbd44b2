//! Datagrams, conversions to and from std's sockets, and names of hosts, under threads.

use crate::streams as sockets;

use curtail::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use curtail::{spawn, yield_now};
use sockets::{on_each, path};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn assert_traits<T: Send + Sync + std::fmt::Debug + AsFd + From<OwnedFd> + Into<OwnedFd>>() {}

#[test]
fn all_types_move_and_are_shared_between_threads() {
    assert_traits::<TcpListener>();
    assert_traits::<TcpStream>();
    assert_traits::<UdpSocket>();
    assert_traits::<UnixListener>();
    assert_traits::<UnixStream>();
    assert_traits::<UnixDatagram>();
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<curtail::net::Incoming<'_>>();
    send_and_sync::<curtail::net::UnixIncoming<'_>>();
    send_and_sync::<curtail::time::Interval>();
}

#[test]
fn udp_echoes() {
    on_each(|| {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = UdpSocket::bind(any) else { continue };
            let address = server.local_addr().unwrap();
            let echo = spawn(move || {
                let mut buffer = [0; 2_000];
                loop {
                    let (read, from) = server.recv_from(&mut buffer).unwrap();
                    assert_eq!(server.send_to(&buffer[..read], from).unwrap(), read);
                    if read == 0 {
                        return;
                    }
                }
            });
            let client = UdpSocket::bind(any).unwrap();
            client.connect(address).unwrap();
            assert_eq!(client.peer_addr().unwrap(), address);
            let mut buffer = [0; 2_000];
            for len in [1, 100, 1_400, 2_000] {
                assert_eq!(client.send(&vec![len as u8; len]).unwrap(), len);
                assert_eq!(client.peek(&mut buffer).unwrap(), len);
                assert_eq!(client.recv(&mut buffer).unwrap(), len);
                assert!(buffer[..len].iter().all(|&byte| byte == len as u8));
            }
            client.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
            assert_eq!(client.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            client.set_nonblocking(true).unwrap();
            assert_eq!(client.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            client.set_nonblocking(false).unwrap();
            client.set_read_timeout(None).unwrap();
            assert_eq!(client.send(&[]).unwrap(), 0);
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (0, address));
            echo.join().unwrap();
            // Closing ends a wait that is not connected, too.
            let socket = UdpSocket::bind(any).unwrap();
            let other = socket.try_clone().unwrap();
            let waiting = spawn(move || other.recv_from(&mut [0]).map_err(|e| e.kind()));
            (0..20).for_each(|_| yield_now());
            socket.close();
            let _ended = waiting.join().unwrap();
        }
    });
}

#[test]
fn a_sender_waits_for_a_receiver_that_is_full() {
    on_each(|| {
        let path = path();
        let receiver = UnixDatagram::bind(&path).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_write_timeout(Some(Duration::from_millis(3))).unwrap();
        let sent = (0..).take_while(|_| sender.send_to(b"datagram", &path).is_ok()).count();
        assert!(sent > 0, "it takes some");
        let error = sender.send_to(b"datagram", &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        sender.set_write_timeout(None).unwrap();
        let more = 3 * sent + 5;
        let count = Arc::new(AtomicUsize::new(0));
        let sending: Vec<_> = (0..3)
            .map(|_| {
                let (sender, path) = (sender.try_clone().unwrap(), path.clone());
                let count = count.clone();
                spawn(move || {
                    while count.fetch_add(1, Ordering::Relaxed) < more {
                        assert_eq!(sender.send_to(b"datagram", &path).unwrap(), 8);
                    }
                })
            })
            .collect();
        let mut buffer = [0; 20];
        for _ in 0..sent + more {
            let (read, from) = receiver.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..read], b"datagram");
            assert!(from.is_unnamed());
        }
        sending.into_iter().for_each(|thread| thread.join().unwrap());
        // A wait for a full receiver ends when the sender is closed.
        while sender.set_nonblocking(true).is_ok() && sender.send_to(b"x", &path).is_ok() {}
        sender.set_nonblocking(false).unwrap();
        let other = sender.try_clone().unwrap();
        let to = path.clone();
        let waiting = spawn(move || other.send_to(b"x", to).unwrap_err());
        (0..20).for_each(|_| yield_now());
        sender.close();
        waiting.join().unwrap();
        std::fs::remove_file(path).unwrap();

        let (one, other) = UnixDatagram::pair().unwrap();
        let sending = spawn(move || (0..2_000_u32).all(|n| one.send(&n.to_ne_bytes()).is_ok()));
        for n in 0..2_000_u32 {
            let mut number = [0; 4];
            assert_eq!(other.recv(&mut number).unwrap(), 4);
            assert_eq!(u32::from_ne_bytes(number), n);
        }
        assert!(sending.join().unwrap());
    });
}

#[test]
fn a_client_waits_for_a_unix_listener_that_is_full() {
    on_each(|| {
        let path = path();
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 2).unwrap();
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let path = path.clone();
                spawn(move || UnixStream::connect(path).unwrap())
            })
            .collect();
        for _ in 0..20 {
            yield_now();
        }
        let full = curtail::time::timeout(Duration::from_millis(5), || {
            (0..50).map(|_| UnixStream::connect(&path).unwrap()).collect::<Vec<_>>()
        });
        assert!(full.is_err(), "fifty more than the listener takes");
        let accepting = spawn(move || {
            let served = listener.incoming().take(20).map(Result::unwrap).count();
            (listener, served)
        });
        let connected: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert_eq!(connected.len(), 20);
        let (listener, served) = accepting.join().unwrap();
        assert_eq!(served, 20);
        drop(listener);
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn sockets_become_stds_and_back() {
    on_each(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let client = spawn(move || TcpStream::connect(address).unwrap());
        let (server, _) = listener.accept().unwrap();
        let mut client = client.join().unwrap();
        // Registered with a poller, and with a timeout.
        // The kernel counts a timeout in ticks of its own, of up to 10 ms.
        let timeout = Some(Duration::from_millis(20));
        client.set_read_timeout(timeout).unwrap();
        assert!(client.read(&mut [0]).is_err());
        let clone = client.try_clone().unwrap();
        let mut std = std::net::TcpStream::from(client);
        assert_eq!(std.read_timeout().unwrap(), timeout);
        // A ring of an earlier round, which the kernel takes apart by and by, may interrupt it.
        let mut read = || std.read(&mut [0]).unwrap_err().kind();
        let kind = std::iter::repeat_with(&mut read).find(|kind| *kind != ErrorKind::Interrupted);
        assert_eq!(kind, Some(ErrorKind::WouldBlock));
        std.set_read_timeout(None).unwrap();
        (&server).write_all(b"ab").unwrap();
        let mut byte = [0];
        std.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
        (&clone).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"b");
        drop(clone);
        let mut back = TcpStream::from(std);
        let reading = spawn(move || {
            let mut byte = [0];
            back.read_exact(&mut byte).unwrap();
            // Alone: its own descriptor.
            (byte, OwnedFd::from(back))
        });
        yield_now();
        (&server).write_all(b"c").unwrap();
        let (byte, fd) = reading.join().unwrap();
        assert_eq!(byte, *b"c");
        let mut again = TcpStream::from(fd);
        let reading = spawn(move || {
            let mut byte = [0];
            again.read_exact(&mut byte).unwrap();
            byte
        });
        yield_now();
        (&server).write_all(b"d").unwrap();
        assert_eq!(reading.join().unwrap(), *b"d");
        // A listener in blocking mode waits in the kernel.
        let std = std::net::TcpListener::from(listener);
        let connecting = spawn(move || TcpStream::connect(address).unwrap());
        curtail::blocking(|| std.accept().unwrap());
        connecting.join().unwrap();
    });
}

#[test]
fn names_are_looked_up_beside_other_threads() {
    on_each(|| {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = spawn(move || TcpStream::connect(("localhost", port)).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        let mut client = client.join().unwrap();
        client.write_all(b"named").unwrap();
        let mut name = [0; 5];
        server.read_exact(&mut name).unwrap();
        assert_eq!(&name, b"named");
        assert!(TcpStream::connect("no-such-name.invalid:1").is_err());
        assert!(TcpStream::connect("no port").is_err());
    });
    let begin = Instant::now();
    assert!(TcpStream::connect(&[][..]).is_err(), "a plain thread, and no address");
    assert!(begin.elapsed() < Duration::from_secs(10));
}
