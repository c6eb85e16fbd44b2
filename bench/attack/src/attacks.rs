//! What is done to the server. An attacker's errors are no news: what it is denied, it does without.

use crate::client::{answer, connect, frame};
use crate::server::Server;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use spin::protocol::Status;
use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(120);
/// Requests that a connection of the load keeps under way.
const WINDOW: u64 = 32;
/// How much address space is left to a server that is to be short of it.
const LITTLE: u64 = 64 << 20;

/// A way to attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Datagrams of any length that are no requests, as fast as they can be sent.
    Datagrams,
    /// Connections that send noise and end in any way, or stay for a while.
    Connections,
    /// Frames of 1 MiB, one behind the other.
    Pipelining,
    /// Peers that ask and never read an answer.
    Deaf,
    /// Peers that send a byte now and then.
    Trickle,
    /// All of these but the first two, while the server has hardly any memory left.
    LowMemory,
    /// SIGTERM under load.
    Sigterm,
    /// SIGTERM under load, while neither report nor record can be written.
    FullDisk,
}

impl Attack {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Datagrams,
        Self::Connections,
        Self::Pipelining,
        Self::Deaf,
        Self::Trickle,
        Self::LowMemory,
        Self::Sigterm,
        Self::FullDisk,
    ];

    /// As people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Datagrams => "datagrams",
            Self::Connections => "connections",
            Self::Pipelining => "pipelining",
            Self::Deaf => "deaf",
            Self::Trickle => "trickle",
            Self::LowMemory => "low-memory",
            Self::Sigterm => "sigterm",
            Self::FullDisk => "full-disk",
        }
    }

    /// How large it is by default: datagrams, connections or frames.
    #[must_use]
    pub fn size(self, is_small: bool) -> usize {
        let (small, full) = match self {
            Self::Datagrams => (20_000, 1_000_000),
            Self::Connections => (500, 30_000),
            Self::Pipelining => (40, 3_000),
            Self::Deaf => (20, 200),
            Self::Trickle => (50, 900),
            Self::LowMemory => (20, 200),
            Self::Sigterm | Self::FullDisk => (4, 16),
        };
        if is_small { small } else { full }
    }

    /// Whether it ends the server.
    pub(crate) fn is_an_end(self) -> bool {
        matches!(self, Self::Sigterm | Self::FullDisk)
    }

    /// Does it; not for those that end the server, which are a [`Load`] and a signal.
    pub(crate) fn run(self, server: &Server, size: usize, is_small: bool) -> Result<(), String> {
        let text = |error: std::io::Error| format!("{}: {error}", self.name());
        let time = Duration::from_secs(if is_small { 1 } else { 10 });
        match self {
            Self::Datagrams => datagrams(server.udp, size).map_err(text),
            Self::Connections => connections(server.tcp, size).map_err(text),
            Self::Pipelining => pipelining(server.tcp, size).map_err(text),
            Self::Deaf => deaf(server.tcp, size).map_err(text),
            Self::Trickle => trickle(server.tcp, size, time).map_err(text),
            Self::LowMemory => {
                server.bound_memory(LITTLE)?;
                let address = server.tcp;
                let others = [
                    spawn(move || deaf(address, size)),
                    spawn(move || trickle(address, size, time / 2)),
                ];
                // They may be cut.
                let _ = pipelining(server.tcp, size);
                others.into_iter().for_each(|other| _ = other.join());
                Ok(())
            }
            Self::Sigterm | Self::FullDisk => Ok(()),
        }
    }
}

/// Numbers that look random, and are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize
    }

    /// Bytes that are no request, as they have something where requests have zeroes.
    fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length).map(|_| self.next() as u8).collect();
        bytes.iter_mut().skip(10).take(1).for_each(|byte| *byte |= 1);
        bytes
    }
}

fn datagrams(server: SocketAddr, count: usize) -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut random = Random(1);
    let noise = random.noise(9_000);
    for _ in 0..count {
        // Half of them may be requests by their length.
        let most = if random.next().is_multiple_of(2) { 2_048 } else { noise.len() };
        let _ = socket.send_to(&noise[..random.next() % most], server);
    }
    Ok(())
}

fn connections(server: SocketAddr, count: usize) -> std::io::Result<()> {
    let mut random = Random(2);
    let mut kept = Vec::new();
    for _ in 0..count {
        let mut stream = connect_in_time(server)?;
        let length = random.next() % 300;
        let _ = stream.write_all(&random.noise(length));
        match random.next() % 4 {
            0 => drop(stream),
            1 => _ = set_socket_linger(&stream, Some(Duration::ZERO)),
            2 => drop(stream.shutdown(Shutdown::Write)),
            _ => kept.push(stream),
        }
        if kept.len() > 200 {
            kept.clear();
        }
    }
    Ok(())
}

/// Where no port is left, one is in a while.
fn connect_in_time(server: SocketAddr) -> std::io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match connect(server) {
            Err(_) if begun.elapsed() < STUCK => sleep(Duration::from_millis(10)),
            connected => return connected,
        }
    }
}

fn pipelining(server: SocketAddr, frames: usize) -> std::io::Result<()> {
    let mut stream = connect(server)?;
    let mut reader = stream.try_clone()?;
    let bytes = frame(7, MIB);
    let writer = spawn(move || (0..frames).try_for_each(|_| stream.write_all(&bytes)));
    for _ in 0..frames {
        let answer = answer(&mut reader)?;
        if answer.is_none_or(|answer| (answer.tag, answer.status) != (7, Status::Done)) {
            return Err(std::io::Error::other("a wrong answer"));
        }
    }
    writer.join().unwrap_or(Ok(()))
}

fn deaf(server: SocketAddr, peers: usize) -> std::io::Result<()> {
    let requests = frame(7, 0).repeat(1_000);
    let mut peers = (0..peers).map(|_| connect(server)).collect::<Result<Vec<_>, _>>()?;
    for stream in &peers {
        // So that it is the server that has the answers, and not the kernel.
        let _ = set_socket_recv_buffer_size(stream, 4 << 10);
        stream.set_nonblocking(true)?;
    }
    let begun = Instant::now();
    let mut sent = 0;
    // Until none of them may send more for a while; those that are cut are gone.
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(500) && begun.elapsed() < STUCK && sent < 512 * MIB
    {
        peers.retain_mut(|stream| match stream.write(&requests) {
            Ok(bytes) => {
                (sent, last) = (sent + bytes, Instant::now());
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn trickle(server: SocketAddr, peers: usize, time: Duration) -> std::io::Result<()> {
    let mut peers = (0..peers).map(|_| connect(server)).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let header = frame(7, MIB);
    for stream in &mut peers {
        stream.set_nonblocking(true)?;
        let _ = stream.write(&header[..300 << 10]);
    }
    while begun.elapsed() < time {
        peers.retain_mut(|stream| match stream.write(b"x") {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Connections that keep requests under way until the server ends.
pub(crate) struct Load {
    answered: Arc<AtomicU64>,
    has_trouble: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(server: SocketAddr, connections: usize) -> Result<Self, String> {
        let (answered, has_trouble) = (Arc::default(), Arc::default());
        let mut load = Self { answered, has_trouble, threads: Vec::new() };
        for _ in 0..connections {
            let stream = connect(server).map_err(|error| error.to_string())?;
            let (answered, trouble) = (load.answered.clone(), load.has_trouble.clone());
            load.threads.push(spawn(move || {
                if !keep_asking(stream, &answered) {
                    trouble.store(true, Ordering::Relaxed);
                }
            }));
        }
        Ok(load)
    }

    /// Waits until so many requests have been answered.
    pub(crate) fn reaches(&self, answers: u64) -> bool {
        let begun = Instant::now();
        while self.answered.load(Ordering::Relaxed) < answers && begun.elapsed() < STUCK {
            sleep(Duration::from_millis(1));
        }
        begun.elapsed() < STUCK
    }

    /// Once the server has ended; false: there was a wrong answer, or a reset.
    pub(crate) fn end(self) -> bool {
        self.threads.into_iter().all(|thread| thread.join().is_ok())
            && !self.has_trouble.load(Ordering::Relaxed)
    }
}

/// Until the server closes the connection; false: there was a wrong answer, or a reset.
fn keep_asking(mut stream: TcpStream, answered: &AtomicU64) -> bool {
    let mut answers = HashSet::new();
    let (mut next, mut may_send) = (0, true);
    loop {
        while may_send && next < answers.len() as u64 + WINDOW {
            // Once it fails the server reads no more; answers may still be under way.
            may_send = stream.write_all(&frame(next, 0)).is_ok();
            next += 1;
        }
        match answer(&mut stream) {
            Ok(Some(answer)) if answer.status == Status::Done && answer.tag < next => {
                if !answers.insert(answer.tag) {
                    return false;
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => return false,
            Err(error) => return error.kind() == ErrorKind::UnexpectedEof,
        }
    }
}
