//! Sockets by the thousand, and peers that behave badly: nothing is lost, and all is freed.

use curtail::net::{TcpListener, TcpStream};
use curtail::{JoinHandle, Runtime, spawn, yield_now};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tests that count the process's descriptors run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `f` on 1, 2 and 4 kthreads, and sees that no descriptor is left.
fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kthreads in [1, 2, 4] {
        let before = descriptors();
        let f = f.clone();
        Runtime::builder().kthreads(kthreads).stack_size(64 * 1024).run(f);
        assert_eq!(descriptors(), before, "descriptors with {kthreads} kthreads");
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes of memory that the process has.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Echoes to each peer on a thread of its own, until it is stopped.
struct Echo {
    listener: TcpListener,
    address: SocketAddr,
    serving: JoinHandle<usize>,
    /// Peers that were served and have gone.
    gone: Arc<AtomicUsize>,
}

impl Echo {
    fn start(idle: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = listener.try_clone().unwrap();
        let gone = Arc::new(AtomicUsize::new(0));
        let all = gone.clone();
        let serving = spawn(move || {
            let mut count = 0;
            while let Ok((stream, _)) = accepting.accept() {
                stream.set_read_timeout(idle).unwrap();
                let gone = all.clone();
                drop(spawn(move || {
                    let _ended = serve(&stream);
                    drop(stream);
                    gone.fetch_add(1, Ordering::Release);
                }));
                count += 1;
            }
            count
        });
        Self { listener, address, serving, gone }
    }

    /// When the last peer has gone: how many there were.
    fn stop(self) -> usize {
        self.listener.close();
        let count = self.serving.join().unwrap();
        wait_until_gone(&self.gone, count);
        count
    }
}

/// Waits until `count` peers were served and have gone.
fn wait_until_gone(gone: &AtomicUsize, count: usize) {
    while gone.load(Ordering::Acquire) < count {
        curtail::time::sleep(Duration::from_micros(100));
    }
}

fn serve(mut stream: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read])?,
        }
    }
}

fn round_trip(mut stream: &TcpStream, number: u64) {
    stream.write_all(&number.to_ne_bytes()).unwrap();
    let mut back = [0; 8];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(u64::from_ne_bytes(back), number);
}

#[test]
fn connections_come_and_go_hundreds_of_times() {
    on_each(|| {
        let echo = Echo::start(None);
        let address = echo.address;
        let connected = Arc::new(AtomicUsize::new(0));
        let mut memory_before = 0;
        for storm in 0..600 {
            let clients: Vec<_> = (0..20_u64)
                .map(|client| {
                    let connected = connected.clone();
                    spawn(move || {
                        let stream = TcpStream::connect(address).unwrap();
                        connected.fetch_add(1, Ordering::Relaxed);
                        match client % 5 {
                            0 => {} // Closes at once.
                            1 => {
                                // A reset, with unread answers under way.
                                (&stream).write_all(&[1; 3_000]).unwrap();
                                set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                            }
                            2 => drop((&stream).write(&[1; 100])), // Never reads.
                            _ => (0..3).for_each(|n| round_trip(&stream, client * 10 + n)),
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            // So that no storm meets peers of the one before, which would be more memory at a time.
            wait_until_gone(&echo.gone, connected.load(Ordering::Relaxed));
            // By then kthreads have filled up what they keep of ended threads: some 20 MiB with four.
            if storm == 300 {
                memory_before = memory();
            }
        }
        let grown = memory().saturating_sub(memory_before);
        // A page that each thread since then left behind would be 48 MiB.
        assert!(grown < 8 << 20, "{grown} bytes more");
        assert_eq!(echo.stop(), connected.load(Ordering::Relaxed));
    });
}

#[test]
fn two_thousand_connections_at_once() {
    on_each(|| {
        let echo = Echo::start(None);
        let address = echo.address;
        let ready = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..2_000_u64)
            .map(|client| {
                let ready = ready.clone();
                spawn(move || {
                    let stream = TcpStream::connect(address).unwrap();
                    round_trip(&stream, client);
                    ready.fetch_add(1, Ordering::Release);
                    while ready.load(Ordering::Acquire) < 2_000 {
                        curtail::time::sleep(Duration::from_millis(1));
                    }
                    (0..5).for_each(|n| round_trip(&stream, client + n));
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(echo.stop(), 2_000);
    });
}

#[test]
fn a_peer_that_reads_slowly_holds_up_nobody() {
    on_each(|| {
        const LENGTH: usize = 3 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sending = spawn(move || {
            let threads: Vec<_> = listener
                .incoming()
                .take(4)
                .map(|stream| {
                    let mut stream = stream.unwrap();
                    spawn(move || stream.write_all(&vec![5; LENGTH]).unwrap())
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let slow: Vec<_> = (0..4)
            .map(|_| {
                spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let (mut total, mut buffer) = (0, vec![0; 100_000]);
                    loop {
                        match stream.read(&mut buffer).unwrap() {
                            0 => return total,
                            read => total += read,
                        }
                        curtail::time::sleep(Duration::from_micros(300));
                    }
                })
            })
            .collect();
        let echo = Echo::start(None);
        let quick = TcpStream::connect(echo.address).unwrap();
        (0..200).for_each(|n| round_trip(&quick, n));
        drop(quick);
        for thread in slow {
            assert_eq!(thread.join().unwrap(), LENGTH);
        }
        sending.join().unwrap();
        assert_eq!(echo.stop(), 1);
    });
}

#[test]
fn peers_that_say_nothing_are_let_go() {
    on_each(|| {
        let echo = Echo::start(Some(Duration::from_millis(500)));
        // Half a request, and then nothing. (Sent at once: where the listener's queue is full for a
        // while, the connection begins with it.)
        let connect = |_| {
            let mut stream = TcpStream::connect(echo.address).unwrap();
            stream.write_all(&[1, 2]).unwrap();
            yield_now();
            stream
        };
        let silent: Vec<_> = (0..200).map(connect).collect();
        let begin = Instant::now();
        for mut stream in &silent {
            let mut rest = Vec::new();
            match stream.read_to_end(&mut rest) {
                Ok(_) => assert_eq!(rest, [1, 2]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
        drop(silent);
        assert_eq!(echo.stop(), 200);
    });
}

#[test]
fn a_client_and_a_server_are_torn_down_at_any_moment() {
    on_each(|| {
        for round in 0..60 {
            let echo = Echo::start(None);
            let address = echo.address;
            // The clients end when their time is over, by unwinding out of a wait.
            let clients: Vec<_> = (0..6)
                .map(|_| {
                    spawn(move || {
                        curtail::time::timeout(Duration::from_micros(200), || {
                            let mut stream = TcpStream::connect(address).unwrap();
                            while stream.write_all(&[0; 700]).is_ok() {
                                if !matches!(stream.read(&mut [0; 999]), Ok(1..)) {
                                    return;
                                }
                            }
                        })
                    })
                })
                .collect();
            let streams: Vec<_> = (0..3).filter_map(|_| TcpStream::connect(address).ok()).collect();
            let waiting: Vec<_> = streams
                .iter()
                .map(|stream| {
                    let mut other = stream.try_clone().unwrap();
                    spawn(move || drop(other.read(&mut [0; 10])))
                })
                .collect();
            (0..round).for_each(|_| yield_now());
            streams.iter().for_each(TcpStream::close);
            waiting.into_iter().for_each(|thread| thread.join().unwrap());
            drop(streams);
            for client in clients {
                assert!(client.join().unwrap().is_err(), "its time was over");
            }
            echo.stop();
        }
    });
}
