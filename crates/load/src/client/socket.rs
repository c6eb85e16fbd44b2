//! The client's sockets: non-blocking UDP, or TCP with the transports' framing (a little-endian
//! `u32` length before each message) or HTTP/1.1.

use super::http::Http;
use crate::Error;
use curtail_net::{Framer, HEADER_BYTES};
use rustix::event::{PollFd, PollFlags};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Largest answer.
pub(super) const LIMIT: usize = 65_536;
/// How long a TCP connection may take to come about.
const CONNECT: Duration = Duration::from_secs(2);

/// The kind of a server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A datagram a message.
    Udp,
    /// Frames on a stream.
    Tcp,
    /// HTTP/1.1.
    Http,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// How to talk to it.
    pub scheme: Scheme,
    /// Where it is.
    pub address: SocketAddr,
    /// Of HTTP: `/` and what follows.
    pub path: String,
}

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came<'a> {
    pub(crate) bytes: &'a [u8],
    /// Of HTTP: which request it answers, and by which status.
    pub(crate) of: Option<(u64, u16)>,
}

impl Url {
    /// Reads `udp://HOST:PORT`, `tcp://HOST:PORT` or `http://HOST:PORT/PATH`.
    ///
    /// # Errors
    /// It is none of these, or the host has no address.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, host) = match text.split_once("://") {
            Some(("udp", host)) => (Scheme::Udp, host),
            Some(("tcp", host)) => (Scheme::Tcp, host),
            Some(("http", host)) => (Scheme::Http, host),
            _ => {
                return Err(format!(
                    "`{text}` is none of udp://HOST:PORT, tcp://HOST:PORT, http://HOST:PORT/PATH"
                ));
            }
        };
        let (host, path) = match host.find('/') {
            Some(at) if scheme == Scheme::Http => host.split_at(at),
            _ => (host, "/"),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("`{text}`: the path has other than visible ASCII characters"));
        }
        let mut addresses =
            host.to_socket_addrs().map_err(|error| format!("`{text}` is no address: {error}"))?;
        match addresses.next() {
            Some(address) if address.port() != 0 => {
                Ok(Self { scheme, address, path: path.to_owned() })
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
        }
    }
}

/// One flow to the server.
#[derive(Debug)]
pub(crate) enum Socket {
    Udp(UdpSocket),
    Tcp(Box<Stream>),
}

/// A TCP connection and what is half sent or half received on it.
#[derive(Debug)]
pub(crate) struct Stream {
    stream: TcpStream,
    out: Vec<u8>,
    /// Of `out`, what the kernel has already.
    written: usize,
    wire: Wire,
}

/// What a connection speaks.
#[derive(Debug)]
enum Wire {
    Frames(Framer),
    Http(Http),
}

impl Socket {
    pub(crate) fn open(url: &Url) -> Result<Self, Error> {
        let fail = |error: io::Error| Error::new(format!("{url}: {error}"));
        match url.scheme {
            Scheme::Udp => {
                let any = match url.address {
                    SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                    SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
                };
                let socket = UdpSocket::bind(any).map_err(fail)?;
                socket.connect(url.address).map_err(fail)?;
                socket.set_nonblocking(true).map_err(fail)?;
                // Answers to a burst must not be lost here; the kernel may grant less.
                let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
                Ok(Self::Udp(socket))
            }
            Scheme::Tcp | Scheme::Http => {
                let stream = TcpStream::connect_timeout(&url.address, CONNECT).map_err(fail)?;
                stream.set_nodelay(true).map_err(fail)?;
                stream.set_nonblocking(true).map_err(fail)?;
                let wire = match url.scheme {
                    Scheme::Http => Wire::Http(Http::new(url)),
                    _ => Wire::Frames(Framer::new(LIMIT)),
                };
                Ok(Self::Tcp(Box::new(Stream { stream, out: Vec::new(), written: 0, wire })))
            }
        }
    }

    /// Whether a request that is sent here waits for others' answers.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Tcp(stream) => matches!(&stream.wire, Wire::Http(http) if http.is_busy()),
            Self::Udp(_) => false,
        }
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
            Self::Tcp(stream) => {
                stream.flush()?;
                if stream.is_stuck() {
                    return Ok(false);
                }
                let Stream { out, wire, .. } = &mut **stream;
                match wire {
                    Wire::Frames(_) => {
                        out.extend_from_slice(&(message.len() as u32).to_le_bytes());
                        out.extend_from_slice(message);
                    }
                    Wire::Http(http) => http.ask(id, message, out),
                }
                stream.flush()?;
                Ok(true)
            }
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
            Self::Tcp(stream) => {
                stream.flush()?;
                stream.receive(buffer, take)
            }
        }
    }

    /// What to wait for, to go on with this socket.
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        match self {
            Self::Udp(socket) => PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
            Self::Tcp(stream) => {
                let out = if stream.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                PollFd::from_borrowed_fd(stream.stream.as_fd(), PollFlags::IN | out)
            }
        }
    }
}

impl Stream {
    /// Bytes that may wait to be written before no further message is taken.
    const STUCK: usize = 64 << 10;

    fn is_stuck(&self) -> bool {
        self.out.len() - self.written > Self::STUCK
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        loop {
            let length = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::ConnectionReset.into()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut input = &buffer[..length];
            let framer = match &mut self.wire {
                Wire::Http(http) => {
                    http.take(input, take)?;
                    continue;
                }
                Wire::Frames(framer) => framer,
            };
            loop {
                match framer.next(&mut input) {
                    Ok(Some(bytes)) => take(Came { bytes, of: None }),
                    Ok(None) => break,
                    Err(_) => {
                        let what = format!("an answer of more than {LIMIT} bytes");
                        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                }
            }
        }
    }
}

/// The kernel has no room for a datagram.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

const _: () = assert!(HEADER_BYTES == size_of::<u32>());

#[cfg(test)]
mod tests {
    use super::*;
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
        for text in [
            "",
            "udp:1",
            "https://127.0.0.1:1",
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
        let mut socket = Socket::open(&url).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(socket.send(1, b"hello").unwrap());
        let mut sent = [0; 9];
        server.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"\x05\0\0\0hello");

        let mut got: Vec<Vec<u8>> = Vec::new();
        let mut buffer = [0; 64];
        for piece in [&b"\x02\0"[..], b"\0\0a", b"b\x00\0\0\0\x01\0\0\0c"] {
            server.write_all(piece).unwrap();
            let mut fds = [socket.poll_fd()];
            let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1));
            socket.receive(&mut buffer, &mut |came| got.push(came.bytes.to_vec())).unwrap();
        }
        assert_eq!(got, [&b"ab"[..], b"", b"c"]);
        drop(server);
        let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut [socket.poll_fd()], Some(&timeout)), Ok(1));
        assert!(socket.receive(&mut buffer, &mut |_| ()).is_err(), "a closed connection is one");
    }
}
