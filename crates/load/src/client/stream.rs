//! One TCP connection of the client, and what is half sent or half received on it. A connection to
//! any server of HTTP may end, and is made anew for the next request, which waits here until it has
//! come about.

use super::http::Http;
use super::ordered::{Dialect, Ordered};
use super::socket::{Came, LIMIT, Scheme, Url};
use super::wire;
use curtail_net::Framer;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a TCP connection may take to come about.
const CONNECT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Stream {
    address: SocketAddr,
    /// None after it has ended.
    stream: Option<TcpStream>,
    /// It was begun, and has not taken anything yet.
    comes_about: bool,
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
    Ordered(Ordered),
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// A connection that comes about later; what is written until then is not taken.
fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Stream {
    /// Bytes that may wait to be written before no further message is taken.
    const STUCK: usize = 64 << 10;

    pub(super) fn open(url: &Url, app: &wire::Wire) -> io::Result<Self> {
        Ok(Self::over(connect(url.address)?, false, url, app))
    }

    /// Opens one that comes about later.
    pub(super) fn begin(url: &Url, app: &wire::Wire) -> io::Result<Self> {
        Ok(Self::over(begin(url.address)?, true, url, app))
    }

    fn over(stream: TcpStream, comes_about: bool, url: &Url, app: &wire::Wire) -> Self {
        let wire = match (url.scheme, app) {
            (Scheme::Http, wire::Wire::Plain(plain)) => {
                Wire::Http(Http::new(url, true, plain.heads()))
            }
            (Scheme::Http, _) => Wire::Http(Http::new(url, false, false)),
            (Scheme::Redis, _) => Wire::Ordered(Ordered::new(Dialect::Resp)),
            (Scheme::Memcached, _) => Wire::Ordered(Ordered::new(Dialect::Memcached)),
            (Scheme::Tcp | Scheme::Udp | Scheme::Shm, _) => Wire::Frames(Framer::new(LIMIT)),
        };
        let (address, stream) = (url.address, Some(stream));
        Self { address, stream, comes_about, out: Vec::new(), written: 0, wire }
    }

    /// Whether a request that is sent here waits for others' answers.
    pub(super) fn is_busy(&self) -> bool {
        match &self.wire {
            Wire::Frames(_) => false,
            Wire::Http(http) => http.is_busy(),
            Wire::Ordered(ordered) => ordered.is_busy(),
        }
    }

    /// Whether a request that is sent here waits for the connection.
    pub(super) fn comes_about(&self) -> bool {
        self.comes_about
    }

    /// Sends one message, the request of that id. `false`: there is no room for it now.
    pub(super) fn send(&mut self, id: u64, message: &[u8]) -> io::Result<bool> {
        if self.stream.is_none() {
            self.stream = Some(begin(self.address)?);
            self.comes_about = true;
        }
        self.flush()?;
        if self.out.len() - self.written > Self::STUCK {
            return Ok(false);
        }
        let out = &mut self.out;
        match &mut self.wire {
            Wire::Frames(_) => {
                out.extend_from_slice(&(message.len() as u32).to_le_bytes());
                out.extend_from_slice(message);
            }
            Wire::Http(http) => http.ask(id, message, out),
            Wire::Ordered(ordered) => ordered.ask(id, message, out),
        }
        self.flush()?;
        Ok(true)
    }

    fn survives(&self) -> bool {
        matches!(&self.wire, Wire::Http(http) if http.survives())
    }

    fn flush(&mut self) -> io::Result<()> {
        let survives = self.survives();
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.comes_about = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // What was read last tells that it has ended; what is left has no one to go to.
                Err(error) if survives && is_end(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Came<'_>),
    ) -> io::Result<()> {
        self.flush()?;
        let survives = self.survives();
        while let Some(stream) = &mut self.stream {
            let length = match stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if survives && is_end(&error) => 0,
                Err(error) => return Err(error),
                Ok(0) if !survives => return Err(io::ErrorKind::ConnectionReset.into()),
                Ok(length) => length,
            };
            let mut input = &buffer[..length];
            match &mut self.wire {
                Wire::Http(http) => {
                    http.take(input, take)?;
                    if length == 0 || (http.survives() && http.is_closing() && !http.is_amid()) {
                        http.ended(take)?;
                        self.stream = None;
                        self.comes_about = false;
                        self.out.clear();
                        self.written = 0;
                    }
                }
                Wire::Ordered(ordered) => ordered.take(input, take)?,
                Wire::Frames(framer) => loop {
                    match framer.next(&mut input) {
                        Ok(Some(bytes)) => take(Came { bytes, of: None }),
                        Ok(None) => break,
                        Err(_) => {
                            let what = format!("an answer of more than {LIMIT} bytes");
                            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                        }
                    }
                },
            }
        }
        Ok(())
    }

    /// What to wait for, to go on with it; nothing, where the connection has ended.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let out = if self.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let stream = self.stream.as_ref()?;
        Some(PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN | out))
    }
}

/// The peer has ended the connection, or does not answer the kernel.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
    matches!(error.kind(), ConnectionReset | BrokenPipe | TimedOut)
}
