//! The client of every echo server: messages of 64 bytes on a few connections, sent and awaited by
//! the calling thread, which never sleeps. So what a client waits for its own wake-up is in no figure.
//!
//! * [`Client::round_trips`], a closed loop: each connection sends its next message when it has the
//!   last one back;
//! * [`Client::offer`], an open loop: messages are due at the instants of a Poisson process, whatever
//!   the server does, and count from the instant at which they were due.

use crate::load::{LATE_NS, Load, Offered};
use crate::neighbours::Neighbours;
use curtail_load::{Lateness, Pace};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a message: the client's session and the message's number, eight times.
pub const MESSAGE: usize = 64;

/// Every client of this process has another session: a datagram that comes late, to a socket that is
/// gone, may find the port again in a new one's hands.
static SESSIONS: AtomicU32 = AtomicU32::new(1);

const SESSION: u64 = 0xffff_ffff_0000_0000;

/// How often an open loop asks for neighbours, in nanoseconds: it takes some microseconds.
const LOOK_NS: u64 = 500_000;

/// How long a server may say nothing before it counts as dead.
const SILENCE: Duration = Duration::from_secs(5);

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream per connection.
    Tcp,
    /// Datagrams; "connections" are sockets of the client.
    Udp,
}

impl Kind {
    /// As programs and the JSON call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

#[derive(Debug)]
enum Wire {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Wire {
    fn connect(kind: Kind, port: u16) -> io::Result<Self> {
        let server = (Ipv4Addr::LOCALHOST, port);
        match kind {
            Kind::Tcp => {
                let stream = TcpStream::connect(server)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Tcp(stream))
            }
            Kind::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(server)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Udp(socket))
            }
        }
    }

    /// Whether the message went out; what the system has no room for did not.
    fn send(&self, word: u64) -> io::Result<bool> {
        let mut message = [0; MESSAGE];
        message.as_chunks_mut::<8>().0.fill(word.to_le_bytes());
        let sent = match self {
            Self::Tcp(stream) => (&mut &*stream).write(&message),
            Self::Udp(socket) => socket.send(&message),
        };
        match sent {
            Ok(length) => Ok(length == MESSAGE),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = match self {
            Self::Tcp(stream) => match (&mut &*stream).read(buffer) {
                Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up")),
                other => other,
            },
            Self::Udp(socket) => socket.recv(buffer),
        };
        match received {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }
}

#[derive(Debug)]
struct Connection {
    wire: Wire,
    /// In the upper half of each word.
    session: u64,
    /// The beginning of a message whose rest is to come.
    rest: Vec<u8>,
}

impl Connection {
    fn send(&self, number: u64) -> io::Result<bool> {
        self.wire.send(self.session | number)
    }

    /// What has come since, at most a bufferful, a message at a time.
    fn receive(&mut self, each: &mut impl FnMut(u64)) -> io::Result<()> {
        let mut buffer = [0; 4_096];
        let length = self.wire.receive(&mut buffer)?;
        self.rest.extend_from_slice(&buffer[..length]);
        let (messages, _) = self.rest.as_chunks::<MESSAGE>();
        let taken = messages.len() * MESSAGE;
        for message in messages {
            let (words, _) = message.as_chunks::<8>();
            if words.iter().any(|word| *word != words[0]) {
                return Err(io::Error::other("a message came back changed"));
            }
            let word = u64::from_le_bytes(words[0]);
            if word & SESSION == self.session {
                each(word & !SESSION);
            }
        }
        self.rest.drain(..taken);
        Ok(())
    }
}

/// A few connections to a server.
pub struct Client {
    connections: Vec<Connection>,
    /// Tells which connections have something, where there are several.
    epoll: Option<OwnedFd>,
    ready: Vec<epoll::Event>,
}

impl Client {
    /// Connects `count` times to `port` on 127.0.0.1.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(kind: Kind, port: u16, count: usize) -> io::Result<Self> {
        let epoll = match count {
            1 => None,
            _ => Some(epoll::create(epoll::CreateFlags::CLOEXEC)?),
        };
        let session = u64::from(SESSIONS.fetch_add(1, Ordering::Relaxed)) << 32;
        let mut connections = Vec::with_capacity(count);
        for at in 0..count {
            let wire = Wire::connect(kind, port)?;
            if let Some(epoll) = &epoll {
                let data = epoll::EventData::new_u64(at as u64);
                match &wire {
                    Wire::Tcp(stream) => epoll::add(epoll, stream, data, epoll::EventFlags::IN)?,
                    Wire::Udp(socket) => epoll::add(epoll, socket, data, epoll::EventFlags::IN)?,
                }
            }
            connections.push(Connection { wire, session, rest: Vec::with_capacity(8_192) });
        }
        Ok(Self { connections, epoll, ready: Vec::with_capacity(count) })
    }

    /// Looks once at the connections that have something: `each(connection, number)`.
    fn poll(&mut self, mut each: impl FnMut(usize, u64)) -> io::Result<()> {
        let Some(epoll) = &self.epoll else {
            return self.connections[0].receive(&mut |number| each(0, number));
        };
        self.ready.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(epoll, spare_capacity(&mut self.ready), Some(&at_once)) {
            Err(rustix::io::Errno::INTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.ready {
            let at = event.data.u64() as usize;
            self.connections[at].receive(&mut |number| each(at, number))?;
        }
        Ok(())
    }

    /// Round trips on all connections at once for `span`, in nanoseconds.
    ///
    /// # Errors
    /// Where a connection breaks, or nothing comes back for 5 seconds.
    pub fn round_trips(&mut self, span: Duration) -> io::Result<Vec<u64>> {
        let start = Instant::now();
        let mut sent = vec![start; self.connections.len()];
        let mut last = start;
        let mut taken = Vec::with_capacity(1 << 20);
        let mut back = Vec::with_capacity(self.connections.len());
        let mut number = 0;
        for (at, connection) in self.connections.iter().enumerate() {
            sent[at] = Instant::now();
            connection.send(number)?;
            number += 1;
        }
        let mut waiting = self.connections.len();
        while waiting > 0 {
            self.poll(|at, _| back.push(at))?;
            let now = Instant::now();
            if back.is_empty() {
                if now - last > SILENCE {
                    return Err(io::Error::new(ErrorKind::TimedOut, "nothing comes back"));
                }
                continue;
            }
            last = now;
            for at in back.drain(..) {
                taken.push((now - sent[at]).as_nanos() as u64);
                if now - start < span {
                    sent[at] = Instant::now();
                    self.connections[at].send(number)?;
                    number += 1;
                } else {
                    waiting -= 1;
                }
            }
        }
        Ok(taken)
    }

    /// Offers that load over all connections by turns. `neighbours` is asked about every half
    /// millisecond. Ends early where a socket has no room: what was due after that is lost.
    ///
    /// # Errors
    /// Where a connection breaks.
    pub fn offer(&mut self, load: &Load, mut neighbours: Neighbours) -> io::Result<Offered> {
        let messages = load.messages();
        let due: Vec<u64> = messages.iter().map(|message| message.at_ns).collect();
        let end = due.last().copied().unwrap_or(0) + load.patience.as_nanos() as u64;
        let mut sojourns = vec![None; due.len()];
        let (mut gaps, mut late) = (Vec::new(), Lateness::new(LATE_NS));
        let (mut next, mut back, mut looked) = (0, 0, 0);
        let mut pace = Pace::new(messages.into_iter(), u64::MAX);
        let start = Instant::now();
        while back < due.len() {
            let now = start.elapsed().as_nanos() as u64;
            if now > end {
                break;
            }
            if now - looked > LOOK_NS {
                if let Some(wait) = neighbours.look() {
                    let wait = wait.as_nanos() as u64;
                    gaps.push((looked.saturating_sub(wait), now + 2 * wait));
                }
                looked = now;
            }
            // A few at most, so that answers do not wait behind messages that were late already.
            let connections = &self.connections;
            let send = |_: &_, due_ns, now_ns| {
                if !connections[next % connections.len()].send(next as u64)? {
                    return Ok(false);
                }
                late.record(due_ns, now_ns);
                next += 1;
                Ok::<_, io::Error>(true)
            };
            if pace.send_due(|| now, 8, send)? {
                break;
            }
            let mut strange = false;
            self.poll(|_, number| {
                let number = number as usize;
                strange |= number >= next || sojourns[number].is_some();
                if !strange {
                    sojourns[number] = Some(start.elapsed().as_nanos() as u64 - due[number]);
                    back += 1;
                }
            })?;
            if strange {
                return Err(io::Error::other("a message came back that was not awaited"));
            }
        }
        Ok(Offered {
            due_ns: due,
            sojourn_ns: sojourns,
            gaps_ns: gaps,
            sent_late: late.over() as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A datagram server on a thread, which does to the messages what `answer` says.
    fn served<T>(answer: fn(u64, &mut [u8]) -> bool, with: impl FnOnce(u16) -> T) -> T {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut buffer, mut at) = ([0; 128], 0);
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                    if answer(at, &mut buffer[..length]) {
                        // The client may be gone.
                        let _ = socket.send_to(&buffer[..length], from);
                    }
                    at += 1;
                }
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with(port)));
            stop.store(true, Ordering::Relaxed);
            result.unwrap()
        })
    }

    /// A program that does nothing: it has no neighbours.
    fn alone() -> Neighbours {
        let core = crate::program::Cores::pick().unwrap().program;
        let program = std::path::Path::new("/bin/sleep");
        let sleeping = crate::program::Running::start(program, &["100"], core).unwrap();
        Neighbours::of(&sleeping).unwrap()
    }

    fn load(patience: Duration) -> Load {
        Load { rate_rps: 5_000.0, span: Duration::from_millis(50), patience, seed: 1 }
    }

    #[test]
    fn what_the_server_loses_is_missing() {
        let found = served(
            |at, _| at % 10 != 0,
            |port| {
                let mut client = Client::connect(Kind::Udp, port, 2).unwrap();
                client.offer(&load(Duration::from_millis(200)), alone()).unwrap()
            },
        );
        let due = found.due_ns.len();
        assert_eq!(found.sojourns().count(), due - due.div_ceil(10), "{due}");
    }

    #[test]
    fn what_comes_back_changed_is_an_error() {
        let changed = |_, message: &mut [u8]| {
            message[9] ^= 1;
            true
        };
        let error = served(changed, |port| {
            let mut client = Client::connect(Kind::Udp, port, 1).unwrap();
            client.round_trips(Duration::from_millis(10)).unwrap_err()
        });
        assert!(error.to_string().contains("came back changed"), "{error}");
    }

    #[test]
    fn answers_to_another_client_are_none_of_ours() {
        let foreign = |at, message: &mut [u8]| {
            // As if it had come back to a socket that had the port before.
            if at % 2 == 0 {
                message.as_chunks_mut::<8>().0.fill(7_u64.to_le_bytes());
            }
            true
        };
        let found = served(foreign, |port| {
            let mut client = Client::connect(Kind::Udp, port, 1).unwrap();
            client.offer(&load(Duration::from_millis(200)), alone()).unwrap()
        });
        assert_eq!(found.sojourns().count(), found.due_ns.len() / 2);
    }

    #[test]
    fn a_slow_server_is_seen_from_when_messages_were_due() {
        let slow = |_, _: &mut [u8]| {
            std::thread::sleep(Duration::from_millis(3));
            true
        };
        let found = served(slow, |port| {
            let mut client = Client::connect(Kind::Udp, port, 1).unwrap();
            client.offer(&load(Duration::from_millis(1)), alone()).unwrap()
        });
        // 50 ms and one more have room for 17 answers, each later than the one ahead.
        let back: Vec<u64> = found.sojourns().collect();
        assert!((1..=17).contains(&back.len()), "{back:?}");
        assert!(back[0] >= 3_000_000, "{back:?}");
        assert_eq!(found.in_time(Duration::from_millis(1)).in_time, 0);
    }
}
