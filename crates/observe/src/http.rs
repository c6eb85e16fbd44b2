//! Prometheus's endpoint: one thread that answers every request with the metrics.
//!
//! It waits for all its peers at once, so that none waits for another one's bytes. Each has one
//! request and a time for all of it; where there are too many, those that came first go.

use crate::shown::metrics;
use curtail::net::{Framer, http};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant, SystemTime};

/// What a peer has from its connection to its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Peers at a time.
const PEERS: usize = 64;
/// Peers that are accepted before the others have their turn.
const MOST_ACCEPTS: usize = 16;

/// Serves the metrics of this process over HTTP at that address, for as long as the process lives.
/// Returns the address it listens at, with the port that the kernel chose for 0. Every program that
/// reaches the address can read them.
///
/// # Errors
/// What the system says: the address is taken, or there is no thread.
pub fn metrics_at(address: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let local = listener.local_addr()?;
    let serve = move || {
        let mut peers = Vec::new();
        loop {
            serve_some(&listener, &mut peers);
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
    Ok(local)
}

/// Waits until a peer can go on, comes, or is out of time.
fn serve_some(listener: &TcpListener, peers: &mut Vec<Peer>) {
    let mut all = vec![PollFd::new(listener, PollFlags::IN)];
    all.extend(peers.iter().map(|peer| PollFd::new(&peer.stream, peer.waits_for())));
    let first = peers.first().map(|peer| peer.until.saturating_duration_since(Instant::now()));
    let timeout = first.and_then(|time| Timespec::try_from(time).ok());
    // It fails for an interrupted call, or for want of the kernel's memory.
    if poll(&mut all, timeout.as_ref()).is_err() {
        return;
    }
    let mut ready = all.iter().map(|one| !one.revents().is_empty()).collect::<Vec<_>>().into_iter();
    drop(all);
    let comes = ready.next() == Some(true);
    let now = Instant::now();
    peers.retain_mut(|peer| match ready.next() {
        _ if peer.until <= now => false,
        Some(true) => peer.go_on().is_ok_and(|stays| stays),
        _ => true,
    });
    if comes {
        accept(listener, peers);
    }
}

fn accept(listener: &TcpListener, peers: &mut Vec<Peer>) {
    for _ in 0..MOST_ACCEPTS {
        match listener.accept() {
            Ok((stream, _)) => {
                if peers.len() == PEERS {
                    peers.remove(0);
                }
                peers.extend(Peer::new(stream).ok());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // Out of descriptors, perhaps: others may give some back meanwhile.
            Err(_) if peers.is_empty() => return std::thread::sleep(Duration::from_millis(100)),
            Err(_) => drop(peers.remove(0)),
        }
    }
}

/// Those that came first are first in the list.
struct Peer {
    stream: TcpStream,
    until: Instant,
    framer: Framer,
    /// Once its request has come.
    answer: Option<Vec<u8>>,
    sent: usize,
}

impl Peer {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let until = Instant::now() + PATIENCE;
        Ok(Self { stream, until, framer: Framer::http(0), answer: None, sent: 0 })
    }

    fn unsent(&self) -> &[u8] {
        self.answer.as_ref().map_or(&[], |answer| &answer[self.sent..])
    }

    fn waits_for(&self) -> PollFlags {
        if self.unsent().is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// One step; whether there is another.
    fn go_on(&mut self) -> io::Result<bool> {
        match self.step() {
            Err(error)
                if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) =>
            {
                Ok(true)
            }
            other => other,
        }
    }

    fn step(&mut self) -> io::Result<bool> {
        if self.unsent().is_empty() {
            let mut part = [0; 4 << 10];
            let length = self.stream.read(&mut part)?;
            // Behind an answer, what comes is discarded: a reset would destroy the answer.
            if length == 0 || self.answer.is_some() {
                return Ok(length > 0);
            }
            let answer = match self.framer.next(&mut &part[..length]) {
                Ok(None) => return Ok(true),
                Ok(Some(request)) => to(request),
                Err(_) => refusal(self.framer.refused_with().unwrap_or(400), ""),
            };
            self.answer = Some(answer);
        }
        let count = (&self.stream).write(self.unsent())?;
        self.sent += count;
        if self.unsent().is_empty() {
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(true)
    }
}

/// The answer to a request.
fn to(request: &[u8]) -> Vec<u8> {
    const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let method = http::parse(request).map_or("", |request| request.method);
    match method {
        "GET" | "HEAD" => {
            answer("200 OK", &format!("Content-Type: {TYPE}\r\n"), &metrics(), method)
        }
        _ => refusal(405, "Allow: GET, HEAD\r\n"),
    }
}

fn refusal(status: u16, fields: &str) -> Vec<u8> {
    answer(&format!("{status} Refused"), fields, "", "")
}

fn answer(status: &str, fields: &str, body: &str, method: &str) -> Vec<u8> {
    let (date, length) = (httpdate::fmt_http_date(SystemTime::now()), body.len());
    let body = if method == "HEAD" { "" } else { body };
    let head = "Connection: close\r\n";
    format!(
        "HTTP/1.1 {status}\r\nDate: {date}\r\n{fields}Content-Length: {length}\r\n{head}\r\n{body}"
    )
    .into_bytes()
}
