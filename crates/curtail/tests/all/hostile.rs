//! Attacks on a whole server from outside, with a well-behaved client beside them: its answers are all
//! right, its worst wait is bounded, and the memory comes back.
//!
//! One at a time, for the memory is the process's.

use crate::common;

use common::wire::{connect, frame, receive};
use common::{STUCK, preset};
use curtail::net::{Both, Tcp, TcpConfig, Transport, Udp, UdpConfig};
use curtail::{App, Class, ClassId, Handle, Report, Response, Server, WorkerId};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The worst wait of the well-behaved client. What these machines take away is far less.
const PATIENCE: Duration = Duration::from_secs(10);

/// `B…` is answered with 64 KiB, anything else with its length and its first bytes.
struct Echo;

impl App for Echo {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("any")]
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request.first() == Some(&b'B') {
            response.as_mut_vec().resize(64 * KIB, b'B');
        } else {
            response.write(&(request.len() as u32).to_le_bytes());
            response.write(&request[..request.len().min(16)]);
        }
    }
}

fn answer_to(request: &[u8]) -> Vec<u8> {
    [&(request.len() as u32).to_le_bytes()[..], &request[..request.len().min(16)]].concat()
}

/// Memory of this process that lies in RAM.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * KIB
}

/// What was seen during an attack.
struct Seen {
    base: usize,
    most: usize,
    after: usize,
    report: Report,
}

/// Asks over TCP and UDP until told to stop. Its worst wait and its round trips.
fn behave(tcp: SocketAddr, udp: SocketAddr, stop: &AtomicBool) -> (Duration, usize) {
    let mut stream = connect(tcp);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(udp).unwrap();
    // The kernel may drop a datagram while others flood it: that is asked again.
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (mut worst, mut count) = (Duration::ZERO, 0_usize);
    let mut bytes = [0; 64];
    while !stop.load(SeqCst) {
        let request = format!("request {count}").into_bytes();
        let begun = Instant::now();
        stream.write_all(&frame(&request)).unwrap();
        assert_eq!(receive(&mut stream), answer_to(&request));
        worst = worst.max(begun.elapsed());
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < STUCK, "no datagram is answered");
            socket.send(&request).unwrap();
            match socket.recv(&mut bytes) {
                // An answer to an earlier attempt may come first.
                Ok(length) if bytes[..length] == answer_to(&request) => break,
                _ => {}
            }
        }
        count += 1;
    }
    (worst, count)
}

/// With a dispatcher that polls the connections, and with threads that read them.
const POLICIES: [&str; 2] = ["tq", "shenango"];

/// Attacks a server with these settings.
fn attack(
    policy: &str,
    config: &TcpConfig,
    by: impl FnOnce(SocketAddr, SocketAddr, &Handle),
) -> Seen {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let loopback = ["127.0.0.1:0".parse().unwrap()];
    let tcp = Tcp::bind(&loopback, config).unwrap();
    let udp = Udp::bind(&loopback, &UdpConfig::default()).unwrap();
    let (stream, datagram) = (tcp.local_addrs()[0], udp.local_addrs()[0]);
    let server = Server::builder(Echo)
        .transport(Box::new(Both::new(udp, tcp)))
        .policy(preset(policy))
        .workers(1)
        .drain(Duration::from_millis(100))
        .build()
        .unwrap();
    let handle = server.handle();
    let running = thread::spawn(move || server.run().unwrap());
    /// Also where a client panics.
    struct End(Handle, Arc<AtomicBool>);
    impl Drop for End {
        fn drop(&mut self) {
            self.1.store(true, SeqCst);
            self.0.shutdown();
        }
    }
    let end = End(handle, Arc::default());
    let stop = end.1.clone();
    let good = thread::spawn(move || behave(stream, datagram, &stop));
    let (stop, most) = (end.1.clone(), Arc::new(Mutex::new(0)));
    thread::sleep(Duration::from_millis(100));
    let base = resident();
    let seen = most.clone();
    let watch = thread::spawn(move || {
        while !stop.load(SeqCst) {
            let now = resident();
            let mut most = seen.lock().unwrap();
            *most = now.max(*most);
            drop(most);
            thread::sleep(Duration::from_millis(2));
        }
    });
    by(stream, datagram, &end.0);
    common::when(&end.0, |stats| stats.in_system <= 1);
    // Given back when what ended has been noticed; a bounded time, in which nothing else happens.
    let begun = Instant::now();
    while resident() > base + base / 10 && begun.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(10));
    }
    let after = resident();
    end.1.store(true, SeqCst);
    let (worst, round_trips) = good.join().unwrap();
    watch.join().unwrap();
    drop(end);
    let report = running.join().unwrap();
    let most = *most.lock().unwrap();
    let mib = |bytes: usize| bytes as f64 / MIB as f64;
    println!(
        "{policy}: resident {:.1} MiB before, {:.1} at most, {:.1} after; {round_trips} round trips, the \
         worst {worst:?}",
        mib(base),
        mib(most),
        mib(after)
    );
    assert!(round_trips > 0 && worst < PATIENCE, "{round_trips} {worst:?}");
    Seen { base, most, after, report }
}

/// The server with all its clients is about as large as before.
fn assert_given_back(seen: &Seen, slack: usize) {
    assert!(seen.after <= seen.base + slack, "{} {} {}", seen.base, seen.most, seen.after);
}

#[test]
fn frames_of_a_mebibyte_one_behind_the_other() {
    for policy in POLICIES {
        const FRAMES: usize = 1_000;
        let seen = attack(policy, &TcpConfig::default(), |server, _, _| {
            let mut stream = connect(server);
            let mut reader = stream.try_clone().unwrap();
            let bytes = frame(&vec![b'x'; MIB]);
            let writer = thread::spawn(move || {
                for _ in 0..FRAMES {
                    stream.write_all(&bytes).unwrap();
                }
            });
            for _ in 0..FRAMES {
                assert_eq!(receive(&mut reader), answer_to(&vec![b'x'; MIB]));
            }
            writer.join().unwrap();
        });
        assert!(seen.most < seen.base + 48 * MIB, "{} {}", seen.base, seen.most);
        assert_given_back(&seen, 16 * MIB);
    }
}

#[test]
fn peers_that_never_read() {
    for policy in POLICIES {
        let config = TcpConfig { memory: 32 * MIB, ..TcpConfig::default() };
        let seen = attack(policy, &config, |server, _, handle| {
            let mut deaf: Vec<_> = (0..200).map(|_| connect(server)).collect();
            for stream in &mut deaf {
                // So that it is the server that has the answers, and not the kernel.
                rustix::net::sockopt::set_socket_recv_buffer_size(&*stream, 4 * KIB).unwrap();
                // They may be cut at any time.
                let _ = stream.write_all(&frame(b"B").repeat(20));
            }
            common::when(handle, |stats| {
                let class = &stats.classes[0];
                class.completed + class.orphaned > 200 * 20 && stats.in_system <= 1
            });
            assert!(common::look(handle).unsent > 0, "some were cut");
        });
        assert!(seen.most < seen.base + 64 * MIB, "{} {}", seen.base, seen.most);
        assert_given_back(&seen, 16 * MIB);
    }
}

#[test]
fn datagrams_of_any_kind() {
    for policy in POLICIES {
        let seen = attack(policy, &TcpConfig::default(), |_, server, _| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let bytes = [0xa5; 9_000];
            for number in 0..50_000_usize {
                // Empty ones, whole ones, some that are too long. A full buffer of the kernel is no news.
                let _ = socket.send_to(&bytes[..number * 7919 % bytes.len()], server);
            }
        });
        assert!(seen.report.malformed > 0);
        assert_given_back(&seen, 16 * MIB);
    }
}

#[test]
fn connections_of_any_kind() {
    for policy in POLICIES {
        let config = TcpConfig { connections: 128, ..TcpConfig::default() };
        let seen = attack(policy, &config, |server, _, _| {
            let mut state = 1_u64;
            let mut random = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize
            };
            let mut kept = Vec::new();
            for _ in 0..2_000 {
                let mut stream = connect(server);
                let noise: Vec<u8> = (0..random() % 300).map(|_| random() as u8).collect();
                let _ = stream.write_all(&noise);
                match random() % 4 {
                    0 => drop(stream),
                    1 => rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))
                        .unwrap(),
                    2 => drop(stream.shutdown(std::net::Shutdown::Write)),
                    _ => kept.push(stream),
                }
                if kept.len() > 200 {
                    kept.clear();
                }
            }
        });
        assert!(seen.report.malformed > 0);
        assert_given_back(&seen, 16 * MIB);
    }
}

#[test]
fn frames_that_trickle() {
    for policy in POLICIES {
        let stall = Some(Duration::from_millis(200));
        let config = TcpConfig { stall, memory: 16 * MIB, ..TcpConfig::default() };
        let seen = attack(policy, &config, |server, _, _| {
            let begun = Instant::now();
            let mut slow: Vec<_> = (0..100).map(|_| connect(server)).collect();
            let most = frame(&vec![b's'; MIB]);
            for stream in &mut slow {
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(&most[..500 * KIB]);
            }
            while !slow.is_empty() {
                assert!(begun.elapsed() < STUCK, "they may go on for ever");
                // A byte now and then, until a reset says that it is enough.
                slow.retain_mut(|stream| match stream.write(&[0]) {
                    Ok(_) => true,
                    Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                });
                thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(seen.most < seen.base + 64 * MIB, "{} {}", seen.base, seen.most);
        assert_given_back(&seen, 16 * MIB);
    }
}
