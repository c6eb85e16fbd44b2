//! The well-behaved client: it asks over TCP and over UDP, one request after the other, and looks at
//! every answer.
//!
//! A datagram may be lost, since the kernel drops what its buffer has no room for; then it is asked
//! again. Each attempt has a tag of its own, so that waiting for an answer and the loss of a request
//! are told apart.

use spin::protocol::{Answer, BYTES, Request, Status};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);
/// Between an answer and the next request.
const PAUSE: Duration = Duration::from_millis(1);
/// An unanswered datagram is sent again after this time.
const AGAIN: Duration = Duration::from_millis(200);
/// What each request asks for.
const SERVICE_NS: u32 = 1_000;

/// What one side of the client saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answers: u64,
    pub(crate) wrong: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    /// From a request that was answered to its answer.
    pub(crate) worst: Duration,
    /// From the first attempt.
    pub(crate) worst_asked_again: Duration,
}

/// Both sides, under way.
pub(crate) struct Client {
    stop: Arc<AtomicBool>,
    sides: [JoinHandle<Seen>; 2],
}

impl Client {
    /// `may_end`: the server may close the connection, as it does when it ends.
    pub(crate) fn start(tcp: SocketAddr, udp: SocketAddr, may_end: bool) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let text = |error: std::io::Error| error.to_string();
        let stream = connect(tcp).map_err(text)?;
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
        socket.connect(udp).map_err(text)?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(text)?;
        let (first, second) = (stop.clone(), stop.clone());
        let sides = [
            spawn(move || over_tcp(stream, &first, may_end)),
            spawn(move || over_udp(&socket, &second)),
        ];
        Ok(Self { stop, sides })
    }

    /// Stops asking; what was seen over TCP and over UDP.
    pub(crate) fn end(self) -> (Seen, Seen) {
        self.stop.store(true, Ordering::Relaxed);
        let lost = Seen { wrong: 1, ..Seen::default() };
        let [tcp, udp] = self.sides.map(|side| side.join().unwrap_or(lost));
        (tcp, udp)
    }
}

/// A connection that waits for no answer for ever.
pub(crate) fn connect(tcp: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(tcp)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STUCK))?;
    Ok(stream)
}

/// A request's bytes on a stream; what is beyond a request is noise, which is not read.
pub(crate) fn frame(tag: u64, length: usize) -> Vec<u8> {
    let length = length.max(BYTES);
    let mut bytes = (length as u32).to_le_bytes().to_vec();
    bytes.extend(request(tag).encode());
    bytes.resize(4 + length, b'x');
    bytes
}

fn request(tag: u64) -> Request {
    Request { tag, class: 0, service_ns: SERVICE_NS }
}

/// The next answer of a stream.
pub(crate) fn answer(stream: &mut TcpStream) -> std::io::Result<Option<Answer>> {
    let mut bytes = [0; 4 + BYTES];
    stream.read_exact(&mut bytes)?;
    let is_framed = bytes[..4] == (BYTES as u32).to_le_bytes();
    Ok(Answer::decode(&bytes[4..]).filter(|_| is_framed))
}

fn is_of(answer: &Answer, tag: u64) -> bool {
    (answer.tag, answer.class, answer.service_ns) == (tag, 0, SERVICE_NS)
}

impl Seen {
    /// Takes the answer to the request of that tag; whether the request is served.
    fn judge(&mut self, answer: &Answer, tag: u64) -> bool {
        match answer.status {
            Status::Done if is_of(answer, tag) => {
                self.answers += 1;
                return true;
            }
            Status::Overloaded if is_of(answer, tag) => self.refused += 1,
            _ => self.wrong += 1,
        }
        false
    }
}

fn over_tcp(mut stream: TcpStream, stop: &AtomicBool, may_end: bool) -> Seen {
    let mut seen = Seen::default();
    let mut tag = 0;
    while !stop.load(Ordering::Relaxed) {
        tag += 1;
        let begun = Instant::now();
        let answered = stream.write_all(&frame(tag, 0)).and_then(|()| answer(&mut stream));
        match answered {
            Ok(Some(answer)) => _ = seen.judge(&answer, tag),
            Ok(None) => seen.wrong += 1,
            Err(_) if may_end => return seen,
            Err(_) => {
                seen.wrong += 1;
                return seen;
            }
        }
        seen.worst = seen.worst.max(begun.elapsed());
        std::thread::sleep(PAUSE);
    }
    seen
}

fn over_udp(socket: &UdpSocket, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    // Those that are not answered, and when they were sent.
    let mut sent: HashMap<u64, Instant> = HashMap::new();
    let mut tag = 0;
    while !stop.load(Ordering::Relaxed) {
        let (begun, first) = (Instant::now(), tag + 1);
        let mut is_served = false;
        let mut last: Option<Instant> = None;
        while !is_served && !stop.load(Ordering::Relaxed) {
            if last.is_none_or(|last| last.elapsed() >= AGAIN) {
                tag += 1;
                last = Some(Instant::now());
                sent.insert(tag, Instant::now());
                // Where the server has gone, this is where it shows.
                let _ = socket.send(&request(tag).encode());
            }
            is_served = receive(socket, &mut sent, &mut seen).is_some_and(|tag| tag >= first);
        }
        if is_served {
            seen.worst_asked_again = seen.worst_asked_again.max(begun.elapsed());
        }
        std::thread::sleep(PAUSE);
    }
    // What is under way still comes, if it comes.
    let until = Instant::now() + AGAIN;
    while !sent.is_empty() && Instant::now() < until {
        receive(socket, &mut sent, &mut seen);
    }
    seen.lost = sent.len() as u64;
    seen
}

/// Takes an answer; the tag of the request that is served by it.
fn receive(socket: &UdpSocket, sent: &mut HashMap<u64, Instant>, seen: &mut Seen) -> Option<u64> {
    let mut bytes = [0; 64];
    let length = match socket.recv(&mut bytes) {
        Ok(length) => length,
        Err(error) => {
            let waits = [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
            // The server has gone: no hurry.
            (!waits).then(|| std::thread::sleep(PAUSE));
            return None;
        }
    };
    let answer = (length == BYTES).then(|| Answer::decode(&bytes[..length])).flatten();
    let asked = answer.and_then(|answer| Some((answer, sent.remove(&answer.tag)?)));
    let Some((answer, at)) = asked else {
        seen.wrong += 1;
        return None;
    };
    seen.worst = seen.worst.max(at.elapsed());
    seen.judge(&answer, answer.tag).then_some(answer.tag)
}
