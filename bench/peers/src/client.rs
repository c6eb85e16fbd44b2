//! The client of every echo server: messages of 64 bytes on a few connections, sent and awaited by
//! the calling thread, which never sleeps. So what a client waits for its own wake-up is in no figure.
//!
//! * [`Client::round_trips`], a closed loop: each connection sends its next message when it has the
//!   last one back;
//! * [`Client::offer`], an open loop: messages are due at the instants of a Poisson process, whatever
//!   the server does, and count from the instant at which they were due.

use crate::load::{Load, arrivals};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Bytes of a message: its number, eight times.
pub const MESSAGE: usize = 64;

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
    fn send(&self, number: u64) -> io::Result<bool> {
        let mut message = [0; MESSAGE];
        message.as_chunks_mut::<8>().0.fill(number.to_le_bytes());
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
    /// The beginning of a message whose rest is to come.
    rest: Vec<u8>,
}

impl Connection {
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
            each(u64::from_le_bytes(words[0]));
        }
        self.rest.drain(..taken);
        Ok(())
    }
}

/// What an open loop found.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// Messages that were due.
    pub due: usize,
    /// From due to back, in nanoseconds, of those that came back in time.
    pub sojourn_ns: Vec<u64>,
    /// Messages that went out more than 100 µs after they were due: the client's own share.
    pub sent_late: usize,
    /// It was given up: more messages than allowed were late, or the socket was full.
    pub given_up: bool,
}

/// A few connections to a server.
pub struct Client {
    connections: Vec<Connection>,
    /// Tells who has something, where there are several.
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
            connections.push(Connection { wire, rest: Vec::with_capacity(8_192) });
        }
        Ok(Self { connections, epoll, ready: Vec::with_capacity(count) })
    }

    /// Looks once at who has something: `each(connection, number)`.
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
            connection.wire.send(number)?;
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
                    self.connections[at].wire.send(number)?;
                    number += 1;
                } else {
                    waiting -= 1;
                }
            }
        }
        Ok(taken)
    }

    /// Offers `rate_rps` messages a second for `span`, over all connections by turns. What is not
    /// back `limit` after it was due is late; when more than `allowed` of all are, it gives up.
    ///
    /// # Errors
    /// Where a connection breaks.
    pub fn offer(&mut self, load: &Load) -> io::Result<Offered> {
        let due = arrivals(load.rate_rps, load.span, load.seed);
        let limit = load.limit.as_nanos() as u64;
        let allowed = (due.len() as f64 * load.allowed) as usize;
        let mut found = Offered {
            due: due.len(),
            sojourn_ns: Vec::with_capacity(due.len()),
            sent_late: 0,
            given_up: false,
        };
        let (mut next, mut late) = (0, 0);
        let start = Instant::now();
        let last = due.last().copied().unwrap_or(0) + 2 * limit;
        while found.sojourn_ns.len() < due.len() {
            let now = start.elapsed().as_nanos() as u64;
            // A few at most, so that answers do not wait behind messages that were late already.
            for _ in 0..8 {
                let Some(at) = due.get(next).filter(|at| **at <= now) else { break };
                found.sent_late += usize::from(now - at > 100_000);
                let connection = &self.connections[next % self.connections.len()];
                if !connection.wire.send(next as u64)? {
                    found.given_up = true;
                    return Ok(found);
                }
                next += 1;
            }
            let sojourns = &mut found.sojourn_ns;
            let mut strange = false;
            self.poll(|_, number| {
                match due.get(number as usize).filter(|_| number < next as u64) {
                    Some(at) => {
                        let sojourn = start.elapsed().as_nanos() as u64 - at;
                        late += usize::from(sojourn > limit);
                        sojourns.push(sojourn);
                    }
                    None => strange = true,
                }
            })?;
            if strange {
                return Err(io::Error::other("a message came back that was not sent"));
            }
            if late > allowed || now > last {
                found.given_up = late > allowed;
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram server on a thread that does to messages what `answer` says, until it gets one of
    /// another length.
    fn served<T>(answer: fn(u64, &mut [u8]) -> bool, with: impl FnOnce(u16) -> T) -> T {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = [0; 128];
                for at in 0.. {
                    let (length, from) = socket.recv_from(&mut buffer).unwrap();
                    if length != MESSAGE {
                        break;
                    }
                    if answer(at, &mut buffer[..length]) {
                        socket.send_to(&buffer[..length], from).unwrap();
                    }
                }
            });
            let end = UdpSocket::bind("127.0.0.1:0").unwrap();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with(port)));
            end.send_to(b"end", ("127.0.0.1", port)).unwrap();
            result.unwrap()
        })
    }

    fn load(limit: Duration, allowed: f64) -> Load {
        let span = Duration::from_millis(50);
        Load { rate_rps: 5_000.0, span, limit, allowed, seed: 1 }
    }

    #[test]
    fn what_the_server_loses_is_missing() {
        let found = served(
            |at, _| at % 10 != 0,
            |port| {
                let mut client = Client::connect(Kind::Udp, port, 2).unwrap();
                client.offer(&load(Duration::from_millis(200), 1.0)).unwrap()
            },
        );
        assert_eq!(found.sojourn_ns.len(), found.due - found.due.div_ceil(10), "{}", found.due);
        assert!(!found.given_up);
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
    fn a_late_server_is_given_up() {
        let slow = |_, _: &mut [u8]| {
            std::thread::sleep(Duration::from_millis(3));
            true
        };
        let found = served(slow, |port| {
            let mut client = Client::connect(Kind::Udp, port, 1).unwrap();
            client.offer(&load(Duration::from_millis(1), 0.01)).unwrap()
        });
        assert!(found.given_up && found.sojourn_ns.len() < 20, "{}", found.sojourn_ns.len());
    }
}
