//! The client's sockets: non-blocking UDP, or TCP with the transports' framing (a little-endian
//! `u32` length before each message), HTTP/1.1, the protocols of Redis or memcached, or
//! sessions over shared memory.

use super::alone::Alone;
use super::stream::Stream;
use super::wire::Wire;
use crate::Error;
use curtail_net::{HEADER_BYTES, NoResponse, ShmClient, ShmRefused};
use rustix::event::{PollFd, PollFlags};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;

/// Largest answer.
pub(super) const LIMIT: usize = 65_536;

/// The kind of a server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A datagram a message.
    Udp,
    /// Frames on a stream.
    Tcp,
    /// HTTP/1.1.
    Http,
    /// RESP on a stream.
    Redis,
    /// memcached's text on a stream.
    Memcached,
    /// Sessions over shared memory.
    Shm,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// How to talk to it.
    pub scheme: Scheme,
    /// Where it is; of shared memory, nowhere.
    pub address: SocketAddr,
    /// As it was given, with the port.
    pub host: String,
    /// Of HTTP: `/` and what follows. Of shared memory: its file.
    pub path: String,
}

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where answers come in order: which request it answers; and, of HTTP, by which status.
    pub(crate) of: Option<(u64, u16)>,
}

impl Url {
    /// Reads `udp://HOST:PORT`, `tcp://HOST:PORT`, `http://HOST[:PORT]/PATH`, `redis://HOST[:PORT]`,
    /// `memcached://HOST[:PORT]` or `shm:///FILE`.
    ///
    /// # Errors
    /// It is none of these, or the host has no address.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, host) = match text.split_once("://") {
            Some(("udp", host)) => (Scheme::Udp, host),
            Some(("tcp", host)) => (Scheme::Tcp, host),
            Some(("http", host)) => (Scheme::Http, host),
            Some(("redis", host)) => (Scheme::Redis, host),
            Some(("memcached", host)) => (Scheme::Memcached, host),
            Some(("shm", path)) if path.starts_with('/') => {
                let (address, host) = (SocketAddr::from(([0; 4], 0)), String::new());
                return Ok(Self { scheme: Scheme::Shm, address, host, path: path.to_owned() });
            }
            _ => {
                return Err(format!(
                    "`{text}` is none of udp://HOST:PORT, tcp://HOST:PORT, http://HOST:PORT/PATH, \
                     redis://HOST:PORT, memcached://HOST:PORT, shm:///FILE"
                ));
            }
        };
        let (host, path) = match host.find(['/', '?']) {
            Some(at) if scheme == Scheme::Http => host.split_at(at),
            _ => (host, "/"),
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{}", path.split('#').next().unwrap_or_default());
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("`{text}`: the path has other than visible ASCII characters"));
        }
        let usual = match scheme {
            Scheme::Udp | Scheme::Tcp | Scheme::Shm => None,
            Scheme::Http => Some(80),
            Scheme::Redis => Some(6379),
            Scheme::Memcached => Some(11211),
        };
        let bare = !host.is_empty() && !host.rsplit(']').next().unwrap_or_default().contains(':');
        let whole = match usual.filter(|_| bare) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let mut addresses =
            whole.to_socket_addrs().map_err(|error| format!("`{text}` is no address: {error}"))?;
        match addresses.next() {
            Some(address) if address.port() != 0 => {
                Ok(Self { scheme, address, host: host.to_owned(), path })
            }
            Some(_) => Err(format!("`{text}`: no server listens on port 0")),
            None => Err(format!("`{text}`: the host has no address")),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, path, .. } = self;
        match self.scheme {
            Scheme::Udp => write!(f, "udp://{address}"),
            Scheme::Tcp => write!(f, "tcp://{address}"),
            Scheme::Http => write!(f, "http://{address}{path}"),
            Scheme::Redis => write!(f, "redis://{address}"),
            Scheme::Memcached => write!(f, "memcached://{address}"),
            Scheme::Shm => write!(f, "shm://{path}"),
        }
    }
}

/// One flow to the server.
#[derive(Debug)]
pub(crate) enum Socket {
    Udp(UdpSocket),
    Tcp(Box<Stream>),
    Shm(Box<ShmClient>),
    Alone(Box<Alone>),
}

impl Socket {
    pub(crate) fn open(url: &Url, app: &Wire) -> Result<Self, Error> {
        let socket = match app {
            Wire::Own(own) if own.is_alone() => Alone::open(url).map(Box::new).map(Self::Alone),
            _ => Self::flow(url, app),
        };
        socket.map_err(|error| Error::new(format!("{url}: {error}")))
    }

    pub(super) fn flow(url: &Url, app: &Wire) -> io::Result<Self> {
        match url.scheme {
            Scheme::Udp => {
                let any = match url.address {
                    SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                    SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(url.address)?;
                socket.set_nonblocking(true)?;
                // Answers to a burst must not be lost here; the kernel may grant less.
                let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
                Ok(Self::Udp(socket))
            }
            Scheme::Shm => Ok(Self::Shm(Box::new(ShmClient::connect(&url.path)?))),
            _ => Ok(Self::Tcp(Box::new(Stream::open(url, app)?))),
        }
    }

    /// A flow that waits for nothing now: a connection comes about meanwhile.
    pub(super) fn flow_to_be(url: &Url, app: &Wire) -> io::Result<Self> {
        match url.scheme {
            Scheme::Udp | Scheme::Shm => Self::flow(url, app),
            _ => Ok(Self::Tcp(Box::new(Stream::begin(url, app)?))),
        }
    }

    /// Whether a request that is sent here waits for others' answers.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_busy(),
            Self::Alone(alone) => alone.is_busy(),
            Self::Udp(_) | Self::Shm(_) => false,
        }
    }

    /// Whether a request that is sent here waits for a connection.
    pub(crate) fn comes_about(&self) -> bool {
        matches!(self, Self::Tcp(stream) if stream.comes_about())
    }

    /// Sends one message, the request of that id. `false`: there is no room for it now, try again
    /// later; nothing was sent.
    pub(crate) fn send(&mut self, id: u64, message: &[u8]) -> io::Result<bool> {
        match self {
            Self::Udp(socket) => loop {
                match socket.send(message) {
                    Ok(_) => return Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if is_full(&error) => return Ok(false),
                    Err(error) => return Err(error),
                }
            },
            Self::Tcp(stream) => stream.send(id, message),
            Self::Alone(alone) => alone.send(id, message),
            Self::Shm(client) => match client.submit(message) {
                Ok(_) => Ok(true),
                Err(ShmRefused::Full) => Ok(false),
                Err(why) => Err(io::Error::other(why)),
            },
        }
    }

    /// Gives each message that has come to `take`, using `buffer` to receive.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Came<'_>),
    ) -> io::Result<()> {
        match self {
            Self::Udp(socket) => loop {
                match socket.recv(buffer) {
                    Ok(length) => take(Came { bytes: &buffer[..length], of: None }),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
            Self::Tcp(stream) => stream.receive(buffer, take),
            Self::Alone(alone) => alone.receive(buffer, take),
            Self::Shm(client) => {
                // A request without an answer counts as lost, as it does elsewhere.
                let take = |_, answer: Result<&[u8], NoResponse>| {
                    if let Ok(bytes) = answer {
                        take(Came { bytes, of: None });
                    }
                };
                client.receive(take).map(drop).map_err(io::Error::other)
            }
        }
    }

    /// To be called before a wait: whether there is something to wait for.
    pub(crate) fn before_wait(&mut self) -> bool {
        match self {
            Self::Shm(client) => client.before_wait(),
            Self::Udp(_) | Self::Tcp(_) | Self::Alone(_) => true,
        }
    }

    /// What to wait for, to go on with this socket.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match self {
            Self::Udp(socket) => Some(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)),
            Self::Tcp(stream) => stream.poll_fd(),
            Self::Alone(alone) => alone.poll_fd(),
            Self::Shm(client) => Some(PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN)),
        }
    }
}

/// The kernel has no room for a datagram.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Waits until one of them can go on.
pub(super) fn wait(fds: &mut [PollFd<'_>], at_most: std::time::Duration) -> Result<(), Error> {
    let timeout = rustix::event::Timespec {
        tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    match rustix::event::poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::new(format!("cannot wait for sockets: {error}"))),
    }
}

const _: () = assert!(HEADER_BYTES == size_of::<u32>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Plain, WebRequest};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn urls() {
        let url = Url::parse("udp://127.0.0.1:4000").unwrap();
        assert_eq!((url.scheme, url.address.port()), (Scheme::Udp, 4000));
        assert_eq!(url.to_string(), "udp://127.0.0.1:4000");
        assert_eq!(Url::parse("tcp://[::1]:80").unwrap().scheme, Scheme::Tcp);
        let url = Url::parse("http://127.0.0.1:80/a?b").unwrap();
        assert_eq!((url.scheme, &*url.path), (Scheme::Http, "/a?b"));
        assert_eq!(url.to_string(), "http://127.0.0.1:80/a?b");
        assert_eq!(Url::parse("http://127.0.0.1:80").unwrap().path, "/");
        assert_eq!(Url::parse("http://127.0.0.1?q=/#part").unwrap().path, "/?q=/");
        let url = Url::parse("shm:///run/x.sock").unwrap();
        assert_eq!((url.scheme, &*url.path), (Scheme::Shm, "/run/x.sock"));
        assert_eq!(url.to_string(), "shm:///run/x.sock");
        for (text, scheme, port) in [
            ("http://127.0.0.1/a", Scheme::Http, 80),
            ("http://[::1]", Scheme::Http, 80),
            ("redis://127.0.0.1", Scheme::Redis, 6379),
            ("memcached://[::1]:7", Scheme::Memcached, 7),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.scheme, url.address.port()), (scheme, port), "{text}");
        }
        for text in [
            "",
            "udp:1",
            "shm://relative",
            "https://127.0.0.1:1",
            "redis://",
            "udp://127.0.0.1",
            "udp://127.0.0.1:0",
            "udp://127.0.0.1:1/a",
            "http://127.0.0.1:1/a b",
        ] {
            assert!(Url::parse(text).unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn frames_survive_being_cut_anywhere() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("tcp://{}", listener.local_addr().unwrap())).unwrap();
        let mut socket = Socket::open(&url, &Wire::Spin).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(socket.send(1, b"hello").unwrap());
        let mut sent = [0; 9];
        server.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"\x05\0\0\0hello");

        let mut got: Vec<Vec<u8>> = Vec::new();
        let mut buffer = [0; 64];
        for piece in [&b"\x02\0"[..], b"\0\0a", b"b\x00\0\0\0\x01\0\0\0c"] {
            server.write_all(piece).unwrap();
            let mut fds = [socket.poll_fd().unwrap()];
            let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1));
            socket.receive(&mut buffer, &mut |came| got.push(came.bytes.to_vec())).unwrap();
        }
        assert_eq!(got, [&b"ab"[..], b"", b"c"]);
        drop(server);
        let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut [socket.poll_fd().unwrap()], Some(&timeout)), Ok(1));
        assert!(socket.receive(&mut buffer, &mut |_| ()).is_err(), "a closed connection is one");
    }

    #[test]
    fn a_connection_that_its_server_ends_is_made_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let get = WebRequest { method: "GET".into(), ..WebRequest::default() };
        let wire = Wire::Plain(Box::new(Plain::web(&url, &get, 1, 0).unwrap()));
        let mut socket = Socket::open(&url, &wire).unwrap();
        let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        let mut got = Vec::new();
        let answers = [
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "HTTP/1.0 404 No\r\n\r\nuntil the end",
            "",
        ];
        for (id, answer) in answers.into_iter().enumerate() {
            assert!(socket.send(id as u64, b"GET / HTTP/1.1\r\n\r\n").unwrap());
            let (mut server, _) = listener.accept().unwrap();
            while socket.comes_about() {
                let fd = socket.poll_fd().unwrap();
                assert_eq!(rustix::event::poll(&mut [fd], Some(&timeout)), Ok(1));
                socket.receive(&mut [0; 64], &mut |_| ()).unwrap();
            }
            server.read_exact(&mut [0; 18]).unwrap();
            server.write_all(answer.as_bytes()).unwrap();
            drop(server);
            while let Some(fd) = socket.poll_fd() {
                assert_eq!(rustix::event::poll(&mut [fd], Some(&timeout)), Ok(1));
                socket.receive(&mut [0; 64], &mut |came| got.push(came.of.unwrap())).unwrap();
            }
            assert!(!socket.is_busy());
        }
        assert_eq!(got, [(0, 200), (1, 404), (2, 0)]);
    }
}
