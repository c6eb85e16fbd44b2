//! An open-loop HTTP client: requests are due at the instants of a Poisson process and count from
//! there, whatever the server does. Each has a connection to itself while it is under way, so that
//! none waits behind another. The calling thread does it all, and never sleeps.

use crate::load::LATE_NS;
use curtail_load::{Lateness, Pace};
use curtail_workload::Request;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Connections at most: a server with more requests than that under way is overloaded.
const MOST: usize = 512;

/// What became of the requests, in their order.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// From due to answered, in nanoseconds; `None`: not within the patience.
    pub sojourn_ns: Vec<Option<u64>>,
    /// Requests that went out more than [`LATE_NS`] after they were due: the client's own share.
    pub sent_late: usize,
    /// Requests for which there was no connection: the server has more under way than `MOST`.
    pub no_connection: usize,
}

struct Connection {
    stream: TcpStream,
    /// The request under way.
    number: Option<usize>,
    /// Of its answer.
    received: Vec<u8>,
}

struct Client {
    port: u16,
    paths: Vec<String>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    free: Vec<usize>,
    events: Vec<epoll::Event>,
}

impl Client {
    fn new(port: u16, paths: &[String]) -> io::Result<Self> {
        Ok(Self {
            port,
            paths: paths
                .iter()
                .map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
                .collect(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            free: Vec::new(),
            events: Vec::with_capacity(64),
        })
    }

    fn connect(&mut self) -> io::Result<usize> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let index = self.connections.len();
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        self.connections.push(Connection { stream, number: None, received: Vec::new() });
        Ok(index)
    }

    /// False: there is no connection for it.
    fn send(&mut self, number: usize, kind: usize) -> io::Result<bool> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.connections.len() < MOST => self.connect()?,
            None => return Ok(false),
        };
        let connection = &mut self.connections[index];
        connection.number = Some(number);
        // Some dozen bytes into an empty buffer of the kernel's.
        connection.stream.write_all(self.paths[kind].as_bytes())?;
        Ok(true)
    }

    /// Takes what has come, and calls `answered` with each request that has its answer.
    fn receive(&mut self, mut answered: impl FnMut(usize)) -> io::Result<()> {
        self.events.clear();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&now))?;
        for event in &self.events {
            let index = event.data.u64() as usize;
            if let Some(number) = self.connections[index].receive()? {
                answered(number);
                self.free.push(index);
            }
        }
        Ok(())
    }
}

impl Connection {
    /// The request whose answer is complete now.
    fn receive(&mut self) -> io::Result<Option<usize>> {
        let mut buffer = [0; 2_048];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up")),
            Ok(length) => self.received.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        match complete(&self.received) {
            Err(why) => Err(io::Error::new(ErrorKind::InvalidData, why)),
            Ok(false) => Ok(None),
            Ok(true) => {
                self.received.clear();
                Ok(self.number.take())
            }
        }
    }
}

/// Whether these bytes are a whole answer, and one that says 200.
fn complete(bytes: &[u8]) -> Result<bool, String> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&bytes[..head]);
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(format!("answered `{status}`"));
    }
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or("an answer without a length")?;
    Ok(bytes.len() >= head + 4 + length)
}

/// Asks for all that is due, a class's requests by its path, and waits `patience` for the last of them.
///
/// # Errors
/// Where a connection fails, or the server answers something else than 200.
pub fn offer(
    port: u16,
    paths: &[String],
    requests: &[Request],
    patience: Duration,
) -> io::Result<Answered> {
    let mut client = Client::new(port, paths)?;
    // More than are used at a time, as a rule: to connect takes time.
    for _ in 0..64 {
        let index = client.connect()?;
        client.free.push(index);
    }
    let mut found = Answered { sojourn_ns: vec![None; requests.len()], ..Answered::default() };
    let mut late = Lateness::new(LATE_NS);
    let mut pace = Pace::new(requests.iter().copied(), u64::MAX);
    let (begun, mut next, mut back) = (Instant::now(), 0, 0);
    let end = requests.last().map_or(0, |last| last.at_ns) + patience.as_nanos() as u64;
    loop {
        let now = begun.elapsed().as_nanos() as u64;
        pace.send_due(
            || now,
            usize::MAX,
            |request, due_ns, now_ns| {
                late.record(due_ns, now_ns);
                if !client.send(next, usize::from(request.class))? {
                    found.no_connection += 1;
                }
                next += 1;
                Ok::<_, io::Error>(true)
            },
        )?;
        client.receive(|number| {
            let now = begun.elapsed().as_nanos() as u64;
            found.sojourn_ns[number] = Some(now - requests[number].at_ns);
            back += 1;
        })?;
        if now > end || back + found.no_connection == requests.len() {
            found.sent_late = late.over() as usize;
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    #[test]
    fn answers_are_whole_or_not() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert!((0..answer.len()).all(|end| complete(&answer[..end]) == Ok(false)));
        assert_eq!(complete(answer), Ok(true));
        let bad = complete(b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
        assert_eq!(bad, Err("answered `HTTP/1.1 503 Service Unavailable`".to_owned()));
        assert!(complete(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    /// A server that answers each line `GET …` on each connection.
    fn serve(listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // The client may be gone before its last answer.
                    if line.starts_with("GET") {
                        let _ = out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                    }
                }
            });
        }
    }

    #[test]
    fn all_requests_are_answered_and_count_from_when_they_were_due() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || serve(&listener));
        let request = |n: u64| Request { at_ns: n * 50_000, class: (n % 2) as u16, service_ns: 0 };
        let due: Vec<_> = (0..200).map(request).collect();
        let paths = ["/a".to_owned(), "/b".to_owned()];
        let found = offer(port, &paths, &due, Duration::from_secs(20)).unwrap();
        assert!(found.sojourn_ns.iter().all(|ns| ns.is_some_and(|ns| ns > 0)));
        assert_eq!(found.no_connection, 0);
    }
}
